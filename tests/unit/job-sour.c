// SPDX-License-Identifier: GPL-2.0-or-later
/* The bad sectors of job-sour.h. A write does not repair them; a test that wants them repaired sets sour.n. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/uio.h>

#include "tests/unit/job-sour.h"

ssize_t __real_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);

struct sour sour;

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	ssize_t ret;

	if (sour.slow && iov->iov_len == sour.slow) {
		sour.waiting++;
		sem_wait(&sour.go);
	}
	for (unsigned int i = 0; i < sour.n; i++)
		if (fd == sour.bad[i].fd && offset <= sour.bad[i].at && sour.bad[i].at < offset + (off_t)iov->iov_len) {
			if (sour.bad[i].times != 1) {
				sour.bad[i].times -= sour.bad[i].times > 1;
				errno = sour.bad[i].error;
				return -1;
			}
			ret = __real_preadv2(fd, iov, n, offset, flags);
			((uint8_t *)iov->iov_base)[sour.bad[i].at - offset] ^= sour.bad[i].changes ? 0xff : 0;
			return ret;
		}
	return __real_preadv2(fd, iov, n, offset, flags);
}

void goes_bad(struct rig *rig, unsigned int m, uint64_t block, int error)
{
	assert_true(sour.n < sizeof(sour.bad) / sizeof(sour.bad[0]));
	sour.bad[sour.n].fd = rig->members->dev[m].fd;
	sour.bad[sour.n].error = error;
	sour.bad[sour.n].times = 0;
	sour.bad[sour.n++].at = DATA_OFFSET + (off_t)(block * rig->geo.chunk) + 99;
}

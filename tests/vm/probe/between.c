// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Preloaded into the daemon: what another program does to a disk just before the daemon locks it. The first exclusive flock() of the block
 * device with the number in BEFORE ("MAJOR:MINOR") runs SCRIPT and waits for its end.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define BEFORE	"/run/between.device"
#define SCRIPT	"/run/between.sh"
#define DONE	"/run/between.done"

static atomic_flag taken = ATOMIC_FLAG_INIT;

static int is_it(int fd)
{
	unsigned int major, minor;
	struct stat st;
	FILE *f;
	int n;

	if (fstat(fd, &st) || !S_ISBLK(st.st_mode))
		return 0;
	f = fopen(BEFORE, "re");
	if (!f)
		return 0;
	n = fscanf(f, "%u:%u", &major, &minor);
	fclose(f);
	return n == 2 && st.st_rdev == makedev(major, minor);
}

int flock(int fd, int operation)
{
	int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");

	if (!next)
		abort();
	if ((operation & LOCK_EX) && is_it(fd) && !atomic_flag_test_and_set(&taken)) {
		if (system("unset LD_PRELOAD; sh " SCRIPT " && : > " DONE))
			fputs("between: the script failed\n", stderr);
		unlink(BEFORE);
	}
	return next(fd, operation);
}

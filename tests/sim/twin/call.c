// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The twin of system calls, by --wrap: the clock, descriptors, files. Those of a daemon that runs (me) are the simulator's, all others real.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "twin.h"

static struct file files[TWIN_FDS];
static struct file *fds[TWIN_FDS];

/* ---- descriptors ----------------------------------------------------------------- */

struct file *twin_file(int fd)
{
	if (fd < TWIN_FD || fd >= TWIN_FD + (int)TWIN_FDS || !fds[fd - TWIN_FD])
		return NULL;
	return fds[fd - TWIN_FD];
}

void twin_get(struct file *f)
{
	f->refs++;
}

void twin_put(struct file *f)
{
	if (--f->refs)
		return;
	if (f->kind == FILE_CHANNEL)
		twin_channel_closed(f);
	memset(f, 0, sizeof(*f));
}

static int number_of(struct file *f)
{
	for (unsigned int i = 0; i < TWIN_FDS; i++)
		if (!fds[i]) {
			fds[i] = f;
			f->refs++;
			return TWIN_FD + (int)i;
		}
	abort();
}

int twin_open(enum file_kind kind)
{
	for (struct file *f = files; f < files + TWIN_FDS; f++)
		if (!f->refs) {
			*f = (struct file){ .kind = kind, .p = me };
			return number_of(f);
		}
	abort();
}

struct file *twin_next_file(const struct file *f)
{
	for (size_t i = f ? (size_t)(f - files) + 1 : 0; i < TWIN_FDS; i++)
		if (files[i].refs)
			return &files[i];
	return NULL;
}

static void end(int fd)
{
	struct file *f = fds[fd - TWIN_FD];

	fds[fd - TWIN_FD] = NULL;
	twin_put(f);
}

void twin_close_all(struct proc *p)
{
	for (unsigned int i = 0; i < TWIN_FDS; i++)
		if (fds[i] && fds[i]->p == p)
			end(TWIN_FD + (int)i);
}

bool twin_ready(int fd, int events)
{
	const struct file *f = twin_file(fd);

	if (!f)
		return false;
	switch (f->kind) {
	case FILE_EVENT: return events == POLLIN && (f->count || f->ended);
	case FILE_CONTROL: return events == POLLIN && (f->n_rec || f->ended);
	case FILE_CHANNEL: return twin_channel_ready(f, events);
	case FILE_LIST: return events == POLLIN && (f->ended || twin_list_changed(f));
	case FILE_QUIET: return events == POLLIN && (f->ended || f->count);
	case FILE_DISK: return false;
	}
	return false;
}

int __wrap_eventfd(unsigned int count, int flags);
int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_close(int fd);
int __real_close(int fd);
ssize_t __wrap_read(int fd, void *buf, size_t len);
ssize_t __real_read(int fd, void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t offset);
int __wrap_ioctl(int fd, unsigned long request, ...);
int __wrap_flock(int fd, int how);
int __wrap_fcntl(int fd, int what, ...);
int __real_fcntl(int fd, int what, ...);
int __wrap_fsync(int fd);

int __wrap_eventfd(unsigned int count, int flags)
{
	int fd;

	(void)flags;
	if (twin_fails(CALL_EVENTFD))
		return -1;
	fd = twin_open(FILE_EVENT);
	twin_file(fd)->count = count;
	return fd;
}

int __wrap_open(const char *path, int flags, ...)
{
	unsigned int mode, member;
	va_list ap;
	int fd;

	va_start(ap, flags);
	mode = va_arg(ap, unsigned int);	/* garbage where there is none, and then not looked at */
	va_end(ap);
	if (!me)
		return __real_open(path, flags, mode);
	if (twin_fails(CALL_OPEN))
		return -1;
	if (sscanf(path, "/dev/sim%u", &member) == 1) {
		fd = twin_open(FILE_DISK);
		twin_file(fd)->member = member;
		return fd;
	}
	if (strcmp(path, "/dev/" DDR_DEVICE_NAME) != 0 || me->n->no_module) {
		me->n->no_module -= me->n->no_module > 0;
		errno = ENOENT;
		return -1;
	}
	fd = twin_open(FILE_CONTROL);
	twin_control_opened(twin_file(fd));
	return fd;
}

int __wrap_close(int fd)
{
	if (fd < TWIN_FD)
		return __real_close(fd);
	end(fd);
	return 0;
}

static ssize_t read_control(struct file *f, void *buf, size_t len)
{
	size_t n = len / sizeof(f->rec[0]) < f->n_rec ? len / sizeof(f->rec[0]) : f->n_rec;

	if (f->ended) {
		errno = EIO;
		return -1;
	}
	if (!n || twin_fails(CALL_CONTROL)) {
		errno = n ? me->error[CALL_CONTROL] : EAGAIN;
		return -1;
	}
	memcpy(buf, f->rec, n * sizeof(f->rec[0]));
	f->n_rec -= (unsigned int)n;
	memmove(f->rec, f->rec + n, f->n_rec * sizeof(f->rec[0]));
	return (ssize_t)(n * sizeof(f->rec[0]));
}

ssize_t __wrap_read(int fd, void *buf, size_t len)
{
	struct file *f = twin_file(fd);

	if (fd < TWIN_FD)
		return __real_read(fd, buf, len);
	switch (f->kind) {
	case FILE_CONTROL: return read_control(f, buf, len);
	case FILE_CHANNEL: return twin_channel_read(f, buf, len);
	case FILE_EVENT:
		if (f->count) {
			memcpy(buf, &f->count, sizeof(f->count));
			f->count = 0;
			return sizeof(f->count);
		}
		break;
	default:
		break;
	}
	errno = EAGAIN;
	return -1;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	struct file *f = twin_file(fd);

	if (fd < TWIN_FD)
		return __real_write(fd, buf, len);
	if (f->kind == FILE_CHANNEL)
		return twin_channel_write(f, buf, len);
	if (f->kind != FILE_EVENT)
		abort();
	f->count++;
	return (ssize_t)len;
}

static ssize_t moved(int ret, size_t len)
{
	errno = ret ? -ret : errno;
	return ret ? -1 : (ssize_t)len;
}

ssize_t __wrap_pread(int fd, void *buf, size_t len, off_t offset)
{
	struct file *f = twin_file(fd);

	if (twin_fails(CALL_READ))
		return -1;
	return moved(twin_read(f->p, f->member, buf, len, (uint64_t)offset), len);
}

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t offset)
{
	struct file *f = twin_file(fd);

	return moved(twin_write(f->p, f->member, buf, len, (uint64_t)offset), len);
}

int __wrap_fsync(int fd)
{
	(void)fd;
	return 0;	/* what twin_write() wrote is on the media */
}

int __wrap_ioctl(int fd, unsigned long request, ...)
{
	struct file *f = twin_file(fd);
	va_list ap;
	void *arg;
	int ret = 0;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!f)
		ret = -ENOTTY;
	else if (f->kind == FILE_CONTROL && request == DDR_IOC_BIND)
		ret = twin_fails(CALL_BIND) ? -errno : twin_bind(f, arg);
	else if (request == BLKGETSIZE64)
		*(uint64_t *)arg = twin_bytes(f->p, f->member);
	else if (request == BLKSSZGET)
		*(int *)arg = 512;
	else if (request == BLKPBSZGET)
		*(unsigned int *)arg = 4096;
	else
		ret = -ENOTTY;
	errno = ret ? -ret : errno;
	return ret ? -1 : 0;
}

int __wrap_flock(int fd, int how)
{
	struct file *f = twin_file(fd);

	if (!f || how != LOCK_UN)
		abort();
	/* note 5: the next one to have the lock relies on it that nothing of ours lands any more */
	if (twin_writes_by(f))
		sim_violation(me->s, "rule 7: node %u gives the lock of member %u away while a request to it is under way", me->n->id, f->member);
	f->locked = false;
	return 0;
}

/* The program's own calls are real: what counts lines of code (gcov) is linked with the wraps as well. */
int __wrap_fcntl(int fd, int what, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, what);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (fd < TWIN_FD)
		return __real_fcntl(fd, what, arg);
	if (what != F_DUPFD_CLOEXEC)
		abort();
	return number_of(twin_file(fd));
}

/* ---- sockets: events of block devices ---------------------------------------------- */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);

int __wrap_socket(int domain, int type, int protocol)
{
	(void)domain;
	(void)type;
	(void)protocol;
	return me->uevent_fd = twin_open(FILE_QUIET);
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void)fd;
	(void)addr;
	(void)len;
	return 0;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct file *f = twin_file(fd);
	unsigned int what = f->news[0].what, minor = f->news[0].member + 1u;

	(void)flags;
	if (!f->count) {
		errno = EAGAIN;
		return -1;
	}
	f->count--;
	memmove(f->news, f->news + 1, f->count * sizeof(f->news[0]));
	if (what == NEWS_LOST) {
		errno = ENOBUFS;
		return -1;
	}
	*(struct sockaddr_nl *)msg->msg_name = (struct sockaddr_nl){ .nl_family = AF_NETLINK };
	msg->msg_flags = 0;
	return snprintf(msg->msg_iov->iov_base, msg->msg_iov->iov_len, "change@/sim%cACTION=change%cSUBSYSTEM=block%cMAJOR=%u%cMINOR=%u%c%s", 0, 0, 0, TWIN_MAJOR, 0,
			minor, 0, what == NEWS_PATH ? "DM_ACTION=PATH_REINSTATED" : "DEVTYPE=disk") + 1;
}

/* ---- time, chance, names ------------------------------------------------------------ */

time_t __wrap_time(time_t *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);
int __wrap_gethostname(char *buf, size_t size);
pid_t __wrap_getpid(void);
pid_t __real_getpid(void);

time_t __wrap_time(time_t *out)
{
	time_t now = 1700000000 + (time_t)(me ? (int64_t)(twin_ms(me) / 1000) + me->n->clock_s : 0);

	if (out)
		*out = now;
	return now;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	static long ns;		/* binds of one moment differ */

	if (!me)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ .tv_sec = (time_t)(twin_ms(me) / 1000), .tv_nsec = (long)(twin_ms(me) % 1000) * 1000000 };
	ts->tv_nsec += clock == CLOCK_BOOTTIME ? ns++ % 1000000 : 0;
	return 0;
}

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	(void)left;
	if (!twin_in_thread())
		sim_violation(me->s, "the daemon of node %u sleeps in its loop", me->n->id);
	twin_sleep(twin_ms(me) + (uint64_t)ts->tv_sec * 1000 + (uint64_t)ts->tv_nsec / 1000000);
	return 0;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	uint8_t *b = buf;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		b[i] = (uint8_t)(sim_rand(me->s, 256) ^ (i == 0 ? me->n->id : i == 1 ? me->n->pid : i == 2 ? me->s->event : 0));
	return (ssize_t)len;
}

int __wrap_gethostname(char *buf, size_t size)
{
	snprintf(buf, size, "node%u", me->n->id);
	return 0;
}

pid_t __wrap_getpid(void)
{
	return me ? (pid_t)me->n->pid : __real_getpid();
}

/* ---- files ------------------------------------------------------------------------- */

FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_access(const char *path, int how);
int __real_access(const char *path, int how);
int __wrap_stat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);

FILE *__wrap_fopen(const char *path, const char *mode)
{
	if (!me)
		return __real_fopen(path, mode);
	return twin_fails(CALL_SYSFS) ? NULL : twin_sysfs(path);
}

int __wrap_access(const char *path, int how)
{
	return me ? 0 : __real_access(path, how);
}

static void block_device(struct stat *st, uint32_t member)
{
	memset(st, 0, sizeof(*st));
	st->st_mode = S_IFBLK | 0600;
	st->st_rdev = makedev(TWIN_MAJOR, member + 1);
}

int __wrap_stat(const char *path, struct stat *st)
{
	unsigned int member;

	if (!me)
		return __real_stat(path, st);
	if (sscanf(path, "/dev/sim%u", &member) != 1 || me->absent >> member & 1) {
		errno = ENOENT;
		return -1;
	}
	block_device(st, member);
	return 0;
}

int __wrap_fstat(int fd, struct stat *st)
{
	if (fd < TWIN_FD)
		return __real_fstat(fd, st);
	block_device(st, twin_file(fd)->member);
	return 0;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Locks on member devices; see devio.h and own_node.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "lib/disk/devio.h"
#include "lib/disk/own_node.h"

#define PAUSE_MS	100u

/*
 * A whole disk that is locked because of its partitions. It is locked once per process: two partitions of it would
 * otherwise wait for each other.
 */
struct whole {
	dev_t rdev;
	int fd;
	unsigned int refs;
	struct whole *next;
};

struct ddr_dev_lock {
	int own;		/* if the device is used through its usual node: a descriptor of our own node, else -1 */
	int usual;		/* if it is used through our own node: a descriptor of the usual one, until that was seen unlocked; else -1 */
	bool taken;		/* the lock of the usual node, or of the whole disk, is held */
	struct whole *whole;
};

static pthread_mutex_t wholes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct whole *wholes;

static struct ddr_dev_lock *lock_new(struct ddr_dev *dev, struct ddr_error *err)
{
	dev->lock = malloc(sizeof(*dev->lock));
	if (!dev->lock) {
		ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
		return NULL;
	}
	*dev->lock = (struct ddr_dev_lock){ .own = -1, .usual = -1 };
	return dev->lock;
}

/* ---- the disk of a partition ------------------------------------------------------- */

/*
 * systemd's rule (BLOCK_DEVICE_LOCKING): a partition is locked through its disk. False: it is no partition, or its
 * disk was not found.
 */
static bool find_whole(dev_t rdev, char *path, size_t size, dev_t *whole)
{
	char text[96], name[64] = "";
	unsigned int major, minor;
	struct stat st;
	bool known;
	FILE *f;

	snprintf(text, sizeof(text), "/sys/dev/block/%u:%u/partition", major(rdev), minor(rdev));
	if (access(text, F_OK))
		return false;
	snprintf(text, sizeof(text), "/sys/dev/block/%u:%u/../dev", major(rdev), minor(rdev));
	f = fopen(text, "re");
	if (!f)
		return false;
	known = fscanf(f, "%u:%u", &major, &minor) == 2;
	fclose(f);
	snprintf(text, sizeof(text), "/sys/dev/block/%u:%u/../uevent", major(rdev), minor(rdev));
	f = known ? fopen(text, "re") : NULL;
	if (!f)
		return false;
	while (!name[0] && fgets(text, sizeof(text), f))
		if (sscanf(text, "DEVNAME=%60s", name) != 1)
			name[0] = '\0';
	fclose(f);
	*whole = makedev(major, minor);
	return name[0] && (size_t)snprintf(path, size, "/dev/%s", name) < size && stat(path, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == *whole;
}

/*
 * Call with the list locked. NULL with errno: another program holds the lock, or the disk cannot be opened. *@fd: the
 * descriptor if it is locked, else -1.
 */
static struct whole *get_whole(const char *path, dev_t rdev, int *fd)
{
	struct whole *w;

	*fd = -1;
	for (w = wholes; w; w = w->next)
		if (w->rdev == rdev) {
			w->refs++;
			return w;
		}
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	*w = (struct whole){ .rdev = rdev, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), .refs = 1, .next = wholes };
	if (w->fd >= 0 && flock(w->fd, LOCK_EX | LOCK_NB) == 0) {
		wholes = w;
		return w;
	}
	*fd = w->fd;
	free(w);
	return NULL;
}

static void put_whole(struct whole *w)
{
	pthread_mutex_lock(&wholes_lock);
	if (--w->refs == 0) {
		for (struct whole **p = &wholes; *p; p = &(*p)->next)
			if (*p == w) {
				*p = w->next;
				break;
			}
		close(w->fd);
		free(w);
	}
	pthread_mutex_unlock(&wholes_lock);
}

/* ---- one try ----------------------------------------------------------------------- */

static enum ddr_lock_state state_of(int fd, enum ddr_lock_state busy, const char *what, struct ddr_holder *holder, struct ddr_error *err)
{
	if (errno != EWOULDBLOCK) {
		ddr_error_call(err, errno, "%s: cannot lock it: %s", what, strerror(errno));
		return DDR_LOCK_FAILED;
	}
	if (holder)
		ddr_holder_find(fd, holder);
	return busy;
}

/*
 * Only an exclusive lock counts, since daemons of earlier releases took one. A shared lock, as udev takes it while it
 * looks at a disk, is not waited for, and our shared lock does not keep udev from taking its own.
 */
static enum ddr_lock_state pass_usual(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	if (!dev->lock || dev->lock->usual < 0)
		return DDR_LOCK_TAKEN;
	if (flock(dev->lock->usual, LOCK_SH | LOCK_NB))
		return state_of(dev->lock->usual, DDR_LOCK_BUSY_USUAL, dev->path, holder, err);
	ddr_dev_pass_usual(dev);
	return DDR_LOCK_TAKEN;
}

/* Excludes other programs, through the usual node of the disk. */
static enum ddr_lock_state lock_usual(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	enum ddr_lock_state state = DDR_LOCK_TAKEN;
	char path[80];
	dev_t rdev;
	int fd;

	if (dev->lock->taken)
		return state;
	if (!find_whole(dev->rdev, path, sizeof(path), &rdev)) {
		dev->lock->taken = flock(dev->fd, LOCK_EX | LOCK_NB) == 0;
		return dev->lock->taken ? state : state_of(dev->fd, DDR_LOCK_BUSY_USUAL, dev->path, holder, err);
	}
	pthread_mutex_lock(&wholes_lock);
	dev->lock->whole = get_whole(path, rdev, &fd);
	if (!dev->lock->whole)
		state = state_of(fd, DDR_LOCK_BUSY_USUAL, path, holder, err);
	pthread_mutex_unlock(&wholes_lock);
	if (fd >= 0)
		close(fd);
	dev->lock->taken = state == DDR_LOCK_TAKEN;
	return state;
}

/* For a device that is used through its usual node: locks our own node, too. */
static enum ddr_lock_state lock_both(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	bool absent;

	if (!dev->lock && !lock_new(dev, err))
		return DDR_LOCK_FAILED;
	if (dev->lock->own < 0) {
		dev->lock->own = ddr_own_node_open(dev->rdev, O_RDONLY | O_NONBLOCK, &absent, err);
		if (dev->lock->own < 0) {
			ddr_error_prefix(err, "%s", dev->path);
			return DDR_LOCK_FAILED;
		}
	}
	if (flock(dev->lock->own, LOCK_EX | LOCK_NB))
		return state_of(dev->lock->own, DDR_LOCK_BUSY, dev->path, holder, err);
	return lock_usual(dev, holder, err);
}

enum ddr_lock_state ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	if (dev->is_block && !dev->own && !dev->own_error)
		return lock_both(dev, holder, err);
	if (flock(dev->fd, LOCK_EX | LOCK_NB))
		return state_of(dev->fd, DDR_LOCK_BUSY, dev->path, holder, err);
	return pass_usual(dev, holder, err);
}

void ddr_dev_pass_usual(struct ddr_dev *dev)
{
	if (!dev->lock || dev->lock->usual < 0)
		return;
	close(dev->lock->usual);
	dev->lock->usual = -1;
}

int ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	struct ddr_holder holder;

	for (unsigned int waited = 0;; waited += PAUSE_MS) {
		enum ddr_lock_state state = ddr_dev_try_lock(dev, &holder, err);

		if (state == DDR_LOCK_BUSY_USUAL && dev->own && holder.other) {
			ddr_dev_pass_usual(dev);
			state = DDR_LOCK_TAKEN;
		}
		if (state == DDR_LOCK_TAKEN)
			return 0;
		if (state == DDR_LOCK_FAILED)
			return -1;
		if (waited >= wait_ms)
			return ddr_error_set(err, "%s: is locked by %s; try again when that has ended", dev->path, holder.text);
		nanosleep(&pause, NULL);
	}
}

/* ---- open and close ------------------------------------------------------------------ */

int ddr_dev_lock_prepare(struct ddr_dev *dev, struct ddr_error *err)
{
	if (!lock_new(dev, err))
		return -1;
	/* if the usual node is missing, there is no lock to wait for, and the device has probably been removed */
	dev->lock->usual = open(dev->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (dev->lock->usual < 0 && ddr_own_failure(errno))
		return ddr_error_call(err, errno, "%s: cannot open it to see whether it is locked: %s", dev->path, strerror(errno));
	return 0;
}

void ddr_dev_lock_free(struct ddr_dev_lock *lock)
{
	if (!lock)
		return;
	if (lock->own >= 0)
		close(lock->own);
	if (lock->usual >= 0)
		close(lock->usual);
	if (lock->whole)
		put_whole(lock->whole);
	free(lock);
}

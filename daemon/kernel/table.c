// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads a table. See table.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>
#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/kernel/table.h"
#include "lib/disk/scan.h"
#include "lib/dm.h"

#define TARGET		"ddraid"
#define DATA_MAX	(16u << 10)	/* a table of ours has one line */

/*
 * Uses the ioctls directly, each with a descriptor of its own: libdevmapper must only be used by one thread at a time, and the change
 * of one array, which may wait for a disk, would delay those of all others. The uevent has no cookie: the device exists already and
 * keeps its name, so udev only looks at it again, and nobody waits for that.
 */
struct request {
	struct dm_ioctl head;
	char data[DATA_MAX];
};

/* ---- the ioctls ------------------------------------------------------------------ */

static int failed(struct ddr_table *t, const char *what, int ret)
{
	ddr_error_set(&t->error, "%s of the table failed: %s", what, strerror(-ret));
	return ret;
}

/*
 * Addresses the mapped device by its uuid, if it has one: when it is removed, another device may get its number at any time. A device
 * that was created by hand without a uuid has no other reliable name.
 */
static void address(const struct ddr_table *t, struct request *r, uint32_t flags)
{
	memset(&r->head, 0, sizeof(r->head));
	r->head.version[0] = DM_VERSION_MAJOR;
	r->head.data_size = sizeof(*r);
	r->head.data_start = sizeof(r->head);
	r->head.flags = flags;
	if (t->dm_uuid[0])
		memcpy(r->head.uuid, t->dm_uuid, sizeof(r->head.uuid));
	else
		r->head.dev = ddr_dm_dev(t->dm_major, t->dm_minor);
}

/* 0, or a negative errno. */
static int ask(unsigned long what, struct request *r)
{
	int fd = open("/dev/" DM_DIR "/" DM_CONTROL_NODE, O_RDWR | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = ioctl(fd, what, r) ? -errno : 0;
	close(fd);
	return ret;
}

/* The only line of the received table, if it is one of ours, else NULL. */
static const char *own_params(const struct request *r, uint64_t *sectors)
{
	const char *params = (const char *)r + r->head.data_start + sizeof(struct dm_target_spec);
	struct dm_target_spec spec;

	if (r->head.target_count != 1 || (r->head.flags & DM_BUFFER_FULL_FLAG) || r->head.data_start < sizeof(r->head) ||
	    r->head.data_start > sizeof(*r) - sizeof(spec))
		return NULL;
	memcpy(&spec, (const char *)r + r->head.data_start, sizeof(spec));
	if (strncmp(spec.target_type, TARGET, sizeof(spec.target_type)) != 0 || !memchr(params, '\0', (size_t)((const char *)(r + 1) - params)))
		return NULL;
	*sectors = spec.length;
	return params;
}

/* Is the first word of the parameters the uuid of this array? */
static bool is_array(const struct ddr_table *t, const char *params)
{
	char text[37];
	uuid_t uuid;

	params += strspn(params, " ");
	if (strcspn(params, " ") != sizeof(text) - 1)
		return false;
	memcpy(text, params, sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	return uuid_parse(text, uuid) == 0 && memcmp(uuid, t->uuid, sizeof(t->uuid)) == 0;
}

/* Reads the current table; from then on the mapped device is addressed by its uuid. */
static int get(struct ddr_table *t, struct request *r, const char **params, uint64_t *sectors)
{
	int ret;

	address(t, r, DM_STATUS_TABLE_FLAG);
	ret = ask(DM_TABLE_STATUS, r);
	if (ret == 0 && !(r->head.flags & DM_ACTIVE_PRESENT_FLAG)) {	/* not resumed yet: read the table that was loaded */
		address(t, r, DM_STATUS_TABLE_FLAG | DM_QUERY_INACTIVE_TABLE_FLAG);
		ret = ask(DM_TABLE_STATUS, r);
	}
	if (ret)
		return failed(t, "reading", ret);
	*params = own_params(r, sectors);
	if (!*params || !is_array(t, *params)) {
		ddr_error_set(&t->error, "the mapped device %u:%u no longer has a table of this array", t->dm_major, t->dm_minor);
		return -ENODEV;
	}
	memcpy(t->dm_uuid, r->head.uuid, sizeof(t->dm_uuid) - 1);
	return 0;
}

/* The parameters as they should be; NULL: there is no such place, or out of memory. */
static char *table_text(const struct ddr_table *t, const char *params, bool *same)
{
	return (t->shadow ? ddr_scan_table_shadow : ddr_scan_table_replace)(params, t->place, t->major, t->minor, same);
}

/* The table as it should be, and its length in sectors. */
static int read_table(struct ddr_table *t, struct request *r, char **text, uint64_t *sectors)
{
	const char *params;
	bool same = false;
	int ret;

	ret = get(t, r, &params, sectors);
	if (ret)
		return ret;
	errno = 0;
	if (t->sectors) {
		same = *sectors == t->sectors;
		*sectors = t->sectors;
		*text = strdup(params);
	} else {
		*text = table_text(t, params, &same);
	}
	if (!*text && errno == ENOMEM)
		return failed(t, "change", -ENOMEM);
	if (!*text) {
		ddr_error_set(&t->error, "the mapped device has no table of " TARGET " with a place %u", t->place);
		return -EINVAL;
	}
	return same ? -EALREADY : 0;
}

static int load(struct ddr_table *t, struct request *r, const char *text, uint64_t sectors)
{
	struct dm_target_spec spec = { .length = sectors, .target_type = TARGET };
	size_t len = strlen(text) + 1;
	int ret;

	if (sizeof(spec) + len + 8 > sizeof(r->data))
		return failed(t, "loading", -E2BIG);
	spec.next = (uint32_t)((sizeof(spec) + len + 7) & ~(size_t)7);
	address(t, r, 0);
	r->head.target_count = 1;
	memset(r->data, 0, spec.next);
	memcpy(r->data, &spec, sizeof(spec));
	memcpy(r->data + sizeof(spec), text, len);
	ret = ask(DM_TABLE_LOAD, r);
	return ret ? failed(t, "loading", ret) : 0;
}

/* A table that did not become active would be activated by whatever resumes the device next. */
static void clear(struct ddr_table *t, struct request *r)
{
	int ret;

	address(t, r, 0);
	ret = ask(DM_TABLE_CLEAR, r);
	if (ret && ret != -ENXIO)
		qb_log(LOG_WARNING, "device %u:%u has a leftover inactive table; dmsetup clear removes it", t->dm_major, t->dm_minor);
}

static bool gone(struct ddr_table *t)
{
	if (!atomic_load(&t->forgotten))
		return false;
	ddr_error_set(&t->error, "no longer needed");
	return true;
}

/* A load, and a resume that suspends by itself: at no moment would the end of this process leave the device suspended. */
static int change(struct ddr_table *t, struct request *r)
{
	uint64_t sectors = 0;
	char *text = NULL;
	int ret;

	if (gone(t))
		return -ECANCELED;
	ret = read_table(t, r, &text, &sectors);
	if (ret == 0)
		ret = load(t, r, text, sectors);
	free(text);
	if (ret)
		return ret;
	if (gone(t)) {		/* the load opens devices, and may have waited for one */
		clear(t, r);
		return -ECANCELED;
	}
	address(t, r, DM_NOFLUSH_FLAG | DM_SKIP_LOCKFS_FLAG);
	ret = ask(DM_DEV_SUSPEND, r);
	if (ret) {
		clear(t, r);
		return failed(t, "activation", ret);
	}
	return 0;
}

/* ---- the thread ------------------------------------------------------------------ */

/*
 * A change that was given up may still be in progress in the kernel. The next one for the same array waits for it: otherwise each
 * might activate the other's table.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct ddr_table *running;

static bool another_runs(const struct ddr_table *t)
{
	for (const struct ddr_table *other = running; other; other = other->next)
		if (memcmp(other->uuid, t->uuid, sizeof(t->uuid)) == 0)
			return true;
	return false;
}

static void begin(struct ddr_table *t)
{
	pthread_mutex_lock(&lock);
	while (another_runs(t))
		pthread_cond_wait(&ended, &lock);
	t->next = running;
	running = t;
	pthread_mutex_unlock(&lock);
}

static void end(struct ddr_table *t)
{
	struct ddr_table **p;

	pthread_mutex_lock(&lock);
	for (p = &running; *p != t; p = &(*p)->next)
		;
	*p = t->next;
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
}

static void run(struct ddr_worker *w)
{
	struct ddr_table *t = ddr_worker_of(w, struct ddr_table, worker);
	struct request *r = calloc(1, sizeof(*r));

	begin(t);
	t->result = r ? change(t, r) : failed(t, "change", -ENOMEM);
	end(t);
	free(r);
}

static void done(struct ddr_worker *w)
{
	struct ddr_table *t = ddr_worker_of(w, struct ddr_table, worker);

	t->done(t->ctx, t);
}

int ddr_table_start(struct ddr_table *t, qb_loop_t *loop)
{
	t->worker.run = run;
	t->worker.done = done;
	return ddr_worker_start(&t->worker, loop);
}

void ddr_table_forget(struct ddr_table *t)
{
	t->ctx = NULL;
	atomic_store(&t->forgotten, true);
}

void ddr_table_free(struct ddr_table *t)
{
	free(t);
}

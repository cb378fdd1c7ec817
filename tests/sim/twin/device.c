// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The twin of what lib/disk asks of the system beside reading and writing: device nodes, locks, threads that look at a device, the search among
 * all of them, and what sysfs says.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "daemon/base/zone.h"
#include "daemon/disk/state.h"
#include "lib/disk/look.h"
#include "lib/disk/own_node.h"
#include "lib/disk/scan.h"
#include "twin.h"

/* ---- nodes and locks ---------------------------------------------------------------- */

int ddr_own_node_open(dev_t rdev, int mode, bool *absent, struct ddr_error *err)
{
	int fd;

	(void)mode;
	*absent = false;
	if (twin_fails(CALL_OPEN))
		return ddr_error_call(err, errno, "the node of member %u cannot be opened: %s", minor(rdev) - 1, strerror(errno));
	fd = twin_open(FILE_DISK);
	twin_file(fd)->member = minor(rdev) - 1;
	return fd;
}

int ddr_dev_lock_prepare(struct ddr_dev *dev, struct ddr_error *err)
{
	(void)dev;
	(void)err;
	return 0;
}

void ddr_dev_lock_free(struct ddr_dev_lock *lock)
{
	(void)lock;
}

/* Requests under way have the lock of a daemon that has died. */
enum ddr_lock_state ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	struct file *f = twin_file(dev->fd), *other = NULL;

	if (twin_fails(CALL_LOCK)) {
		ddr_error_call(err, errno, "%s: cannot lock it: %s", dev->path, strerror(errno));
		return DDR_LOCK_FAILED;
	}
	while ((other = twin_next_file(other)))
		if (other != f && other->kind == FILE_DISK && other->locked && other->p->n == f->p->n && other->member == f->member) {
			if (holder)
				*holder = (struct ddr_holder){ .text = "I/O of a daemon that has died" };
			return DDR_LOCK_BUSY;
		}
	f->locked = true;
	f->passed |= me->s->now >= me->n->locked_until[f->member];
	if (f->passed)
		return DDR_LOCK_TAKEN;
	if (holder)
		*holder = (struct ddr_holder){ .other = true, .text = "udev-worker (process 17)" };
	return DDR_LOCK_BUSY_USUAL;
}

void ddr_dev_pass_usual(struct ddr_dev *dev)
{
	twin_file(dev->fd)->passed = true;
}

int ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err)
{
	struct ddr_holder holder;
	uint64_t until = twin_ms(me) + wait_ms;
	enum ddr_lock_state state;

	while ((state = ddr_dev_try_lock(dev, &holder, err)) != DDR_LOCK_TAKEN) {
		if (state == DDR_LOCK_BUSY_USUAL) {		/* a program that is not ddraid's is not waited for */
			ddr_dev_pass_usual(dev);
			continue;
		}
		if (state == DDR_LOCK_FAILED)
			return -1;
		if (twin_ms(me) >= until)
			return ddr_error_set(err, "%s is locked by %s", dev->path, holder.text);
		twin_sleep(twin_ms(me) + 100);
	}
	return 0;
}

/* ---- looks -------------------------------------------------------------------------- */

uint64_t ddr_look_now(void)
{
	return twin_ms(me);
}

static uint32_t member_of(const char *path)
{
	unsigned int m = 0;

	sscanf(path, "/dev/sim%u", &m);
	return m;
}

/* Does a thread that looks at the member hang? Where it is in use, all requests of the node do so, which costs the member; else perhaps only those who look. */
static bool looks_hang(uint32_t m)
{
	struct ddr_super sb;

	if (twin_hangs(me, m) || twin_looks_mute(me, m))
		return true;
	return me->n->slow_until[m] > me->s->now && !(check_newest_super(me->s, &sb) && sb.member[m].state == DDR_MEMBER_IN_SYNC);
}

/* A thread that was given up is in the driver until the device answers, and nobody opens or reads that meanwhile. */
static bool given_up(uint32_t m)
{
	me->late_looks &= looks_hang(m) ? ~0u : ~(1u << m);
	return me->late_looks >> m & 1;
}

static enum ddr_look_start begin(struct ddr_look **out, const char *path, const struct ddr_dev *dev, unsigned int what, uint64_t offset, size_t len,
				 unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *l;

	*out = NULL;
	if (given_up(member_of(path))) {
		me->claim.late |= 1u << member_of(path);
		return DDR_LOOK_HANGS;
	}
	l = calloc(1, sizeof(*l));
	if (!l || twin_fails(CALL_THREAD)) {
		ddr_error_call(err, ENOMEM, "out of memory");
		free(l);
		return DDR_LOOK_FAILED;
	}
	snprintf(l->path, sizeof(l->path), "%s", path);
	l->dev.fd = -1;
	l->what = what;
	l->supers.newest = -1;
	l->offset = offset;
	l->len = len;
	l->buf = len ? ddr_dev_buffer(len) : NULL;
	l->due_ms = twin_ms(me) + limit_ms;
	if (dev && ddr_dev_dup(dev, &l->dev)) {
		ddr_error_call(err, ENOMEM, "%s: out of memory or file descriptors while reading it", path);
		ddr_look_put(l);
		return DDR_LOOK_FAILED;
	}
	*out = l;
	return DDR_LOOK_RUNS;
}

enum ddr_look_start ddr_look_start(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err)
{
	enum ddr_look_start ret = begin(look, path, NULL, DDR_LOOK_ALL, 0, 0, limit_ms, err);

	if (*look)
		(*look)->flags = flags;
	return ret;
}

enum ddr_look_start ddr_look_open(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err)
{
	enum ddr_look_start ret = begin(look, path, NULL, DDR_LOOK_OPEN, 0, 0, limit_ms, err);

	if (*look)
		(*look)->flags = flags;
	return ret;
}

enum ddr_look_start ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, dev->path, dev, DDR_LOOK_READ, 0, 0, limit_ms, err);
}

enum ddr_look_start ddr_look_member(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, dev->path, dev, DDR_LOOK_MEMBER, 0, 0, limit_ms, err);
}

enum ddr_look_start ddr_look_bytes(struct ddr_look **look, const struct ddr_dev *dev, uint64_t offset, size_t len, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, dev->path, dev, DDR_LOOK_BYTES, offset, len, limit_ms, err);
}

enum ddr_look_start ddr_look_write(struct ddr_look **look, const struct ddr_dev *dev, const void *from, uint64_t offset, size_t len, unsigned int limit_ms,
				   struct ddr_error *err)
{
	enum ddr_look_start ret = begin(look, dev->path, dev, DDR_LOOK_WRITE, offset, len, limit_ms, err);

	if (*look)
		memcpy((*look)->buf, from, len);
	return ret;
}

/* Other things happen while it is under way. */
bool ddr_look_wait(struct ddr_look *l)
{
	uint32_t m = member_of(l->path);

	if (l->ended)
		return true;
	if (sim_chance(me->s, 2)) {
		me->n->looks_at = l->what == DDR_LOOK_OPEN || l->what == DDR_LOOK_MEMBER ? m + 1 : 0;
		twin_sleep(0);
		me->n->looks_at = 0;
	}
	while (looks_hang(m)) {
		if (twin_ms(me) >= l->due_ms) {
			me->late_looks |= 1u << m;
			me->claim.late |= 1u << m;
			return false;
		}
		twin_sleep(twin_ms(me) + 100);
	}
	l->ended = true;
	l->opened = l->dev.fd >= 0 || ddr_dev_open(&l->dev, l->path, l->flags, &l->error) == 0;
	l->bytes = l->dev.bytes;
	if (l->opened && l->what == DDR_LOOK_BYTES)
		l->whole = ddr_dev_read(&l->dev, l->buf, l->len, l->offset, &l->error) == 0;
	else if (l->opened && l->what == DDR_LOOK_WRITE)
		l->whole = ddr_dev_write(&l->dev, l->buf, l->len, l->offset, &l->error) == 0;
	else if (l->opened && l->what != DDR_LOOK_OPEN)
		ddr_dev_read_supers(&l->dev, &l->supers, &l->error);
	if ((l->what == DDR_LOOK_ALL || l->what == DDR_LOOK_MEMBER) && me->s->disk[member_of(l->path)].foreign)
		snprintf(l->foreign, sizeof(l->foreign), "ext4 file system");
	if (l->what != DDR_LOOK_OPEN)
		ddr_dev_close(&l->dev);
	return true;
}

int ddr_look_wait_first(struct ddr_look *const look[], size_t n, uint64_t until_ms)
{
	(void)until_ms;
	return n && ddr_look_wait(look[0]) ? 0 : -1;
}

bool ddr_look_ended(struct ddr_look *l)
{
	return l->ended;
}

uint64_t ddr_look_moves(struct ddr_look *l)
{
	(void)l;
	return 0;
}

bool ddr_look_tell(const char *path)
{
	(void)path;
	return true;
}

void ddr_look_put(struct ddr_look *l)
{
	if (!l)
		return;
	ddr_dev_close(&l->dev);
	free(l->buf);
	free(l);
}

/* ---- the search ---------------------------------------------------------------------- */

int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);

static bool left_out(const struct ddr_scan_how *how, uint32_t member)
{
	for (size_t i = 0; i < how->n_leave_out; i++)
		if (how->leave_out[i] == makedev(TWIN_MAJOR, member + 1))
			return true;
	return false;
}

static int add_hung(struct ddr_scan *scan, const char *path, bool pending, bool known, struct ddr_error *err)
{
	struct ddr_scan_hung *list = realloc(scan->hung, (scan->n_hung + 1) * sizeof(*list));

	if (!list)
		return ddr_error_call(err, ENOMEM, "out of memory");
	scan->hung = list;
	list[scan->n_hung] = (struct ddr_scan_hung){ .pending = pending, .known = known };
	snprintf(list[scan->n_hung++].path, sizeof(list->path), "%s", path);
	return 0;
}

/* One device has answered, or is late; as in lib/disk/scan.c. */
static int take(struct ddr_scan *scan, struct ddr_look *look, uint32_t m, struct ddr_error *err)
{
	struct ddr_scan_device *dev = &scan->dev[scan->n];

	if (!ddr_look_wait(look))
		return add_hung(scan, look->path, false, false, err);
	if (look->error.own && (!look->opened || look->supers.newest < 0)) {
		*err = look->error;
		return -1;
	}
	if (!look->opened || look->supers.newest < 0)
		return 0;
	snprintf(dev->path, sizeof(dev->path), "%s", look->path);
	dev->bytes = look->bytes;
	dev->supers = look->supers;
	dev->at = m;
	memcpy(dev->foreign, look->foreign, sizeof(dev->foreign));
	scan->n++;
	return 0;
}

/* Another device is a path to the same disk. */
static void second_path(struct ddr_scan *scan)
{
	size_t n = scan->n;

	for (size_t i = 0; i < n && me->s->now < me->n->path_until; i++)
		if (scan->dev[i].at == me->n->path_to) {
			scan->dev[scan->n] = scan->dev[i];
			snprintf(scan->dev[scan->n++].path, sizeof(scan->dev[0].path), "/dev/path%u", me->n->path_to);
		}
}

int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err)
{
	bool enough;
	int ret;

	memset(scan, 0, sizeof(*scan));
	enough = how->enough && how->enough(how->ctx, scan);
	scan->dev = calloc(DDR_MAX_MEMBERS + 1, sizeof(*scan->dev));
	if (!scan->dev)
		return ddr_error_call(err, ENOMEM, "out of memory");
	for (uint32_t m = 0; m < me->s->sb0.members; m++) {
		struct ddr_look *look;
		char path[32];

		snprintf(path, sizeof(path), "/dev/sim%u", m);
		if (left_out(how, m))
			continue;
		if (enough && looks_hang(m)) {	/* it has not answered yet, and is not waited for */
			if (add_hung(scan, path, true, given_up(m), err)) {
				ddr_scan_free(scan);
				return -1;
			}
			continue;
		}
		switch (ddr_look_start(&look, path, 0, how->limit_ms, err)) {
		case DDR_LOOK_FAILED:
			ret = -1;
			break;
		case DDR_LOOK_HANGS:
			ret = add_hung(scan, path, false, true, err);
			break;
		case DDR_LOOK_RUNS:
			ret = take(scan, look, m, err);
			break;
		}
		ddr_look_put(look);
		if (ret) {
			ddr_scan_free(scan);
			return -1;
		}
		enough = how->enough && how->enough(how->ctx, scan);
	}
	second_path(scan);
	return 0;
}

/* ---- sysfs --------------------------------------------------------------------------- */

FILE *twin_sysfs(const char *path)
{
	unsigned int major, minor;
	static char text[96];	/* read and closed at once */
	char what[32];

	if (sscanf(path, "/sys/dev/block/%u:%u/%31s", &major, &minor, what) != 3)
		return NULL;
	if (major == TWIN_MAJOR && strcmp(what, "uevent") == 0 && !(me->absent >> (minor - 1) & 1))
		snprintf(text, sizeof(text), "DEVNAME=sim%u\n", minor - 1);
	else if (major == TWIN_MAJOR && strcmp(what, "stat") == 0)
		snprintf(text, sizeof(text), "%llu 0 0 0 0 0 0 0 %u 0 0 0 0 0 0 0 0\n", (unsigned long long)(twin_ended[minor - 1] + kernel_ended[me->n - me->s->node][minor - 1]),
			 twin_pending(me, minor - 1) + kernel_pending(&me->n->k, minor - 1));
	else if (major == TWIN_DM_MAJOR && strcmp(what, "dm/name") == 0)
		snprintf(text, sizeof(text), TWIN_DM_NAME "\n");
	else
		return NULL;
	return fmemopen(text, strlen(text), "r");
}

/* ---- what a node remembers ------------------------------------------------------------ */

int ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	(void)dir;
	(void)uuid;
	if (twin_fails(CALL_STATE))
		return -errno;
	*known = me->known;
	return 0;
}

int ddr_state_lower(const char *dir, const uint8_t uuid[16], const struct ddr_known *known)
{
	(void)dir;
	(void)uuid;
	if (me->s->now < me->n->readonly_until)
		return -EROFS;
	if (!me->n->older)
		sim_violation(me->s, "node %u forgets a generation that it has seen, and nobody said --older", me->n->id);
	me->known = *known;
	me->n->newer = me->n->older = false;
	return 0;
}

void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16])
{
	(void)dir;
	(void)uuid;
	if (generation < me->known.generation)
		return;
	me->n->newer = me->n->older = false;
	me->known.generation = generation;
	memcpy(me->known.gen_id, gen_id, sizeof(me->known.gen_id));
}

void ddr_ident_read(const char *dir, struct ddr_identity_file *file)
{
	(void)dir;
	*file = me->file;
	if (me->n->hidden) {
		file->how = DDR_IDENTITY_UNREADABLE;
		return;
	}
	if (!file->len)
		file->how = DDR_IDENTITY_MISSING;
}

/* Each node is a machine of its own. */
static void marks_of(const struct node *n, struct ddr_machine_marks *marks)
{
	char machine_id[33];

	snprintf(machine_id, sizeof(machine_id), "%032x", n->clone_of ? n->clone_of : n->id);
	ddr_machine_marks(marks, machine_id, NULL);
}

void ddr_ident_marks(struct ddr_machine_marks *marks)
{
	marks_of(me->n, marks);
}

bool twin_knows_cluster(const struct proc *p)
{
	static const uint8_t random[16];
	struct ddr_machine_marks marks;
	struct ddr_identity id;
	bool write;

	if (!p->s || !p->file.len)
		return false;
	marks_of(p->n, &marks);
	return ddr_machine_decide(&id, &p->file, &marks, random, &write) == DDR_MACHINE_SAME && id.cluster.agreed;
}

int ddr_ident_write(const char *dir, const char *text, size_t len)
{
	(void)dir;
	if (me->s->now < me->n->readonly_until)
		return -EROFS;
	if (twin_fails(CALL_STATE))
		return -errno;
	me->file.how = DDR_IDENTITY_READ;
	me->file.len = len;
	memcpy(me->file.text, text, len);
	return 0;
}

bool ddr_zone_hour(struct ddr_daemon *d, uint64_t now, uint64_t now_ms, unsigned int *hour)
{
	(void)d;
	(void)now_ms;
	*hour = (unsigned int)(now / 3600 % 24);
	return true;
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An array that stamps its slot (daemon/array/drive_stamp.c) on the disks of super-disks.h. Simulated: the rest of the driver, and what the state machine
 * knows of the slot. For one program, since all of it is one global state.
 */
#ifndef DDR_TESTS_UNIT_STAMP_RIG_H
#define DDR_TESTS_UNIT_STAMP_RIG_H

#include "tests/unit/super-disks.h"

#include <stdio.h>
#include <time.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"
#include "daemon/kernel/uevent.h"
#include "tests/sim/rig.h"

#define SLOT	2u
#define NODE	3u
#define COOKIE	77u

static struct {
	uint64_t now;
	uint32_t hung, hung_stamps;	/* requests of these members do not end; those of their stamps */
	uint32_t fails;			/* reads and writes of stamps there fail ... */
	uint32_t fails_write;		/* ... or writes only */
	uint32_t lies;			/* the next read of the places there delivers something else, once */
	uint32_t exchanged, failed;	/* told to the state machine */
	bool full;			/* what hangs has not begun: its queue has no room */
	bool watched;			/* the array is held after a standstill, as drive.c has it; else what is tested does not depend on that */
	unsigned int dropped;		/* records for the kernel */
	unsigned int logs, log_failed;	/* writes of the log that have ended; members that failed with one */
	uint32_t supers;		/* members to which anything but stamps was written */
	unsigned int changes, change_failed;	/* the same of superblocks */
	unsigned int gave_up, lost, told, reads[DDR_MAX_MEMBERS], writes[DDR_MAX_MEMBERS];
	char text[DDR_ERROR_LEN];
	uint32_t node;			/* the owner of the slot, as the disks have it */
} play;

static struct ddr_daemon d;
static struct ddr_array a;
static struct ddr_input input;

/* ---- played ------------------------------------------------------------------------ */

uint32_t __wrap_ddr_sm_slot(const struct ddr_sm *sm);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
void __wrap_ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *owner);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){ .tv_sec = (time_t)(play.now / 1000), .tv_nsec = (long)(play.now % 1000) * 1000000 };
	return 0;
}

uint32_t __wrap_ddr_sm_slot(const struct ddr_sm *sm)
{
	(void)sm;
	return SLOT;
}

void __wrap_ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *owner)
{
	(void)sm;
	assert_int_equal(slot, SLOT);
	*owner = (struct ddr_owner){ .node = play.node, .state = play.node ? DDR_SLOT_OWNED : DDR_SLOT_FREE };
	owner->instance.cookie = COOKIE;
	memcpy(owner->instance.boot_id, d.boot_id, sizeof(d.boot_id));
}

void ddr_drive_wake(struct ddr_array *array) { (void)array; }
void ddr_drive_grow_delay(struct ddr_array *array, uint64_t ms) { (void)array, (void)ms; }
void ddr_jobs_delay(struct ddr_jobs *jobs, uint64_t ms) { (void)jobs, (void)ms; }
uint64_t ddr_waited_ms(void) { return 0; }
void ddr_drive_path_is_back(struct ddr_daemon *daemon, uint32_t major, uint32_t minor) { (void)daemon, (void)major, (void)minor; }
void ddr_drive_seek_again(struct ddr_daemon *daemon, uint64_t after_ms) { (void)daemon, (void)after_ms; }

void ddr_event_plain(struct ddr_array *array, int priority, const char *name, const char *text)
{
	(void)array, (void)priority;
	play.lost += strcmp(name, "stamp-lost") == 0;
	snprintf(play.text, sizeof(play.text), "%s", text);
}

struct ddr_input *ddr_drive_input(struct ddr_array *array, enum ddr_in_type type)
{
	(void)array;
	input = (struct ddr_input){ .type = type };
	return &input;
}

void ddr_drive_step(struct ddr_array *array, const struct ddr_input *in)
{
	(void)array;
	if (in->type == DDR_IN_K_REC) {
		assert_int_equal(in->rec.type, DDR_K_STOPPED);
		play.told++;
		return;
	}
	assert_int_equal(in->type, DDR_IN_EXCHANGED);
	play.exchanged |= 1u << in->member;
}

/* Three grants wait for the kernel. */
bool ddr_kchan_take(struct ddr_kchan *chan, struct ddr_rec *rec)
{
	(void)chan;
	assert_int_equal(play.gave_up, 0);
	*rec = (struct ddr_rec){ .type = DDR_U_GRANT };
	return play.dropped < 3 && ++play.dropped;
}

void ddr_kchan_flush(struct ddr_kchan *chan)
{
	(void)chan;
	assert_int_equal(play.gave_up, 1);
	assert_int_equal(play.dropped, 3);
}

const char *ddr_drive_fail(struct ddr_array *array, uint32_t member)
{
	(void)array;
	play.failed |= 1u << member;
	return NULL;
}

void ddr_drive_give_up(struct ddr_array *array, const struct ddr_output *o)
{
	assert_int_equal(o->event, DDR_EV_EVICTED);
	snprintf(array->error, sizeof(array->error), "%s", o->text);
	play.gave_up++;
}

static uint32_t node_of(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return NODE;
}

static bool name_of(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	assert_int_equal(node, NODE);
	snprintf(buf, size, "n3");
	return true;
}

/* The disks of super-disks.h name two clusters, one in each copy: this node's, and the one that is recorded. */
static bool cluster_of(const struct ddr_daemon *daemon, uint8_t id[16])
{
	(void)daemon;
	fixture_uuid(id, 1);
	return true;
}

static const struct ddr_transport_ops transport = { .node = node_of, .known_name = name_of, .cluster_id = cluster_of };

static void on_meta(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space)
{
	(void)ctx, (void)io, (void)no_space;
	if (kind == DDR_META_LOG) {
		play.logs++;
		play.log_failed |= failed;
		return;
	}
	if (kind == DDR_META_SB) {
		play.changes++;
		play.change_failed = failed;
		return;
	}
	assert_int_equal(kind, DDR_META_CHECK);
	ddr_drive_checked(&a, failed);
}

/* ---- the array ----------------------------------------------------------------------- */

static const struct rig_geometry geo = { .order = 1, .parity = 1, .blocks = 1024, .region_blocks = 256, .slots = 4 };

static void open_meta(void)
{
	struct ddr_metaio_config cfg = {
		.operations = 4, .ctx = &a, .done = on_meta, .exchanged = ddr_drive_exchanged, .members = a.members, .owner_pages = w.sb.owner_pages,
		.may_stamp = ddr_drive_may_stamp, .stamped = ddr_drive_stamped, .taken = ddr_drive_taken,
	};

	assert_int_equal(ddr_metaio_open(&a.meta, &cfg), 0);
}

static void open_array(bool owned)
{
	struct ddr_sm_config sm = { .node = NODE };
	struct ddr_super sb;

	memset(&play, 0, sizeof(play));
	memset(&a, 0, sizeof(a));
	memset(&d, 0, sizeof(d));
	super_disks_owned = owned;
	rig_super(&sb, &geo);
	make_disks(1, &sb);
	sm.super = &w.sb;
	a.sm = rig_sm(&sm);
	assert_non_null(a.sm);
	a.d = &d;
	a.super = w.sb;
	memcpy(a.uuid, w.sb.array_uuid, sizeof(a.uuid));
	strcpy(a.name, "rig");
	a.bind.cookie = COOKIE;
	a.tune.daemon_timeout_ms = 30000;
	a.tune.io_timeout_ms = 5000;
	a.members = open_members();
	a.ready = true;
	fixture_uuid(a.owners.cluster, 3);
	fixture_uuid(d.boot_id, 5);
	fixture_uuid(d.ident.id.machine, 6);
	d.ident.stored = true;
	d.transport = &transport;
	play.node = NODE;
	play.now = 2100;
	open_meta();
}

static int setup(void **state)
{
	(void)state;
	open_array(true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ddr_metaio_close(a.meta);
	while (w.n_flying)
		end(w.flying[--w.n_flying], -EIO);
	ddr_members_put(a.members);
	free(a.sm);
	free_disks();
	return 0;
}

static uint32_t member_of(const struct ddr_aio_req *req)
{
	for (uint32_t m = 0; m < w.sb.members; m++)
		if (req->fd == a.members->dev[m].fd)
			return m;
	return w.sb.members;		/* of a device that the member had */
}

static bool of_stamps(const struct ddr_aio_req *req)
{
	return req->offset >= ddr_stamp_offset(&w.sb, 0, 0) && req->offset < ddr_stamp_offset(&w.sb, w.sb.slots, 0);
}

static void one_request(struct ddr_aio_req *req)
{
	uint32_t m = member_of(req);
	bool stamp = of_stamps(req);

	if (stamp && ((play.fails >> m & 1) || (is_write(req) && (play.fails_write >> m & 1)))) {
		end(req, -EIO);
		return;
	}
	if (is_write(req)) {
		assert_false(play.watched && a.members->still.held);
		assert_int_equal(req->begin_by_ms != 0, stamp);
		play.supers |= stamp ? 0 : 1u << m;
		play.writes[m] += stamp;
		assert_int_equal(pwrite(req->fd, req->buf, req->len, (off_t)req->offset), req->len);
	} else {
		play.reads[m] += stamp;
		assert_int_equal(pread(req->fd, req->buf, req->len, (off_t)req->offset), req->len);
		if (stamp && (play.lies >> m & 1)) {
			memset(req->buf, 0, req->len);
			play.lies &= ~(1u << m);
		}
	}
	end(req, 0);
}

/* As aio.c has it: is not begun. */
static bool waits(const struct ddr_aio_req *req)
{
	return play.watched && a.members->still.held && !req->look;
}

/* Everything under way ends, but on the members that hang. */
static void ends(void)
{
	for (unsigned int i = 0; i < w.n_flying;) {
		struct ddr_aio_req *req = w.flying[i];

		if (play.full && req->begin_by_ms && play.now >= req->begin_by_ms) {
			w.flying[i] = w.flying[--w.n_flying];
			end(req, -ECANCELED);
			i = 0;
			continue;
		}
		if (waits(req) || (play.hung >> member_of(req) & 1) || (of_stamps(req) && (play.hung_stamps >> member_of(req) & 1))) {
			i++;
			continue;
		}
		w.flying[i] = w.flying[--w.n_flying];
		one_request(req);
		i = 0;
	}
}

static void pass(uint64_t ms)
{
	play.now += ms;
	if (play.watched && ddr_still_held(ddr_drive_still(&a)) && ddr_drive_look_tick(&a, play.now)) {
		ends();
		return;
	}
	a.tick_ms = play.now;
	if (play.watched && w.sb.owner_pages)	/* as it starts */
		ddr_drive_watch(&a);
	ddr_metaio_tick(a.meta, play.now);
	ddr_drive_check_tick(&a, play.now);
	ddr_drive_stamp_tick(&a, play.now);
	ends();
}

static inline bool found(uint32_t m, unsigned int place, struct ddr_stamp *s)
{
	uint8_t block[DDR_META_BLOCK];

	assert_int_equal(pread(w.disk[m], block, sizeof(block), (off_t)ddr_stamp_offset(&w.sb, SLOT, place)), sizeof(block));
	return ddr_stamp_decode(block, &w.sb, SLOT, place, s).code == DDR_FE_OK;
}

static void put_block(uint32_t m, unsigned int place, const void *block)
{
	assert_int_equal(pwrite(w.disk[m], block, DDR_META_BLOCK, (off_t)ddr_stamp_offset(&w.sb, SLOT, place)), DDR_META_BLOCK);
}

/* What another machine writes there; @own: for the instance that this node serves. */
static void put_by(uint32_t m, enum ddr_stamp_kind kind, uint64_t seq, bool own)
{
	struct ddr_stamp s = { .slot = SLOT, .kind = kind, .seq = seq, .generation = 9, .node = 8, .instance.cookie = COOKIE, .name = "elsewhere" };
	uint8_t block[DDR_META_BLOCK];

	memcpy(s.array_uuid, w.sb.array_uuid, sizeof(s.array_uuid));
	fixture_uuid(s.machine, 70);
	fixture_uuid(s.instance.boot_id, 71);
	if (own)
		memcpy(s.instance.boot_id, d.boot_id, sizeof(d.boot_id));
	if (kind == DDR_STAMP_CLAIM)
		fixture_uuid(s.claim, 72);
	assert_int_equal(ddr_stamp_encode(&s, &w.sb, block).code, DDR_FE_OK);
	put_block(m, seq & 1, block);
}

static inline void put_other(uint32_t m, enum ddr_stamp_kind kind, uint64_t seq)
{
	put_by(m, kind, seq, false);
}

static inline unsigned int written(void)
{
	unsigned int n = 0;

	for (uint32_t m = 0; m < w.sb.members; m++)
		n += play.writes[m];
	return n;
}

/* Is a stamp under way on the member, of which so many reads and writes have @ended? */
static inline bool under_way(unsigned int member, uint64_t ended)
{
	uint64_t n;
	bool flies = ddr_metaio_stamping(a.meta, member, &n);

	assert_int_equal(n, ended);
	return flies;
}

/* The kernel's side of a standstill, as drive.c has it. */
static inline void stopped(void)
{
	assert_true(ddr_drive_looks_first(&a));
	assert_int_equal(play.told, 0);
}

#endif

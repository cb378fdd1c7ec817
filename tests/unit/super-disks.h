/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Members in memory, and changes of their superblocks that a power cut interrupts: the daemon's writes (daemon/disk/metaio.c), whose
 * requests end one by one in random order, and what assembly makes of the disks afterwards (lib/disk/devio.c, lib/disk/assemble.c).
 * For one program, since all of it is one global state.
 *
 * Also of format 2: then the owner pages that are found must be those of the superblock that is found.
 *
 * A completed write is durable. At a cut, each sector of each write in flight has either landed or not.
 */
#ifndef DDR_TESTS_UNIT_SUPER_DISKS_H
#define DDR_TESTS_UNIT_SUPER_DISKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/disk/aio.h"
#include "daemon/disk/metaio.h"
#include "lib/disk/assemble.h"
#include "lib/disk/devio.h"
#include "tests/unit/fixture.h"

#define MIB		(1024u * 1024)
#define BYTES		(64ull * MIB)
#define SECTOR		512u
#define FLYING_MAX	64u
#define WHOLE		UINT32_MAX	/* no cut */

/* ---- the disks ------------------------------------------------------------------- */

static struct world {
	uint64_t seed;			/* of the random numbers */
	int disk[DDR_MAX_MEMBERS];
	struct ddr_super sb;		/* what the state machine would know */
	struct ddr_known known;		/* what this node remembers */
	struct ddr_aio_req *flying[FLYING_MAX];
	unsigned int n_flying;
	bool power;
	unsigned int cuts;
	/* the change under way */
	struct ddr_metaio *meta;
	struct ddr_members *members;
	uint64_t now_ms;
	struct ddr_super next;
	uint32_t targets, failed;
	bool done;
	uint32_t named;			/* the members written by the last completed change */
	const char *what;		/* for failures */
} w;

/* The next disks are made with format 2. */
static bool super_disks_owned;

/* What the owner pages beside a superblock say here: it depends on the change, so that pages of another one are noticed. */
static void owners_of(const struct ddr_super *sb, struct ddr_owners *o)
{
	ddr_owners_init(o, sb);
	fixture_uuid(o->cluster, sb->seq | 1);
}

static uint32_t pick(uint32_t n)
{
	return (uint32_t)(fixture_random(&w.seed) % n);
}

int ddr_aio_open(struct ddr_aio **out, qb_loop_t *loop, uint64_t engine, unsigned int depth, bool background)
{
	static struct ddr_aio q;

	(void)loop, (void)engine, (void)depth, (void)background;
	*out = &q;
	return 0;
}

void ddr_aio_close(struct ddr_aio *q)
{
	(void)q;
}

void ddr_aio_submit(struct ddr_aio *q, struct ddr_aio_req *req)
{
	(void)q;
	assert_true(w.power);		/* a machine that is off begins nothing */
	assert_true(w.n_flying < FLYING_MAX);
	w.flying[w.n_flying++] = req;
}

void ddr_aio_kick(struct ddr_aio *q)
{
	(void)q;
}

void ddr_aio_retry(struct ddr_aio *q)
{
	(void)q;
}

const char *ddr_aio_engine_name(const struct ddr_aio *q)
{
	(void)q;
	return "played";
}

static bool is_write(const struct ddr_aio_req *req)
{
	return req->op == DDR_AIO_WRITE || req->op == DDR_AIO_WRITE_DURABLE;
}

static void end(struct ddr_aio_req *req, int result)
{
	req->result = result;
	req->ended = true;
	req->done(req);
}

/* One request of those under way, whichever, ends well. */
static void one_ends(void)
{
	uint32_t i = pick(w.n_flying);
	struct ddr_aio_req *req = w.flying[i];

	w.flying[i] = w.flying[--w.n_flying];
	if (is_write(req))
		assert_int_equal(pwrite(req->fd, req->buf, req->len, (off_t)req->offset), req->len);
	else if (req->op == DDR_AIO_READ)
		assert_int_equal(pread(req->fd, req->buf, req->len, (off_t)req->offset), req->len);
	end(req, 0);
}

/* Of a write under way: any of its sectors, often all or none. */
static void tear(const struct ddr_aio_req *req)
{
	uint32_t how = pick(4), mask = how == 0 ? 0 : how == 1 ? UINT32_MAX : (uint32_t)fixture_random(&w.seed);

	for (uint32_t s = 0; s < req->len / SECTOR; s++)
		if (mask >> s % 32 & 1)
			assert_int_equal(pwrite(req->fd, (const char *)req->buf + s * SECTOR, SECTOR,
						(off_t)(req->offset + s * SECTOR)), SECTOR);
}

/* Nothing holds the members any more: with them goes the lock that keeps other daemons out. */
static void let_go(void)
{
	assert_int_equal(w.members->refs, 1);
	ddr_members_put(w.members);
}

static void power_cut(void)
{
	w.cuts++;
	w.power = false;
	for (unsigned int i = 0; i < w.n_flying; i++)
		if (is_write(w.flying[i]))
			tear(w.flying[i]);
	ddr_metaio_close(w.meta);
	while (w.n_flying)		/* frees the memory, and reports to nobody */
		end(w.flying[--w.n_flying], -EIO);
	let_go();
	w.power = true;
}

/* ---- the array ------------------------------------------------------------------- */

static uint32_t all_members(void)
{
	return (1u << w.sb.members) - 1;
}

/* The members to be written, as the state machine computes them: all but those that have failed by an agreed change, or are about to fail. */
static uint32_t alive(const struct ddr_super *sb)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].state != DDR_MEMBER_FAULTY && sb->member[m].state != DDR_MEMBER_MISSING)
			mask |= 1u << m;
	return mask;
}

static void make_disks(uint64_t seed, const struct ddr_super *array)
{
	struct ddr_owners owners;
	struct ddr_super sb;
	struct ddr_error err;

	memset(&w, 0, sizeof(w));
	w.seed = seed;
	w.power = true;
	w.sb = *array;
	if (super_disks_owned)
		assert_int_equal(ddr_layout_owners(&w.sb, &err), 0);
	for (uint32_t m = 0; m < w.sb.members; m++) {
		struct ddr_dev dev = { .path = (char *)"disk", .bytes = BYTES };

		w.disk[m] = memfd_create("member", MFD_CLOEXEC);
		assert_true(w.disk[m] >= 0);
		assert_int_equal(ftruncate(w.disk[m], BYTES), 0);
		dev.fd = w.disk[m];
		sb = w.sb;
		sb.this_member = (uint16_t)m;
		for (sb.seq = 1; sb.seq <= 2; sb.seq++) {	/* as create does */
			owners_of(&sb, &owners);
			assert_int_equal(ddr_dev_write_owned(&dev, &sb, &owners, &err), 0);
		}
	}
	w.known.generation = w.sb.generation;
	memcpy(w.known.gen_id, w.sb.gen_id, sizeof(w.known.gen_id));
}

static void free_disks(void)
{
	for (uint32_t m = 0; m < w.sb.members; m++)
		close(w.disk[m]);
}

static struct ddr_members *open_members(void)
{
	struct ddr_members *members = ddr_members_new();

	members->n = w.sb.members;
	for (uint32_t m = 0; m < w.sb.members; m++) {
		members->dev[m] = (struct ddr_dev){ .fd = dup(w.disk[m]), .path = strdup("disk"), .bytes = BYTES };
		members->open |= 1u << m;
	}
	return members;
}

/* A disk as it was found. */
struct found {
	struct ddr_supers supers[DDR_MAX_MEMBERS];
	struct ddr_assembly assembly;
	struct ddr_error error;
};

/* Each copy that counts has the pages that it was written with, also the older one. */
static void check_pages(uint32_t m, const struct ddr_supers *s)
{
	struct ddr_disk_page page;
	struct ddr_owners owners;

	for (unsigned int c = 0; c < DDR_SB_COPIES; c++) {
		if (!s->copy[c].found || !ddr_super_has_owners(&s->copy[c].super))
			continue;
		owners_of(&s->copy[c].super, &owners);
		assert_int_equal(pread(w.disk[m], &page, sizeof(page), (off_t)ddr_owner_offset(&s->copy[c].super, c)), sizeof(page));
		if (memcmp(page.cluster, owners.cluster, sizeof(page.cluster)) != 0)
			fail_msg("%s, cut %u: copy %u of member %u has owner pages of another change", w.what, w.cuts, c, m);
	}
}

/*
 * Reads all disks, and assembles with @known. Whatever was written when: each disk has a superblock that counts, and the array is not
 * refused. All but those that the newest superblocks have out play.
 */
static void assemble(struct found *f, const struct ddr_known *known)
{
	struct ddr_candidate cand[DDR_MAX_MEMBERS];
	struct ddr_owners owners;
	uint32_t out;

	for (uint32_t m = 0; m < w.sb.members; m++) {
		struct ddr_dev dev = { .fd = w.disk[m], .path = (char *)"disk", .bytes = BYTES };

		if (ddr_dev_read_supers(&dev, &f->supers[m], &f->error))
			fail_msg("%s, cut %u: member %u is lost: %s", w.what, w.cuts, m, f->error.text);
		cand[m] = (struct ddr_candidate){ .device = "disk", .bytes = BYTES, .super = &f->supers[m].copy[f->supers[m].newest].super };
		owners_of(cand[m].super, &owners);
		if (ddr_super_has_owners(cand[m].super) && memcmp(&owners, &f->supers[m].owners, sizeof(owners)) != 0)
			fail_msg("%s, cut %u: member %u has owner pages of another change", w.what, w.cuts, m);
		check_pages(m, &f->supers[m]);
	}
	if (ddr_assemble(cand, w.sb.members, known, &f->assembly, &f->error))
		fail_msg("%s, cut %u: refused: %s", w.what, w.cuts, f->error.text);
	out = all_members() & ~alive(&f->assembly.super);
	if ((f->assembly.current | out) != all_members())
		fail_msg("%s, cut %u: of members 0x%x that are not out only 0x%x play", w.what, w.cuts, all_members() & ~out, f->assembly.current);
}

/* What the next start finds, both if this node remembers the last generation and if it remembers nothing. */
static inline void start_anew(void)
{
	struct found f;

	assemble(&f, NULL);
	assemble(&f, &w.known);
	assert_true(f.assembly.super.generation >= w.sb.generation);
	w.sb = f.assembly.super;
}

/* ---- changes --------------------------------------------------------------------- */

static void on_done(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space)
{
	(void)ctx, (void)kind, (void)io, (void)no_space;
	w.done = true;
	w.failed = failed;
	if (!(w.targets & ~failed))
		return;
	w.known.generation = w.next.generation;		/* as drive.c has it remembered */
	memcpy(w.known.gen_id, w.next.gen_id, sizeof(w.known.gen_id));
}

static void submit(void)
{
	struct ddr_meta_op *op = ddr_metaio_get(w.meta, DDR_META_SB, 1, w.targets);
	struct ddr_owners owners;

	for (uint32_t m = 0; m < w.sb.members; m++) {
		struct ddr_super sb = w.next;

		if (!(w.targets >> m & 1))
			continue;
		sb.this_member = (uint16_t)m;
		assert_int_equal(ddr_super_encode(&sb, ddr_metaio_block(op, m)).code, DDR_FE_OK);
	}
	ddr_metaio_supers(op, &w.sb, &w.next);
	owners_of(&w.next, &owners);
	if (ddr_super_has_owners(&w.next))
		assert_int_equal(ddr_metaio_owners(op, &owners, &w.next).code, DDR_FE_OK);
	w.now_ms = 1000;
	ddr_metaio_run(op, w.now_ms, 60000);
	ddr_metaio_kick(w.meta);
}

/* The change, with a power cut after @cut requests have ended; true: it completed before the cut. */
static inline bool change(uint32_t cut)
{
	struct ddr_members *members = open_members();
	struct ddr_metaio_config cfg = { .operations = 4, .members = members, .done = on_done, .owner_pages = w.sb.owner_pages };

	w.done = false;
	assert_int_equal(ddr_metaio_open(&w.meta, &cfg), 0);
	w.members = members;
	submit();
	for (uint32_t n = 0; !w.done && n < cut; n++) {
		if (!w.n_flying)	/* a member with one bad copy is read a second time, a second later */
			ddr_metaio_tick(w.meta, w.now_ms += 1000);
		assert_true(w.n_flying > 0);
		one_ends();
	}
	w.named = w.done ? w.targets : 0;
	if (!w.done) {
		power_cut();
		return false;
	}
	ddr_metaio_close(w.meta);
	let_go();
	assert_int_equal(w.n_flying, 0);
	assert_int_equal(w.failed, 0);
	w.sb = w.next;
	return true;
}

#endif

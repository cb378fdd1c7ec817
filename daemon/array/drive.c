// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Carries out the outputs of the state machine, in the order given, and turns events into its inputs. See lib/cluster/sm.h for the
 * contract, array.h for the rest.
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"
#include "daemon/disk/state.h"
#include "lib/cluster/slots.h"

#define IDLE_WAIT_MS	60000u	/* how long a read of the idle class may take in addition to io_timeout */

/* A node that stopped serving the array has left the group, or is about to: it must not send anything any more. */
static void to_group(struct ddr_array *a, const struct ddr_output *o)
{
	if (a->transport && !a->cluster.gave_up && !a->transport->ops->mcast(a->transport, o->msg, o->msg_len))
		ddr_drive_break(a, "the queue of messages to the array's nodes is full");
}

/* ---- outputs ------------------------------------------------------------------- */

static void write_block(struct ddr_array *a, const struct ddr_output *o)
{
	bool log = o->type != DDR_OUT_MAP_WRITE;
	uint32_t slot = o->type == DDR_OUT_SLOT_WRITE ? o->slot : ddr_sm_slot(a->sm);
	struct ddr_disk_log *blk;
	struct ddr_meta_op *op;
	uint64_t seq;

	op = ddr_metaio_get(a->meta, log ? DDR_META_LOG : DDR_META_MAP, o->io, o->members);
	blk = ddr_metaio_block(op, 0);
	if (o->type == DDR_OUT_LOG_WRITE)
		ddr_sm_log_block(a->sm, o->index, blk);
	else if (o->type == DDR_OUT_SLOT_WRITE)
		ddr_sm_slot_block(a->sm, o->index, blk);
	else
		ddr_sm_map_block(a->sm, o->index, blk);
	seq = le64toh(blk->seq.raw);
	ddr_metaio_at(op, log ? ddr_log_offset(&a->super, slot, o->index, seq & 1)
			      : ddr_map_offset(&a->super, o->index, seq & 1));
	ddr_metaio_run(op, ddr_now_ms(), a->tune.io_timeout_ms);
}

static void refuse(struct ddr_array *a, struct ddr_meta_op *op, const struct ddr_fault *fault)
{
	char why[DDR_ERROR_LEN];

	qb_log(LOG_CRIT, "array '%s': refused to write an invalid superblock: %s", a->name, ddr_fault_text(fault, why, sizeof(why)));
	ddr_metaio_refuse(op);
}

/* The owner pages beside @next, which may have other slots than what is agreed. */
static void write_owners(struct ddr_array *a, struct ddr_meta_op *op, const struct ddr_super *next)
{
	struct ddr_owners owners;
	struct ddr_fault fault;

	ddr_owners_follow(&a->owners, ddr_sm_super(a->sm));
	owners = a->owners;
	ddr_owners_follow(&owners, next);
	ddr_sm_owners(a->sm, &owners);
	ddr_drive_whose(a, op, owners.cluster);
	memcpy(a->cluster_writing, owners.cluster, sizeof(a->cluster_writing));
	fault = ddr_metaio_owners(op, &owners, next);
	if (fault.code)
		refuse(a, op, &fault);
}

static void write_superblocks(struct ddr_array *a, const struct ddr_output *o)
{
	struct ddr_meta_op *op = ddr_metaio_get(a->meta, DDR_META_SB, o->io, o->members);
	struct ddr_super sb;

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		struct ddr_fault fault;

		if (!(o->members & (1u << m)))
			continue;
		ddr_sm_superblock(a->sm, m, &sb);
		sb.updated = (uint64_t)time(NULL);
		fault = ddr_super_encode(&sb, ddr_metaio_block(op, m));
		if (fault.code != DDR_FE_OK) {
			refuse(a, op, &fault);
			break;
		}
		a->gen_writing = sb.generation;
		a->gen_members = o->members;
		memcpy(a->gen_id_writing, sb.gen_id, sizeof(a->gen_id_writing));
	}
	ddr_sm_superblock(a->sm, 0, &sb);
	ddr_metaio_supers(op, ddr_sm_super(a->sm), &sb);
	if (ddr_super_has_owners(&sb))
		write_owners(a, op, &sb);
	ddr_metaio_run(op, ddr_now_ms(), a->tune.io_timeout_ms);
}

static void run_job(struct ddr_array *a, const struct ddr_output *o)
{
	struct ddr_job_range r = {
		.io = o->io, .start = o->start, .count = o->count, .members = o->members,
		.fix = o->fix, .repair = o->job != DDR_KA_VERIFY, .rebuild = o->job == DDR_KA_REBUILD, .target = o->member,
		.unlocked = o->unlocked, .strict = o->strict,
	};
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	r.copy = o->job != DDR_KA_VERIFY && o->member != DDR_NO_MEMBER && o->from != DDR_NO_MEMBER;
	r.from = o->from;
	r.idle = o->unlocked && sb->verify.priority == DDR_VERIFY_IDLE;
	memset(r.at, 0xff, sizeof(r.at));
	for (unsigned int m = 0; m < sb->members; m++)
		if (sb->member[m].role < DDR_MAX_ROLES && !(sb->member[m].flags & DDR_MEMBER_F_REPLACING))
			r.at[sb->member[m].role] = (uint8_t)m;
	/* the scheduler may delay an idle read; a member that really hangs is detected by stall.c */
	ddr_jobs_range(a->jobs, &r, ddr_now_ms(), a->tune.io_timeout_ms + (r.idle ? IDLE_WAIT_MS : 0));
}

static void carry_out_one(struct ddr_array *a, const struct ddr_output *o)
{
	struct ddr_meta_op *op;

	switch (o->type) {
	case DDR_OUT_KERNEL:
		if (o->rec.type != DDR_U_ENABLE || !a->stamp.stopped)	/* drive_stamp.c has it sent once the members were looked at */
			ddr_drive_to_kernel(a, &o->rec);
		break;
	case DDR_OUT_LOG_WRITE:
	case DDR_OUT_SLOT_WRITE:
	case DDR_OUT_MAP_WRITE:
		write_block(a, o);
		break;
	case DDR_OUT_SB_WRITE:
		write_superblocks(a, o);
		break;
	case DDR_OUT_FLUSH:
		op = ddr_metaio_get(a->meta, DDR_META_FLUSH, o->io, o->members);
		ddr_metaio_run(op, ddr_now_ms(), a->tune.io_timeout_ms);
		break;
	case DDR_OUT_JOB_RANGE:
		run_job(a, o);
		break;
	case DDR_OUT_TABLE:
		ddr_drive_table_output(a, o);
		break;
	case DDR_OUT_SEEK:
		ddr_drive_seek_output(a, o);
		break;
	case DDR_OUT_ROOM:
	case DDR_OUT_PREPARE:
	case DDR_OUT_RESIZE:
		ddr_drive_grow_output(a, o);
		break;
	case DDR_OUT_MCAST:
		to_group(a, o);
		break;
	case DDR_OUT_FENCE:
	case DDR_OUT_RELOAD:
	case DDR_OUT_SLOT_READ:
		ddr_drive_cluster_output(a, o);
		break;
	case DDR_OUT_EVENT:
		if (o->event == DDR_EV_MEMBER_ADDED || o->event == DDR_EV_MEMBER_REMOVED || o->event == DDR_EV_REBUILD_START ||
		    o->event == DDR_EV_REBUILD_DONE || o->event == DDR_EV_MEMBER_FAILED)
			ddr_drive_members_changed(a, o->event == DDR_EV_MEMBER_REMOVED ? o->member : DDR_NO_MEMBER,
						  o->event == DDR_EV_REBUILD_DONE ? o->node : DDR_NO_MEMBER);
		ddr_event_array(a, o);
		break;
	case DDR_OUT_ANEW:
		ddr_drive_anew(a, o);
		break;
	case DDR_OUT_GIVE_UP:
		ddr_drive_give_up(a, o);
		break;
	}
}

/*
 * Every node remembers the agreed generation, not only the one that wrote it: any node may be the first to start again. It rarely
 * changes, and a thread writes the file, so no GRANT waits for this.
 */
static void note_generation(struct ddr_array *a)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	if (sb->generation == a->gen_noted && !memcmp(sb->gen_id, a->gen_id_noted, sizeof(sb->gen_id)))
		return;
	a->gen_noted = sb->generation;
	memcpy(a->gen_id_noted, sb->gen_id, sizeof(a->gen_id_noted));
	if (a->d->transport->cluster)
		ddr_drive_check(a, UINT32_MAX);
	ddr_state_seen(a->d->conf.state_dir, a->uuid, sb->generation, sb->gen_id);
}

/* Carries out the outputs that a step has left in a->outs. */
static void carry_out(struct ddr_array *a)
{
	ddr_drive_sized(a);
	note_generation(a);
	for (uint32_t i = 0; i < a->outs.n && !a->broken; i++)
		carry_out_one(a, &a->outs.out[i]);
}

/* ---- inputs -------------------------------------------------------------------- */

void ddr_drive_record(void *ctx, const struct ddr_rec *rec)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in;

	if (rec->type == DDR_K_PONG || (rec->type == DDR_K_STOPPED && ddr_drive_looks_first(a)))
		return;
	in = ddr_drive_input(a, DDR_IN_K_REC);
	in->rec = *rec;
	ddr_drive_step(a, in);
}

static void on_meta(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space)
{
	static const enum ddr_in_type type[] = {
		[DDR_META_LOG] = DDR_IN_LOG_DONE, [DDR_META_MAP] = DDR_IN_MAP_DONE,
		[DDR_META_SB] = DDR_IN_SB_DONE, [DDR_META_FLUSH] = DDR_IN_FLUSH_DONE,
	};
	struct ddr_array *a = ctx;
	struct ddr_input *in;

	if (kind == DDR_META_CHECK) {
		ddr_drive_checked(a, failed);
		return;
	}
	in = ddr_drive_input(a, type[kind]);
	/* a generation that no disk has must not be remembered: the next start would miss it */
	if (kind == DDR_META_SB && (a->gen_members & ~failed)) {
		ddr_state_seen(a->d->conf.state_dir, a->uuid, a->gen_writing, a->gen_id_writing);
		memcpy(a->owners.cluster, a->cluster_writing, sizeof(a->owners.cluster));
	}
	in->io = io;
	in->failed_members = failed;
	in->no_space = no_space;
	in->members = ddr_metaio_returned(a->meta);
	ddr_drive_step(a, in);
}

static void job_input(struct ddr_input *in, const struct ddr_job_result *r)
{
	in->io = r->io;
	in->result = r->result;
	in->failed_members = r->failed;
	in->members = r->hard & r->failed;
	in->flush_members = r->flush & r->failed;
	in->mismatches = r->mismatches;
	in->start = r->bad_start;
	in->count = r->bad_count;
	in->repaired = r->repaired;
	memcpy(in->fixed, r->fixed, sizeof(in->fixed));
}

static uint32_t valid(void *ctx)
{
	const struct ddr_super *sb = ddr_sm_super(((struct ddr_array *)ctx)->sm);
	uint32_t members = 0;

	for (unsigned int m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING)
			members |= 1u << m;
	return members;
}

static void on_job(void *ctx, const struct ddr_job_result *r)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in;

	if (r->scan)	/* before the next one starts */
		ddr_rate_scanned(&a->rate, r->blocks, r->us);
	in = ddr_drive_input(a, DDR_IN_JOB_DONE);
	job_input(in, r);
	ddr_drive_step(a, in);
	if (!r->scan)
		ddr_rate_done(&a->rate, r->blocks, r->us);
}

/* ---- settings ------------------------------------------------------------------- */

/* Passes the tunables and the state of rate.c to the state machine: an array that was closed and loaded again has a new one. */
static void configure_sm(struct ddr_array *a)
{
	ddr_drive_set(a, DDR_SM_IDLE_MS, a->tune.idle_ms);
	ddr_drive_set(a, DDR_SM_RESYNC_PARALLEL, a->tune.resync_parallel);
	ddr_drive_set(a, DDR_SM_RESYNC_PAUSED, !a->tune.resync || a->rate.paused);
	ddr_drive_set(a, DDR_SM_VERIFY_PAUSED, a->rate.scan_paused);
	ddr_drive_set(a, DDR_SM_USED, a->rate.used);
	ddr_drive_set(a, DDR_SM_HOT_SPARE, a->tune.hot_spare);
	ddr_drive_set(a, DDR_SM_MAX_CORRECTED, a->tune.max_corrected);
}

void ddr_drive_tune(struct ddr_array *a)
{
	ddr_drive_configure_kernel(a);
	a->ping_due_ms = 0;
	configure_sm(a);
}

/*
 * This process, or its machine, was stopped. Answers of the members that came in meanwhile are only read after this tick. So members
 * get the lost time in addition; a member that hangs is detected that much later.
 */
static void forgive(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t ms = now_ms - a->tick_ms, waited = ddr_waited_ms() - a->waited_ms;

	ms -= ms < a->rest_ms ? ms : a->rest_ms;
	a->rest_ms = 0;
	a->tick_ms = now_ms;
	a->waited_ms += waited;
	if (ms < DDR_STOOD_STILL_MS)
		return;
	qb_log(LOG_WARNING, "array '%s': ddraidd did not run for %llu ms (it waited for a processor for %llu ms); members get that much more time to answer",
	       a->name, (unsigned long long)ms, (unsigned long long)waited);
	ddr_metaio_delay(a->meta, ms);
	ddr_jobs_delay(a->jobs, ms);
	ddr_stall_delay(&a->stall, ms);
	ddr_drive_grow_delay(a, ms);
	ddr_drive_check(a, UINT32_MAX);
}

static void tick_sm(struct ddr_array *a, uint64_t now_ms)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_TICK);

	ddr_drive_tell_cluster(a);
	in->now_ms = now_ms;
	in->value = (uint64_t)time(NULL);
	ddr_drive_step(a, in);
}

/* An array that rests tells the kernel that the daemon lives a little early, when all wake up, where that is often enough. */
static uint64_t ping_early(const struct ddr_array *a)
{
	return a->tune.daemon_timeout_ms / 4 >= 2 * DDR_REST_MS ? DDR_REST_MS : 0;
}

/* Requests of the operator, of the state machine and of members that have not ended. */
static bool requests_open(const struct ddr_array *a)
{
	const struct ddr_array_cluster *c = &a->cluster;

	if (a->clean_asked || a->clean_late || a->quiet_until_ms || a->replace.late || a->n_withdrawn || a->table || a->table_asked || a->check.wanted || a->check.out || a->stamp.stopped)
		return true;
	if (a->grow.io || a->grow.room_io || a->grow.resize || a->seek.finder || a->seek.ready || a->seek.locked || a->seek.dropped || a->seek.replaced)
		return true;
	if (c->lost || c->leaving || c->foreign || a->back.watched || a->members->n_old)
		return true;
	for (unsigned int i = 0; i < DDR_ARRAY_ANSWERS; i++)
		if (c->answer[i].used && !c->answer[i].external)
			return true;
	return !ddr_metaio_quiet(a->meta) || !ddr_jobs_idle(a->jobs);
}

/* A resync here, now or lately; a verify, or a rebuild, of any node: their pace is looked after. */
static bool job_runs(const struct ddr_array *a)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_REBUILDING)
			return true;
	return ddr_rate_moves(&a->rate) || sb->verify.state == DDR_VERIFY_RUNNING;
}

uint64_t ddr_drive_rests(const struct ddr_array *a, uint64_t now_ms)
{
	uint64_t until = now_ms + ddr_rest_left(now_ms), due;
	const struct ddr_still *still = ddr_drive_still(a);

	if (!a->sm || !a->ready || a->broken || a->removed || a->parting || (still && still->held) || requests_open(a) || job_runs(a))
		return 0;
	due = ddr_sm_due(a->sm);
	until = due < until ? due : until;
	due = a->ping_due_ms + (ping_early(a) ? DDR_REST_MS : 0);
	until = due < until ? due : until;
	if ((a->seek.wanted | ddr_drive_returning(a)) && a->seek.at_ms < until)
		until = a->seek.at_ms;
	if (a->stall.flying && now_ms + DDR_REST_MS / 2 < until)
		until = now_ms + DDR_REST_MS / 2;
	return until > now_ms ? until - now_ms : 0;
}

void ddr_drive_tick(struct ddr_array *a, uint64_t now_ms)
{
	bool rested = a->rests;

	/* for its kernel and its disks it still stands still; forgive() sees how long */
	if (ddr_still_held(ddr_drive_still(a)) && ddr_drive_look_tick(a, now_ms))
		return;
	if (a->chan)
		ddr_kchan_flush(a->chan);
	if (now_ms + (rested ? ping_early(a) : 0) >= a->ping_due_ms && a->chan) {
		struct ddr_rec ping = { .type = DDR_U_PING, .seq = ++a->ping_seq, .member = DDR_NO_MEMBER };

		if (DDR_MSG_HIGHEST > DDR_MSG_VERSION && a->cluster.version > DDR_MSG_VERSION)
			ping.arg[0] = a->cluster.version;	/* only a module that serves it takes that */
		a->ping_due_ms = now_ms + a->tune.daemon_timeout_ms / 4;
		ddr_drive_to_kernel(a, &ping);
		ddr_kchan_flush(a->chan);
	}
	if (!a->sm)
		return;
	forgive(a, now_ms);
	ddr_metaio_tick(a->meta, now_ms);
	if (a->jobs)
		ddr_jobs_tick(a->jobs, now_ms);
	ddr_drive_request_tick(a, now_ms);
	if (!rested || now_ms >= ddr_sm_due(a->sm))
		tick_sm(a, now_ms);
	ddr_drive_table_tick(a);
	ddr_drive_seek_tick(a, now_ms);
	ddr_drive_grow_tick(a, now_ms);
	ddr_drive_check_tick(a, now_ms);
	if (a->ready)	/* before stamps begin: a member with nothing else under way rests, and is looked at less often */
		ddr_stall_tick(&a->stall, now_ms, a->tune.io_timeout_ms);
	ddr_drive_stamp_tick(a, now_ms);
	ddr_drive_cluster_tick(a, now_ms);
	if (!rested || a->d->transport->cluster)	/* other nodes may want to know whether this one uses the device */
		ddr_rate_tick(&a->rate, now_ms);
	ddr_watch_tick(a, now_ms);
}

/* ---- start and end -------------------------------------------------------------- */

static bool has_slot(const struct ddr_super *sb, uint32_t node)
{
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s] == node || sb->slot_node[s] == 0)
			return true;
	return false;
}

static int make_sm(struct ddr_array *a, const struct ddr_load *l, bool adopt)
{
	char name[DDR_NODE_NAME_LEN];
	struct ddr_sm_config cfg = {
		.node = a->d->transport->node(a->d),
		.cluster = a->d->transport->cluster,
		.fencing = strcmp(a->d->conf.fence_command, DDR_FENCE_NONE) != 0,
		.super = &l->assembly.super,
		.present = l->present,
		.several = a->d->transport->nodes(a->d) != 1,
		.adopt = adopt,
		.behind = l->behind,
		.again = a->anew_generation == l->assembly.super.generation,
		.owners = &a->owners,
		.name = name,
		.booted_ms = 0,				/* CLOCK_MONOTONIC begins then */
		.settle_ms = ddr_members_settle_ms(a->members, &a->d->conf),
	};
	size_t size;
	void *mem;

	a->d->transport->known_name(a->d, cfg.node, name, sizeof(name));	/* "" if none is known */
	if (a->d->ident.stored)
		memcpy(cfg.machine, a->d->ident.id.machine, sizeof(cfg.machine));
	if (getrandom(cfg.entropy, sizeof(cfg.entropy), 0) != sizeof(cfg.entropy))
		return -errno;
	size = ddr_sm_size(&cfg);
	mem = size ? malloc(size) : NULL;
	if (!mem)
		return size ? -ENOMEM : -EINVAL;
	a->sm = ddr_sm_init(mem, size, &cfg);
	if (!a->sm) {
		free(mem);
		return -EINVAL;
	}
	ddr_drive_tell_cluster(a);
	return 0;
}

static void load_sm(struct ddr_array *a, const struct ddr_load *l)
{
	const struct ddr_super *sb = &a->super;

	for (uint32_t s = 0; s < sb->slots; s++) {
		if (s != ddr_sm_slot(a->sm) && sb->slot_node[s] == 0)
			continue;
		for (uint32_t i = 0; i < sb->log_blocks; i++) {
			const struct ddr_load_block *b = &l->log[(size_t)s * sb->log_blocks + i];

			ddr_sm_load_log(a->sm, s, i, b->valid ? b->payload : NULL, b->seq, b->node, b->boot_id,
					b->cookie);
			if (b->valid)
				ddr_sm_load_repairs(a->sm, s, i, b->repair);
		}
	}
	for (uint32_t i = 0; i < sb->map_blocks; i++)
		ddr_sm_load_map(a->sm, i, l->map[i].valid ? l->map[i].payload : NULL, l->map[i].seq);
}

static int make_io(struct ddr_array *a)
{
	struct ddr_metaio_config meta = {
		.loop = a->d->loop, .engine = a->d->conf.io_engine, .members = a->members, .still = ddr_drive_still(a), .done = on_meta, .exchanged = ddr_drive_exchanged, .taken = ddr_drive_taken, .unable = ddr_drive_unable, .may_stamp = ddr_drive_may_stamp, .stamped = ddr_drive_stamped, .ctx = a,
		.operations = 2 * (a->super.log_blocks + a->super.map_blocks) + 16, .owner_pages = a->super.owner_pages,
	};
	struct ddr_jobs_config jobs = {
		.loop = a->d->loop, .engine = a->d->conf.io_engine, .members = a->members, .still = ddr_drive_still(a), .super = &a->super,
		.stock = &a->d->job_stock, .done = on_job, .unable = ddr_drive_unable, .valid = valid, .ctx = a,
	};
	int ret = ddr_metaio_open(&a->meta, &meta);

	if (ret == 0)
		ret = ddr_jobs_open(&a->jobs, &jobs);
	if (ret == 0) {
		if (!a->d->outs)
			a->d->outs = calloc(DDR_SM_MAX_OUT, sizeof(*a->d->outs));
		a->outs.out = a->d->outs;
		ret = a->outs.out ? 0 : -ENOMEM;
	}
	return ret;
}

static void attach(struct ddr_array *a, const struct ddr_load *l)
{
	ddr_drive_configure_kernel(a);
	configure_sm(a);
	ddr_drive_set(a, DDR_SM_AWAY_MS, a->d->conf.away_ms);
	tick_sm(a, ddr_now_ms());
	ddr_drive_attached(a, l->table);
}

static void set_rate(void *ctx, enum ddr_sm_key key, uint64_t value)
{
	ddr_drive_set(ctx, key, value);
}

static void start_rate(struct ddr_array *a)
{
	a->rate = (struct ddr_rate){
		.set = set_rate, .ctx = a, .tune = &a->tune, .sm = a->sm, .quiet_until_ms = &a->quiet_until_ms,
		.major = a->bind.dm_major, .minor = a->bind.dm_minor,
	};
}

int ddr_drive_start(struct ddr_array *a, struct ddr_load *l)
{
	const struct ddr_transport_ops *transport = a->d->transport;
	bool adopt = ddr_identity_adopts(a);
	int ret;

	if (!adopt && ddr_identity_check(a, &l->assembly.super, &l->owners))
		return -EPERM;
	/* in a cluster these superblocks may be old: the group assigns a slot, or refuses */
	if (!transport->cluster && !has_slot(&l->assembly.super, transport->node(a->d))) {
		ddr_slots_taken(&l->assembly.super, NULL, ddr_drive_node_name, a, a->error, sizeof(a->error));
		return -ENOSPC;
	}
	a->carry_out = carry_out;
	a->super = l->assembly.super;
	a->owners = l->owners;
	a->members = l->members;
	ddr_members_get(a->members);
	memcpy(a->members->uuid, a->uuid, sizeof(a->members->uuid));
	memset(&a->replace, 0, sizeof(a->replace));
	a->n_withdrawn = 0;
	memset(&a->check, 0, sizeof(a->check));
	memset(&a->stamp, 0, sizeof(a->stamp));
	memset(&a->look, 0, sizeof(a->look));
	if (a->super.owner_pages)
		ddr_still_follow(&a->members->still, &l->still);
	ddr_drive_stall_start(a);
	a->seek.locked = l->locked;
	a->cluster.left_over = l->locked || l->others_locked;
	ddr_drive_return_start(a, l);
	a->tick_ms = ddr_now_ms();
	a->waited_ms = ddr_waited_ms();
	a->ready = a->clean_asked = a->clean_late = a->parting = false;
	a->clean_refusal = NULL;
	a->quiet_until_ms = 0;
	ret = make_io(a);
	if (ret == 0)
		ret = make_sm(a, l, adopt);
	start_rate(a);
	if (ret == 0) {
		if (!transport->cluster)
			load_sm(a, l);
		ret = ddr_kchan_start(a->chan);
	}
	if (ret == 0)
		ret = ddr_drive_speaks(a, &a->d->speaks) ? transport->join(&a->transport, a->d, a->uuid, &ddr_drive_transport_events, a) : -EPROTO;
	if (ret) {
		snprintf(a->error, sizeof(a->error), "this node cannot serve the array: %s", strerror(-ret));
		ddr_drive_stop(a);
		return ret;
	}
	a->gen_noted = 0;		/* what could not be written is tried again */
	note_generation(a);
	qb_log(LOG_INFO, "array '%s': node %u, transport %s, metadata by %s", a->name, transport->node(a->d), transport->name,
	       ddr_metaio_engine(a->meta));
	attach(a, l);
	return 0;
}

bool ddr_drive_part(struct ddr_array *a)
{
	struct ddr_sm_status st;

	if (!a->ready || a->broken)
		return false;
	ddr_sm_get_status(a->sm, &st);
	if (!st.dirty && !st.granted)
		return false;
	a->parting = true;
	return !ddr_drive_clean(a) && a->clean_asked;
}

/* A member that hangs must not keep the others locked: the next daemon that serves the array, perhaps this one, needs them. */
static void end_members(struct ddr_array *a, uint32_t growing)
{
	if (!a->members)
		return;
	ddr_members_keep(a->members, DDR_MEMBERS_GROW, growing);
	ddr_members_end(a->members, &a->d->ended);
	ddr_members_put(a->members);
	a->members = NULL;
}

void ddr_drive_stop(struct ddr_array *a)
{
	uint32_t growing = 0;

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		growing |= a->grow.work[m] ? 1u << m : 0;
	if (a->transport)
		a->transport->ops->leave(a->transport);
	a->transport = NULL;
	ddr_drive_cluster_stop(a);
	ddr_drive_table_stop(a);
	ddr_drive_seek_stop(a);
	ddr_drive_grow_stop(a);
	ddr_jobs_close(a->jobs);
	a->jobs = NULL;
	ddr_metaio_close(a->meta);
	a->meta = NULL;
	free(a->sm);
	a->sm = NULL;
	a->outs.out = NULL;
	end_members(a, growing);
	a->ready = a->parting = false;
	a->broken = NULL;
	a->anew = false;
}

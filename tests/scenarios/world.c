// SPDX-License-Identifier: GPL-2.0-or-later
/* See world.h. Must never: answer by itself what the scenario does not declare as automatic. */
#include <ctype.h>
#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "world.h"

/* ---- outputs ------------------------------------------------------------------- */

FILE *begin(const struct world *w)
{
	FILE *to = w->quiet ? w->nowhere : w->to;

	fputs("    ", to);
	if (w->n > 1)
		fprintf(to, "%u: ", w->me->label);
	return to;
}

/* Is the region marked for a repair only? */
static bool repair_of(const struct ddr_disk_log *blk, uint32_t region)
{
	bool of = false;

	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		of |= le16toh(blk->repair[i].raw) == region + 1;
	return of;
}

static void show_contents(struct world *w, FILE *to, const struct ddr_output *o)
{
	struct ddr_disk_log blk;
	struct ddr_super sb;

	if (o->type == DDR_OUT_LOG_WRITE || o->type == DDR_OUT_SLOT_WRITE) {
		if (o->type == DDR_OUT_LOG_WRITE)
			ddr_sm_log_block(w->me->sm, o->index, &blk);
		else
			ddr_sm_slot_block(w->me->sm, o->index, &blk);
		fputs(" dirty=", to);
		for (uint32_t r = 0, n = 0; r < DDR_LOG_REGIONS; r++)
			if (ddr_log_get(blk.payload, r))
				fprintf(to, "%s%u%s", n++ ? "," : "", r, repair_of(&blk, r) ? "r" : "");
		fprintf(to, " owner=%" PRIu64, __builtin_bswap64(__builtin_bswap64(blk.cookie.raw)));
	} else if (o->type == DDR_OUT_MAP_WRITE) {
		ddr_sm_map_block(w->me->sm, o->index, &blk);
		fputs(" map=", to);
		for (uint32_t r = 0; r < DDR_MAP_REGIONS && r + o->index * DDR_MAP_REGIONS < w->geo.blocks / w->geo.region_blocks; r++) {
			uint8_t nibble = ddr_map_get(blk.payload, r);
			int c = "unc?"[nibble & 3];

			fputc(nibble & DDR_REGION_F_SUSPECT ? toupper(c) : c, to);
			fputs(nibble & DDR_REGION_F_WRITTEN ? "w" : "", to);
		}
	} else if (o->type == DDR_OUT_SB_WRITE) {
		ddr_sm_superblock(w->me->sm, 0, &sb);
		fprintf(to, " generation=%" PRIu64 " seq=%" PRIu64 " states=", sb.generation, sb.seq);
		for (uint32_t m = 0; m < sb.members; m++)
			fputc("?ARFMS"[sb.member[m].state], to);
		if (sb.policy)
			fprintf(to, " policy=%u", sb.policy);
		fprintf(to, " valid=%s%s", ddr_super_check(&sb).code ? "no" : "yes", sb.ro_compat & DDR_RO_COMPAT_CLUSTER ? " cluster" : "");
	}
}

static void send(struct world *w, const struct ddr_output *o)
{
	for (struct node *n = w->node; n < w->node + w->n; n++) {
		struct message *m = &n->msg[n->n_msg];

		if (n != w->me && !(n->sm && (n->view >> w->me->label & 1) && (w->me->view >> n->label & 1)))
			continue;
		if (n->n_msg == MAX_PENDING)
			die("too many messages", "");
		m->sender = w->me->cfg.node;
		m->len = o->msg_len;
		memcpy(m->bytes, o->msg, o->msg_len);
		n->n_msg++;
	}
}

static void remember(struct world *w, const struct ddr_output *o)
{
	struct pending p = { .type = o->type, .io = o->io, .index = o->index, .slot = o->slot, .rec = o->rec,
			     .start = o->start, .count = o->count };

	switch (o->type) {
	case DDR_OUT_MCAST:
		send(w, o);
		return;
	case DDR_OUT_KERNEL:
		if (o->rec.type != DDR_U_MEMBER && o->rec.type != DDR_U_DRAIN && o->rec.type != DDR_U_REAP)
			return;
		if (w->me->n_kernel == MAX_PENDING)
			die("too many records", "");
		w->me->kernel[w->me->n_kernel++] = p;
		return;
	case DDR_OUT_EVENT:
	case DDR_OUT_ANEW:
	case DDR_OUT_GIVE_UP:
	case DDR_OUT_FENCE:
		return;
	case DDR_OUT_SB_WRITE:
		ddr_sm_superblock(w->me->sm, 0, &p.sb);
		p.owners = w->owners;
		ddr_owners_follow(&p.owners, &p.sb);
		if (ddr_super_has_owners(&p.sb))
			ddr_sm_owners(w->me->sm, &p.owners);
		break;
	case DDR_OUT_LOG_WRITE:
		p.slot = ddr_sm_slot(w->me->sm);
		ddr_sm_log_block(w->me->sm, o->index, &p.blk);
		break;
	case DDR_OUT_SLOT_WRITE:
		ddr_sm_slot_block(w->me->sm, o->index, &p.blk);
		break;
	case DDR_OUT_MAP_WRITE:
		ddr_sm_map_block(w->me->sm, o->index, &p.blk);
		break;
	default:
		break;
	}
	if (w->me->n_io == MAX_PENDING)
		die("too much I/O", "");
	w->me->io[w->me->n_io++] = p;
}

static void show(struct world *w, const struct ddr_output *o)
{
	char buf[1024], *text = NULL;
	size_t size;
	FILE *line = open_memstream(&text, &size);

	fputs(rig_output(o, buf, sizeof(buf)), line);
	show_contents(w, line, o);
	fclose(line);
	fprintf(begin(w), "%s\n", text);
	expect_answer(w->n > 1 ? w->me->label : 0, text, w->to);
	free(text);
}

void step(struct world *w, const struct ddr_input *in)
{
	struct ddr_input next = *in;
	struct ddr_outputs outs = { .out = w->out };
	const char *why;

	do {
		why = rig_step(w->me->sm, &next, &outs);
		if (why)
			die("the state machine sleeps too long", why);
		for (uint32_t i = 0; i < outs.n; i++) {
			show(w, &outs.out[i]);
			remember(w, &outs.out[i]);
		}
		why = ddr_sm_check(w->me->sm);
		if (why)
			die("the state machine is inconsistent", why);
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

/* ---- answers ------------------------------------------------------------------- */

static void take(struct pending *p, uint32_t *n, uint32_t i)
{
	memmove(p + i, p + i + 1, (*n - i - 1) * sizeof(*p));
	(*n)--;
}

void deliver(struct world *w, uint32_t sender, bool give)
{
	struct message m;
	struct ddr_input in = { .type = DDR_IN_MSG };

	if (!w->me->n_msg)
		die("no message is on its way", "");
	m = w->me->msg[0];
	memmove(w->me->msg, w->me->msg + 1, --w->me->n_msg * sizeof(m));
	in.node = sender ? sender : m.sender;
	in.msg = m.bytes;
	in.msg_len = m.len;
	if (give)
		step(w, &in);
}

void kernel_answer(struct world *w, uint32_t i, uint64_t closed)
{
	struct ddr_rec was = w->me->kernel[i].rec;
	struct ddr_input in = { .type = DDR_IN_K_REC };

	take(w->me->kernel, &w->me->n_kernel, i);
	in.rec.seq = was.seq;
	in.rec.start = was.start;
	in.rec.count = was.count;
	if (was.type == DDR_U_REAP)
		in.rec.count = closed;
	in.rec.type = was.type == DDR_U_MEMBER ? DDR_K_APPLIED : was.type == DDR_U_DRAIN ? DDR_K_DRAINED : DDR_K_REAPED;
	step(w, &in);
}

/* "auto disk": writes are stored, and reads return what was stored. */
static void disk_io(struct world *w, const struct pending *p)
{
	const struct ddr_disk_log *blk = &w->disk[p->type == DDR_OUT_RELOAD ? MAP : p->slot % MAX_SLOTS];
	struct ddr_log_info info;

	switch (p->type) {
	case DDR_OUT_SB_WRITE:
		w->sb = p->sb;
		w->owners = p->owners;
		return;
	case DDR_OUT_LOG_WRITE:
	case DDR_OUT_SLOT_WRITE:
		w->disk[p->slot % MAX_SLOTS] = p->blk;
		return;
	case DDR_OUT_MAP_WRITE:
		w->disk[MAP] = p->blk;
		return;
	case DDR_OUT_RELOAD:
	case DDR_OUT_SLOT_READ:
		memset(&info, 0, sizeof(info));
		for (unsigned int place = 0; place < 2; place++)	/* not written yet: seq 0 */
			ddr_log_decode(blk, &w->sb, p->type == DDR_OUT_RELOAD ? DDR_MAP_SLOT : (uint16_t)p->slot, 0, place, &info);
		if (p->type == DDR_OUT_SLOT_READ) {
			ddr_sm_load_log(w->me->sm, p->slot, 0, blk->payload, info.seq, info.node, info.boot_id, info.cookie);
			ddr_sm_load_repairs(w->me->sm, p->slot, 0, info.repair);
			return;
		}
		ddr_sm_load_super(w->me->sm, &w->sb);
		ddr_sm_load_owners(w->me->sm, &w->owners);
		ddr_sm_load_map(w->me->sm, 0, blk->payload, info.seq);
		return;
	default:
		return;
	}
}

void io_done(struct world *w, uint32_t i, uint32_t failed, int32_t result, uint64_t mismatches)
{
	static const enum ddr_in_type types[] = {
		[DDR_OUT_LOG_WRITE] = DDR_IN_LOG_DONE, [DDR_OUT_MAP_WRITE] = DDR_IN_MAP_DONE,
		[DDR_OUT_SB_WRITE] = DDR_IN_SB_DONE, [DDR_OUT_FLUSH] = DDR_IN_FLUSH_DONE,
		[DDR_OUT_JOB_RANGE] = DDR_IN_JOB_DONE, [DDR_OUT_RELOAD] = DDR_IN_RELOADED,
		[DDR_OUT_SLOT_READ] = DDR_IN_SLOT_DONE, [DDR_OUT_SLOT_WRITE] = DDR_IN_LOG_DONE,
	};
	struct ddr_input in = { .type = types[w->me->io[i].type], .io = w->me->io[i].io, .failed_members = failed,
				.result = result, .mismatches = mismatches };

	if (w->auto_disk && result == 0)
		disk_io(w, &w->me->io[i]);
	take(w->me->io, &w->me->n_io, i);
	step(w, &in);
}

/* Does the scenario have to give what this read returns? (Not with "auto disk".) */
static bool reads(const struct pending *p)
{
	return p->type == DDR_OUT_RELOAD || p->type == DDR_OUT_SLOT_READ;
}

static bool answer_one(struct world *w)
{
	if (!w->me->sm || w->me->stopped)
		return false;
	if (w->auto_msg && w->me->n_msg)
		deliver(w, 0, true);
	else if (w->auto_kernel && w->me->n_kernel)
		kernel_answer(w, 0, 0);
	else if (w->me->n_io && (reads(&w->me->io[0]) ? w->auto_disk : w->auto_io))
		io_done(w, 0, 0, 0, 0);
	else
		return false;
	return true;
}

void answer_all(struct world *w)
{
	bool again = true;

	for (int limit = 0; again; limit++) {
		if (limit > 100000)
			die("the conversation does not end", "");
		again = false;
		for (uint32_t i = 0; i < w->n && !again; i++) {
			w->me = &w->node[i];
			again = answer_one(w);
		}
	}
}

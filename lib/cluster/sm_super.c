// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The superblocks of a change: their content, when they are written, and what the last writer left behind (the change itself is in sm_member.c).
 *
 * A member whose superblock is two generations behind at a start counts as stale (lib/disk/assemble.c). So the node that raises the
 * generation must know that every member which gets the new one has the previous one. It knows that of members that it has written itself
 * since it became the writer. Others may have missed a change that was interrupted, on this node by a power failure, or on the
 * last writer. They get the newest generation first, unchanged (the level), and then the change is written.
 *
 * Spares get a change last, when all other members have it; so does a member that leaves the array by this change, replaced by its copy. The next
 * writer, or the next start, may not see that disk at all: what it alone held would be passed over, and its sequence or generation used again
 * for another change. A spare needs no level: it holds nothing that could be old.
 *
 * Must never: give a generation the name of another one; lose a change that was started; raise the generation while a remaining member may be behind;
 * give a spare, or a member that leaves, what no other member has.
 */
#include "lib/math/uuid.h"
#include "sm_int.h"

/* The random name of a generation: from this start's entropy, and from what distinguishes this change from the last one. */
static void generation_name(const struct ddr_sm *sm, const struct ddr_super *sb, uint8_t id[16])
{
	uint64_t h[2], e[2];

	memcpy(e, sm->own.entropy, sizeof(e));
	for (uint32_t i = 0; i < 2; i++) {
		h[i] = ddr_sm_mix(e[i] ^ ddr_sm_mix(sb->generation + i));
		h[i] = ddr_sm_mix(h[i] ^ ddr_sm_mix(sb->seq) ^ sm->node);
		for (uint32_t b = 0; b < 16; b++)
			h[i] = ddr_sm_mix(h[i] ^ sb->array_uuid[b]);
	}
	memcpy(id, h, sizeof(h));
}

/* Does the current change get a new generation? After an unfinished change the next one always does. */
static bool raises(const struct ddr_sm *sm)
{
	const struct ddr_sm_trans *t = &sm->own.t;

	if (t->begun)
		return !t->no_space;
	/* that the array has left its cluster must be recognised by a disk that was absent: the cluster's superblock on it is an old one */
	return t->faulty || t->missing || t->mark == DDR_MARK_ALONE || ddr_sm_changes_members(&t->set) || sm->own.behind >= sm->shared.sb.generation;
}

/* Content of the next superblocks: the agreed state and the changes; the predecessor is the last attempt, if that failed. */
static void next_build(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;
	struct ddr_super *sb = &sm->own.next;
	const struct ddr_super last = sm->own.next;

	*sb = sm->shared.sb;
	if (t->writing) {
		sb->seq = last.seq;
		sb->generation = last.generation;
		memcpy(sb->gen_prev, last.gen_prev, sizeof(sb->gen_prev));
		memcpy(sb->gen_id, last.gen_id, sizeof(sb->gen_id));
	}
	sb->seq = ddr_super_seq_behind(sb->seq);
	sb->verify = sm->own.vf.writing = sm->shared.sb.verify;
	if (raises(sm)) {
		/* a disk with the generations that this array had before must not count as newer when it is back */
		sb->generation = (sm->own.behind > sb->generation ? sm->own.behind : sb->generation) + 1;
		memcpy(sb->gen_prev, sb->gen_id, sizeof(sb->gen_prev));
		generation_name(sm, sb, sb->gen_id);
	}
	ddr_shared_apply(&sm->shared, sb, &t->set, t->faulty, t->missing, t->slots, sm->shared.change.slot_node);
	ddr_sm_mark_apply(sb, t->mark);
	sm->own.next_owners = sm->shared.owners;
	if (ddr_uuid_is_zero(sm->own.next_owners.cluster))	/* the id was agreed after the last START; it is the same on all nodes of the group */
		memcpy(sm->own.next_owners.cluster, sm->own.cluster, sizeof(sm->own.cluster));
}

/*
 * Members that have left by a change that the last writer started, and that stay as long as it is not agreed. The disks may list them as missing, so
 * the next start does not read them: they get the level last, and exactly as the others have it.
 */
static uint32_t left_by_started(const struct ddr_sm *sm)
{
	uint32_t left = 0;

	for (uint32_t m = 0; m < sm->own.next.members && sm->own.t.writing; m++)
		if (sm->own.next.member[m].state == DDR_MEMBER_MISSING)
			left |= 1u << m;
	return left;
}

/* The newest generation unchanged, including a change that was started. */
static void level_build(struct ddr_sm *sm, uint32_t lack)
{
	struct ddr_sm_trans *t = &sm->own.t;
	uint32_t first = lack & ~left_by_started(sm);

	t->targets = first ? first : lack;
	if (!t->writing) {
		sm->own.next = sm->shared.sb;
		sm->own.next_owners = sm->shared.owners;
	}
	if (first)
		sm->own.next.seq = ddr_super_seq_behind(sm->own.next.seq);
}

/* The current change replaces the member by its copy: it leaves the array then, and its generation does not matter. */
static uint32_t replaced_by_this(const struct ddr_sm *sm)
{
	return sm->own.t.set.op == DDR_MEMBER_OP_WHOLE && ddr_sm_replacing(sm) == sm->own.t.set.member ? 1u << ddr_sm_replaced(sm) : 0;
}

/*
 * Members that may be two generations behind if the power fails during the current change. A member whose rebuild begins may have any generation;
 * once it has a cursor it may not, although a cursor is no new generation.
 */
static uint32_t behind(const struct ddr_sm *sm)
{
	const struct ddr_sm_trans *t = &sm->own.t;

	if (t->no_space || t->last || !(raises(sm) || t->set.op == DDR_MEMBER_OP_CURSOR))
		return 0;
	return t->targets & ~t->named & ~replaced_by_this(sm);
}

/* The superblocks say what was written beside the change. */
static void recorded(struct ddr_sm *sm)
{
	sm->own.vf.recorded = sm->own.vf.writing;
	sm->own.cluster_due &= ddr_uuid_is_zero(sm->own.next_owners.cluster);
}

/* Those that the change goes to first, or last. False: nobody is last, and the change is written. */
static bool next_targets(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;
	uint32_t first = ddr_sm_written(sm) & ~replaced_by_this(sm);

	t->targets = ddr_sm_alive(sm) & ~ddr_sm_going(sm) & sm->own.present & (t->last ? ~first : first);
	if (t->targets || !t->last)
		return true;
	t->last = false;
	t->written = true;
	recorded(sm);
	sm->again = true;
	return false;
}

void ddr_sm_supers_write(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;
	struct ddr_output *out;
	uint32_t lack;

	if (!next_targets(sm))
		return;
	lack = behind(sm);
	t->level = lack != 0;
	if (t->level) {
		level_build(sm, lack);
	} else if (!t->last) {
		next_build(sm);
		t->begun = true;
	}
	t->writing = true;
	t->no_space = false;
	t->io = ddr_sm_io(sm, 0);
	out = ddr_sm_out(sm, DDR_OUT_SB_WRITE);
	out->io = t->io;
	out->members = t->targets;
	sm->own.sb_writes++;
}

/*
 * Members that a later change leaves out, and that did not get this one: they had no space, and are not waited for any more. Their superblocks contradict
 * this change, and the others still list them as in sync. So it does not count by itself: the next change, which leaves them out, contains it (rule 3).
 */
static uint32_t passed_over(const struct ddr_sm *sm)
{
	const struct ddr_sm_trans *t = &sm->own.t;

	return ddr_sm_going(sm) & ddr_sm_written(sm) & ~(t->faulty | t->missing | t->named) & ~replaced_by_this(sm);
}

void ddr_sm_sb_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_trans *t = &sm->own.t;
	uint32_t failed;

	if (!t->io || in->io != t->io) {
		ddr_sm_bug(sm, "a superblock write ended that was never started");
		return;
	}
	t->io = 0;
	failed = in->failed_members & t->targets & ~replaced_by_this(sm);
	t->blocked = failed & ~(in->no_space | in->members);	/* what was taken back is decided anew, with quorum */
	ddr_sm_count_writes(sm, t->blocked);
	ddr_sm_space_none(sm, DDR_SPACE_SUPER, failed & in->no_space);
	if (!failed)
		ddr_sm_space_done(sm, DDR_SPACE_SUPER);
	t->named = (t->level || t->last ? t->named : 0) | (t->targets & ~in->failed_members);
	t->no_space = (failed & in->no_space) && !t->overtaken && !t->level;
	t->written = t->last && !failed && !t->overtaken;
	t->last = !t->last && !failed && !t->overtaken && !t->level &&
		  !passed_over(sm);
	t->overtaken = false;
	t->level = t->level && failed;
	if (t->written)
		recorded(sm);
	if (t->blocked)
		ddr_sm_report(sm, t->blocked, true);
}

/* Do the disks list a replacement that did not take effect? */
static bool whole_on(const struct ddr_sm *sm, const struct ddr_super *disk)
{
	uint32_t new = ddr_sm_replacing(sm), old = ddr_sm_replaced(sm);

	return new != DDR_NO_MEMBER && disk->member[new].state == DDR_MEMBER_IN_SYNC && disk->member[new].role == sm->shared.sb.member[new].role &&
	       disk->member[old].state == DDR_MEMBER_MISSING;	/* and did not fail */
}

/*
 * The last writer may have started a change whose end no node saw: ours follows it, and contains at least what that contained. A
 * member that it failed is reported as failed, since the superblocks that record that would otherwise contradict the rest. That does
 * not apply to a member that was replaced by its copy: that one is not faulty.
 */
void ddr_sm_member_takeover(struct ddr_sm *sm, const struct ddr_super *disk)
{
	struct ddr_sm_trans *t = &sm->own.t;
	uint32_t out = 0, stays = 0;

	sm->own.vf.recorded = disk->verify;
	t->named = 0;
	t->no_space = t->level = t->last = false;
	if (disk->seq <= sm->shared.sb.seq)
		return;
	sm->own.next = *disk;
	ddr_owners_take(&sm->own.next_owners, sm->own.c.disk_owner, sm->own.c.disk_cluster, disk->slots);
	t->writing = t->begun = true;
	if (whole_on(sm, disk))
		stays = 1u << ddr_sm_replaced(sm);
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (((ddr_sm_alive(sm) & ~stays) >> m & 1) && (disk->member[m].state == DDR_MEMBER_FAULTY || disk->member[m].state == DDR_MEMBER_MISSING))
			out |= 1u << m;
	t->blocked = out & ~ddr_sm_going(sm);
	if (t->blocked)
		ddr_sm_report(sm, t->blocked, true);
}

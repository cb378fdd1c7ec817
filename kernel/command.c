// SPDX-License-Identifier: GPL-2.0-only
/*
 * The commands of the daemon: each record is checked field by field, then carried out.
 *
 * Must never: act on a record with an unchecked field; change anything if the record is refused;
 * wait for I/O.
 *
 * All of it runs under a->ctl_mutex, for the descriptor that is bound at that moment.
 */
#include <linux/nospec.h>

#include "channel.h"
#include "engine.h"
#include "gate.h"
#include "heard.h"
#include "member.h"
#include "range.h"
#include "region.h"

#define DDR_MAX_AHEAD		1024u

/* Which fields a command has; all others must be 0 (member: or DDR_NO_MEMBER). */
enum {
	DDR_HAS_SEQ	= 1 << 0,	/* must not be 0 */
	DDR_MAY_SEQ	= 1 << 1,
	DDR_HAS_START	= 1 << 2,
	DDR_HAS_COUNT	= 1 << 3,
	DDR_HAS_STATUS	= 1 << 4,
	DDR_HAS_MEMBER	= 1 << 5,
	DDR_HAS_ARG0	= 1 << 6,
	DDR_HAS_ARG1	= 1 << 7,
	DDR_HAS_ARG2	= 1 << 8,
	DDR_HAS_RANGE	= DDR_HAS_START | DDR_HAS_COUNT,
#ifdef DDRAID_NEXT_VERSION		/* for tests: a module that serves the next version takes what others refuse */
	DDR_PING_SAYS	= DDR_HAS_ARG0,
#else
	DDR_PING_SAYS	= 0,
#endif
};

struct ddr_command {
	int (*run)(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec);
	u32 fields;		/* DDR_HAS_* */
	u32 flags;		/* DDR_F_* that it may carry */
};

static int ddr_cmd_member(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	u32 m = rec->member;

	if (m >= a->geo.roles && m != DDR_SHADOW)
		return -ERANGE;
	if (rec->arg[0] > DDR_KM_LEAVING)
		return -EINVAL;
	if (rec->start > (rec->arg[0] == DDR_KM_REBUILDING ? a->blocks : 0))
		return -ERANGE;
	if ((rec->arg[0] == DDR_KM_IN_SYNC || rec->arg[0] == DDR_KM_REBUILDING) &&
	    !(READ_ONCE(a->present) & BIT(m)))
		return -ENODEV;
	if (ddr_io_member_busy(a, m))
		return -EBUSY;
	ddr_array_set_member(a, m, rec->arg[0], rec->start);
	if (rec->arg[0] == DDR_KM_OUT)
		ddr_error_out(a, m);
	ddr_io_member_changed(a, rec->seq, m);
	return 0;
}

static int ddr_cmd_enable(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (!ddr_region_declared(a))
		return -EBUSY;
	WRITE_ONCE(s->enabled, true);
	ddr_range_release_orphans(a);
	ddr_array_enable(a, s->tables, rec->flags & DDR_F_READS);
	return 0;
}

static int ddr_cmd_grant(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	return ddr_region_grant(a, rec->seq, rec->start, rec->count);
}

static int ddr_cmd_refuse(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	/* only statuses without a special meaning for dm or the block layer */
	if (rec->status != -EIO && rec->status != -ENOSPC && rec->status != -ETIMEDOUT)
		return -EINVAL;
	return ddr_region_refuse(a, rec->seq, rec->start, rec->count, rec->status);
}

static int ddr_cmd_reap(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (!ddr_region_declared(a))
		return -EBUSY;
	return ddr_region_reap(a, rec->seq, rec->count);
}

static int ddr_cmd_drain(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (!ddr_region_declared(a))
		return -EBUSY;
	return ddr_range_drain(a, rec->seq, rec->start, rec->count);
}

static int ddr_cmd_release(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	return ddr_range_release(a, rec->seq);
}

static int ddr_cmd_resolve(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (rec->arg[0] < DDR_RES_RETRY || rec->arg[0] > DDR_RES_PASS)
		return -EINVAL;
	return ddr_error_resolve(a, rec->seq, rec->arg[0]);
}

static int ddr_cmd_bits(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (rec->arg[0] > U32_MAX)
		return -EINVAL;
	return ddr_region_set_bits(a, rec->start, rec->count, rec->arg[0]);
}

static int ddr_cmd_freeze(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	set_bit(DDR_A_FROZEN_WRITES, &a->flags);
	assign_bit(DDR_A_FROZEN_READS, &a->flags, rec->flags & DDR_F_READS);
	ddr_array_kick(a);
	return 0;
}

static int ddr_cmd_thaw(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	clear_bit(DDR_A_FROZEN_WRITES, &a->flags);
	clear_bit(DDR_A_FROZEN_READS, &a->flags);
	ddr_array_kick(a);
	return 0;
}

static int ddr_cmd_kill(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	ddr_array_kill(a);
	return 0;
}

static int ddr_cmd_status(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	if (rec->arg[0] > DDR_KA_FROZEN)
		return -EINVAL;
	if (rec->arg[1] > a->regions)
		return -ERANGE;
	spin_lock_irq(&a->lock);
	a->action = rec->arg[0];
	a->done = rec->start;
	a->todo = rec->count;
	a->synced = rec->arg[1];
	a->mismatches = rec->arg[2];
	spin_unlock_irq(&a->lock);
	return 0;
}

static int ddr_cmd_ping(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	s->pong_seq = rec->seq;
	WRITE_ONCE(s->pong_due, true);
	ddr_channel_wake(a);
	return 0;
}

static int ddr_cmd_config(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec)
{
	u64 value = rec->arg[1];

	switch (rec->arg[0]) {
	case DDR_KC_TIMEOUT_MS:
		if (value < DDR_MIN_TIMEOUT_MS || value > DDR_MAX_TIMEOUT_MS)
			return -ERANGE;
		ddr_array_set_timeout(a, value, s->enabled);
		return 0;
	case DDR_KC_AHEAD:
		if (value > DDR_MAX_AHEAD)
			return -ERANGE;
		ddr_region_set_ahead(a, value);
		return 0;
	default:
		return -EINVAL;
	}
}

static const struct ddr_command ddr_commands[] = {
#define DDR_CMD(type, fn, has, may) \
	[(type) - DDR_U_MEMBER] = { .run = fn, .fields = has, .flags = may }
	DDR_CMD(DDR_U_MEMBER, ddr_cmd_member,
		DDR_HAS_SEQ | DDR_HAS_START | DDR_HAS_MEMBER | DDR_HAS_ARG0, 0),
	DDR_CMD(DDR_U_ENABLE, ddr_cmd_enable, 0, DDR_F_READS),
	DDR_CMD(DDR_U_GRANT, ddr_cmd_grant, DDR_MAY_SEQ | DDR_HAS_RANGE, 0),
	DDR_CMD(DDR_U_REFUSE, ddr_cmd_refuse, DDR_MAY_SEQ | DDR_HAS_RANGE | DDR_HAS_STATUS, 0),
	DDR_CMD(DDR_U_REAP, ddr_cmd_reap, DDR_HAS_SEQ | DDR_HAS_COUNT, 0),
	DDR_CMD(DDR_U_DRAIN, ddr_cmd_drain, DDR_HAS_SEQ | DDR_HAS_RANGE, 0),
	DDR_CMD(DDR_U_RELEASE, ddr_cmd_release, DDR_HAS_SEQ, 0),
	DDR_CMD(DDR_U_RESOLVE, ddr_cmd_resolve, DDR_HAS_SEQ | DDR_HAS_ARG0, 0),
	DDR_CMD(DDR_U_BITS, ddr_cmd_bits, DDR_HAS_RANGE | DDR_HAS_ARG0, 0),
	DDR_CMD(DDR_U_FREEZE, ddr_cmd_freeze, 0, DDR_F_READS),
	DDR_CMD(DDR_U_THAW, ddr_cmd_thaw, 0, 0),
	DDR_CMD(DDR_U_KILL, ddr_cmd_kill, 0, 0),
	DDR_CMD(DDR_U_STATUS, ddr_cmd_status,
		DDR_HAS_RANGE | DDR_HAS_ARG0 | DDR_HAS_ARG1 | DDR_HAS_ARG2, 0),
	DDR_CMD(DDR_U_PING, ddr_cmd_ping, DDR_HAS_SEQ | DDR_PING_SAYS, 0),
	DDR_CMD(DDR_U_CONFIG, ddr_cmd_config, DDR_HAS_ARG0 | DDR_HAS_ARG1, 0),
#undef DDR_CMD
};

static int ddr_command_check(const struct ddr_command *c, const struct ddr_rec *rec)
{
	u32 has = c->fields;

	if ((rec->flags & ~c->flags) ||
	    (!(has & (DDR_HAS_SEQ | DDR_MAY_SEQ)) && rec->seq) ||
	    ((has & DDR_HAS_SEQ) && !rec->seq) ||
	    (!(has & DDR_HAS_START) && rec->start) ||
	    (!(has & DDR_HAS_COUNT) && rec->count) ||
	    (!(has & DDR_HAS_STATUS) && rec->status) ||
	    (!(has & DDR_HAS_MEMBER) && rec->member && rec->member != DDR_NO_MEMBER) ||
	    (!(has & DDR_HAS_ARG0) && rec->arg[0]) ||
	    (!(has & DDR_HAS_ARG1) && rec->arg[1]) ||
	    (!(has & DDR_HAS_ARG2) && rec->arg[2]))
		return -EINVAL;
	return 0;
}

int ddr_command_run(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec,
		    s64 *budget)
{
	u64 i = (u64)rec->type - DDR_U_MEMBER;
	int r;

	lockdep_assert_held(&a->ctl_mutex);
	if (i >= ARRAY_SIZE(ddr_commands))
		return -EINVAL;
	i = array_index_nospec(i, ARRAY_SIZE(ddr_commands));
	r = ddr_command_check(&ddr_commands[i], rec);
	if (r)
		return r;
	*budget -= rec->type == DDR_U_REAP ? a->regions : min(rec->count, a->regions);
	return ddr_commands[i].run(a, s, rec);
}

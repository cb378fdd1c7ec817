// SPDX-License-Identifier: GPL-2.0-only
/*
 * Errors of members: their classes, the records that report them to the daemon, the bios that
 * wait for its answer; and, without a daemon (nosync), the decision itself.
 *
 * There is at most one open error for each member, class and kind of operation, since the daemon
 * treats a failed flush differently from a failed read. The first operation that fails opens it
 * and sends DDR_K_ERROR; all operations that fail in the same way until DDR_U_RESOLVE join it.
 * So nothing is allocated, and a thousand failed writes are one record. The daemon may answer
 * before a bio has started to wait: such a bio uses the last answer.
 *
 * A write that waits here keeps its region and its range: whatever the answer, it is completed
 * or reported, never forgotten. A waiting bio holds no memory that other reads and writes need
 * to complete: while the daemon is away reads continue. So the data of a write is copied again
 * after the answer, and a flush, which has to remember the members that completed it, has memory
 * of its own. A read keeps nothing.
 *
 * Must never: fail a member for an error that is not its fault, end a bio while a member of the
 * array lacks its data, or wait for the daemon in a generation of member states.
 */
#include <linux/slab.h>

#include "gate.h"
#include "io.h"
#include "member.h"
#include "trace.h"

#define DDR_NR_CLASSES	(DDR_EC_ABSENT + 1)
#define DDR_NR_OPS	(DDR_OP_ZEROES + 1)
#define DDR_NR_ERRORS	(DDR_PLACES * DDR_NR_CLASSES * DDR_NR_OPS)

struct ddr_error {
	struct ddr_krec		krec;
	bool			open;		/* DDR_U_RESOLVE is expected */
	u32			answer;		/* enum ddr_resolve, of the last closed one */
	struct list_head	waiting;	/* struct ddr_wait of struct ddr_io */
};

struct ddr_errors {
	spinlock_t		lock;		/* protects all of it; irq-safe */
	u64			seq;		/* of the last record */
	/* members with an open error of a flush; read without the lock */
	u32			flush_open;
	/*
	 * members that failed a flush that was handed back to dm since, for flushes that start
	 * now; also read without the lock
	 */
	u32			flush_lost;
	/* struct ddr_wait of struct ddr_io, each with a record of its own */
	struct list_head	mismatches;
	struct ddr_error	error[DDR_NR_ERRORS];
};

static const char *const ddr_class_names[DDR_NR_CLASSES] = {
	[DDR_EC_IO] = "I/O error",
	[DDR_EC_MEDIUM] = "bad sector",
	[DDR_EC_FENCED] = "reservation conflict",
	[DDR_EC_NOSPC] = "no space",
	[DDR_EC_TIMEOUT] = "timeout",
	[DDR_EC_INVAL] = "operation refused",
	[DDR_EC_ABSENT] = "not in the table",
};

static const char *const ddr_op_names[] = {
	[DDR_OP_READ] = "read",
	[DDR_OP_WRITE] = "write",
	[DDR_OP_FLUSH] = "flush",
	[DDR_OP_ZEROES] = "write-zeroes",
};

/* ---- classes ------------------------------------------------------------------------ */

enum ddr_verdict ddr_error_judge(struct ddr_io *io, u32 role, u32 *class)
{
	switch (ddr_io_status(io, role)) {
	case BLK_STS_AGAIN:
	case BLK_STS_RESOURCE:
	case BLK_STS_DEV_RESOURCE:
		if (io->tries < DDR_MAX_TRIES)
			return DDR_V_AGAIN;
		*class = DDR_EC_TIMEOUT;
		break;
	case BLK_STS_NOTSUPP:
	case BLK_STS_INVAL:
		if (io->op == DDR_OP_ZEROES && !(io->buf->zeroed & BIT(role)))
			return DDR_V_ZERO;
		*class = DDR_EC_INVAL;
		break;
	case BLK_STS_TARGET:
		if (io->op == DDR_OP_ZEROES && !(io->buf->zeroed & BIT(role)))
			return DDR_V_ZERO;
		*class = DDR_EC_IO;
		break;
	case BLK_STS_MEDIUM:
	case BLK_STS_PROTECTION:
		/* a disk that cannot even write a sector has no spare sectors left */
		*class = io->op == DDR_OP_READ ? DDR_EC_MEDIUM : DDR_EC_IO;
		break;
	case BLK_STS_RESV_CONFLICT:
		*class = DDR_EC_FENCED;
		break;
	case BLK_STS_NOSPC:
		*class = DDR_EC_NOSPC;
		break;
	case BLK_STS_TIMEOUT:
		*class = DDR_EC_TIMEOUT;
		break;
	default:
		*class = DDR_EC_IO;
	}
	return DDR_V_FAILED;
}

blk_status_t ddr_error_status(u32 class)
{
	switch (class) {
	case DDR_EC_MEDIUM:
		return BLK_STS_MEDIUM;
	case DDR_EC_NOSPC:
		return BLK_STS_NOSPC;
	default:
		return BLK_STS_IOERR;
	}
}

/* ---- records ------------------------------------------------------------------------ */

static struct ddr_error *ddr_error_of(struct ddr_errors *es, const struct ddr_io *io, u32 member,
				      u32 class)
{
	return &es->error[(member * DDR_NR_CLASSES + class) * DDR_NR_OPS + io->op];
}

/* Under the lock: the member's open error of a flush, or NULL. */
static struct ddr_error *ddr_error_of_flush(struct ddr_errors *es, u32 member)
{
	struct ddr_error *e;
	u32 class;

	lockdep_assert_held(&es->lock);
	for (class = 0; class < DDR_NR_CLASSES; class++) {
		e = &es->error[(member * DDR_NR_CLASSES + class) * DDR_NR_OPS + DDR_OP_FLUSH];
		if (e->open)
			return e;
	}
	return NULL;
}

/* Under the lock, after an error of the member was closed. */
static void ddr_error_closed(struct ddr_errors *es, u32 member)
{
	lockdep_assert_held(&es->lock);
	if (!ddr_error_of_flush(es, member))
		WRITE_ONCE(es->flush_open, es->flush_open & ~BIT(member));
}

/* Under the lock. */
static void ddr_error_open(struct ddr_errors *es, struct ddr_io *io, u32 member, u32 class)
{
	struct ddr_array *a = io->t->array;
	struct ddr_error *e = ddr_error_of(es, io, member, class);

	lockdep_assert_held(&es->lock);
	if (e->open)
		return;
	ddr_channel_unqueue(a, &e->krec);
	e->open = true;
	if (io->op == DDR_OP_FLUSH)
		WRITE_ONCE(es->flush_open, es->flush_open | BIT(member));
	e->krec.rec = (struct ddr_rec) {
		.type = DDR_K_ERROR,
		.seq = ++es->seq,
		.start = io->op == DDR_OP_FLUSH ? 0 : io->block,
		.count = io->op == DDR_OP_FLUSH ? a->blocks : io->blocks,
		.status = class,
		.member = member,
		.arg[0] = io->op,
	};
	ddr_channel_queue(a, &e->krec);
}

void ddr_error_report(struct ddr_io *io, u32 member, u32 class)
{
	struct ddr_array *a = io->t->array;
	struct ddr_errors *es = a->engine->errors;
	struct dm_dev *dev = io->t->dev[member].dm;
	unsigned long irq;

	trace_ddraid_member_error(a, member, io->op, class, io->block, io->blocks);
	if (__ratelimit(&a->errors_said))
		DMERR("%s: member %u (%s): %s in %s, blocks %llu+%u", a->label, member,
		      dev ? dev->name : "-", ddr_class_names[class], ddr_op_names[io->op],
		      io->block, io->blocks);
	if (io->t->nosync)
		return;
	spin_lock_irqsave(&es->lock, irq);
	ddr_error_open(es, io, member, class);
	spin_unlock_irqrestore(&es->lock, irq);
}

void ddr_error_of_flush_op(struct ddr_io *io, u32 role)
{
	u32 class;

	if (ddr_error_judge(io, role, &class) == DDR_V_FAILED)
		ddr_error_report(io, ddr_io_member(io, role), class);
}

/*
 * Under the lock. A flush that a noflush suspend hands back comes again as a new one, which does
 * not know the members that failed it. So the array remembers them: no flush of these members
 * succeeds until they are OUT, because the repeated flush cannot be recognised.
 */
static void ddr_error_ends(struct ddr_errors *es, struct ddr_io *io, blk_status_t status)
{
	unsigned long lost = 0;
	unsigned int role;

	lockdep_assert_held(&es->lock);
	if (io->op == DDR_OP_FLUSH && io->buf && status == BLK_STS_DM_REQUEUE)
		lost = io->buf->lost;
	for_each_set_bit(role, &lost, DDR_PLACES)
		WRITE_ONCE(es->flush_lost, es->flush_lost | BIT(ddr_io_member(io, role)));
}

u32 ddr_error_flush_lost(struct ddr_array *a)
{
	return READ_ONCE(a->engine->errors->flush_lost);
}

void ddr_error_out(struct ddr_array *a, u32 member)
{
	struct ddr_errors *es = a->engine->errors;

	spin_lock_irq(&es->lock);
	WRITE_ONCE(es->flush_lost, es->flush_lost & ~BIT(member));
	spin_unlock_irq(&es->lock);
}

/*
 * Under es->lock, which it drops: waits for the answer to @e, or continues with @action if none
 * is expected.
 */
static void ddr_error_park_unlock(struct ddr_io *io, struct ddr_error *e, u32 action,
				  unsigned long irq)
	__releases(&io->t->array->engine->errors->lock)
{
	struct ddr_array *a = io->t->array;
	struct ddr_errors *es = a->engine->errors;
	bool waits = e && e->open, ended;

	lockdep_assert_held(&es->lock);
	ended = waits && !ddr_wait_begin(a, &io->wait, DDR_WAIT_ANSWER, &e->waiting);
	if (ended)
		ddr_error_ends(es, io, io->wait.status);
	else if (!waits)
		io->action = action;
	spin_unlock_irqrestore(&es->lock, irq);
	if (ended)
		ddr_io_finish(io, io->wait.status);
	else if (!waits)
		ddr_io_defer(io, DDR_PH_ASKED);
}

void ddr_error_park(struct ddr_io *io, u32 member, u32 class)
{
	struct ddr_array *a = io->t->array;
	struct ddr_errors *es = a->engine->errors;
	struct ddr_error *e = ddr_error_of(es, io, member, class);
	unsigned long irq;

	ddr_io_enter(io, DDR_PH_ASKED);
	if (io->op != DDR_OP_FLUSH)
		ddr_io_drop_buf(io);
	trace_ddraid_park(a, member, io->op, io->block, io->blocks);
	spin_lock_irqsave(&es->lock, irq);
	ddr_error_park_unlock(io, e, e->answer, irq);
}

u32 ddr_error_flush_open(struct ddr_array *a)
{
	return READ_ONCE(a->engine->errors->flush_open);
}

void ddr_error_park_flush(struct ddr_io *io, u32 member)
{
	struct ddr_array *a = io->t->array;
	struct ddr_errors *es = a->engine->errors;
	unsigned long irq;

	ddr_io_enter(io, DDR_PH_ASKED);
	trace_ddraid_park(a, member, io->op, io->block, io->blocks);
	spin_lock_irqsave(&es->lock, irq);
	/* answered since it was checked: the member states have the answer */
	ddr_error_park_unlock(io, ddr_error_of_flush(es, member), DDR_RES_RETRY, irq);
}

bool ddr_error_park_absent(struct ddr_io *io, unsigned long absent)
{
	unsigned int member;

	if (likely(!absent))
		return false;
	ddr_gen_exit(io);
	for_each_set_bit(member, &absent, DDR_PLACES)
		ddr_error_report(io, member, DDR_EC_ABSENT);
	ddr_error_park(io, __ffs(absent), DDR_EC_ABSENT);
	return true;
}

void ddr_error_park_mismatch(struct ddr_io *io)
{
	struct ddr_array *a = io->t->array;
	struct ddr_errors *es = a->engine->errors;
	unsigned long irq;
	bool waits;

	ddr_io_enter(io, DDR_PH_ASKED);
	INIT_LIST_HEAD(&io->mismatch.link);
	trace_ddraid_park(a, DDR_NO_MEMBER, io->op, io->block, io->blocks);
	spin_lock_irqsave(&es->lock, irq);
	waits = ddr_wait_begin(a, &io->wait, DDR_WAIT_ANSWER, &es->mismatches);
	if (waits) {
		io->mismatch.rec = (struct ddr_rec) {
			.type = DDR_K_MISMATCH,
			.seq = ++es->seq,
			.start = io->block,
			.count = io->blocks,
			.member = DDR_NO_MEMBER,
			.arg = { io->looks },
		};
		io->looks += io->looks < U8_MAX;
		ddr_channel_queue(a, &io->mismatch);
	}
	spin_unlock_irqrestore(&es->lock, irq);
	if (!waits)
		ddr_io_finish(io, io->wait.status);
}

void ddr_error_redeclare(struct ddr_array *a)
{
	struct ddr_errors *es = a->engine->errors;
	struct ddr_error *e = es->error, *end = e + DDR_NR_ERRORS;
	struct ddr_io *io;

	spin_lock_irq(&es->lock);
	for (; e < end; e++) {
		if (!e->open)
			continue;
		ddr_channel_unqueue(a, &e->krec);
		e->krec.rec.flags |= DDR_F_RESENT;
		ddr_channel_queue(a, &e->krec);
	}
	list_for_each_entry(io, &es->mismatches, wait.list) {
		ddr_channel_unqueue(a, &io->mismatch);
		io->mismatch.rec.flags |= DDR_F_RESENT;
		ddr_channel_queue(a, &io->mismatch);
	}
	spin_unlock_irq(&es->lock);
}

/* ---- answers ------------------------------------------------------------------------ */

/* Under the lock: closes the error that DDR_U_RESOLVE @seq answers, moves its waiters to @run. */
static int ddr_error_close(struct ddr_array *a, struct ddr_errors *es, u64 seq, u32 action,
			   struct list_head *run)
{
	struct ddr_error *e = es->error, *end = e + DDR_NR_ERRORS;
	struct ddr_io *io;

	lockdep_assert_held(&es->lock);
	for (; e < end; e++) {
		if (!e->open || e->krec.rec.seq != seq)
			continue;
		if (action == DDR_RES_PASS)
			return -EINVAL;
		e->open = false;
		e->answer = action;
		ddr_error_closed(es, e->krec.rec.member);
		list_splice_tail_init(&e->waiting, run);
		return 0;
	}
	list_for_each_entry(io, &es->mismatches, wait.list) {
		if (io->mismatch.rec.seq != seq)
			continue;
		ddr_channel_unqueue(a, &io->mismatch);
		list_move_tail(&io->wait.list, run);
		return 0;
	}
	return -ENOENT;
}

int ddr_error_resolve(struct ddr_array *a, u64 seq, u32 action)
{
	struct ddr_errors *es = a->engine->errors;
	struct ddr_io *io;
	LIST_HEAD(run);
	int r;

	if (action != DDR_RES_RETRY && action != DDR_RES_FAIL && action != DDR_RES_PASS)
		return -EINVAL;
	spin_lock_irq(&es->lock);
	r = ddr_error_close(a, es, seq, action, &run);
	spin_unlock_irq(&es->lock);
	list_for_each_entry(io, &run, wait.list)
		io->action = action;
	ddr_waits_over(a, &run);
	return r;
}

/*
 * No I/O of the old device is left, so nothing waits. Otherwise an unanswered error of it would
 * be declared to the next daemon as one of the device that has the place now.
 */
void ddr_error_forget(struct ddr_array *a, u32 member)
{
	struct ddr_errors *es = a->engine->errors;
	struct ddr_error *e = es->error + member * DDR_NR_CLASSES * DDR_NR_OPS;
	struct ddr_error *end = e + DDR_NR_CLASSES * DDR_NR_OPS;

	spin_lock_irq(&es->lock);
	for (; e < end; e++) {
		WARN_ON_ONCE(!list_empty(&e->waiting));
		ddr_channel_unqueue(a, &e->krec);
		e->open = false;
		e->answer = DDR_RES_RETRY;
	}
	ddr_error_closed(es, member);
	WRITE_ONCE(es->flush_lost, es->flush_lost & ~BIT(member));
	spin_unlock_irq(&es->lock);
}

void ddr_error_end_waits(struct ddr_array *a)
{
	struct ddr_errors *es = a->engine->errors;
	struct ddr_error *e = es->error, *end = e + DDR_NR_ERRORS;
	blk_status_t status = BLK_STS_OK;
	struct ddr_io *io, *next;
	LIST_HEAD(run);

	spin_lock_irq(&es->lock);
	if (ddr_wait_ends(a, DDR_WAIT_ANSWER, &status)) {
		for (; e < end; e++)
			list_splice_tail_init(&e->waiting, &run);
		list_for_each_entry(io, &es->mismatches, wait.list)
			ddr_channel_unqueue(a, &io->mismatch);
		list_splice_tail_init(&es->mismatches, &run);
		list_for_each_entry(io, &run, wait.list)
			ddr_error_ends(es, io, status);
	}
	spin_unlock_irq(&es->lock);
	/* at once: dm has been asked whether it takes them back */
	list_for_each_entry_safe(io, next, &run, wait.list) {
		ddr_wait_leave(a, &io->wait);
		ddr_io_finish(io, status);
	}
}

/* ---- nosync --------------------------------------------------------------------------- */

bool ddr_error_fail_member(struct ddr_target *t, u32 member)
{
	struct ddr_array *a = t->array;
	struct ddr_errors *es = a->engine->errors;
	bool out, was_in;
	u32 left = 0, m;

	spin_lock_irq(&es->lock);
	for (m = 0; m < a->geo.roles; m++)
		left += m != member && READ_ONCE(a->member[m].state) == DDR_KM_IN_SYNC;
	was_in = READ_ONCE(a->member[member].state) != DDR_KM_OUT;
	/* without parity the array needs every member */
	out = !was_in || (!t->nocalc && left >= ddr_geo_data(&a->geo));
	if (out && was_in)
		ddr_array_set_member(a, member, DDR_KM_OUT, 0);
	spin_unlock_irq(&es->lock);

	if (out && was_in) {
		DMERR("%s: member %u (%s) failed and is no longer used", a->label, member,
		      t->dev[member].dm->name);
		ddr_target_event(a);
	}
	return out;
}

bool ddr_error_decide(struct ddr_io *io, u32 member, u32 class)
{
	return (class == DDR_EC_IO || class == DDR_EC_TIMEOUT) &&
	       ddr_error_fail_member(io->t, member);
}

/* ---- start and end ----------------------------------------------------------------------- */

int ddr_errors_init(struct ddr_engine *e)
{
	struct ddr_errors *es = ddr_alloc(kvzalloc(sizeof(*es), GFP_KERNEL));
	struct ddr_error *error;

	if (!es)
		return -ENOMEM;
	spin_lock_init(&es->lock);
	INIT_LIST_HEAD(&es->mismatches);
	for (error = es->error; error < es->error + DDR_NR_ERRORS; error++) {
		INIT_LIST_HEAD(&error->krec.link);
		INIT_LIST_HEAD(&error->waiting);
	}
	e->errors = es;
	return 0;
}

void ddr_errors_free(struct ddr_engine *e)
{
	kvfree(e->errors);
}

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private interface of the I/O engine: shared by engine.c, io.c, phase.c, generation.c,
 * pages.c, buffer.c, stock.c, parity.c, write.c, read.c, flush.c and error.c only (target.c makes
 * the pools).
 *
 * Life of a bio: ddr_io_map() -> ddr_io_run() -> ... -> ddr_io_finish(). Its phase (enum
 * ddr_phase) says where it continues after a wait (struct ddr_wait), and what it asks for again
 * then.
 *
 * What may wait for what, so that there is no cycle:
 * - .map and bio_wq may sleep for memory. They then hold a region reference and a range, but no
 *   generation and no partial buffer. Each class of bios has a bio_wq and a reserve of memory,
 *   so none waits behind another class.
 * - Nothing on ctl_wq sleeps for memory or I/O: it wakes the others.
 * - io_wq computes, copies, classifies errors and retries member writes. Nothing on it waits for
 *   memory, a range or the daemon.
 * - An I/O that has its buffer only needs the members to complete: before it waits for the
 *   daemon it releases the buffer. Flushes keep theirs, from a pool that only they use.
 */
#ifndef DDR_IO_H
#define DDR_IO_H

#include <linux/completion.h>
#include <linux/percpu_counter.h>
#include <linux/percpu-refcount.h>

#include "engine.h"
#include "range.h"
#include "record.h"

struct ddr_io;

/*
 * What an I/O does or waits for, and where it continues after that: in ddr_read_run(),
 * ddr_write_run() or ddr_flush_run(). Only the context that owns the io changes its phase, before
 * it hands the io to a list, a work item or the members.
 */
enum ddr_phase {
	DDR_PH_START,	/* asks at the gate, then for its region; may wait for both */
	/*
	 * reads, writes: gets what it needs before anything is sent. First its range, for which it
	 * may wait, then its memory, for which it may sleep. A read needs a range only if it has to
	 * compute or to compare. A write comes here again after the daemon's answer, and a read
	 * after an error; they keep the range that they have
	 */
	DDR_PH_TAKE,
	DDR_PH_SEND,	/* writes, flushes: has its memory, asks at the gate again, sends */
	DDR_PH_SENT,	/* the members have it; continues when the last of them has ended it */
	DDR_PH_FAILED,	/* some of them failed: io_wq classifies the errors */
	DDR_PH_READ,	/* reads: the members' data is there, io_wq computes, compares, copies */
	DDR_PH_ASKED,	/* waits for the daemon's answer, and continues with it in io->action */
};

/* Flags of a struct ddr_io; only one context at a time owns the io, so plain bits suffice. */
enum {
	DDR_IO_REGION	= 1u << 0,	/* counted in its region */
	/* a mismatch was found; this is the second read, under the range */
	DDR_IO_RECHECK	= 1u << 1,
	DDR_IO_SENT	= 1u << 2,	/* part of this write may be on the members */
};

/* Roles (bits) that one read needs. */
struct ddr_plan {
	u32	read;		/* read from members */
	u32	lost;		/* data roles to compute */
	u32	check;		/* parity (order 0: copies) that is only read for comparison */
	u32	buffers;	/* roles with a buffer; 0: directly into the bio */
	u32	shadow;		/* roles read from the shadow of their place */
};

/* State of one bio, in the per-bio data of dm. */
struct ddr_io {
	struct ddr_target	*t;
	struct bio		*bio;
	struct ddr_buf		*buf;
	/* the generation of member states that it is counted in, or NULL */
	struct ddr_gen		*gen;
	struct ddr_range	range;		/* ->locked: it holds it */
	struct ddr_wait		wait;		/* gate.h */
	enum ddr_phase		phase;		/* ddr_io_enter() */
	struct delayed_work	work;		/* phase.c */
	u32			action;		/* the daemon's answer, enum ddr_resolve; error.c */
	struct ddr_krec		mismatch;	/* error.c */
	u64			block;		/* the current piece: its first block */
	u32			blocks;
	/* sectors of the bio before the piece (write-zeroes) */
	u32			done;
	u32			flags;
	u32			avoid;		/* members that failed to read the piece */
	/* retries for lack of resources, for this piece, since the daemon's last answer */
	u16			tries;
	u8			looks;		/* MISMATCH records sent for the piece */
	u8			op;		/* enum ddr_error_op */
	u8			class;		/* enum ddr_class */
	u8			error_member, error_class;	/* the worst error behind @avoid */
	struct ddr_plan		plan;		/* reads */
};

/* pages of vectors: a mirror of three with verify_reads needs 4 x 256 */
#define DDR_VEC_PAGES		4u
/* buffer of an extra role: for ddr_parity_check() */
#define DDR_SCRATCH_ROLE	DDR_GEO_MAX_ROLES

/*
 * All memory that the member operations of one piece need: it is taken as a whole before the
 * first is submitted, so that no operation waits for another one. A role's buffer is contiguous
 * in the member's order: page p of it holds blocks p * (PAGE_SIZE / chunk) and following.
 * Buffers of less than a page share pages.
 */
struct ddr_buf {
	struct ddr_io	*io;
	atomic_t	pending;
	/* roles of this round; BIT(g->roles): the shadow, which gets the same as its place */
	u32		issued;
	unsigned long	failed;		/* roles of this round that failed; atomic bit operations */
	u32		done;		/* roles written successfully, in any round */
	u32		filled;		/* roles whose buffers have the right contents */
	u32		zeroed;		/* roles that get real zeroes instead of write-zeroes */
	u32		lost;		/* flush: roles (of block 0) whose member failed a flush */
	u32		roles;		/* roles that have a buffer */
	u32		bytes;		/* on each member */
	u32		pages;		/* vectors (pages, or one part of one) for each role */
	u8		pool;		/* the pool that it came from */
	/* one buffer for all roles: a mirror writes one copy to all members */
	bool		shared;
	bool		owned;		/* the pages must be freed by us */
	/* vectors in each page below: those of one slot are contiguous */
	u32		per;
	struct bio_vec	*vec[DDR_VEC_PAGES];	/* by slot, then page: ddr_buf_vec() */
	/* the member bios follow, by role, then the vectors if they are few */
};

static inline struct bio *ddr_buf_bio(struct ddr_buf *buf, u32 role)
{
	return (struct bio *)(buf + 1) + role;
}

static inline struct bio_vec *ddr_buf_vec(const struct ddr_buf *buf, u32 i)
{
	return &buf->vec[i / buf->per][i % buf->per];
}

static inline const struct ddr_geometry *ddr_io_geo(const struct ddr_io *io)
{
	return &io->t->array->geo;
}

/* ---- phase.c ------------------------------------------------------------- */

/* In a module for tests, and in one for a kernel with lockdep: warns if @to may not follow. */
#if defined(DDR_TEST_POINTS) || defined(CONFIG_PROVE_LOCKING)
#define DDR_CHECK_PHASES
void ddr_phase_check(const struct ddr_io *io, enum ddr_phase to);
#else
static inline void ddr_phase_check(const struct ddr_io *io, enum ddr_phase to) { }
#endif

static inline void ddr_io_enter(struct ddr_io *io, enum ddr_phase phase)
{
	ddr_phase_check(io, phase);
	io->phase = phase;
}

/*
 * Runs the io from its phase on. In START and TAKE this may sleep for memory, in SEND and FAILED
 * it is process context, in SENT any context. The caller must not use the io any more.
 */
void ddr_io_run(struct ddr_io *io);
/*
 * Runs it in @phase from io_wq (must not sleep for memory or for our locks), or from the bio_wq
 * of its class. Any context; the caller must not use the io any more.
 */
void ddr_io_compute(struct ddr_io *io, enum ddr_phase phase);
void ddr_io_defer(struct ddr_io *io, enum ddr_phase phase);
/* The same a little later, after an error that is no member's fault, from @wq. */
#define DDR_RETRY_MS	20
#define DDR_MAX_TRIES	250
void ddr_io_retry(struct ddr_io *io, struct workqueue_struct *wq, enum ddr_phase phase);

/* Its wait is over: runs it from its phase on, from the bio_wq of its class. Any context. */
void ddr_io_wake(struct ddr_wait *w);

static inline struct workqueue_struct *ddr_io_wq(const struct ddr_io *io)
{
	return io->t->array->bio_wq[io->class];
}

/* ---- io.c ---------------------------------------------------------------- */

/* Determines the piece of the bio that starts io->done sectors into it. */
void ddr_io_piece(struct ddr_io *io);

/* The result of one look at the member states, for a piece. */
struct ddr_io_states {
	u32	read;		/* roles whose members are read from */
	u32	shadow;		/* of those, the one that is read from the shadow */
	u32	write;		/* roles that are written, with BIT(g->roles) for the shadow */
	u32	absent;		/* members that have to be written, and have no device */
};
void ddr_io_look(struct ddr_io *io, struct ddr_io_states *s);
u32 ddr_io_member(struct ddr_io *io, u32 role);	/* the member for an operation of the piece */
/* BIT() of the role that the shadow holds; 0: there is no shadow */
u32 ddr_io_shadow_role(struct ddr_io *io);
/* It may not wait: releases everything that it holds, and ends the bio. Any context. */
void ddr_io_refused(struct ddr_io *io);

/*
 * Has the io what it asked for? False: it waits, or it may not wait and was ended; the caller must
 * not use it any more. Any context.
 */
static inline bool ddr_io_got(struct ddr_io *io, enum ddr_turn turn)
{
	if (likely(turn == DDR_GO))
		return true;
	if (turn == DDR_END)
		ddr_io_refused(io);
	return false;
}

/*
 * In the phase TAKE: locks the range of the piece, or finds that it is locked by now. False: as
 * ddr_io_got().
 */
bool ddr_io_lock(struct ddr_io *io, bool write);
/*
 * The gate was shut meanwhile: releases everything that the io holds. Its bio starts again, and
 * waits at the gate or ends there. What was sent of it counts as failed. Process context; does not
 * sleep. The caller must not use the io any more.
 */
void ddr_io_turn_away(struct ddr_io *io);
/*
 * Submits one operation of @opf to the member of each of @roles. The io continues in its phase
 * SENT, in any context, once all have ended, perhaps before this returns. Data: the role's
 * buffer, the pages of the bio itself if there is none (reads), nothing if the buffer has no
 * pages.
 */
void ddr_io_submit(struct ddr_io *io, u32 roles, blk_opf_t opf);
/* of a role that failed in this round */
blk_status_t ddr_io_status(struct ddr_io *io, u32 role);
/*
 * Releases everything that the io holds, in reverse order. @error: the region must be resynced.
 * Any context.
 */
void ddr_io_drop(struct ddr_io *io, bool error);
void ddr_io_drop_buf(struct ddr_io *io);
/* Releases everything and ends the bio. Any context; the io no longer exists. */
void ddr_io_finish(struct ddr_io *io, blk_status_t status);

/* ---- generation.c -------------------------------------------------------- */

struct ddr_gen {
	struct percpu_ref	ref;
	struct ddr_engine	*engine;
};

/* The engine's part of an array. */
struct ddr_engine {
	struct ddr_array	*a;

	/* generation.c */
	spinlock_t		lock;		/* for what follows, except gen[], current_gen */
	struct ddr_gen		gen[2];
	u32			current_gen;	/* acquire/release */
	bool			turning;	/* the other generation is draining */
	/* members whose APPLIED waits for the next switch, for the present one */
	u32			next, now;
	struct ddr_krec		applied[DDR_PLACES];
	struct work_struct	turned;
	struct completion	drained;	/* when the array is freed */

	/* error.c */
	struct ddr_errors	*errors;

	/* pages.c */
	struct percpu_counter	pages;		/* in buffers */
};

int ddr_gen_init(struct ddr_engine *e);
/* No I/O is left: waits for a switch in progress (through RCU and io_wq), and for the next one. */
void ddr_gen_settle(struct ddr_engine *e);
/* settled, and io_wq is destroyed: no work of it may run */
void ddr_gen_free(struct ddr_engine *e);
/*
 * From here to ddr_gen_exit() the io uses the member states that it reads. Never sleeps; never
 * held while parked.
 */
void ddr_gen_enter(struct ddr_io *io);
void ddr_gen_exit(struct ddr_io *io);

/* ---- pages.c ------------------------------------------------------------- */

int ddr_pages_init(void);
void ddr_pages_exit(void);
/* of an I/O with this number of blocks */
enum ddr_class ddr_pages_class(const struct ddr_target *t, u32 op, u32 blocks);
int ddr_pools_init(struct ddr_target *t);
void ddr_pools_exit(struct ddr_target *t);
/*
 * Gets the buffer of @io for @roles, into io->buf; may sleep, never fails. @shared: one for all
 * roles. @pages: with pages; otherwise there are empty vectors (write-zeroes), which the caller
 * may fill.
 */
void ddr_buf_get(struct ddr_io *io, u32 roles, bool shared, bool pages);
void ddr_buf_put(struct ddr_io *io);		/* any context */

/* ---- buffer.c ------------------------------------------------------------ */

/* Index of the first vector of @role. */
u32 ddr_buf_slot(const struct ddr_buf *buf, u32 role);
void *ddr_buf_page(const struct ddr_buf *buf, u32 role, u32 page);
u32 ddr_buf_page_bytes(const struct ddr_buf *buf, u32 page);
/*
 * Addresses of page @page of every role, NULL for roles without a buffer; also
 * ptr[DDR_SCRATCH_ROLE].
 */
void ddr_buf_ptrs(const struct ddr_buf *buf, u32 page, void **ptr);
/*
 * Copies @bytes for each data role between the bio at @iter, which is advanced, and the buffers
 * at @ptr.
 */
void ddr_buf_gather(struct ddr_io *io, struct bvec_iter *iter, void **ptr, u32 bytes);
void ddr_buf_scatter(struct ddr_io *io, struct bvec_iter *iter, void **ptr, u32 bytes);

/* ---- stock.c: used pages, which still have their old contents --------------------- */

int ddr_stock_init(s64 most);			/* all stocks together keep up to @most pages */
void ddr_stock_exit(void);
/* for up to @most pages; may sleep; NULL: no memory */
struct ddr_stock *ddr_stock_make(u32 most);
/* no longer in use; NULL is allowed; may sleep */
void ddr_stock_end(struct ddr_stock *s);
/* returns the number of pages taken; any context */
u32 ddr_stock_take(struct ddr_stock *s, struct page **pages, u32 nr);
/* frees pages for which there is no room; any context */
void ddr_stock_put(struct ddr_stock *s, struct page **pages, u32 nr);

/*
 * ---- parity.c: no locks, no allocation; process context; @bytes at most a page, multiple of 512
 * ---
 */

/*
 * Computes the parity @roles of ptr[0 .. data). If Q is requested, ptr[P] is written, too. Order
 * above 0.
 */
void ddr_parity_generate(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 roles);
/*
 * Computes the data roles @lost (at most two) with the parity roles in @have; with Q alone
 * ptr[P] is overwritten. Order above 0.
 */
void ddr_parity_recover(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 lost, u32 have);
/*
 * Roles of @check that do not match the data. Overwrites ptr[P] and, for Q, needs ptr[P] and
 * ptr[DDR_SCRATCH_ROLE].
 */
u32 ddr_parity_check(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 check);

/* ---- write.c read.c flush.c ---------------------------------------------- */

/* of ddr_io_run() */
void ddr_write_run(struct ddr_io *io);
void ddr_read_run(struct ddr_io *io);
void ddr_flush_run(struct ddr_io *io);

/* ---- error.c ------------------------------------------------------------- */

int ddr_errors_init(struct ddr_engine *e);
void ddr_errors_free(struct ddr_engine *e);

/* What to do about a failed operation. */
enum ddr_verdict {
	/* the member is not at fault: repeat a little later */
	DDR_V_AGAIN,
	DDR_V_ZERO,		/* it does not support write-zeroes: write zeroes */
	DDR_V_FAILED,		/* it failed, with a class */
};
enum ddr_verdict ddr_error_judge(struct ddr_io *io, u32 role, u32 *class);
blk_status_t ddr_error_status(u32 class);	/* the status of the bio, if it has to end */
/*
 * Counts the failure of @member in the piece of @io, and reports it to the daemon; does not
 * wait. Any context.
 */
void ddr_error_report(struct ddr_io *io, u32 member, u32 class);
/* the flush of this role has failed, while others are still in flight; any context */
void ddr_error_of_flush_op(struct ddr_io *io, u32 role);
/*
 * Waits for the daemon's answer to the error of @member and @class, which this io has reported;
 * the answer may have arrived already. Releases the buffer, except that of a flush. The io
 * continues from bio_wq, in its phase ASKED with the answer in io->action. If waiting is not
 * allowed, ends the bio. The io is in no generation. Any context; the caller must not use the io
 * any more.
 */
void ddr_error_park(struct ddr_io *io, u32 member, u32 class);
/*
 * A write or flush of the members @absent, which are in the array by their state, and for which
 * this table has no device, has failed: tells the daemon, leaves the generation and waits as above.
 * False: there is no such member. With nosync there never is.
 */
bool ddr_error_park_absent(struct ddr_io *io, unsigned long absent);
/*
 * Members (bit: member) that failed any flush, and about which the daemon has not decided. Any
 * context.
 */
u32 ddr_error_flush_open(struct ddr_array *a);
/*
 * Members that failed a flush that was handed back to dm since, and comes again as a new one.
 * Any context.
 */
u32 ddr_error_flush_lost(struct ddr_array *a);
/* Waits until that is decided for @member. Any context. */
void ddr_error_park_flush(struct ddr_io *io, u32 member);
void ddr_error_park_mismatch(struct ddr_io *io);
/* nosync: decides without a daemon. True: @member is OUT now, and the others suffice. */
bool ddr_error_decide(struct ddr_io *io, u32 member, u32 class);
/* nosync, by hand: the same; false: the others would not suffice. */
bool ddr_error_fail_member(struct ddr_target *t, u32 member);

#endif

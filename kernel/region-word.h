/* SPDX-License-Identifier: GPL-2.0-only */
/* The state of regions that region.c, grant.c and record.c share. */
#ifndef DDR_REGION_WORD_H
#define DDR_REGION_WORD_H

#include <linux/hash.h>

#include "region.h"

#define DDR_W_COUNT	0xffffffffLL		/* writes in flight */
#define DDR_W_GRANTED	BIT_ULL(32)
#define DDR_W_TOUCHED	BIT_ULL(33)		/* used since the clock's hand passed */
#define DDR_W_ERROR	BIT_ULL(34)		/* a member write failed since the grant */
#define DDR_W_CLOSED	BIT_ULL(35)		/* the daemon has not read CLOSED yet */
#define DDR_W_WANT	BIT_ULL(36)		/* LOCK is to be sent, or was */
#define DDR_W_SENT	BIT_ULL(37)		/* LOCK was sent, with the seq in this word */
#define DDR_W_AHEAD	BIT_ULL(38)		/* as read-ahead */
#define DDR_W_SEQ_SHIFT	40
#define DDR_W_SEQ	GENMASK_ULL(63, DDR_W_SEQ_SHIFT)
#define DDR_W_REQUEST	(DDR_W_WANT | DDR_W_SENT | DDR_W_AHEAD | DDR_W_SEQ)

#define DDR_PARK_BITS		8

struct ddr_park_bucket {
	spinlock_t		lock;		/* of the list */
	struct list_head	waits;		/* struct ddr_wait, of any of its regions */
};

/* A set of regions that the daemon is to be told of. */
struct ddr_region_map {
	unsigned long		*bits;
	atomic_t		nr;
	u64			cursor;		/* under ctl_mutex */
};

struct ddr_regions {
	atomic64_t		*word;
	struct ddr_region_map	lock;
	struct ddr_region_map	closed;
	unsigned long		*clean;		/* DDR_RB_*; written under ctl_mutex */
	unsigned long		*suspect;
	atomic64_t		granted;
	u32			ahead;
	/* under ctl_mutex */
	u32			last_seq;
	u64			hand;		/* of the clock */
	u64			reap_seq;
	u64			reaped;
	bool			reap_due;	/* REAPED is to be sent */
	bool			declared;	/* HELD_END was filled */
	u64			held_cursor;
	u64			held;
	struct ddr_park_bucket	park[1 << DDR_PARK_BITS];
};

static inline u64 ddr_word(struct ddr_regions *rs, u64 region)
{
	return atomic64_read(&rs->word[region]);
}

static inline bool ddr_word_change(struct ddr_regions *rs, u64 region, u64 *old, u64 new)
{
	return atomic64_try_cmpxchg(&rs->word[region], (s64 *)old, new);
}

static inline bool ddr_word_open(u64 w)
{
	return w & DDR_W_GRANTED;
}

static inline void ddr_map_set(struct ddr_region_map *map, u64 region)
{
	if (!test_and_set_bit(region, map->bits))
		atomic_inc(&map->nr);
}

static inline struct ddr_park_bucket *ddr_park_bucket(struct ddr_regions *rs, u64 region)
{
	return &rs->park[hash_64(region, DDR_PARK_BITS)];
}

/* A LOCK for @region has to be sent: notes it, and wakes the daemon. Any context. */
void ddr_region_request(struct ddr_array *a, u64 region);

#endif

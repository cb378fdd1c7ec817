/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints for waits and faults; none in the path of a healthy I/O. Devices are identified by
 * their number, positions by blocks (4096 bytes) or regions. Only the array may be accessed: if
 * a bio was handed over, the mapped device may be gone.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ddraid

#if !defined(DDR_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DDR_TRACE_H

#include <linux/tracepoint.h>

#include "dm-ddraid.h"

#define DDR_SHOW_OP(op) __print_symbolic(op, \
	{ DDR_OP_READ, "read" }, { DDR_OP_WRITE, "write" }, \
	{ DDR_OP_FLUSH, "flush" }, { DDR_OP_ZEROES, "write-zeroes" })

/* A write waits for the grant of its region. */
TRACE_EVENT(ddraid_region_wait,
	TP_PROTO(struct ddr_array *a, u64 region),
	TP_ARGS(a, region),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, region)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->region = region;
	),
	TP_printk("%d:%d region %llu", MAJOR(__entry->dev), MINOR(__entry->dev), __entry->region)
);

/* A write, or a read that reconstructs, waits for overlapping ones, or has got its range. */
DECLARE_EVENT_CLASS(ddraid_range,
	TP_PROTO(struct ddr_array *a, u64 block, u32 blocks, bool write),
	TP_ARGS(a, block, blocks, write),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, block)
		__field(u32, blocks)
		__field(bool, write)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->block = block;
		__entry->blocks = blocks;
		__entry->write = write;
	),
	TP_printk("%d:%d blocks %llu+%u %s", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->block, __entry->blocks, __entry->write ? "write" : "read")
);
DEFINE_EVENT(ddraid_range, ddraid_range_wait,
	TP_PROTO(struct ddr_array *a, u64 block, u32 blocks, bool write),
	TP_ARGS(a, block, blocks, write));
DEFINE_EVENT(ddraid_range, ddraid_range_locked,
	TP_PROTO(struct ddr_array *a, u64 block, u32 blocks, bool write),
	TP_ARGS(a, block, blocks, write));

/* A bio waits for the daemon's answer to an error of @member (-1: a mismatch). */
TRACE_EVENT(ddraid_park,
	TP_PROTO(struct ddr_array *a, u32 member, u32 op, u64 block, u32 blocks),
	TP_ARGS(a, member, op, block, blocks),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u32, op)
		__field(u64, block)
		__field(u32, blocks)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->member = member;
		__entry->op = op;
		__entry->block = block;
		__entry->blocks = blocks;
	),
	TP_printk("%d:%d member %d %s blocks %llu+%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  (int)__entry->member, DDR_SHOW_OP(__entry->op), __entry->block, __entry->blocks)
);

TRACE_EVENT(ddraid_member_error,
	TP_PROTO(struct ddr_array *a, u32 member, u32 op, u32 class, u64 block, u32 blocks),
	TP_ARGS(a, member, op, class, block, blocks),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, member)
		__field(u32, op)
		__field(u32, class)
		__field(u64, block)
		__field(u32, blocks)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->member = member;
		__entry->op = op;
		__entry->class = class;
		__entry->block = block;
		__entry->blocks = blocks;
	),
	TP_printk("%d:%d member %u %s %s blocks %llu+%u", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->member, DDR_SHOW_OP(__entry->op),
		  __print_symbolic(__entry->class,
			{ DDR_EC_IO, "io" }, { DDR_EC_MEDIUM, "medium" },
			{ DDR_EC_FENCED, "fenced" }, { DDR_EC_NOSPC, "nospc" },
			{ DDR_EC_TIMEOUT, "timeout" }, { DDR_EC_INVAL, "inval" },
			{ DDR_EC_ABSENT, "absent" }),
		  __entry->block, __entry->blocks)
);

/* A read computes the data roles @lost from the roles @from (bitmaps). */
TRACE_EVENT(ddraid_reconstruct,
	TP_PROTO(struct ddr_array *a, u64 block, u32 blocks, u32 lost, u32 from),
	TP_ARGS(a, block, blocks, lost, from),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, block)
		__field(u32, blocks)
		__field(u32, lost)
		__field(u32, from)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->block = block;
		__entry->blocks = blocks;
		__entry->lost = lost;
		__entry->from = from;
	),
	TP_printk("%d:%d blocks %llu+%u roles %#x from %#x", MAJOR(__entry->dev),
		  MINOR(__entry->dev), __entry->block, __entry->blocks, __entry->lost, __entry->from)
);

/* verify_reads found that the roles @bad (bitmap) do not match the data, in two reads. */
TRACE_EVENT(ddraid_mismatch,
	TP_PROTO(struct ddr_array *a, u64 block, u32 blocks, u32 bad),
	TP_ARGS(a, block, blocks, bad),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, block)
		__field(u32, blocks)
		__field(u32, bad)
	),
	TP_fast_assign(
		__entry->dev = a->dev;
		__entry->block = block;
		__entry->blocks = blocks;
		__entry->bad = bad;
	),
	TP_printk("%d:%d blocks %llu+%u roles %#x", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __entry->block, __entry->blocks, __entry->bad)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>

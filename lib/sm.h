/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of one array on one node: step(state, input) -> outputs.
 *
 * It decides everything that a safety rule speaks of: who may write what, when a
 * dirty mark may go, which member is in the array, who resyncs what. It must never:
 * allocate after ddr_sm_init(), read a clock, log, or touch a socket, a disk or the
 * kernel. The daemon and the simulator are its hands: they turn events into inputs,
 * carry out the outputs *in the order given*, and report each one that has a result.
 *
 * The driver's contract:
 *  - one input at a time; all outputs of a step are carried out (disk and kernel
 *    requests: submitted) before the next input is given;
 *  - while ddr_outputs.more is set, it calls again with DDR_IN_NONE;
 *  - buffers of LOG_WRITE, MAP_WRITE and SB_WRITE are taken with ddr_sm_log_block(),
 *    ddr_sm_map_block(), ddr_sm_superblock() before the next input;
 *  - every output with an io id is answered exactly once by the matching *_DONE input,
 *    with the set of members on which it failed (0: durable everywhere it was asked for);
 *  - messages given by MCAST come back as DDR_IN_MSG at their place in the total
 *    order, to every member of the view, the sender included. The local transport
 *    loops them back in order;
 *  - K_ATTACHED is given only when no I/O of an earlier daemon to these members can still
 *    end (its locks on the member files are gone), and all loads were done before the first step.
 *
 * Units: regions, blocks and members as each field says. Node ids are corosync's
 * (never 0). Times are milliseconds of a monotonic clock, given by TICK.
 */
#ifndef DDRAID_SM_H
#define DDRAID_SM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddraid/format.h>
#include <ddraid/uapi.h>
#include "geometry.h"

#define DDR_SM_MAX_NODES	64u
#define DDR_SM_MAX_OUT		512u	/* outputs of one step */
#define DDR_SM_MSG_MAX		512u	/* bytes of one MCAST in this version */

enum ddr_in_type {
	DDR_IN_NONE = 0,	/* go on emitting */
	DDR_IN_TICK,		/* now_ms */

	/* group; the local transport gives one VIEW with itself, quorate, at start */
	DDR_IN_VIEW,		/* nodes[], n_nodes, quorate, ring */
	DDR_IN_MSG,		/* node (sender), msg, msg_len */
	DDR_IN_FENCED,		/* node: proven dead (fence agent, operator) after its failure */

	/* kernel channel; one input for each record */
	DDR_IN_K_ATTACHED,	/* a channel was bound: cookie, boot_id. HELD inputs follow */
	DDR_IN_K_DETACHED,	/* the channel went (array removed, or superseded) */
	DDR_IN_K_REC,		/* rec: any channel record DDR_K_* */

	/* results */
	DDR_IN_LOG_DONE,	/* io, failed_members */
	DDR_IN_MAP_DONE,	/* io, failed_members */
	DDR_IN_SB_DONE,		/* io, failed_members */
	DDR_IN_FLUSH_DONE,	/* io, failed_members */
	DDR_IN_JOB_DONE,	/* io, result, failed_members, mismatches (blocks). result 0: done and flushed.
				 * -ENODATA, -EILSEQ: failed_members could not read some of these blocks (bad
				 * sectors). Another errno: they failed; no failed_members: tried again later */

	/* operator */
	DDR_IN_OP_FAIL_MEMBER,	/* member */
	DDR_IN_OP_CLEAN,	/* end jobs, close, flush and clear everything; answered by DDR_EV_CLEAN (clean stop).
				 * Jobs stay stopped until a LOCK or OP_SET RESYNC_PAUSED 0 shows that the array is used on */
	DDR_IN_OP_SET,		/* key (enum ddr_sm_key), value */
	DDR_IN_OP_ACCEPT,	/* accept the content of suspect regions start..+count */
};

enum ddr_sm_key {
	DDR_SM_SUSPECT_READS,	/* value 1: reconstructing reads of suspect regions fail */
	DDR_SM_IDLE_MS,		/* a region unused for so long is cleared (default 5000) */
	DDR_SM_RESYNC_PAUSED,	/* value 1: no resync ranges are started */
	DDR_SM_RESYNC_PARALLEL,	/* ranges in work at once, 1..8 */
};

struct ddr_input {
	enum ddr_in_type type;
	uint64_t now_ms;
	uint32_t node;
	uint32_t nodes[DDR_SM_MAX_NODES];
	uint32_t n_nodes;
	bool quorate;
	uint64_t ring;
	const uint8_t *msg;
	uint32_t msg_len;
	struct ddr_rec rec;
	uint64_t cookie;
	uint8_t boot_id[16];
	uint64_t io;
	uint32_t failed_members;	/* bit m: member m of the table */
	int32_t result;
	uint64_t mismatches;
	uint32_t member;
	uint32_t key;
	uint64_t value;
	uint64_t start, count;
};

enum ddr_out_type {
	DDR_OUT_KERNEL,		/* rec: write this DDR_U_* record to the channel */
	DDR_OUT_LOG_WRITE,	/* io, index: write this block of our slot to members; DDR_IN_LOG_DONE */
	DDR_OUT_MAP_WRITE,	/* io, index, members */
	DDR_OUT_SB_WRITE,	/* io, members: write the superblock (both the sequence and the content are ready) */
	DDR_OUT_FLUSH,		/* io, members: flush their caches */
	DDR_OUT_JOB_RANGE,	/* io, job, start, count (blocks), members: under EX now; resync reads the data
				 * roles, computes parity, writes parity where it differs, flushes; DDR_IN_JOB_DONE */
	DDR_OUT_MCAST,		/* msg, msg_len */
	DDR_OUT_FENCE,		/* node */
	DDR_OUT_EVENT,		/* event, args: for status, events, the log */
	DDR_OUT_GIVE_UP,	/* event: this node must leave the array (rule 4); the driver kills the target */
};

/* Log, map and superblock writes are durable (FUA) when they are done; each goes to all of out.members at once. */

enum ddr_event {
	DDR_EV_ATTACHED,	/* kernel attached */
	DDR_EV_DETACHED,
	DDR_EV_READY,		/* recovery plan made, grants flow */
	DDR_EV_RECOVERY,	/* a: regions found dirty in the slot of node b that must be resynced */
	DDR_EV_RESYNC_START,	/* a: regions */
	DDR_EV_RESYNC_DONE,	/* a: regions resynced, b: blocks whose parity was rewritten */
	DDR_EV_MEMBER_FAILED,	/* member, a: generation */
	DDR_EV_MEMBER_ERROR,	/* member, a: class, b: op; start, count: blocks. Not (yet) failed */
	DDR_EV_DEGRADED,	/* a: how many more members may be lost */
	DDR_EV_SUSPECT,		/* start, count: a run of such regions; a: how many there are in all */
	DDR_EV_FAILED,		/* more members lost than the parity covers */
	DDR_EV_CLEAN,		/* OP_CLEAN has ended; a: regions that stay dirty (resync not ended, or the array failed) */
	DDR_EV_VIEW,		/* a: nodes, b: quorate */
	DDR_EV_REFUSED,		/* a request was refused; a: errno, text says why */
	DDR_EV_BUG,		/* an input that cannot be: text */
};

struct ddr_output {
	enum ddr_out_type type;
	struct ddr_rec rec;
	uint64_t io;
	uint32_t index;
	uint32_t members;	/* bit m: member m */
	uint32_t job;		/* enum ddr_kaction */
	uint64_t start, count;
	uint32_t node, member;
	enum ddr_event event;
	uint64_t a, b;
	const char *text;	/* static string, one line, or NULL */
	uint32_t msg_len;
	uint8_t msg[DDR_SM_MSG_MAX];
};

struct ddr_outputs {
	struct ddr_output *out;	/* DDR_SM_MAX_OUT of them, owned by the driver */
	uint32_t n;
	bool more;
};

struct ddr_sm;
struct ddr_super;		/* format.h of lib: the decoded superblock, host types */

struct ddr_sm_config {
	uint32_t node;		/* own id */
	uint32_t slot;		/* own slot */
	const struct ddr_super *super;	/* copied: the newest generation, from assembly */
	uint32_t present;	/* bit m: member m's device is open here */
	uint8_t entropy[16];	/* random, other ones at each start: the names of new generations are derived from it */
};

/* Memory that an instance needs, in bytes, for this array; all of it is given to ddr_sm_init(). */
size_t ddr_sm_size(const struct ddr_sm_config *cfg);
/*
 * Makes the instance inside @mem (zeroed by the callee). Returns NULL if the configuration
 * is out of limits. Before the first step the driver loads what is on disk:
 */
struct ddr_sm *ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg);
/*
 * The newest valid payload of a block of a slot's log (all slots that the superblock says are owned,
 * and ours); NULL payload: it could not be read, so all of it is dirty. @seq: the highest number known,
 * also where the payload is NULL. @node, @boot_id, @cookie: of its header.
 */
void ddr_sm_load_log(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint64_t seq,
		     uint32_t node, const uint8_t boot_id[16], uint64_t cookie);
/* Likewise for the region map; NULL: every region of it counts as written, needs-sync. */
void ddr_sm_load_map(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);

void ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out);

/* Fill a whole metadata block (host side decoded where there is a codec); valid for the output just emitted. */
void ddr_sm_log_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
void ddr_sm_map_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
/* All but sb->updated, which is the driver's: there is no clock in here. */
void ddr_sm_superblock(const struct ddr_sm *sm, uint32_t member, struct ddr_super *sb);

/* For status and tests; no side effects. */
struct ddr_sm_status {
	uint64_t regions, unwritten, clean, dirty, needs_sync, suspect;
	uint64_t granted;		/* regions that our kernel may write */
	uint64_t resync_done, resync_total;	/* blocks */
	uint64_t resync_regions;	/* regions still to do */
	uint64_t mismatches;		/* blocks whose parity was rewritten so far */
	uint64_t generation;
	bool attached, ready, quorate, failed, gave_up;
	bool degraded;			/* a role has no member in sync */
	uint64_t log_writes, map_writes, sb_writes, flushes, mcasts;	/* counters since init */
	uint8_t member_state[DDR_MAX_MEMBERS];
	uint32_t err_read[DDR_MAX_MEMBERS], err_write[DDR_MAX_MEMBERS];	/* with those of earlier starts */
};
void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st);
/* enum ddr_region_state | flags, | DDR_SM_REGION_DIRTY if marked in our slot */
#define DDR_SM_REGION_DIRTY	0x80u
uint8_t ddr_sm_region(const struct ddr_sm *sm, uint64_t region);
/* Is the instance consistent in itself? NULL, or a static sentence that says what is not. For tests: O(regions). */
const char *ddr_sm_check(const struct ddr_sm *sm);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by drive.c, which does what every array needs, and drive_*.c. drive_cluster.c does what only arrays of a cluster need: the
 * group, quorum, fencing, reading the members again.
 */
#ifndef DDR_DAEMON_DRIVE_H
#define DDR_DAEMON_DRIVE_H

#include "daemon/array/array.h"

#define DDR_STOOD_STILL_MS	2000u	/* a tick that comes so much too late: this process, or its machine, was stopped */

/* The array's input structure, zeroed except for its type. */
struct ddr_input *ddr_drive_input(struct ddr_array *a, enum ddr_in_type type);
/* Takes one step with this input, and carries out everything that follows from it at once. */
void ddr_drive_step(struct ddr_array *a, const struct ddr_input *in);
/*
 * An output of the state machine cannot be carried out; @why (static text) says which. All further decisions would rely on it, so the
 * state machine makes none: its steps do nothing, and the rest of its outputs is dropped. In a cluster this node stops serving the
 * array (the kernel's side is killed, and the others fence this node). Without a cluster the next tick attaches the array again, as
 * after a crash of this process; by rule 12 that loses nothing. May be called within a step.
 */
void ddr_drive_break(struct ddr_array *a, const char *why);
/* The same, because this process could not make requests to members for so long (metaio.h, job.h). */
void ddr_drive_unable(void *ctx, int error);
/* ANEW: the array is to be loaded again. */
void ddr_drive_anew(struct ddr_array *a, const struct ddr_output *o);
/* GIVE_UP: this node stops serving the array. */
void ddr_drive_give_up(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_to_kernel(struct ddr_array *a, const struct ddr_rec *rec);
/* The name of a node in the cluster; @ctx: the array. */
const char *ddr_drive_node_name(void *ctx, uint32_t node, char *buf, size_t size);

/* Passes on a request of the operator. Returns why it was refused (static text), or NULL: in progress, or done. Not from within a step. */
const char *ddr_drive_request(struct ddr_array *a, const struct ddr_input *in);
/* Cancels requests that no client waits for any more. */
void ddr_drive_request_tick(struct ddr_array *a, uint64_t now_ms);

/* TABLE: our kernel's table must name this member's device. Answered by a tick, or by the kernel's record of the new table. */
void ddr_drive_table_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_table_tick(struct ddr_array *a);
/* A table that is being loaded ends without us. */
void ddr_drive_table_stop(struct ddr_array *a);

/* Our kernel's table must get this length. */
void ddr_drive_table_resize(struct ddr_array *a, uint64_t sectors);

/* ROOM, PREPARE, RESIZE: the array grows. */
void ddr_drive_grow_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_grow_tick(struct ddr_array *a, uint64_t now_ms);
void ddr_drive_grow_stop(struct ddr_array *a);
/* This process stood still for @ms: members that are being prepared get that much more time. */
void ddr_drive_grow_delay(struct ddr_array *a, uint64_t ms);
/* After a step: the array may have a new size. */
void ddr_drive_sized(struct ddr_array *a);

/* SEEK: search for a member's device. */
void ddr_drive_seek_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_seek_tick(struct ddr_array *a, uint64_t now_ms);
void ddr_drive_seek_stop(struct ddr_array *a);
/* Devices have appeared, or are free: everything that waits for one searches again, in @after_ms. */
void ddr_drive_seek_again(struct ddr_daemon *d, uint64_t after_ms);
/*
 * drive_return.c: members that failed because their disk was gone. start: begins with the members that were loaded (@l); returning:
 * which are searched for; found: the disk of one was found; path_is_back: a multipath device has a path again.
 */
void ddr_drive_return_start(struct ddr_array *a, const struct ddr_load *l);
void ddr_drive_return_tick(struct ddr_array *a, uint64_t now_ms);
uint32_t ddr_drive_returning(const struct ddr_array *a);
void ddr_drive_return_found(struct ddr_array *a, unsigned int m);
void ddr_drive_path_is_back(struct ddr_daemon *d, uint32_t major, uint32_t minor);

/* The table of members has changed; @removed was removed and @replaced was replaced, unless they are DDR_NO_MEMBER. */
void ddr_drive_members_changed(struct ddr_array *a, uint32_t removed, uint32_t replaced);

/* Checks soon whether these members are still on their devices. */
void ddr_drive_check(struct ddr_array *a, uint32_t members);
void ddr_drive_check_tick(struct ddr_array *a, uint64_t now_ms);
/* The check has ended; @failed could not be read, or hold another disk. */
void ddr_drive_checked(struct ddr_array *a, uint32_t failed);
/* Members that are part of the array in any state but failed or missing, and whose devices are open here. */
uint32_t ddr_drive_in_use(const struct ddr_array *a);
/* The stamps of this node's slot. */
void ddr_drive_stamp_tick(struct ddr_array *a, uint64_t now_ms);
/*
 * The kernel has stopped because it did not hear of this daemon for the stop time. True: another machine may have taken the array over meanwhile, which
 * nobody would tell; the state machine hears of it once the members have been looked at.
 */
bool ddr_drive_looks_first(struct ddr_array *a);
/* In place of the array's tick, while it is held. False: the hold has just ended. */
bool ddr_drive_look_tick(struct ddr_array *a, uint64_t now_ms);
/* For ddr_metaio_config. */
bool ddr_drive_may_stamp(void *ctx, unsigned int member);
void ddr_drive_stamped(void *ctx, unsigned int member, enum ddr_meta_stamped how, const struct ddr_stamp *found);
void ddr_drive_taken(void *ctx, unsigned int member, const struct ddr_super *sb, const uint8_t cluster[DDR_UUID_LEN]);
/* @op, a change or a check of the superblocks, writes over none that names a cluster unknown here. @next: the cluster that a change records; NULL: a check. */
void ddr_drive_whose(struct ddr_array *a, struct ddr_meta_op *op, const uint8_t next[DDR_UUID_LEN]);
/* From now on members that hang are detected. */
void ddr_drive_stall_start(struct ddr_array *a);
/* For ddr_metaio_config. */
void ddr_drive_exchanged(void *ctx, unsigned int member);

/* Sends this node's settings to the kernel. */
void ddr_drive_configure_kernel(struct ddr_array *a);
/* A channel is bound and started; what the kernel declares follows. @table: as the members of DDR_IN_K_ATTACHED. */
void ddr_drive_attached(struct ddr_array *a, uint32_t table);

/* Members that a write of ours may still reach, even one that was given up. */
uint32_t ddr_drive_landing(const struct ddr_array *a);
#define DDR_MEMBERS_TEXT	64u
/* The members of a mask as text: "1, 4". Returns @buf, of DDR_MEMBERS_TEXT bytes. */
const char *ddr_drive_members_text(uint32_t members, char *buf);
extern const struct ddr_transport_events ddr_drive_transport_events;
/* RELOAD, SLOT_READ, FENCE. */
void ddr_drive_cluster_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_cluster_tick(struct ddr_array *a, uint64_t now_ms);
/* The state machine learns the id of the cluster as it is now. */
void ddr_drive_tell_cluster(struct ddr_array *a);
/* Drops what is in progress; there are no callbacks any more. */
void ddr_drive_cluster_stop(struct ddr_array *a);

/* ---- drive_fence.c -------------------------------------------------------------- */

/*
 * Why no agent may be called for the node; NULL: it may. @name: what it is told, or "" if no name is known. A machine that came back under
 * another id has its old name: an agent that is called with it switches off the machine that runs, and the old failure counts as fenced.
 */
const char *ddr_drive_fence_name(struct ddr_array *a, uint32_t node, char name[DDR_NODE_NAME_LEN], char *why, size_t size);

/*
 * With fence_method = storage: fills in the disks of @whom, which then points into @disks. NULL, or why this machine cannot cut the node off from the array,
 * in @why.
 */
struct ddr_fence_whom;
struct ddr_fence_disks;
const char *ddr_drive_cut_off(struct ddr_array *a, struct ddr_fence_whom *whom, struct ddr_fence_disks *disks, char *why, size_t size);

#endif

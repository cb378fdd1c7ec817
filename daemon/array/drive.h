/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between drive.c, which carries out what every array needs, and drive_cluster.c, which
 * does what only arrays of a cluster need: the group, quorum, fencing, reading the members anew.
 */
#ifndef DDR_DAEMON_DRIVE_H
#define DDR_DAEMON_DRIVE_H

#include "daemon/array/array.h"

/* The array's input, empty but for its type. */
struct ddr_input *ddr_drive_input(struct ddr_array *a, enum ddr_in_type type);
/* One input, and all that follows from it at once. */
void ddr_drive_step(struct ddr_array *a, const struct ddr_input *in);
/*
 * An output of the state machine cannot be carried out, @why (static text) says which. All that it decides from then on
 * would rest on it, so it decides nothing more: its steps do nothing, and the rest of its outputs is dropped. In a cluster
 * this node gives the array up (the kernel's side is killed, the others fence it). Without one the next tick attaches the
 * array anew, as after a crash of this process: by rule 12 that loses nothing. May be called within a step.
 */
void ddr_drive_break(struct ddr_array *a, const char *why);
/* GIVE_UP: this node stops serving the array. */
void ddr_drive_give_up(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_to_kernel(struct ddr_array *a, const struct ddr_rec *rec);
/* What the cluster calls a node; @ctx: the array. */
const char *ddr_drive_node_name(void *ctx, uint32_t node, char *buf, size_t size);

/* An operator's request, which is refused at once: why (static text), or NULL: under way, or done. Not from within a step. */
const char *ddr_drive_request(struct ddr_array *a, const struct ddr_input *in);
/* Takes back what the operator asked for and does not wait for any more. */
void ddr_drive_request_tick(struct ddr_array *a, uint64_t now_ms);

/* TABLE: the table of our kernel is to name this member's device. Answered by a tick, or by what the kernel tells of the new table. */
void ddr_drive_table_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_table_tick(struct ddr_array *a);
/* A table that is being loaded comes to its end without us. */
void ddr_drive_table_stop(struct ddr_array *a);

/* Our kernel's table is to be so long. */
void ddr_drive_table_resize(struct ddr_array *a, uint64_t sectors);

/* ROOM, PREPARE, RESIZE: the array grows. */
void ddr_drive_grow_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_grow_tick(struct ddr_array *a, uint64_t now_ms);
void ddr_drive_grow_stop(struct ddr_array *a);
/* After a step: the array may have grown. */
void ddr_drive_sized(struct ddr_array *a);

/* SEEK: a member's device is to be found. */
void ddr_drive_seek_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_seek_tick(struct ddr_array *a, uint64_t now_ms);
void ddr_drive_seek_stop(struct ddr_array *a);
/* Devices have come, or are free: whoever waits for one looks again, in @after_ms. */
void ddr_drive_seek_again(struct ddr_daemon *d, uint64_t after_ms);
/*
 * drive_return.c: members that are out since their disk was not there. Begins with what was loaded (@l); which are to be looked for; the disk of one
 * was found; a multipath device has a path again.
 */
void ddr_drive_return_start(struct ddr_array *a, const struct ddr_load *l);
void ddr_drive_return_tick(struct ddr_array *a, uint64_t now_ms);
uint32_t ddr_drive_returning(const struct ddr_array *a);
void ddr_drive_return_found(struct ddr_array *a, unsigned int m);
void ddr_drive_path_is_back(struct ddr_daemon *d, uint32_t major, uint32_t minor);

/* The table of members is another one; member @removed was removed, and @replaced replaced, unless that is DDR_NO_MEMBER. */
void ddr_drive_members_changed(struct ddr_array *a, uint32_t removed, uint32_t replaced);

/* Whether these members are still on their devices is looked at soon. */
void ddr_drive_check(struct ddr_array *a, uint32_t members);
void ddr_drive_check_tick(struct ddr_array *a, uint64_t now_ms);
/* The look has ended, and @failed could not be read, or hold another disk. */
void ddr_drive_checked(struct ddr_array *a, uint32_t failed);
/* Whether members hang is looked at from now on. */
void ddr_drive_stall_start(struct ddr_array *a);
/* For ddr_metaio_config. */
void ddr_drive_exchanged(void *ctx, unsigned int member);

/* Tells the kernel this node's settings of it. */
void ddr_drive_configure_kernel(struct ddr_array *a);
/* A channel is bound, and started: what it declares follows. @table: as DDR_IN_K_ATTACHED's members. */
void ddr_drive_attached(struct ddr_array *a, uint32_t table);

/* Members to which a write of ours may be under way, whether it was given up or not. */
uint32_t ddr_drive_landing(const struct ddr_array *a);
extern const struct ddr_transport_events ddr_drive_transport_events;
/* RELOAD, SLOT_READ, FENCE. */
void ddr_drive_cluster_output(struct ddr_array *a, const struct ddr_output *o);
void ddr_drive_cluster_tick(struct ddr_array *a, uint64_t now_ms);
/* Forgets what is under way; nothing is called back any more. */
void ddr_drive_cluster_stop(struct ddr_array *a);

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parts of ddraidd share: the loop, the configuration, the arrays.
 * Everything belongs to the loop's thread.
 */
#ifndef DDR_DAEMON_DAEMON_H
#define DDR_DAEMON_DAEMON_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qblist.h>
#include <qb/qbloop.h>

#include "daemon/base/clock.h"
#include "daemon/base/ident.h"
#include "daemon/base/sink.h"
#include "daemon/base/still.h"
#include "lib/conf.h"
#include "lib/disk/assemble.h"
#include "lib/node/version.h"

#define DDR_ARRAYS_MAX	64u	/* arrays of one node; more are refused */
#define DDR_TICK_MS	100u	/* between two ticks of an array, while anything of it is under way */
#define DDR_REST_MS	2000u	/* and of one that rests: at full multiples of the clock, so that all that rest wake up together */
#define DDR_ADOPTIONS	8u	/* adoptions at the same time */

struct ddr_kctl;
struct ddr_ipcs;
struct ddr_asks;
struct ddr_corosync;
struct ddr_link;
struct ddr_fence;
struct ddr_transport_ops;
struct ddr_daemon;
struct ddr_uevent;
struct ddr_members;
struct ddr_job_stock;
struct ddr_output;
struct ddr_array;

typedef void (*ddr_uevent_fn)(struct ddr_daemon *d, const struct ddr_uevent *e);

/* An array that the operator has adopted and that no load was begun for since; used by identity.c. */
struct ddr_adoption {
	uint8_t uuid[16];
	uint64_t until_ms;		/* 0: free */
	bool alone;			/* there was no other node in the cluster then */
};

/* An array that should have started automatically, but did not; used by unstarted.c. */
struct ddr_unstarted {
	uint8_t uuid[16];
	char name[DDR_NAME_LEN];
	char why[DDR_ERROR_LEN];	/* "": unused entry */
	bool waits;			/* it may still start */
};

#define DDR_ELSEWHERE	8u

/* What nodes wait for in an array that this node does not serve; used by link_debt.c, for status. */
struct ddr_elsewhere {
	uint8_t uuid[16];
	char waits[1024];		/* "": unused entry */
};

struct ddr_daemon {
	qb_loop_t *loop;
	struct ddr_conf conf;
	uint8_t boot_id[16];
	struct ddr_ident ident;
	struct ddr_still still;
	const struct ddr_transport_ops *transport;
	struct ddr_asks *asks;		/* questions to corosync; NULL with another transport */
	struct ddr_corosync *corosync;	/* the same */
	struct ddr_link *link;		/* the same; NULL until an array has joined its group */
	struct ddr_speaks speaks;	/* with other nodes: what this daemon and the module do that has the array which joins next, or joined last */
	struct ddr_fence *fence;	/* the same */
	struct ddr_kctl *kctl;
	void (*wake)(struct ddr_daemon *d);	/* the daemon does not rest any more; NULL: it never does */
	struct ddr_sink sink;
	struct ddr_ipcs *ipc;
	int uevent_fd;
	ddr_uevent_fn on_uevent;
	struct qb_list_head arrays;	/* struct ddr_array.list */
	unsigned int n_arrays;
	struct ddr_members *ended;	/* members.c's: of arrays that were closed here, and are not freed yet */
	struct ddr_output *outs;	/* of the step in progress. Only one is at a time: outputs never step any array; waiting clients only ask for the next tick (*_late) */
	const struct ddr_array *steps;	/* whose outputs these are; NULL: of no step that is in progress (drive_step.c) */
	struct ddr_job_stock *job_stock;	/* memory for the jobs of all arrays */
	struct ddr_adoption adopt[DDR_ADOPTIONS];
	struct ddr_unstarted unstarted[DDR_ARRAYS_MAX];
	struct ddr_elsewhere elsewhere[DDR_ELSEWHERE];
	bool listed;			/* the kernel has listed all its arrays */
	uint64_t schedule_ms;		/* when the schedule of verify was last checked */
	struct {
		uint8_t uuid[16];
		struct ddr_known known;
	} older;			/* the operator starts this array from this generation, although a newer one was seen; generation 0: none */
};

/* In how many ms those that rest wake up. */
static inline uint64_t ddr_rest_left(uint64_t now_ms)
{
	return DDR_REST_MS - now_ms % DDR_REST_MS;
}

static inline void ddr_daemon_wake(struct ddr_daemon *d)
{
	if (d->wake)
		d->wake(d);
}

#endif

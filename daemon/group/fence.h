/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs the fence command. A helper process, forked before the daemon serves anything, starts the agents and waits for them, so the
 * daemon itself never forks: a fork copies page tables, and memory for them may wait for the very arrays that wait for the fencing.
 *
 * A node is fenced once for one failure, however many arrays ask. It must never: report success unless the agent exited with code 0
 * after it was started for this failure.
 *
 * The daemon measures the time of an agent, and does not depend on its end: an agent that waits in the kernel cannot be killed.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_FENCE_H
#define DDR_DAEMON_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qbloop.h>

#define DDR_FENCE_DEVICES	8192u	/* bytes for the paths of the disks of one agent, with commas */

struct ddr_conf;
struct ddr_fence;

/*
 * The answer to a request: 0, or a negative errno with one line in @why. After -ETIMEDOUT, which means that fence_timeout is over and nothing
 * else, a 0 may follow: the agent has fenced the node after all.
 */
typedef void (*ddr_fence_done_fn)(void *ctx, uint32_t node, uint64_t failure, int result, const char *why);

/* Forks the helper. Call it before threads are started, memory is locked and files are opened. 0, or a negative errno. */
int ddr_fence_fork(struct ddr_fence **out);
/* Starts to deliver answers, from the loop. 0, or a negative errno. */
int ddr_fence_open(struct ddr_fence *f, qb_loop_t *loop);
void ddr_fence_close(struct ddr_fence *f);

/* Paths of disks, each after a comma: those of the array that asks, and those of others. */
struct ddr_fence_disks { char own[DDR_FENCE_DEVICES], more[DDR_FENCE_DEVICES]; };

/* Who is to be fenced, for one array. */
struct ddr_fence_whom {
	uint32_t node;
	const char *name;	/* "": none is known; the agent is then told the id alone */
	uint64_t failure;
	uint64_t lost_ms;	/* ddr_now_ms() when it was lost, or any later time */
	/* Storage fencing: the disks to cut it off from, with commas. The agent proves nothing for others. NULL: the agent switches the machine off. */
	const char *devices;
	const char *more;	/* those of other arrays, which the same agent may cover, too; after a comma, or "" */
	uint32_t settle_ms;	/* so long after the agent's success something that the node has sent may still arrive */
};

/*
 * Requests proof that the node is dead, by @conf's command. An agent that was started since it was lost serves this request, too; one that was started
 * earlier proves nothing for it, so another one is started beside it. @done is called, unless ddr_fence_forget() is called first: not later than
 * fence_timeout and, after a success, settle_ms. Keeps nothing of @whom.
 * Returns 0, or a negative errno (then done() is not called); -EALREADY: two agents that were started against this node have not ended.
 */
int ddr_fence_ask(struct ddr_fence *f, const struct ddr_conf *conf, const struct ddr_fence_whom *whom, ddr_fence_done_fn done, void *ctx);
/* Drops the requests of @ctx; agents that run continue. */
void ddr_fence_forget(struct ddr_fence *f, const void *ctx);

#endif

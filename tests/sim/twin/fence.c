// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of the process that runs fence agents: what it is asked for is the world's to do, or not (cluster.c). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/group/fence_helper.h"
#include "twin.h"

int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
pid_t __wrap_fork(void);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags);

_Noreturn void ddr_fence_helper(int fd)
{
	(void)fd;
	abort();	/* nobody is forked */
}

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
	(void)domain;
	(void)type;
	(void)protocol;
	fds[0] = me->fence_fd = twin_open(FILE_QUIET);
	fds[1] = twin_open(FILE_QUIET);
	return 0;
}

pid_t __wrap_fork(void)
{
	return 1;
}

/* T8: an agent is called with the name that corosync's list has or had, or without one. */
static void named(uint32_t node, const char *name)
{
	char right[16];

	snprintf(right, sizeof(right), "node%u", node);
	if (me->s->finding == FINDING_T8 && *name && strcmp(name, right) != 0)
		sim_violation(me->s, "T8: node %u calls the agent with the name '%s', which no node ever had", me->n->id, name);
}

/* Rule F7: an agent that cuts the node off is given each member that counts, as this node knows them. */
static void cuts_off(const struct ddr_fence_order *order)
{
	const struct ddr_super *sb = me->n->sm ? ddr_sm_super(me->n->sm) : NULL;
	char name[16];

	for (uint32_t m = 0; sb && *order->devices && m < sb->members; m++) {
		snprintf(name, sizeof(name), "/dev/sim%u", m);
		if ((sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING) && !strstr(order->devices, name))
			sim_violation(me->s, "F7: node %u has node %u cut off from %s, and not from member %u", me->n->id, order->node, order->devices, m);
	}
}

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
	struct ddr_fence_order order;
	struct ddr_output out = { .type = DDR_OUT_FENCE };

	(void)fd;
	(void)flags;
	twin_effect();
	if (twin_fails(CALL_FENCE))
		return -1;
	memcpy(&order, buf, sizeof(order));
	out.node = order.node;
	out.failure = order.id;		/* the world keeps it for the answer */
	sim_trace(me->s, "node %u: runs the agent against node %u", me->n->id, order.node);
	named(order.node, order.name);
	cuts_off(&order);
	finding_fences(me->s, me->n->id, order.node, false);
	cluster_fence(me->s, me->n, &out);
	return (ssize_t)len;
}

ssize_t __wrap_recv(int fd, void *buf, size_t len, int flags)
{
	struct ddr_fence_answer a = { 0 };

	(void)fd;
	(void)flags;
	if (!me->news) {
		errno = EAGAIN;
		return -1;
	}
	a.id = me->news->failure;
	a.result = me->news->result;
	snprintf(a.text, sizeof(a.text), "%s", a.result ? "the agent failed" : "");
	memcpy(buf, &a, sizeof(a));
	return (ssize_t)len;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of corosync's libraries: groups, quorum and votes as cluster.c has them. list.c has the list of nodes. */
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <corosync/cpg.h>
#include <corosync/quorum.h>
#include <corosync/votequorum.h>

#include "daemon/group/link.h"
#include "lib/wire/node_msg.h"
#include "twin.h"

/* Corosync does not run here, or its sockets have no room (/dev/shm is full). */
bool twin_corosync_refused(void)
{
	return me->n->deaf || twin_fails(CALL_CONNECT);
}

#define LINGERS	16u	/* one call in so many */

/*
 * A call that waits for corosync's answer, which may take seconds; meanwhile the world goes on. It is chosen by the time alone, since a tape need not have the
 * draws of a seed.
 */
void twin_corosync_waits(void)
{
	uint64_t now = me->s->now;

	if (!twin_in_thread())
		sim_violation(me->s, "rule L4: the loop of node %u waits for corosync", me->n->id);
	if (now / 10 % LINGERS == 0)
		twin_sleep(twin_ms(me) + 100 + now % 70 * 100);
}

/* Did it end after that descriptor was opened? From now on the daemon knows. */
static bool ended(int fd)
{
	if (!twin_file(fd)->ended)
		return false;
	me->n->quorate = me->quorate = me->due = false;
	return true;
}

/* ---- process groups ---------------------------------------------------------------- */

static struct { cpg_model_v1_data_t model; struct cpg_name name; } group[SIM_MAX_NODES];
static struct { cpg_model_v1_data_t model; void *context; int fd; bool joined; } own[SIM_MAX_NODES];
static quorum_model_v1_data_t service[SIM_MAX_NODES];

#define MINE(x)	((x)[me - twin_proc])
#define OWN	3	/* handle */

/* The number of a pulse; 0: the message is another one. */
static uint64_t pulse_of(const void *bytes, size_t len)
{
	struct ddr_node_msg m;

	return ddr_node_msg_is(bytes, len) && !ddr_node_msg_decode(bytes, len, &m) && m.type == DDR_N_PULSE ? m.pulse.counter : 0;
}

/* Rule L8, as the world sees it: a message to this daemon. */
static void heard(const struct ddr_input *in)
{
	if (in->node == me->n->id && me->n->q_quorate && me->n->q_ring == me->n->v_ring && pulse_of(in->msg, in->msg_len) >= me->pulse_due)
		me->unheard = false;
}

cs_error_t cpg_initialize(cpg_handle_t *handle, cpg_callbacks_t *callbacks)
{
	(void)callbacks;
	twin_corosync_waits();
	if (twin_corosync_refused())
		return CS_ERR_LIBRARY;
	*handle = 1;
	return CS_OK;
}

cs_error_t cpg_local_get(cpg_handle_t handle, unsigned int *node)
{
	(void)handle;
	*node = me->n->id;
	return CS_OK;
}

cs_error_t cpg_model_initialize(cpg_handle_t *handle, cpg_model_t model, cpg_model_data_t *data, void *context)
{
	(void)model;
	twin_corosync_waits();
	if (twin_corosync_refused())
		return CS_ERR_NO_RESOURCES;
	if (!((cpg_model_v1_data_t *)data)->cpg_totem_confchg_fn) {	/* the array's own group: only daemons are in it here */
		memcpy(&MINE(own).model, data, sizeof(MINE(own).model));
		MINE(own).context = context;
		MINE(own).fd = twin_open(FILE_EVENT);
		MINE(own).joined = false;
		*handle = OWN;
		return CS_OK;
	}
	if (me->cpg_fd)
		sim_violation(me->s, "node %u joins the group twice", me->n->id);
	memcpy(&MINE(group).model, data, sizeof(MINE(group).model));
	me->context.cpg = context;
	me->cpg_fd = twin_open(FILE_QUIET);
	me->pulse = 0;
	me->pulse_due = 1;
	me->n_view = 0;
	me->view_ring = 0;
	*handle = 2;
	return CS_OK;
}

cs_error_t cpg_finalize(cpg_handle_t handle)
{
	twin_corosync_waits();
	if (handle == 1)
		return CS_OK;
	if (handle == OWN) {
		close(MINE(own).fd);
		MINE(own).fd = 0;
		return CS_OK;
	}
	cluster_gone(me->s, me->n);
	close(me->cpg_fd);
	me->cpg_fd = 0;
	return CS_OK;
}

cs_error_t cpg_fd_get(cpg_handle_t handle, int *fd)
{
	*fd = handle == OWN ? MINE(own).fd : me->cpg_fd;
	return CS_OK;
}

cs_error_t cpg_max_atomic_msgsize_get(cpg_handle_t handle, uint32_t *size)
{
	(void)handle;
	*size = 1u << 20;
	return CS_OK;
}

cs_error_t cpg_context_get(cpg_handle_t handle, void **context)
{
	*context = handle == OWN ? MINE(own).context : me->context.cpg;
	return CS_OK;
}

cs_error_t cpg_join(cpg_handle_t handle, const struct cpg_name *name)
{
	twin_corosync_waits();
	twin_effect();
	if (handle == OWN ? twin_file(MINE(own).fd)->ended : ended(me->cpg_fd))
		return CS_ERR_LIBRARY;
	if (twin_fails(CALL_BUSY))
		return CS_ERR_TRY_AGAIN;
	if (handle == OWN && me->s->now < me->n->no_group_until)
		return me->n->no_group_until % 2 ? CS_ERR_TRY_AGAIN : CS_ERR_NO_RESOURCES;
	if (handle == OWN) {
		twin_file(MINE(own).fd)->count = 1;
		MINE(own).joined = true;
		return CS_OK;
	}
	MINE(group).name = *name;
	me->joined_in = me->s->ring[me->n->part];
	me->n->v_ring = 0;
	cluster_joined(me->s, me->n);
	return CS_OK;
}

cs_error_t cpg_mcast_joined(cpg_handle_t handle, cpg_guarantee_t guarantee, const struct iovec *iov, unsigned int n)
{
	(void)handle;
	(void)guarantee;
	(void)n;
	twin_effect();
	/* the outputs of the step under way follow; what it means the daemon learns from its loop, by the descriptor */
	if (twin_file(me->cpg_fd)->ended)
		return CS_ERR_LIBRARY;
	if (twin_fails(CALL_BUSY))
		return CS_ERR_TRY_AGAIN;
	if (pulse_of(iov->iov_base, iov->iov_len))
		me->pulse = pulse_of(iov->iov_base, iov->iov_len);
	if (me->n->in_group)
		cluster_send(me->s, me->n, iov->iov_base, (uint32_t)iov->iov_len);
	return CS_OK;
}

static bool listed(const uint32_t *nodes, const uint32_t *pids, uint32_t n, uint32_t node, uint32_t pid)
{
	for (uint32_t i = 0; i < n; i++)
		if (nodes[i] == node && pids[i] == pid)
			return true;
	return false;
}

/* Was the node's process in the group before this ring? Then it comes with its node. */
static bool comes_with_node(uint32_t node, uint32_t pid, uint64_t ring)
{
	if (pid == SIM_SILENT_PID)
		return me->s->silent_ring < ring;
	for (unsigned int i = 0; i < me->s->n_nodes; i++)
		if (me->s->node[i].id == node)
			return twin_of(me->s, &me->s->node[i])->joined_in < ring;
	return false;
}

/* Those of the first list that are not in the second. */
static size_t differ(struct cpg_address *out, const uint32_t *nodes, const uint32_t *pids, uint32_t n, const uint32_t *nodes2, const uint32_t *pids2, uint32_t n2, uint32_t reason)
{
	size_t k = 0;

	for (uint32_t i = 0; i < n; i++)
		if (!listed(nodes2, pids2, n2, nodes[i], pids[i]))
			out[k++] = (struct cpg_address){ nodes[i], pids[i], reason };
	return k;
}

static void tell_ring(const struct ddr_input *in)
{
	struct cpg_ring_id ring = { .nodeid = 1, .seq = in->ring };

	me->view_ring = in->ring;
	MINE(group).model.cpg_totem_confchg_fn(2, ring, in->n_nodes, in->nodes);
}

static void tell_view(const struct ddr_input *in)
{
	struct cpg_address now[SIM_MAX_NODES], left[SIM_MAX_NODES], joined[SIM_MAX_NODES];
	bool ring = in->ring != me->view_ring && me->view_ring;
	size_t n_left = differ(left, me->view, me->pids, me->n_view, in->nodes, in->pids, in->n_nodes, ring ? CPG_REASON_NODEDOWN : CPG_REASON_PROCDOWN);
	size_t n_joined = differ(joined, in->nodes, in->pids, in->n_nodes, me->view, me->pids, me->n_view, CPG_REASON_JOIN);
	bool nodes = false;

	for (size_t i = 0; i < n_joined && me->n_view; i++)
		if (comes_with_node(joined[i].nodeid, joined[i].pid, in->ring)) {
			joined[i].reason = CPG_REASON_NODEUP;
			nodes = true;
		}

	for (uint32_t i = 0; i < in->n_nodes; i++)
		now[i] = (struct cpg_address){ in->nodes[i], in->pids[i], 0 };
	me->n_view = in->n_nodes;
	memcpy(me->view, in->nodes, in->n_nodes * sizeof(me->view[0]));
	memcpy(me->pids, in->pids, in->n_nodes * sizeof(me->pids[0]));
	if (n_left || n_joined)
		MINE(group).model.cpg_confchg_fn(2, &MINE(group).name, now, in->n_nodes, left, n_left, joined, n_joined);
	if ((in->ring != me->view_ring || nodes) && me->cpg_fd)
		tell_ring(in);
}

static uint32_t pid_of(uint32_t node)
{
	for (uint32_t i = 0; i < me->n_view; i++)
		if (me->view[i] == node)
			return me->pids[i];
	return 0;
}

bool twin_own_group_ends(struct proc *p)
{
	struct file *f = p->cpg_fd && own[p - twin_proc].fd ? twin_file(own[p - twin_proc].fd) : NULL;

	if (!f)
		return false;
	f->ended = true;
	return true;
}

void twin_own_group_changed(const struct proc *p)
{
	if (p->cpg_fd && own[p - twin_proc].fd && own[p - twin_proc].joined)
		twin_file(own[p - twin_proc].fd)->count = 1;
}

/* This daemon is in the array's own group, and nobody else but daemons, or a command. */
static cs_error_t dispatch_own(void)
{
	struct cpg_address member[2] = { { .nodeid = me->n->id, .pid = (uint32_t)getpid() }, { .nodeid = me->s->rare.user, .pid = SIM_USER_PID } };

	if (twin_file(MINE(own).fd)->ended)
		return CS_ERR_LIBRARY;
	if (!twin_file(MINE(own).fd)->count)
		return CS_ERR_TRY_AGAIN;
	twin_file(MINE(own).fd)->count = 0;
	MINE(own).model.cpg_confchg_fn(OWN, NULL, member, me->s->rare.user ? 2 : 1, NULL, 0, member, 1);
	return CS_OK;
}

/* The node that the message declares lost, for what it owes; 0: it is another message. */
static uint32_t accused(const struct ddr_input *in)
{
	struct ddr_node_msg m;

	if (in->type == DDR_IN_VIEW || !ddr_node_msg_is(in->msg, in->msg_len) || ddr_node_msg_decode(in->msg, in->msg_len, &m) ||
	    m.type != DDR_N_VERDICT || !(m.verdict.flags & DDR_VERDICT_OWES))
		return 0;
	return m.verdict.process.node;
}

/* Nobody is declared lost who does what it owes (rule L3). */
static void judged(uint32_t node, bool before)
{
	if (!node || before || !me->d->link || !ddr_link_node_out(me->d->link, node))
		return;
	me->s->stats[STAT_OWED]++;
	if (me->n->unjust)
		sim_violation(me->s, "node %u is declared lost for a debt, and has done what it owed, or has just come", node);
}

cs_error_t cpg_dispatch(cpg_handle_t handle, cs_dispatch_flags_t types)
{
	const struct ddr_input *in = me->news;

	(void)types;
	if (handle == OWN)
		return dispatch_own();
	me->news = NULL;
	if (ended(me->cpg_fd))
		return CS_ERR_LIBRARY;
	if (!in)
		return CS_ERR_TRY_AGAIN;
	if (in->type == DDR_IN_VIEW)
		tell_view(in);
	else
		heard(in);
	if (in->type != DDR_IN_VIEW) {
		uint32_t node = accused(in);
		bool before = node && ddr_link_node_out(me->d->link, node);

		MINE(group).model.cpg_deliver_fn(2, &MINE(group).name, in->node, pid_of(in->node), (void *)(uintptr_t)in->msg, in->msg_len);
		judged(node, before);
	}
	return CS_OK;
}

void node_group_ended(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	if (p->alive && p->cpg_fd)
		twin_file(p->cpg_fd)->ended = true;
	if (p->alive && p->quorum_fd)
		twin_file(p->quorum_fd)->ended = true;
	for (struct file *f = twin_next_file(NULL); f; f = twin_next_file(f))
		f->ended |= f->p == p && f->kind == FILE_LIST;
}

/* What corosync reports waits in its connection until the daemon's loop looks at that. */
bool node_listens(const struct sim *s, const struct node *n, bool quorum)
{
	const struct proc *p = twin_of(s, n);
	int fd = quorum ? p->quorum_fd : p->cpg_fd;

	return p->alive && fd && twin_loop_polls(p, fd);
}

void twin_group_begin(const struct proc *p)
{
	memset(&own[p - twin_proc], 0, sizeof(own[0]));	/* of an earlier run */
}

void twin_group_end(struct proc *p)
{
	p->cpg_fd = p->quorum_fd = own[p - twin_proc].fd = 0;
	p->news = NULL;
	p->n_view = 0;
	cluster_gone(p->s, p->n);
}

/* ---- quorum ------------------------------------------------------------------------ */

cs_error_t quorum_model_initialize(quorum_handle_t *handle, quorum_model_t model, quorum_model_data_t *data, uint32_t *type, void *context)
{
	(void)model;
	twin_corosync_waits();
	if (twin_corosync_refused())
		return CS_ERR_LIBRARY;
	memcpy(&MINE(service), data, sizeof(MINE(service)));
	me->context.quorum = context;
	me->quorum_fd = twin_open(FILE_EVENT);
	*type = QUORUM_SET;
	*handle = 1;
	return CS_OK;
}

cs_error_t quorum_finalize(quorum_handle_t handle)
{
	(void)handle;
	close(me->quorum_fd);
	me->quorum_fd = 0;
	return CS_OK;
}

cs_error_t quorum_fd_get(quorum_handle_t handle, int *fd)
{
	(void)handle;
	*fd = me->quorum_fd;
	return CS_OK;
}

/* What it says first comes by the loop. */
cs_error_t quorum_trackstart(quorum_handle_t handle, unsigned int flags)
{
	(void)handle;
	(void)flags;
	twin_corosync_waits();
	twin_file(me->quorum_fd)->count = 1;
	return CS_OK;
}

cs_error_t quorum_context_get(quorum_handle_t handle, const void **context)
{
	(void)handle;
	*context = me->context.quorum;
	return CS_OK;
}

cs_error_t quorum_dispatch(quorum_handle_t handle, cs_dispatch_flags_t types)
{
	struct ddr_input first = { .type = DDR_IN_QUORUM };
	const struct ddr_input *in = me->news;

	(void)types;
	if (ended(me->quorum_fd))
		return CS_ERR_LIBRARY;
	if (!in)
		cluster_word(me->s, me->n, &first);
	me->news = NULL;
	twin_file(me->quorum_fd)->count = 0;
	in = in ? in : &first;
	MINE(service).quorum_notify_fn(handle, in->quorate, (struct quorum_ring_id){ .nodeid = 1, .seq = in->ring }, in->n_nodes, in->nodes);
	return CS_OK;
}

/* ---- votes: each node has one ------------------------------------------------------ */

cs_error_t votequorum_initialize(votequorum_handle_t *handle, votequorum_callbacks_t *callbacks)
{
	(void)callbacks;
	if (twin_corosync_refused())
		return CS_ERR_LIBRARY;
	*handle = 1;
	return CS_OK;
}

cs_error_t votequorum_finalize(votequorum_handle_t handle)
{
	(void)handle;
	return CS_OK;
}

cs_error_t votequorum_getinfo(votequorum_handle_t handle, unsigned int node, struct votequorum_info *info)
{
	struct ddr_input in = { .type = DDR_IN_QUORUM };

	(void)handle;
	twin_corosync_waits();
	cluster_members(me->s, me->n, &in);
	*info = (struct votequorum_info){ .node_id = node, .node_votes = 1, .total_votes = in.n_nodes, .quorum = me->s->n_nodes / 2 + 1 };
	return CS_OK;
}

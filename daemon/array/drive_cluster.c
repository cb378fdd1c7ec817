// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The driver of the state machine in a cluster: views and quorum in, fencing and fresh reads of the members out. See drive.h, and
 * lib/cluster/sm.h for the contract.
 *
 * A request is never answered from within the step that made it: what fails at once is answered by a later tick.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/disk/reload.h"
#include "daemon/group/fence.h"

/* ---- the group ------------------------------------------------------------------- */

/*
 * Notes when each node left the view: a fencing that began earlier proves nothing. If another ring joins us with nodes from which we
 * were separated, they may have seen an absent node come back, write, and leave again; so that moment counts as its loss.
 */
static void note_lost(struct ddr_array *a, const uint32_t *nodes, uint32_t n, uint64_t ring)
{
	struct ddr_array_cluster *c = &a->cluster;
	bool other_ring = ring != c->view_ring;
	uint64_t now = ddr_now_ms();

	c->view_ring = ring;

	for (uint32_t i = 0; i < c->n_seen; i++) {
		bool here = false;

		for (uint32_t j = 0; j < n; j++)
			here |= nodes[j] == c->seen[i].node;
		if (!here && (c->seen[i].here || other_ring))
			c->seen[i].lost_ms = now;
		c->seen[i].here = here;
	}
	for (uint32_t j = 0; j < n; j++) {
		bool known = false;

		for (uint32_t i = 0; i < c->n_seen; i++)
			known |= nodes[j] == c->seen[i].node;
		if (!known && c->n_seen < DDR_SM_MAX_NODES)
			c->seen[c->n_seen++] = (struct ddr_array_seen){ .node = nodes[j], .here = true };
	}
}

static void on_view(void *ctx, const uint32_t *nodes, const uint32_t *pids, const uint8_t *fences, uint32_t n, uint64_t ring)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_VIEW);
	bool foreign = false;

	note_lost(a, nodes, n, ring);
	for (uint32_t i = 0; i < n; i++)
		foreign |= nodes[i] == a->cluster.foreign;
	if (!foreign)
		a->cluster.foreign = 0;		/* it has left */
	in->n_nodes = n < DDR_SM_MAX_NODES ? n : DDR_SM_MAX_NODES;
	memcpy(in->nodes, nodes, in->n_nodes * sizeof(*nodes));
	memcpy(in->pids, pids, in->n_nodes * sizeof(*pids));
	memcpy(in->fences, fences, in->n_nodes * sizeof(*fences));
	in->quorate = !a->d->transport->cluster;
	in->ring = ring;
	in->version = a->cluster.version;
	ddr_drive_step(a, in);
}

static void on_excluded(void *ctx, uint32_t node)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_EXCLUDED);

	in->node = node;
	ddr_drive_step(a, in);
}

static void on_version(void *ctx, uint16_t version)
{
	struct ddr_array *a = ctx;

	if (a->cluster.version && version != a->cluster.version)
		qb_log(LOG_NOTICE, "array '%s': the nodes change from version %u of their protocol to version %u", a->name, a->cluster.version, version);
	a->cluster.version = version;
}

static bool is_complete(void *ctx)
{
	const struct ddr_array *a = ctx;

	return a->sm && !a->broken && ddr_sm_complete(a->sm);
}

static bool has_slot(void *ctx, uint32_t node)
{
	const struct ddr_array *a = ctx;

	return !a->sm || ddr_sm_has_slot(a->sm, node);
}

static uint64_t io_timeout(void *ctx)
{
	return ((const struct ddr_array *)ctx)->tune.io_timeout_ms;
}

static void on_quorum(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t ring)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_QUORUM);

	a->cluster.quorum_ring = ring;
	in->n_nodes = n < DDR_SM_MAX_QUORUM ? n : DDR_SM_MAX_QUORUM;
	memcpy(in->nodes, nodes, in->n_nodes * sizeof(*nodes));
	in->quorate = quorate;
	in->ring = ring;
	/*
	 * From now on other nodes may start the array. They fence each node that has a slot first. This node may be about to get its first slot, and no disk shows
	 * that yet. So its writes of superblocks that wait, for memory or the end of a standstill, must not follow: they would overwrite those of the others.
	 */
	if (!quorate)
		ddr_metaio_take_back(a->meta);
	ddr_drive_step(a, in);
}

static void on_foreign(void *ctx, uint32_t node, uint16_t version)
{
	struct ddr_array *a = ctx;

	ddr_drive_wake(a);
	a->cluster.foreign = node;
	a->cluster.foreign_version = version;
}

/*
 * The hello of such a node is ignored, so nothing can be agreed on while it is in the view. A node that takes part must stay, or it
 * is fenced. A node that does not take part may have a kernel with grants of an earlier daemon; the others deal with these as if this
 * daemon had not started.
 */
bool ddr_drive_unfit(struct ddr_array *a)
{
	char name[DDR_NODE_NAME_LEN];
	uint32_t node = a->cluster.foreign;

	if (!node || ddr_sm_takes_part(a->sm))
		return false;
	snprintf(a->error, sizeof(a->error), "ddraidd on node %u (%s) speaks version %u of the group protocol, this one and its kernel module speak versions %u "
					     "to %u; install the same release on all nodes, and load its module",
		 node, a->d->transport->node_name(a->d, node, name, sizeof(name)), a->cluster.foreign_version, a->d->speaks.lowest, a->d->speaks.highest);
	return true;
}

static void on_message(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_MSG);

	in->node = node;
	in->msg = msg;
	in->msg_len = len;
	ddr_drive_step(a, in);
}

void ddr_drive_tell_cluster(struct ddr_array *a)
{
	uint8_t id[16];

	a->d->transport->cluster_id(a->d, id);
	if (a->sm)
		ddr_sm_set_cluster(a->sm, id);
}

static void on_waits(void *ctx, const char *text)
{
	struct ddr_array *a = ctx;

	snprintf(a->cluster.waits, sizeof(a->cluster.waits), "%s", text ? text : "");
	if (text)
		ddr_event_plain(a, LOG_WARNING, "wait", text);
}

static void on_debts(void *ctx, struct ddr_node_debts *list)
{
	const struct ddr_array *a = ctx;

	if (a->sm && !a->broken)
		ddr_sm_debts(a->sm, ddr_now_ms(), list);
}

static void on_debt(void *ctx, enum ddr_debt_news news, const char *text)
{
	struct ddr_array *a = ctx;

	if (news == DDR_DEBT_LASTS)
		snprintf(a->cluster.debt, sizeof(a->cluster.debt), "%s", text ? text : "");
	else
		ddr_event_plain(a, news == DDR_DEBT_BEGINS ? LOG_WARNING : LOG_NOTICE, news == DDR_DEBT_BEGINS ? "wait" : "wait-over", text);
}

/* Without a group nothing may be written, as without quorum. array.c starts again when the cluster is back. */
static void on_lost(void *ctx, const char *why)
{
	struct ddr_array *a = ctx;
	uint32_t self = a->d->transport->node(a->d);

	a->cluster.lost = true;
	a->cluster.debt[0] = '\0';
	snprintf(a->error, sizeof(a->error), "the connection to the cluster was lost: %s", why);
	ddr_event_plain(a, LOG_CRIT, "cluster-lost", a->error);
	on_quorum(a, &self, 1, false, a->cluster.quorum_ring);
}

const struct ddr_transport_events ddr_drive_transport_events = {
	.view = on_view, .excluded = on_excluded, .quorum = on_quorum, .message = on_message, .foreign = on_foreign, .version = on_version, .complete = is_complete, .has_slot = has_slot, .io_timeout = io_timeout, .waits = on_waits, .debts = on_debts, .debt = on_debt, .lost = on_lost,
};

/* ---- reading the members again ---------------------------------------------------- */

static void give_read(struct ddr_array *a, enum ddr_in_type type, uint64_t io, int result)
{
	struct ddr_input *in = ddr_drive_input(a, type);

	in->io = io;
	in->result = result;
	ddr_drive_step(a, in);
}

static void load_blocks(struct ddr_array *a, const struct ddr_reload *r)
{
	if (r->slot == DDR_RELOAD_SUPER) {
		a->owners = r->owners;
		ddr_sm_load_super(a->sm, &r->super);
		ddr_sm_load_owners(a->sm, &r->owners);
		for (uint32_t i = 0; i < r->super.map_blocks; i++)
			ddr_sm_load_map(a->sm, i, r->block[i].valid ? r->block[i].payload : NULL, r->block[i].seq);
		return;
	}
	for (uint32_t i = 0; i < r->super.log_blocks; i++) {
		const struct ddr_load_block *b = &r->block[i];

		ddr_sm_load_log(a->sm, r->slot, i, b->valid ? b->payload : NULL, b->seq, b->node, b->boot_id, b->cookie);
		if (b->valid)
			ddr_sm_load_repairs(a->sm, r->slot, i, b->repair);
	}
}

static void on_reload(void *ctx, struct ddr_reload *r)
{
	struct ddr_array *a = ctx;
	bool super = r->slot == DDR_RELOAD_SUPER;

	if (a) {
		for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++)
			if (a->cluster.reload[i] == r)
				a->cluster.reload[i] = NULL;
		if (r->result == 0)
			load_blocks(a, r);
		else
			qb_log(LOG_ERR, "array '%s': %s cannot be read, and is read again in a moment: %s", a->name,
			       super ? "superblock and region map" : "the dirty log of a slot", strerror(-r->result));
		give_read(a, super ? DDR_IN_RELOADED : DDR_IN_SLOT_DONE, r->io, r->result);
	}
	ddr_reload_free(r);
}

static int start_reload(struct ddr_array *a, const struct ddr_output *o, uint16_t slot)
{
	struct ddr_reload **place = NULL, *r;
	int ret;

	for (unsigned int i = 0; !place && i < DDR_ARRAY_RELOADS; i++)
		if (!a->cluster.reload[i])
			place = &a->cluster.reload[i];
	r = place ? calloc(1, sizeof(*r)) : NULL;
	if (!r)
		return -ENOMEM;
	r->members = a->members;
	r->super = a->super;
	/* the state machine decides about member states: read the members that it names */
	for (unsigned int m = 0; slot != DDR_RELOAD_SUPER && m < r->super.members; m++)
		r->super.member[m].state = o->members & (1u << m) ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_FAULTY;
	r->from = slot == DDR_RELOAD_SUPER && !o->members ? a->members->open : o->members;
	r->slot = slot;
	r->since = o->since;
	r->limit_ms = (unsigned int)a->tune.io_timeout_ms;
	r->io = o->io;
	r->done = on_reload;
	r->ctx = a;
	ret = ddr_reload_start(r, a->d->loop);
	if (ret) {
		free(r);
		return ret;
	}
	*place = r;
	return 0;
}

/* ---- answers that wait for a tick ------------------------------------------------ */

/*
 * A free entry, or the one that holds an older question to the operator about the same node. Nothing waits for proof of the earlier
 * failure any more, so there is at most one for each node.
 */
static struct ddr_array_answer *answer_place(struct ddr_array *a, const struct ddr_array_answer *what)
{
	struct ddr_array_answer *place = NULL;

	for (unsigned int i = 0; i < DDR_ARRAY_ANSWERS; i++) {
		struct ddr_array_answer *w = &a->cluster.answer[i];

		if (what->external && w->used && w->external && w->node == what->node)
			return w;
		if (!w->used && !place)
			place = w;
	}
	return place;
}

static void answer_later(struct ddr_array *a, const struct ddr_array_answer *what)
{
	struct ddr_array_answer *p = answer_place(a, what);

	ddr_drive_wake(a);
	if (p)
		*p = *what;
	else
		ddr_drive_break(a, "more requests are pending than can be open at once");
}

static void give_fenced(struct ddr_array *a, uint32_t node, uint64_t failure, int result)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_FENCED);

	in->node = node;
	in->failure = failure;
	in->result = result;
	in->cut_off = a->d->conf.fence_method == DDR_FENCE_BY_STORAGE;
	ddr_drive_step(a, in);
}

static void give_answer(struct ddr_array *a, const struct ddr_array_answer *w)
{
	if (w->type == DDR_IN_FENCED)
		give_fenced(a, w->node, w->failure, w->result);
	else
		give_read(a, w->type, w->io, w->result);
}

void ddr_drive_cluster_tick(struct ddr_array *a, uint64_t now_ms)
{
	for (unsigned int i = 0; i < DDR_ARRAY_ANSWERS && a->sm; i++) {
		struct ddr_array_answer w = a->cluster.answer[i];

		if (!w.used || w.external || now_ms < w.due_ms)
			continue;
		a->cluster.answer[i].used = false;
		give_answer(a, &w);
	}
}

/* ---- fencing --------------------------------------------------------------------- */

/* The state machine decides when and where the next attempt follows. */
static void fence_failed(struct ddr_array *a, uint32_t node, const char *why)
{
	char name[DDR_NODE_NAME_LEN], text[DDR_ERROR_LEN];

	snprintf(text, sizeof(text), "fencing of node %u (%s) failed: %s; retrying", node, a->d->transport->node_name(a->d, node, name, sizeof(name)),
		 why);
	ddr_event_plain(a, LOG_ERR, "fence-failed", text);
}

static void on_fenced(void *ctx, uint32_t node, uint64_t failure, int result, const char *why)
{
	struct ddr_array *a = ctx;
	char name[DDR_NODE_NAME_LEN], text[DDR_ERROR_LEN];

	if (result) {
		fence_failed(a, node, why);
	} else {
		snprintf(text, sizeof(text), "node %u (%s) was fenced", node, a->d->transport->node_name(a->d, node, name, sizeof(name)));
		ddr_event_plain(a, LOG_NOTICE, "fenced", text);
	}
	give_fenced(a, node, failure, result);
}

static uint64_t lost_at(const struct ddr_array *a, uint32_t node)
{
	for (uint32_t i = 0; i < a->cluster.n_seen; i++)
		if (a->cluster.seen[i].node == node && !a->cluster.seen[i].here)
			return a->cluster.seen[i].lost_ms;
	return ddr_now_ms();
}

static void fence(struct ddr_array *a, const struct ddr_output *o)
{
	const struct ddr_conf *conf = &a->d->conf;
	struct ddr_array_answer w = { .used = true, .type = DDR_IN_FENCED, .node = o->node, .failure = o->failure };
	char name[DDR_NODE_NAME_LEN], buf[128];
	struct ddr_fence_whom whom = { .node = o->node, .name = name, .failure = o->failure, .lost_ms = lost_at(a, o->node), .settle_ms = o->settle_ms };
	struct ddr_fence_disks disks;
	const char *why;
	int ret = -ENXIO;

	if (strcmp(conf->fence_command, DDR_FENCE_EXTERNAL) == 0) {
		w.external = true;
		answer_later(a, &w);
		return;
	}
	why = ddr_drive_fence_name(a, o->node, name, buf, sizeof(buf));
	if (!why)
		why = ddr_drive_cut_off(a, &whom, &disks, buf, sizeof(buf));
	if (!why) {
		ret = ddr_fence_ask(a->d->fence, conf, &whom, on_fenced, a);
		if (ret == 0)
			return;
		why = ret == -EALREADY ? "two fence commands against it have not ended" : strerror(-ret);
	}
	fence_failed(a, o->node, why);
	w.result = ret;
	answer_later(a, &w);
}

const char *ddr_drive_fence_ack(struct ddr_array *a, uint32_t node)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_FENCE_ACK);
	const char *why;

	in->node = node;
	why = ddr_drive_request(a, in);
	if (why)
		return why;
	for (unsigned int i = 0; i < DDR_ARRAY_ANSWERS; i++) {
		struct ddr_array_answer *w = &a->cluster.answer[i];

		if (w->used && w->external && w->node == node)
			w->external = false;	/* answered by the next tick */
	}
	return NULL;
}

void ddr_drive_cluster_output(struct ddr_array *a, const struct ddr_output *o)
{
	bool reload = o->type == DDR_OUT_RELOAD;
	int ret;

	if (o->type == DDR_OUT_FENCE) {
		fence(a, o);
		return;
	}
	ret = start_reload(a, o, reload ? DDR_RELOAD_SUPER : (uint16_t)o->slot);
	if (ret)
		answer_later(a, &(struct ddr_array_answer){ .used = true, .io = o->io, .result = ret,
							    .type = reload ? DDR_IN_RELOADED : DDR_IN_SLOT_DONE });
}

/*
 * Leaving took too long. The group is left without the LEAVE message, so that the others wait for proof that none of our writes can
 * reach a member any more.
 */
static void leave_unsaid(struct ddr_array *a)
{
	uint32_t members = ddr_drive_landing(a);
	char text[224], which[DDR_MEMBERS_TEXT];

	if (members)
		snprintf(text, sizeof(text), "this node leaves while writes to hung members (%s) are outstanding: the other nodes fence it, or wait for "
					     "ddraid fence-ack", ddr_drive_members_text(members, which));
	else
		snprintf(text, sizeof(text), "this node leaves before all nodes have agreed on it: the other nodes fence it, or wait for ddraid "
					     "fence-ack");
	ddr_event_plain(a, LOG_ERR, "left-unsaid", text);
}

bool ddr_drive_leave(struct ddr_array *a)
{
	if (!a->d->transport->cluster || a->broken || a->cluster.lost || a->cluster.gave_up)
		return false;
	if (a->cluster.leaving) {
		if (!a->cluster.left)
			leave_unsaid(a);
		return false;
	}
	a->cluster.leaving = a->parting = true;
	ddr_drive_step(a, ddr_drive_input(a, DDR_IN_OP_LEAVE));
	return !a->cluster.left;
}

void ddr_drive_cluster_stop(struct ddr_array *a)
{
	ddr_fence_forget(a->d->fence, a);
	for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++)
		if (a->cluster.reload[i])
			a->cluster.reload[i]->ctx = NULL;
	memset(&a->cluster, 0, sizeof(a->cluster));
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* See hold.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <corosync/quorum.h>
#include <uuid/uuid.h>

#include "cli/hold.h"

#define TRIES		100
#define PAUSE_MS	100

static void on_members(cpg_handle_t handle, const struct cpg_name *name, const struct cpg_address *member, size_t n,
		       const struct cpg_address *left, size_t n_left, const struct cpg_address *joined, size_t n_joined)
{
	void *context = NULL;

	(void)name, (void)member, (void)left, (void)n_left, (void)joined, (void)n_joined;
	if (cpg_context_get(handle, &context) == CS_OK && context)
		((struct hold *)context)->nodes = (uint32_t)n;
}

static void pause_a_while(void)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };

	nanosleep(&pause, NULL);
}

static int failed(struct ddr_error *err, const char *what, cs_error_t ret)
{
	return ddr_error_set(err, "corosync: %s failed (error %d), so it is unknown whether another node uses the array; nothing was changed", what,
			     (int)ret);
}

static void group_name(struct cpg_name *name, const uint8_t uuid[16])
{
	char text[37];

	uuid_unparse_lower(uuid, text);
	name->length = (uint32_t)snprintf(name->value, sizeof(name->value), "ddraid:%s", text);
}

/* Checks that the group has no processes. */
static int look(const struct hold *h, struct cpg_name *name, struct ddr_error *err)
{
	struct cpg_iteration_description_t found;
	cpg_iteration_handle_t iteration;
	cs_error_t ret = CS_ERR_TRY_AGAIN;

	for (int i = 0; i < TRIES && ret == CS_ERR_TRY_AGAIN; i++) {
		ret = cpg_iteration_initialize(h->handle, CPG_ITERATION_ONE_GROUP, name, &iteration);
		if (ret == CS_ERR_TRY_AGAIN)
			pause_a_while();
	}
	if (ret != CS_OK)
		return failed(err, "checking which nodes use the array", ret);
	ret = cpg_iteration_next(iteration, &found);
	cpg_iteration_finalize(iteration);
	if (ret == CS_OK)
		return ddr_error_set(err, "node %" PRIu32 " has started the array, or is starting it; stop it on all nodes first", found.nodeid);
	return ret == CS_ERR_NO_SECTIONS ? 0 : failed(err, "checking which nodes use the array", ret);
}

static int check_quorum(struct ddr_error *err)
{
	quorum_callbacks_t none = { 0 };
	quorum_handle_t handle;
	uint32_t type;
	int quorate = 0;
	cs_error_t ret = quorum_initialize(&handle, &none, &type);

	if (ret != CS_OK)
		return failed(err, "asking for quorum", ret);
	ret = quorum_getquorate(handle, &quorate);
	quorum_finalize(handle);
	if (ret != CS_OK)
		return failed(err, "asking for quorum", ret);
	return quorate ? 0 : ddr_error_set(err, "this part of the cluster has no quorum: another part may be using the array; nothing was changed");
}

int hold_check(struct hold *h, struct ddr_error *err)
{
	cs_error_t ret = h->handle ? cpg_dispatch(h->handle, CS_DISPATCH_ALL) : CS_OK;

	if (ret != CS_OK && ret != CS_ERR_TRY_AGAIN)
		return failed(err, "the connection", ret);
	if (h->handle && h->nodes > 1)
		return ddr_error_set(err, "another node is starting the array; stop it there first");
	return 0;
}

static int join(struct hold *h, struct cpg_name *name, struct ddr_error *err)
{
	cs_error_t ret = CS_ERR_TRY_AGAIN;

	for (int i = 0; i < TRIES && ret == CS_ERR_TRY_AGAIN; i++) {
		ret = cpg_join(h->handle, name);
		if (ret == CS_ERR_TRY_AGAIN)
			pause_a_while();
	}
	if (ret != CS_OK)
		return failed(err, "joining the array's group", ret);
	for (int i = 0; i < TRIES && !h->nodes; i++) {
		if (hold_check(h, err))
			return -1;
		if (!h->nodes)
			pause_a_while();
	}
	return h->nodes ? check_quorum(err) : failed(err, "joining the array's group", CS_ERR_TIMEOUT);
}

int hold_take(struct hold *h, const uint8_t uuid[16], struct ddr_error *err)
{
	cpg_callbacks_t callbacks = { .cpg_confchg_fn = on_members };
	struct cpg_name name;
	cs_error_t ret;

	*h = (struct hold){ 0 };
	group_name(&name, uuid);
	ret = cpg_initialize(&h->handle, &callbacks);
	if (ret != CS_OK) {
		h->handle = 0;
		return failed(err, "the connection", ret);
	}
	cpg_context_set(h->handle, h);
	if (look(h, &name, err) == 0 && join(h, &name, err) == 0)
		return 0;
	hold_drop(h);
	return -1;
}

void hold_drop(struct hold *h)
{
	if (h->handle)
		cpg_finalize(h->handle);	/* this leaves the group */
	h->handle = 0;
}

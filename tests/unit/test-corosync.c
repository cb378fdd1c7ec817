// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon asks corosync, and what it makes of the answers: ids, names, and the quorum of large clusters. Corosync's libraries
 * are simulated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <corosync/cmap.h>
#include <corosync/cpg.h>
#include <corosync/quorum.h>
#include <qb/qbloop.h>

#include "daemon/group/corosync.h"

#define NODES	70u

static struct {
	int pipe[2];
	quorum_model_v1_data_t calls;
	const void *context;
	uint32_t place[NODES], id[NODES];	/* of corosync's list */
	unsigned int at;
} play;

cs_error_t cpg_initialize(cpg_handle_t *handle, cpg_callbacks_t *callbacks)
{
	(void)callbacks;
	*handle = 1;
	return CS_OK;
}

cs_error_t cpg_local_get(cpg_handle_t handle, unsigned int *node)
{
	(void)handle;
	*node = UINT32_MAX;
	return CS_OK;
}

cs_error_t cpg_finalize(cpg_handle_t handle)
{
	(void)handle;
	return CS_OK;
}

cs_error_t quorum_model_initialize(quorum_handle_t *handle, quorum_model_t model, quorum_model_data_t *data, uint32_t *type, void *context)
{
	(void)model;
	memcpy(&play.calls, data, sizeof(play.calls));
	play.context = context;
	*type = QUORUM_SET;
	*handle = 1;
	return CS_OK;
}

cs_error_t quorum_finalize(quorum_handle_t handle)
{
	(void)handle;
	return CS_OK;
}

cs_error_t quorum_fd_get(quorum_handle_t handle, int *fd)
{
	(void)handle;
	*fd = play.pipe[0];
	return CS_OK;
}

cs_error_t quorum_trackstart(quorum_handle_t handle, unsigned int flags)
{
	(void)handle, (void)flags;
	return CS_OK;
}

cs_error_t quorum_dispatch(quorum_handle_t handle, cs_dispatch_flags_t types)
{
	(void)handle, (void)types;
	return CS_OK;
}

cs_error_t quorum_context_get(quorum_handle_t handle, const void **context)
{
	(void)handle;
	*context = play.context;
	return CS_OK;
}

cs_error_t cmap_initialize(cmap_handle_t *handle)
{
	*handle = 1;
	return CS_OK;
}

cs_error_t cmap_finalize(cmap_handle_t handle)
{
	(void)handle;
	return CS_OK;
}

cs_error_t cmap_iter_init(cmap_handle_t handle, const char *prefix, cmap_iter_handle_t *iter)
{
	(void)handle, (void)prefix;
	play.at = 0;
	*iter = 1;
	return CS_OK;
}

cs_error_t cmap_iter_next(cmap_handle_t handle, cmap_iter_handle_t iter, char key[], size_t *len, cmap_value_types_t *type)
{
	static const char *const names[] = { "name", "nodeid", "ring0_addr" };
	unsigned int node = play.at / 3;

	(void)handle, (void)iter, (void)len, (void)type;
	if (node == NODES)
		return CS_ERR_NO_SECTIONS;
	snprintf(key, CMAP_KEYNAME_MAXLEN, "nodelist.node.%u.%s", play.place[node], names[play.at++ % 3]);
	return CS_OK;
}

cs_error_t cmap_iter_finalize(cmap_handle_t handle, cmap_iter_handle_t iter)
{
	(void)handle, (void)iter;
	return CS_OK;
}

cs_error_t cmap_get_uint32(cmap_handle_t handle, const char *key, uint32_t *value)
{
	unsigned int place;

	(void)handle;
	if (sscanf(key, "nodelist.node.%u.nodeid", &place) != 1)
		return CS_ERR_NOT_EXIST;
	for (unsigned int i = 0; i < NODES; i++)
		if (play.place[i] == place) {
			*value = play.id[i];
			return CS_OK;
		}
	return CS_ERR_NOT_EXIST;
}

cs_error_t cmap_get_string(cmap_handle_t handle, const char *key, char **value)
{
	unsigned int place;

	(void)handle;
	if (sscanf(key, "nodelist.node.%u.name", &place) != 1 || asprintf(value, "at%u", place) < 0)
		return CS_ERR_NOT_EXIST;
	return CS_OK;
}

static struct ddr_corosync *open_it(qb_loop_t **loop)
{
	struct ddr_corosync *c;

	memset(&play, 0, sizeof(play));
	for (uint32_t i = 0; i < NODES; i++) {
		play.place[i] = i < 64 ? i : i + 100;		/* nodes were taken out of the file while corosync ran */
		play.id[i] = i + 1;
	}
	play.id[NODES - 1] = UINT32_MAX;
	assert_int_equal(pipe(play.pipe), 0);
	*loop = qb_loop_create();
	assert_int_equal(ddr_corosync_open(&c, *loop), 0);
	return c;
}

static void close_it(struct ddr_corosync *c, qb_loop_t *loop)
{
	ddr_corosync_close(c);
	qb_loop_destroy(loop);
	close(play.pipe[0]);
	close(play.pipe[1]);
}

static const struct ddr_quorum *quorate_of(struct ddr_corosync *c, uint32_t n)
{
	uint32_t nodes[DDR_COROSYNC_NODES + 1];
	struct quorum_ring_id ring = { .nodeid = 1, .seq = (5ull << 32) + 4 };

	for (uint32_t i = 0; i < n; i++)
		nodes[i] = i + 1;
	play.calls.quorum_notify_fn(1, 1, ring, n, nodes);
	return ddr_corosync_quorum(c);
}

/* Finding U9: a cluster may have more than 64 nodes. The 65th, whether it has the array or not, must not take quorum from the others. */
static void more_than_64_nodes_have_quorum(void **state)
{
	const struct ddr_quorum *q;
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	for (uint32_t n = 63; n <= 66; n++) {
		q = quorate_of(c, n);
		assert_true(q->quorate);
		assert_int_equal(q->n, n);
		assert_int_equal(q->node[n - 1], n);
		assert_true(q->ring.seq == (5ull << 32) + 4);
	}
	assert_true(quorate_of(c, DDR_COROSYNC_NODES)->quorate);
	q = quorate_of(c, DDR_COROSYNC_NODES + 1);		/* corosync allows no more; a node that cannot be listed is not quorate */
	assert_false(q->quorate);
	close_it(c, loop);
}

/* Finding U9: whatever place a node has in corosync's list, and whatever its id, its name is found: fence agents are called by it. */
static void names_behind_the_64th_place(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	assert_true(ddr_corosync_node(c) == UINT32_MAX);
	assert_string_equal(ddr_corosync_name(c, 1, name, sizeof(name)), "at0");
	assert_string_equal(ddr_corosync_name(c, 64, name, sizeof(name)), "at63");
	assert_string_equal(ddr_corosync_name(c, 65, name, sizeof(name)), "at164");
	assert_string_equal(ddr_corosync_name(c, UINT32_MAX, name, sizeof(name)), "at169");
	assert_string_equal(ddr_corosync_name(c, 1000, name, sizeof(name)), "node 1000");
	assert_string_equal(ddr_corosync_name(c, 0, name, sizeof(name)), "node 0");
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	close_it(c, loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_64_nodes_have_quorum),
		cmocka_unit_test(names_behind_the_64th_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

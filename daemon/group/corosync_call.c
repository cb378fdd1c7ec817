// SPDX-License-Identifier: GPL-2.0-or-later
/* Questions to corosync, for corosync.c's threads. See corosync_call.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <corosync/cpg.h>

#include "daemon/group/corosync_call.h"

#define LIST	"nodelist."

/* By a connection that is closed again. */
cs_error_t ddr_corosync_ask_node(uint32_t *node)
{
	cpg_callbacks_t none = { 0 };
	unsigned int id;
	cpg_handle_t h;
	cs_error_t ret = cpg_initialize(&h, &none);

	if (ret != CS_OK)
		return ret;
	ret = cpg_local_get(h, &id);
	if (ret == CS_OK)
		*node = id;
	cpg_finalize(h);
	return ret;
}

/* ---- the list ------------------------------------------------------------------- */

/* Is it the key @what of a node? Their positions in the list may have gaps. */
static bool is_key(const char *key, const char *what, unsigned int *place)
{
	int end = 0;

	return sscanf(key, LIST "node.%u.%n", place, &end) == 1 && end && strcmp(key + end, what) == 0;
}

/* Adds the node, with its name or without one. What could not be asked is left out: an invented name might be another machine's. */
static void add_node(cmap_handle_t h, struct ddr_corosync_list *list, unsigned int place, uint32_t id)
{
	char key[CMAP_KEYNAME_MAXLEN + 1], *name = NULL;
	cs_error_t ret;

	snprintf(key, sizeof(key), LIST "node.%u.name", place);
	ret = cmap_get_string(h, key, &name);
	if ((ret != CS_OK && ret != CS_ERR_NOT_EXIST) || list->n == DDR_COROSYNC_NODES) {
		list->partly = true;
		return;
	}
	list->node[list->n].node = id;
	snprintf(list->node[list->n++].name, DDR_COROSYNC_NAME_LEN, "%s", ret == CS_OK ? name : "");
	if (ret == CS_OK)
		free(name);
}

/* Each node has an address; not each need have an id or a name. */
static cs_error_t walk(cmap_handle_t h, struct ddr_corosync_list *list)
{
	char key[CMAP_KEYNAME_MAXLEN + 1];
	cmap_iter_handle_t iter;
	cmap_value_types_t type;
	unsigned int place;
	uint32_t id;
	size_t len;
	cs_error_t ret = cmap_iter_init(h, LIST "node.", &iter);

	if (ret != CS_OK)
		return ret;
	while ((ret = cmap_iter_next(h, iter, key, &len, &type)) == CS_OK) {
		if (is_key(key, "ring0_addr", &place))
			list->listed++;
		if (!is_key(key, "nodeid", &place))
			continue;
		if (cmap_get_uint32(h, key, &id) != CS_OK)
			list->partly = true;
		else if (id)		/* 0 is never a node's id */
			add_node(h, list, place, id);
	}
	cmap_iter_finalize(h, iter);
	return ret == CS_ERR_NO_SECTIONS ? CS_OK : ret;
}

cs_error_t ddr_corosync_ask_list(struct ddr_corosync_list *list)
{
	cmap_handle_t h;
	cs_error_t ret = cmap_initialize(&h);

	memset(list, 0, sizeof(*list));
	if (ret != CS_OK)
		return ret;
	ret = walk(h, list);
	cmap_finalize(h);
	return ret;
}

static void on_change(cmap_handle_t h, cmap_track_handle_t track, int32_t event, const char *key, struct cmap_notify_value new_value,
		      struct cmap_notify_value old_value, void *data)
{
	struct ddr_corosync_watch *w = data;

	(void)h, (void)track, (void)event, (void)key, (void)new_value, (void)old_value;
	w->changed = true;
}

cs_error_t ddr_corosync_ask_watch(struct ddr_corosync_watch *w)
{
	cmap_track_handle_t track;
	cs_error_t ret = cmap_initialize(&w->handle);

	w->changed = false;
	if (ret != CS_OK)
		return ret;
	ret = cmap_fd_get(w->handle, &w->fd);
	if (ret == CS_OK)
		ret = cmap_track_add(w->handle, LIST, CMAP_TRACK_ADD | CMAP_TRACK_DELETE | CMAP_TRACK_MODIFY | CMAP_TRACK_PREFIX, on_change, w, &track);
	if (ret != CS_OK)
		cmap_finalize(w->handle);
	return ret;
}

void ddr_corosync_end_watch(struct ddr_corosync_watch *w)
{
	cmap_finalize(w->handle);
}

/* ---- quorum --------------------------------------------------------------------- */

cs_error_t ddr_corosync_ask_reports(struct ddr_corosync_reports *r, quorum_v1_quorum_notification_fn_t report, void *ctx)
{
	quorum_model_v1_data_t model = { .model = QUORUM_MODEL_V1, .quorum_notify_fn = report };
	uint32_t type = QUORUM_FREE;
	cs_error_t ret;

	ret = quorum_model_initialize(&r->handle, QUORUM_MODEL_V1, (quorum_model_data_t *)&model, &type, ctx);
	if (ret != CS_OK)
		return ret;
	r->no_quorum = type != QUORUM_SET;
	if (r->no_quorum)
		ret = CS_ERR_NOT_SUPPORTED;
	if (ret == CS_OK)
		ret = quorum_fd_get(r->handle, &r->fd);
	if (ret == CS_OK)
		ret = quorum_trackstart(r->handle, CS_TRACK_CURRENT | CS_TRACK_CHANGES);
	if (ret != CS_OK)
		quorum_finalize(r->handle);
	return ret;
}

void ddr_corosync_end_reports(struct ddr_corosync_reports *r)
{
	quorum_finalize(r->handle);
}

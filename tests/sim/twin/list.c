// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of corosync's libcmap: a list with all nodes in it, but for those that were taken out. A handle is a descriptor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <corosync/cmap.h>

#include "twin.h"

#define MINE(x)		((x)[me - twin_proc])
#define UNTRACKED	UINT64_MAX

static struct { cmap_notify_fn_t fn; void *data; } watch[SIM_MAX_NODES];

/* Which nodes the list has, by which a change is noticed. */
static uint64_t listed_nodes(void)
{
	const struct sim *s = twin_proc[0].s;
	uint64_t nodes = 0;

	for (unsigned int i = 0; s && i < s->n_nodes; i++)
		nodes |= (uint64_t)!s->node[i].unlisted << i;
	return nodes;
}

bool twin_list_changed(const struct file *f)
{
	return f->count != UNTRACKED && f->count != listed_nodes();
}

cs_error_t cmap_initialize(cmap_handle_t *handle)
{
	int fd;

	twin_corosync_waits();
	if (twin_corosync_refused())
		return CS_ERR_LIBRARY;
	fd = twin_open(FILE_LIST);
	twin_file(fd)->count = UNTRACKED;
	*handle = (cmap_handle_t)fd;
	return CS_OK;
}

cs_error_t cmap_finalize(cmap_handle_t handle)
{
	close((int)handle);
	return CS_OK;
}

cs_error_t cmap_fd_get(cmap_handle_t handle, int *fd)
{
	*fd = (int)handle;
	return CS_OK;
}

cs_error_t cmap_track_add(cmap_handle_t handle, const char *key, int32_t types, cmap_notify_fn_t notify, void *data, cmap_track_handle_t *track)
{
	(void)key;
	(void)types;
	twin_corosync_waits();
	twin_file((int)handle)->count = listed_nodes();
	MINE(watch).fn = notify;
	MINE(watch).data = data;
	*track = 1;
	return CS_OK;
}

cs_error_t cmap_dispatch(cmap_handle_t handle, cs_dispatch_flags_t types)
{
	struct file *f = twin_file((int)handle);
	struct cmap_notify_value none = { 0 };

	(void)types;
	if (f->ended)
		return CS_ERR_LIBRARY;
	if (twin_list_changed(f))
		MINE(watch).fn(handle, 1, CMAP_TRACK_MODIFY, "nodelist.node.0.nodeid", none, none, MINE(watch).data);
	f->count = listed_nodes();
	return CS_OK;
}

static uint32_t at;	/* of the iteration under way: two keys for each node */

cs_error_t cmap_iter_init(cmap_handle_t handle, const char *prefix, cmap_iter_handle_t *iter)
{
	(void)handle;
	(void)prefix;
	twin_corosync_waits();
	at = 0;
	*iter = 1;
	return CS_OK;
}

cs_error_t cmap_iter_next(cmap_handle_t handle, cmap_iter_handle_t iter, char key[], size_t *len, cmap_value_types_t *type)
{
	(void)handle;
	(void)iter;
	while (at / 2 < me->s->n_nodes && me->s->node[at / 2].unlisted)
		at += 2;
	if (at / 2 >= me->s->n_nodes)
		return CS_ERR_NO_SECTIONS;
	snprintf(key, CMAP_KEYNAME_MAXLEN, "nodelist.node.%u.%s", at / 2, at % 2 ? "nodeid" : "ring0_addr");
	*len = 4;
	*type = CMAP_VALUETYPE_UINT32;
	at++;
	return CS_OK;
}

cs_error_t cmap_iter_finalize(cmap_handle_t handle, cmap_iter_handle_t iter)
{
	(void)handle;
	(void)iter;
	return CS_OK;
}

cs_error_t cmap_get_uint32(cmap_handle_t handle, const char *key, uint32_t *value)
{
	unsigned int place = 0;

	(void)handle;
	sscanf(key, "nodelist.node.%u", &place);
	*value = place + 1;
	return CS_OK;
}

cs_error_t cmap_get_string(cmap_handle_t handle, const char *key, char **text)
{
	unsigned int place = 0;
	char name[32];

	(void)handle;
	sscanf(key, "nodelist.node.%u", &place);
	snprintf(name, sizeof(name), "node%u", place + 1);
	*text = strdup(name);
	return *text ? CS_OK : CS_ERR_NO_MEMORY;
}

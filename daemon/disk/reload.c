// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the members again. See reload.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/reload.h"
#include "lib/disk/look.h"

static bool newer(const struct ddr_super *a, const struct ddr_super *b)
{
	return a->generation != b->generation ? a->generation > b->generation : a->seq > b->seq;
}

/* Starts to read the superblocks of one member. False: out of memory. */
static bool begin_super(const struct ddr_reload *r, unsigned int m, struct ddr_look **look)
{
	struct ddr_error err;

	return ddr_load_begun(ddr_look_read(look, &r->members->dev[m], r->limit_ms, &err), r->members, m, "the superblock", &err);
}

/* Takes the superblock of one member if it is newer than @best (valid if @any). Returns whether @best is valid now. @own: see read_super(). */
static bool take_super(struct ddr_reload *r, unsigned int m, struct ddr_look *look, struct ddr_super *best, bool any, bool *own)
{
	const struct ddr_super *sb;

	if (!look)
		return any;
	if (!ddr_look_wait(look)) {
		qb_log(LOG_ERR, "array '%s': %s has not delivered its superblock within %u ms", r->members->array, r->members->name[m], r->limit_ms);
	} else if (look->supers.newest < 0) {
		qb_log(LOG_ERR, "array '%s': %s", r->members->array, look->error.text);
		*own |= look->error.own;
	} else {
		sb = &look->supers.copy[look->supers.newest].super;
		if (memcmp(sb->array_uuid, r->super.array_uuid, sizeof(sb->array_uuid)) == 0 && (!any || newer(sb, best))) {
			*best = *sb;
			r->owners = look->supers.owners;
			any = true;
		}
	}
	ddr_look_put(look);
	return any;
}

/*
 * Finds the superblock with the newest generation on any member and, of these, the highest sequence number. A member that this process
 * could not read, for lack of memory or the like, may be the only one that has it: then nothing was found.
 */
static int read_super(struct ddr_reload *r)
{
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	bool any = false, no_memory = false;
	struct ddr_super best;

	for (unsigned int m = 0; m < r->members->n; m++)
		if (r->from & r->members->open & (1u << m))
			no_memory |= !begin_super(r, m, &look[m]);
	for (unsigned int m = 0; m < r->members->n; m++)
		any = take_super(r, m, look[m], &best, any, &no_memory);
	if (no_memory)
		return -ENOMEM;
	if (!any)
		return -EIO;
	/* the places of the areas never change, only the size of the array grows; a superblock that says otherwise must not be used */
	if (best.slots != r->super.slots || best.log_blocks != r->super.log_blocks ||
	    best.map_blocks != r->super.map_blocks || best.roles != r->super.roles ||
	    best.data_offset != r->super.data_offset || best.incompat != r->super.incompat || best.owner_offset != r->super.owner_offset)
		return -EINVAL;
	r->super = best;
	return 0;
}

static int read_all(struct ddr_reload *r)
{
	bool super = r->slot == DDR_RELOAD_SUPER;
	int ret = super ? read_super(r) : 0;

	if (ret)
		return ret;
	r->block = calloc(super ? r->super.map_blocks : r->super.log_blocks, sizeof(*r->block));
	if (!r->block)
		return -ENOMEM;
	return ddr_load_area(r->members, &r->super, r->from, super ? DDR_MAP_SLOT : r->slot, super ? 0 : r->since, r->limit_ms, r->block);
}

static void run(struct ddr_worker *w)
{
	struct ddr_reload *r = ddr_worker_of(w, struct ddr_reload, worker);

	r->result = read_all(r);
}

static void done(struct ddr_worker *w)
{
	struct ddr_reload *r = ddr_worker_of(w, struct ddr_reload, worker);

	r->done(r->ctx, r);
}

int ddr_reload_start(struct ddr_reload *r, qb_loop_t *loop)
{
	int ret;

	r->worker.run = run;
	r->worker.done = done;
	ddr_members_get(r->members);
	ret = ddr_worker_start(&r->worker, loop);
	if (ret)
		ddr_members_put(r->members);
	return ret;
}

void ddr_reload_free(struct ddr_reload *r)
{
	ddr_members_put(r->members);
	free(r->block);
	free(r);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads the log of a slot, or the region map, from all members at once. See loader.h.
 *
 * Must never: treat an unreadable block as clean (rule 11), nor one over which a write of an earlier owner of the slot has landed (note 25).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/loader.h"
#include "lib/disk/layout.h"
#include "lib/disk/look.h"

/* One log, or the map, on all members. */
struct area {
	uint64_t offset, since;
	uint16_t slot;
	char what[32];			/* for messages */
	uint32_t n;			/* pairs of places */
	struct ddr_look *look[DDR_MAX_MEMBERS];
};

/*
 * Takes the block at @buf, read from place @place, if it is valid and newer than *@best. One of an earlier owner may have landed over the newest one, on
 * all members: then no other copy says what that had marked.
 */
static void take_block(const struct ddr_super *sb, const struct area *ar, const void *buf, uint32_t index, unsigned int place, struct ddr_load_block *best)
{
	const struct ddr_disk_log *blk = buf;
	struct ddr_log_info info;
	struct ddr_fault fault;

	fault = ddr_log_decode(buf, sb, ar->slot, index, place, &info);
	best->late |= fault.code == DDR_FE_OK && info.seq < ar->since;
	if (fault.code != DDR_FE_OK || (best->valid && best->seq >= info.seq))
		return;
	best->valid = true;
	best->seq = info.seq;
	best->node = info.node;
	best->cookie = info.cookie;
	memcpy(best->boot_id, info.boot_id, sizeof(best->boot_id));
	memcpy(best->repair, info.repair, sizeof(best->repair));
	memcpy(best->payload, blk->payload, sizeof(best->payload));
}

bool ddr_load_begun(enum ddr_look_start how, const struct ddr_members *members, unsigned int m, const char *what, const struct ddr_error *err)
{
	switch (how) {
	case DDR_LOOK_HANGS:
		qb_log(LOG_ERR, "array '%s': did not read %s of %s: the device has not answered since an earlier read", members->array, what,
		       members->name[m]);
		return true;
	case DDR_LOOK_FAILED:
		qb_log(LOG_ERR, "array '%s': %s", members->array, err->text);
		return false;
	case DDR_LOOK_RUNS:
		break;
	}
	return true;
}

/* Starts to read it on one member. False: out of memory. */
static bool begin_run(struct area *ar, const struct ddr_members *members, unsigned int m, unsigned int limit_ms)
{
	size_t len = (size_t)ar->n * 2 * DDR_META_BLOCK;
	struct ddr_error err;

	return ddr_load_begun(ddr_look_bytes(&ar->look[m], &members->dev[m], ar->offset, len, limit_ms, &err),
			      members, m, ar->what, &err);
}

/*
 * Takes what one member delivered. 0; -EIO: part of it could not be read; -ENOMEM: the same, by a failure of this process; or -ETIMEDOUT: the member hangs, and its thread still owns
 * the buffer.
 */
static int take_run(const struct area *ar, const struct ddr_members *members, const struct ddr_super *sb, unsigned int m,
		    unsigned int limit_ms, struct ddr_load_block *out)
{
	struct ddr_look *look = ar->look[m];
	int ret = 0;

	if (!look)
		return -ETIMEDOUT;
	if (!ddr_look_wait(look)) {
		qb_log(LOG_ERR, "array '%s': %s has not delivered %s within %u ms", members->array, members->name[m], ar->what, limit_ms);
		ret = -ETIMEDOUT;
	} else if (!look->whole) {
		qb_log(LOG_ERR, "array '%s': %s", members->array, look->error.text);
		ret = look->error.own ? -ENOMEM : -EIO;
	}
	for (uint32_t i = 0; i < ar->n && ret == 0; i++)
		for (unsigned int place = 0; place < 2; place++)
			take_block(sb, ar, (const char *)look->buf + ((size_t)i * 2 + place) * DDR_META_BLOCK, i, place, &out[i]);
	ddr_look_put(look);
	return ret;
}

/* Reads the area from all @members in @asked at once. Returns what ddr_load_area() returns. */
static int read_area(struct area *ar, const struct ddr_members *members, const struct ddr_super *sb, uint32_t asked,
		     unsigned int limit_ms, struct ddr_load_block *out)
{
	bool any = false, no_memory = false, hangs = false;
	int ret;

	for (unsigned int m = 0; m < sb->members; m++)
		if (asked & (1u << m))
			no_memory |= !begin_run(ar, members, m, limit_ms);
	for (unsigned int m = 0; m < sb->members; m++) {
		if (!(asked & (1u << m)))
			continue;
		ret = take_run(ar, members, sb, m, limit_ms, out);
		any |= ret == 0;
		hangs |= ret == -ETIMEDOUT;
		no_memory |= ret == -ENOMEM;
	}
	if (no_memory)
		return -ENOMEM;		/* what this process did not read may be newer: its successor would be written with the same number (rule 11) */
	return any ? 0 : hangs ? -ETIMEDOUT : -EIO;	/* a member that was not asked may have all of it */
}

/* Blocks of which nothing counts. */
static void judge(const struct area *ar, const char *array, bool map, struct ddr_load_block *out)
{
	for (uint32_t i = 0; i < ar->n; i++) {
		if (out[i].late) {
			out[i].valid = false;
			qb_log(LOG_ERR, "array '%s': a write of an earlier owner has landed late in %s, block %u of it; all of it counts as dirty", array, ar->what, i);
		} else if (!out[i].valid) {
			qb_log(LOG_ERR, "array '%s': %s, block %u of it, cannot be read on any member; all of it counts as %s", array, ar->what, i,
			       map ? "needs-sync" : "dirty");
		}
	}
}

int ddr_load_area(struct ddr_members *members, const struct ddr_super *sb, uint32_t from, uint16_t slot, uint64_t since, unsigned int limit_ms,
		  struct ddr_load_block *out)
{
	bool map = slot == DDR_MAP_SLOT;
	struct area ar = { .offset = map ? ddr_map_offset(sb, 0, 0) : ddr_log_offset(sb, slot, 0, 0), .since = since, .slot = slot,
			   .n = map ? sb->map_blocks : sb->log_blocks };
	uint32_t asked = 0;
	int ret;

	if (map)
		snprintf(ar.what, sizeof(ar.what), "the region map");
	else
		snprintf(ar.what, sizeof(ar.what), "the dirty log of slot %u", slot);
	for (unsigned int m = 0; m < sb->members; m++)
		if (from & members->open & (1u << m) && sb->member[m].state == DDR_MEMBER_IN_SYNC)
			asked |= 1u << m;
	ret = read_area(&ar, members, sb, asked, limit_ms, out);
	if (ret && ret != -EIO)
		return ret;
	for (uint32_t i = 0; i < ar.n && ret; i++)
		out[i].valid = out[i].late = false;
	judge(&ar, sb->name, map, out);
	return ret;
}

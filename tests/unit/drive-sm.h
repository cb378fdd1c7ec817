/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The simulated state machine: a part of drive-fixture.h, which includes it after the declaration of the simulation. */
#ifndef DDR_TESTS_UNIT_DRIVE_SM_H
#define DDR_TESTS_UNIT_DRIVE_SM_H

size_t ddr_sm_size(const struct ddr_sm_config *cfg)
{
	(void)cfg;
	return 16;
}

struct ddr_sm *ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg)
{
	(void)size;
	memcpy(play.machine, cfg->machine, sizeof(play.machine));
	play.settle_ms = cfg->settle_ms;
	snprintf(play.own_name, sizeof(play.own_name), "%s", cfg->name);
	play.again = cfg->again;
	play.made++;
	return mem;
}

void ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)sm;
	play.steps++;
	play.last = *in;
	out->n = 0;
	out->more = out->lost = false;
	if (play.answer)
		play.answer(in, out);
}

uint64_t ddr_sm_due(const struct ddr_sm *sm)
{
	(void)sm;
	return play.due;
}

void ddr_sm_landing(struct ddr_sm *sm, bool landing)
{
	(void)sm;
	play.landing = landing;
}

void ddr_sm_left_over(struct ddr_sm *sm, bool left)
{
	(void)sm;
	play.left_over = left;
}

void ddr_sm_load_log(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint64_t seq,
		     uint32_t node, const uint8_t boot_id[16], uint64_t cookie)
{
	(void)sm, (void)slot, (void)index, (void)payload, (void)seq, (void)node, (void)boot_id, (void)cookie;
	play.logs++;
}

void ddr_sm_load_repairs(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint16_t repair[DDR_LOG_REPAIRS])
{
	(void)sm;
	(void)slot;
	(void)index;
	(void)repair;
	play.repairs++;
}

void ddr_sm_load_map(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq)
{
	(void)sm, (void)index, (void)payload, (void)seq;
	play.maps++;
}

void ddr_sm_load_super(struct ddr_sm *sm, const struct ddr_super *sb)
{
	(void)sm, (void)sb;
	play.supers++;
}

void ddr_sm_load_owners(struct ddr_sm *sm, const struct ddr_owners *owners)
{
	(void)sm;
	play.owners_loaded = owners->slot[0];
}

const char ddr_sm_elsewhere[] = "another cluster's";

void ddr_sm_set_cluster(struct ddr_sm *sm, const uint8_t id[16])
{
	(void)sm;
	play.cluster_told = id[0];
}

const uint8_t *ddr_sm_cluster(const struct ddr_sm *sm)
{
	(void)sm;
	return play.cluster_known;
}

void ddr_sm_owners(const struct ddr_sm *sm, struct ddr_owners *owners)
{
	(void)sm;
	if (play.owner_known.state)
		owners->slot[0] = play.owner_known;
	memcpy(owners->cluster, play.cluster_known, sizeof(owners->cluster));
}

void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	(void)sm;
	memset(st, 0, sizeof(*st));
	st->dirty = 1;
	st->sought = play.sought;
}

bool ddr_sm_takes_part(const struct ddr_sm *sm)
{
	(void)sm;
	return play.takes_part;
}

bool ddr_sm_has_slot(const struct ddr_sm *sm, uint32_t node)
{
	(void)sm;
	return node == play.owner;
}

void ddr_sm_debts(const struct ddr_sm *sm, uint64_t now_ms, struct ddr_node_debts *list)
{
	(void)sm, (void)now_ms, (void)list;
}

bool ddr_sm_complete(const struct ddr_sm *sm)
{
	(void)sm;
	return play.complete;
}

void ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *owner)
{
	(void)sm;
	assert_int_equal(slot, 0);
	*owner = play.owner_known;
}

uint32_t ddr_sm_slot(const struct ddr_sm *sm)
{
	(void)sm;
	return 0;
}

/* Nothing of metadata is played. */
void ddr_sm_log_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	(void)sm, (void)index, (void)blk;
	fail();
}

void ddr_sm_map_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	(void)sm, (void)index, (void)blk;
	fail();
}

void ddr_sm_slot_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	(void)sm, (void)index, (void)blk;
	fail();
}

void ddr_sm_superblock(const struct ddr_sm *sm, uint32_t member, struct ddr_super *sb)
{
	(void)sm, (void)member;
	*sb = play.super;
}

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm)
{
	(void)sm;
	return &play.super;
}

#endif

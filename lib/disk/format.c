/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Superblock codec: see format.h. The rules for each field are listed in doc/on-disk-format.md. ddr_super_check() is
 * their only implementation; both the decoder and the encoder use it.
 */
#include <endian.h>
#include <string.h>

#include "lib/disk/format.h"
#include "lib/disk/format_owner.h"
#include "lib/math/crc32c.h"

#define FAULT(c, i, found, want) \
	((struct ddr_fault){ .code = (c), .index = (i), .a = (found), .b = (want) })
#define FINE ((struct ddr_fault){ .code = DDR_FE_OK })

static uint16_t get16(ddr_le16 v) { return le16toh(v.raw); }
static uint32_t get32(ddr_le32 v) { return le32toh(v.raw); }
static uint64_t get64(ddr_le64 v) { return le64toh(v.raw); }
static ddr_le16 put16(uint16_t v) { return (ddr_le16){ htole16(v) }; }
static ddr_le32 put32(uint32_t v) { return (ddr_le32){ htole32(v) }; }
static ddr_le64 put64(uint64_t v) { return (ddr_le64){ htole64(v) }; }

/* Index of the first byte that is not zero, or @len. */
static size_t first_nonzero(const void *buf, size_t len)
{
	const uint8_t *p = buf;
	size_t i;

	for (i = 0; i < len && p[i] == 0; i++)
		;
	return i;
}

static bool uuid_equal(const uint8_t a[DDR_UUID_LEN], const uint8_t b[DDR_UUID_LEN])
{
	return memcmp(a, b, DDR_UUID_LEN) == 0;
}

/* -------------------------------------------------- rules of the fields */

bool ddr_name_valid(const char *name, size_t size)
{
	size_t n = strnlen(name, size);

	if (n == 0 || n >= size || n >= DDR_NAME_LEN || first_nonzero(name + n, size - n) != size - n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = name[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');

		if (!alnum && (i == 0 || !strchr("._+-", c)))
			return false;
	}
	return true;
}

/* 8-4-4-4-12 hexadecimal digits: the commands take such a word for the uuid of an array wherever a name can stand. */
static bool looks_like_uuid(const char *name)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	size_t i = 0;

	while (name[i] && shape[i] && (shape[i] == '-' ? name[i] == '-' : strchr("0123456789abcdefABCDEF", name[i]) != NULL))
		i++;
	return !name[i] && !shape[i];
}

const char *ddr_name_refused(const char *name)
{
	if (!ddr_name_valid(name, strlen(name) + 1))
		return "a name consists of 1 to 63 characters A-Z a-z 0-9 . _ + -, beginning with a letter or digit";
	if (strcmp(name, "control") == 0)
		return "/dev/mapper/control belongs to device-mapper itself";
	if (looks_like_uuid(name))
		return "it looks like a uuid";
	return NULL;
}

static bool power_of_two(uint64_t v)
{
	return v && !(v & (v - 1));
}

static uint64_t div_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

static struct ddr_fault check_shape(const struct ddr_super *sb)
{
	uint64_t regions;

	if (sb->order > DDR_MAX_ORDER)
		return FAULT(DDR_FE_ORDER, 0, sb->order, 0);
	if (sb->parity > DDR_MAX_PARITY)
		return FAULT(DDR_FE_PARITY, 0, sb->parity, 0);
	if (sb->layout > DDR_LAYOUT_ROTATING)
		return FAULT(DDR_FE_LAYOUT, 0, sb->layout, 0);
	if (sb->chunk != DDR_BLOCK_SIZE >> sb->order)
		return FAULT(DDR_FE_CHUNK, 0, sb->chunk, DDR_BLOCK_SIZE >> sb->order);
	if (sb->block_size != DDR_BLOCK_SIZE)
		return FAULT(DDR_FE_BLOCK_SIZE, 0, sb->block_size, DDR_BLOCK_SIZE);
	if (!power_of_two(sb->region_size) || sb->region_size < DDR_MIN_REGION || sb->region_size > DDR_MAX_REGION)
		return FAULT(DDR_FE_REGION_SIZE, 0, sb->region_size, 0);
	if (!sb->array_blocks || sb->array_blocks & ((1u << sb->order) - 1))
		return FAULT(DDR_FE_ARRAY_BLOCKS, 0, sb->array_blocks, 1u << sb->order);
	regions = div_up(sb->array_blocks, ddr_super_region_blocks(sb));
	if (regions > DDR_MAX_REGIONS)
		return FAULT(DDR_FE_REGIONS, 0, regions, DDR_MAX_REGIONS);
	return FINE;
}

/* The areas of a member: superblock, log, map, superblock, data, in this order and without overlap. */
static struct ddr_fault check_areas(const struct ddr_super *sb)
{
	uint64_t regions = ddr_super_regions(sb);
	uint64_t log_blocks = div_up(regions, DDR_LOG_REGIONS);
	uint64_t map_blocks = div_up(regions, DDR_MAP_REGIONS);
	uint64_t log_end, map_end;

	if (sb->data_offset == 0 || sb->data_offset % DDR_DATA_ALIGN || sb->data_offset > DDR_DATA_OFFSET_MAX)
		return FAULT(DDR_FE_DATA_OFFSET, 0, sb->data_offset, 0);
	if (sb->slots == 0 || sb->slots > DDR_MAX_SLOTS)
		return FAULT(DDR_FE_SLOTS, 0, sb->slots, 0);
	if (sb->log_blocks < log_blocks || sb->log_blocks > div_up(DDR_MAX_REGIONS, DDR_LOG_REGIONS))
		return FAULT(DDR_FE_LOG_BLOCKS, 0, sb->log_blocks, log_blocks);
	if (sb->map_blocks < map_blocks || sb->map_blocks > div_up(DDR_MAX_REGIONS, DDR_MAP_REGIONS))
		return FAULT(DDR_FE_MAP_BLOCKS, 0, sb->map_blocks, map_blocks);
	if (sb->log_offset % DDR_META_BLOCK || sb->log_offset < DDR_SB_OFFSET + DDR_META_BLOCK ||
	    sb->log_offset > sb->data_offset)
		return FAULT(DDR_FE_LOG_OFFSET, 0, sb->log_offset, 0);
	log_end = ddr_log_offset(sb, sb->slots, 0, 0);
	if (sb->map_offset % DDR_META_BLOCK || sb->map_offset < log_end || sb->map_offset > sb->data_offset)
		return FAULT(DDR_FE_MAP_OFFSET, 0, sb->map_offset, log_end);
	map_end = ddr_map_offset(sb, sb->map_blocks, 0);
	if (map_end > sb->data_offset - DDR_META_BLOCK)
		return FAULT(DDR_FE_DATA_OFFSET, 0, sb->data_offset, map_end + DDR_META_BLOCK);
	return FINE;
}

/* Format 2: the owner pages and stamps lie between the map and superblock copy 1. Format 1 has none. */
static struct ddr_fault check_owner_area(const struct ddr_super *sb)
{
	uint64_t map_end = ddr_map_offset(sb, sb->map_blocks, 0);

	if (!ddr_super_has_owners(sb))
		return sb->owner_offset || sb->owner_pages || sb->owner_crc ? FAULT(DDR_FE_O_AREA, 0, sb->owner_offset, 0) : FINE;
	if (sb->owner_pages != ddr_owner_pages(sb->slots))
		return FAULT(DDR_FE_O_PAGES, 0, sb->owner_pages, ddr_owner_pages(sb->slots));
	if (sb->owner_offset % DDR_META_BLOCK || sb->owner_offset < map_end || sb->owner_offset > sb->data_offset ||
	    sb->owner_offset + ddr_owner_bytes(sb->slots) > ddr_super_offset(sb, 1))
		return FAULT(DDR_FE_O_AREA, 0, sb->owner_offset, 0);
	return FINE;
}

static struct ddr_fault check_generation(const struct ddr_super *sb)
{
	if (sb->generation == 0)
		return FAULT(DDR_FE_GENERATION, 0, 0, 0);
	if (sb->generation > DDR_GENERATION_MAX)
		return FAULT(DDR_FE_GENERATION_LIMIT, 0, sb->generation, 0);
	if (ddr_uuid_is_zero(sb->gen_id))
		return FAULT(DDR_FE_GEN_ID, 0, 0, 0);
	if (ddr_uuid_is_zero(sb->gen_prev) != (sb->generation == 1) || uuid_equal(sb->gen_id, sb->gen_prev))
		return FAULT(DDR_FE_GEN_PREV, 0, sb->generation, 0);
	if (sb->log_base > sb->generation)
		return FAULT(DDR_FE_LOG_BASE, 0, sb->log_base, sb->generation);
	return FINE;
}

static struct ddr_fault check_member(const struct ddr_super *sb, uint32_t i)
{
	const struct ddr_member *m = &sb->member[i];
	bool has_role = m->role < sb->roles;

	if (ddr_uuid_is_zero(m->uuid))
		return FAULT(DDR_FE_M_UUID, i, 0, 0);
	for (uint32_t j = 0; j < i; j++)
		if (uuid_equal(m->uuid, sb->member[j].uuid))
			return FAULT(DDR_FE_M_UUID_TWICE, i, j, 0);
	if (m->state < DDR_MEMBER_IN_SYNC || m->state > DDR_MEMBER_SPARE)
		return FAULT(DDR_FE_M_STATE, i, m->state, 0);
	if (!has_role && m->role != DDR_ROLE_NONE)
		return FAULT(DDR_FE_M_ROLE, i, m->role, 0);
	/* a member that is read or written has a role, a spare has none; a failed one may have lost its role to a spare */
	if (((m->state == DDR_MEMBER_IN_SYNC || m->state == DDR_MEMBER_REBUILDING) && !has_role) ||
	    (m->state == DDR_MEMBER_SPARE && has_role))
		return FAULT(DDR_FE_M_ROLE, i, m->role, 0);
	if (m->state == DDR_MEMBER_REBUILDING ? m->cursor > sb->array_blocks : m->cursor != 0)
		return FAULT(DDR_FE_M_CURSOR, i, m->cursor, 0);
	if (m->flags && (m->state != DDR_MEMBER_REBUILDING || (m->flags != DDR_MEMBER_F_PARTIAL && m->flags != DDR_MEMBER_F_REPLACING)))
		return FAULT(DDR_FE_M_FLAGS, i, m->flags, 0);
	if (m->since > sb->generation || m->since == 0)
		return FAULT(DDR_FE_M_SINCE, i, m->since, sb->generation);
	return FINE;
}

/*
 * Each role has one holder, or two while one disk is being replaced by another: one of them is in sync then, and the
 * other is marked as replacing it. Only one role at a time.
 */
static struct ddr_fault check_roles(const struct ddr_super *sb)
{
	uint32_t replaced = 0;

	for (uint32_t role = 0; role < sb->roles; role++) {
		uint32_t holders = 0, replacing = 0, in_sync = 0, last = 0;

		for (uint32_t i = 0; i < sb->members; i++) {
			const struct ddr_member *m = &sb->member[i];

			if (m->role != role)
				continue;
			holders++;
			in_sync += m->state == DDR_MEMBER_IN_SYNC;
			replacing += (m->flags & DDR_MEMBER_F_REPLACING) != 0;
			last = i;
		}
		if (holders == 0)
			return FAULT(DDR_FE_M_ROLE_NOBODY, 0, role, 0);
		if (holders > 2 || (holders == 2 && (replacing != 1 || in_sync != 1)))
			return FAULT(DDR_FE_M_ROLE_TWICE, last, role, 0);
		replaced += replacing;
		if (replaced > 1 || (holders == 1 && replacing))
			return FAULT(DDR_FE_M_FLAGS, last, sb->member[last].flags, 0);
	}
	return FINE;
}

static struct ddr_fault check_tables(const struct ddr_super *sb)
{
	static const struct ddr_member unused;
	struct ddr_fault fault;

	if (sb->roles != (1u << sb->order) + sb->parity)
		return FAULT(DDR_FE_ROLES, 0, sb->roles, (1u << sb->order) + sb->parity);
	if (sb->members < sb->roles || sb->members > DDR_MAX_MEMBERS)
		return FAULT(DDR_FE_MEMBERS, 0, sb->members, sb->roles);
	if (sb->this_member >= sb->members)
		return FAULT(DDR_FE_THIS_MEMBER, 0, sb->this_member, sb->members);
	for (uint32_t i = 0; i < sb->members; i++) {
		fault = check_member(sb, i);
		if (fault.code)
			return fault;
	}
	for (uint32_t i = sb->members; i < DDR_MAX_MEMBERS; i++) {
		const struct ddr_member *m = &sb->member[i];

		if (!uuid_equal(m->uuid, unused.uuid) || m->state || m->flags || m->role || m->export_node || m->cursor ||
		    m->since || m->err_read || m->err_write || m->err_corrected ||
		    memcmp(m->last_gen, unused.last_gen, sizeof(m->last_gen)))
			return FAULT(DDR_FE_M_UNUSED, i, 0, 0);
	}
	fault = check_roles(sb);
	if (fault.code)
		return fault;
	for (uint32_t i = 0; i < sb->slots; i++)
		for (uint32_t j = 0; sb->slot_node[i] && j < i; j++)
			if (sb->slot_node[i] == sb->slot_node[j])
				return FAULT(DDR_FE_S_NODE_TWICE, i, sb->slot_node[i], 0);
	for (uint32_t i = sb->slots; i < DDR_MAX_SLOTS; i++)
		if (sb->slot_node[i])
			return FAULT(DDR_FE_S_UNUSED, i, sb->slot_node[i], 0);
	return FINE;
}

static bool verify_valid(const struct ddr_super *sb)
{
	const struct ddr_verify *v = &sb->verify;

	if (v->state == DDR_VERIFY_NONE)
		return !v->priority && !v->flags && !v->cursor;
	return v->state <= DDR_VERIFY_PAUSED && v->priority >= 1 && v->priority <= 5 && !(v->flags & ~DDR_VERIFY_F_ALL) &&
	       v->cursor <= sb->array_blocks && v->serial && sb->parity;
}

struct ddr_fault ddr_super_check(const struct ddr_super *sb)
{
	struct ddr_fault fault;

	if (sb->incompat & ~DDR_FEATURE_INCOMPAT_KNOWN)
		return FAULT(DDR_FE_INCOMPAT, 0, sb->incompat, DDR_FEATURE_INCOMPAT_KNOWN);
	if (sb->seq == 0)
		return FAULT(DDR_FE_SEQ, 0, 0, 0);
	if (sb->seq > DDR_SUPER_SEQ_MAX)
		return FAULT(DDR_FE_SEQ_LIMIT, 0, sb->seq, 0);
	if (sb->policy & ~DDR_POLICY_ALL)
		return FAULT(DDR_FE_POLICY, 0, sb->policy, DDR_POLICY_ALL);
	if (ddr_uuid_is_zero(sb->array_uuid))
		return FAULT(DDR_FE_UUID, 0, 0, 0);
	if (!ddr_name_valid(sb->name, sizeof(sb->name)))
		return FAULT(DDR_FE_NAME, 0, 0, 0);
	fault = check_shape(sb);
	if (!fault.code && !verify_valid(sb))
		return FAULT(DDR_FE_VERIFY, 0, 0, 0);
	if (!fault.code)
		fault = check_areas(sb);
	if (!fault.code)
		fault = check_owner_area(sb);
	if (!fault.code)
		fault = check_generation(sb);
	if (!fault.code)
		fault = check_tables(sb);
	return fault;
}

/* -------------------------------------------------- decoding */

static void decode_members(const struct ddr_disk_sb *d, struct ddr_super *sb)
{
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++) {
		const struct ddr_disk_member *dm = &d->member[i];
		struct ddr_member *m = &sb->member[i];

		memcpy(m->uuid, dm->uuid, sizeof(m->uuid));
		m->state = dm->state;
		m->flags = dm->flags;
		m->role = get16(dm->role);
		m->export_node = get32(dm->export_node);
		m->cursor = get64(dm->cursor);
		m->since = get64(dm->since);
		m->err_read = get32(dm->err_read);
		m->err_write = get32(dm->err_write);
		m->err_corrected = get32(dm->err_corrected);
		memcpy(m->last_gen, dm->last_gen, sizeof(m->last_gen));
	}
	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++)
		sb->slot_node[i] = get32(d->slot[i].node);
}

static void decode_fields(const struct ddr_disk_sb *d, struct ddr_super *sb)
{
	memset(sb, 0, sizeof(*sb));
	sb->seq = get64(d->seq);
	sb->compat = get32(d->compat);
	sb->ro_compat = get32(d->ro_compat);
	sb->incompat = get32(d->incompat);
	sb->policy = get32(d->policy);
	memcpy(sb->array_uuid, d->array_uuid, sizeof(sb->array_uuid));
	memcpy(sb->name, d->name, sizeof(sb->name));
	sb->order = d->order;
	sb->parity = d->parity;
	sb->layout = d->layout;
	sb->chunk = get32(d->chunk);
	sb->block_size = get32(d->block_size);
	sb->region_size = get32(d->region_size);
	sb->array_blocks = get64(d->array_blocks);
	sb->data_offset = get64(d->data_offset);
	sb->generation = get64(d->generation);
	memcpy(sb->gen_id, d->gen_id, sizeof(sb->gen_id));
	memcpy(sb->gen_prev, d->gen_prev, sizeof(sb->gen_prev));
	sb->log_base = get64(d->log_base);
	sb->log_offset = get64(d->log_offset);
	sb->log_blocks = get32(d->log_blocks);
	sb->slots = get32(d->slots);
	sb->map_offset = get64(d->map_offset);
	sb->map_blocks = get32(d->map_blocks);
	sb->roles = get16(d->roles);
	sb->members = get16(d->members);
	sb->this_member = get16(d->this_member);
	sb->owner_offset = get64(d->owner_offset);
	sb->owner_pages = get16(d->owner_pages);
	sb->owner_crc = get32(d->owner_crc);
	sb->created = get64(d->created);
	sb->updated = get64(d->updated);
	sb->verify.serial = get32(d->verify_serial);
	sb->verify.state = d->verify_state;
	sb->verify.priority = d->verify_priority;
	sb->verify.flags = d->verify_flags;
	sb->verify.begun = get64(d->verify_begun);
	sb->verify.ended = get64(d->verify_ended);
	sb->verify.cursor = get64(d->verify_cursor);
	sb->verify.found = get64(d->verify_found);
	sb->verify.repaired = get64(d->verify_repaired);
	decode_members(d, sb);
}

/* Fields that the host structure does not hold: they must be zero. */
static struct ddr_fault check_raw(const struct ddr_disk_sb *d)
{
	const uint8_t *base = (const uint8_t *)d;
	const struct ddr_field *field;
	size_t n, at;

	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++)
		if (get32(d->slot[i].flags))
			return FAULT(DDR_FE_S_FLAGS, i, get32(d->slot[i].flags), 0);
	/* a feature that this version may ignore may use these bytes */
	if (get32(d->compat) & ~DDR_FEATURE_COMPAT_KNOWN || get32(d->ro_compat) & ~DDR_FEATURE_RO_COMPAT_KNOWN)
		return FINE;
	n = ddr_fields(false, &field);
	for (size_t f = 0; f < n; f++) {
		if (!strstr(field[f].name, "reserved"))
			continue;
		for (uint32_t k = 0; k < field[f].count; k++) {
			size_t from = field[f].offset + k * (size_t)field[f].stride;

			at = first_nonzero(base + from, field[f].size);
			if (at < field[f].size)
				return FAULT(DDR_FE_RESERVED, 0, from + at, 0);
		}
	}
	return FINE;
}

struct ddr_fault ddr_super_decode(const void *buf, unsigned int copy, uint64_t offset, struct ddr_super *sb)
{
	struct ddr_disk_sb d;
	struct ddr_super host;
	struct ddr_fault fault;
	uint32_t crc;

	memcpy(&d, buf, sizeof(d));
	if (first_nonzero(&d, sizeof(d)) == sizeof(d))
		return FAULT(DDR_FE_BLANK, 0, 0, 0);
	if (get32(d.magic) != DDR_SB_MAGIC)
		return FAULT(DDR_FE_MAGIC, 0, get32(d.magic), DDR_SB_MAGIC);
	if (get16(d.version) != DDR_FORMAT_VERSION)
		return FAULT(DDR_FE_VERSION, 0, get16(d.version), DDR_FORMAT_VERSION);
	if (get32(d.length) != sizeof(d))
		return FAULT(DDR_FE_LENGTH, 0, get32(d.length), sizeof(d));
	crc = ddr_crc32c_block(&d, sizeof(d), offsetof(struct ddr_disk_sb, crc32c));
	if (get32(d.crc32c) != crc)
		return FAULT(DDR_FE_CRC, 0, get32(d.crc32c), crc);
	/* checked first, since such a feature may change the meaning of everything else */
	if (get32(d.incompat) & ~DDR_FEATURE_INCOMPAT_KNOWN)
		return FAULT(DDR_FE_INCOMPAT, 0, get32(d.incompat), DDR_FEATURE_INCOMPAT_KNOWN);
	decode_fields(&d, &host);
	fault = ddr_super_check(&host);
	if (!fault.code)
		fault = check_raw(&d);
	if (fault.code)
		return fault;
	if (ddr_super_copy(host.seq) != copy)
		return FAULT(DDR_FE_SEQ, 0, host.seq, copy);
	if (ddr_super_offset(&host, copy) != offset)
		return FAULT(DDR_FE_POSITION, 0, ddr_super_offset(&host, copy), offset);
	*sb = host;
	return FINE;
}

/* -------------------------------------------------- encoding */

static void encode_members(const struct ddr_super *sb, struct ddr_disk_sb *d)
{
	for (uint32_t i = 0; i < sb->members; i++) {
		const struct ddr_member *m = &sb->member[i];
		struct ddr_disk_member *dm = &d->member[i];

		memcpy(dm->uuid, m->uuid, sizeof(dm->uuid));
		dm->state = m->state;
		dm->flags = m->flags;
		dm->role = put16(m->role);
		dm->export_node = put32(m->export_node);
		dm->cursor = put64(m->cursor);
		dm->since = put64(m->since);
		dm->err_read = put32(m->err_read);
		dm->err_write = put32(m->err_write);
		dm->err_corrected = put32(m->err_corrected);
		memcpy(dm->last_gen, m->last_gen, sizeof(dm->last_gen));
	}
	for (uint32_t i = 0; i < sb->slots; i++)
		d->slot[i].node = put32(sb->slot_node[i]);
}

struct ddr_fault ddr_super_encode(const struct ddr_super *sb, void *buf)
{
	struct ddr_fault fault = ddr_super_check(sb);
	struct ddr_disk_sb d;

	memset(&d, 0, sizeof(d));
	if (!fault.code && ddr_super_ro_only(sb))
		fault = FAULT(DDR_FE_RO_COMPAT, 0, sb->ro_compat, DDR_FEATURE_RO_COMPAT_KNOWN);
	if (fault.code) {
		memset(buf, 0, sizeof(d));
		return fault;
	}
	d.magic = put32(DDR_SB_MAGIC);
	d.version = put16(DDR_FORMAT_VERSION);
	d.length = put32(sizeof(d));
	d.seq = put64(sb->seq);
	d.compat = put32(sb->compat & DDR_FEATURE_COMPAT_KNOWN);
	d.ro_compat = put32(sb->ro_compat);
	d.incompat = put32(sb->incompat);
	d.policy = put32(sb->policy);
	memcpy(d.array_uuid, sb->array_uuid, sizeof(d.array_uuid));
	memcpy(d.name, sb->name, sizeof(d.name));
	d.order = sb->order;
	d.parity = sb->parity;
	d.layout = sb->layout;
	d.chunk = put32(sb->chunk);
	d.block_size = put32(sb->block_size);
	d.region_size = put32(sb->region_size);
	d.array_blocks = put64(sb->array_blocks);
	d.data_offset = put64(sb->data_offset);
	d.generation = put64(sb->generation);
	memcpy(d.gen_id, sb->gen_id, sizeof(d.gen_id));
	memcpy(d.gen_prev, sb->gen_prev, sizeof(d.gen_prev));
	d.log_base = put64(sb->log_base);
	d.log_offset = put64(sb->log_offset);
	d.log_blocks = put32(sb->log_blocks);
	d.slots = put32(sb->slots);
	d.map_offset = put64(sb->map_offset);
	d.map_blocks = put32(sb->map_blocks);
	d.roles = put16(sb->roles);
	d.members = put16(sb->members);
	d.this_member = put16(sb->this_member);
	d.owner_offset = put64(sb->owner_offset);
	d.owner_pages = put16(sb->owner_pages);
	d.owner_crc = put32(sb->owner_crc);
	d.created = put64(sb->created);
	d.updated = put64(sb->updated);
	d.verify_serial = put32(sb->verify.serial);
	d.verify_state = sb->verify.state;
	d.verify_priority = sb->verify.priority;
	d.verify_flags = sb->verify.flags;
	d.verify_begun = put64(sb->verify.begun);
	d.verify_ended = put64(sb->verify.ended);
	d.verify_cursor = put64(sb->verify.cursor);
	d.verify_found = put64(sb->verify.found);
	d.verify_repaired = put64(sb->verify.repaired);
	encode_members(sb, &d);
	d.crc32c = put32(ddr_crc32c_block(&d, sizeof(d), offsetof(struct ddr_disk_sb, crc32c)));
	memcpy(buf, &d, sizeof(d));
	return FINE;
}

void ddr_super_set_copy(void *buf, unsigned int copy)
{
	struct ddr_disk_sb d;

	memcpy(&d, buf, sizeof(d));
	d.seq = put64((get64(d.seq) & ~1ull) | copy);
	d.crc32c = put32(ddr_crc32c_block(&d, sizeof(d), offsetof(struct ddr_disk_sb, crc32c)));
	memcpy(buf, &d, sizeof(d));
}

void ddr_super_set_owner_crc(void *buf, uint32_t crc)
{
	struct ddr_disk_sb d;

	memcpy(&d, buf, sizeof(d));
	d.owner_crc = put32(crc);
	d.crc32c = put32(ddr_crc32c_block(&d, sizeof(d), offsetof(struct ddr_disk_sb, crc32c)));
	memcpy(buf, &d, sizeof(d));
}

/* -------------------------------------------------- comparing */

const struct ddr_super *ddr_super_newer(const struct ddr_super *copy0, const struct ddr_super *copy1)
{
	if (!copy0 || !copy1)
		return copy0 ? copy0 : copy1;
	return copy1->seq > copy0->seq ? copy1 : copy0;
}

const char *ddr_super_geometry_differs(const struct ddr_super *a, const struct ddr_super *b)
{
	if (a->order != b->order)
		return "order";
	if (a->parity != b->parity)
		return "parity";
	if (a->layout != b->layout)
		return "layout";
	if (a->region_size != b->region_size)
		return "region size";
	if (a->data_offset != b->data_offset)
		return "data offset";
	if (a->log_offset != b->log_offset)
		return "log offset";
	if (a->slots != b->slots)
		return "number of slots";
	if (a->map_offset != b->map_offset)
		return "map offset";
	if (a->log_blocks != b->log_blocks || (a->map_blocks != b->map_blocks && a->incompat == b->incompat))
		return "size of log or map";
	if (a->incompat == b->incompat && a->owner_offset != b->owner_offset)
		return "owner offset";
	if (a->created != b->created)
		return "creation time";
	return NULL;
}

bool ddr_super_is_last(const struct ddr_super *sb, uint32_t member, const struct ddr_super *disk)
{
	static const uint8_t unknown[DDR_LAST_GEN_LEN];
	const struct ddr_member *m = &sb->member[member];

	return uuid_equal(sb->array_uuid, disk->array_uuid) && uuid_equal(m->uuid, disk->member[disk->this_member].uuid) &&
	       memcmp(m->last_gen, unknown, sizeof(unknown)) != 0 && memcmp(m->last_gen, disk->gen_id, sizeof(unknown)) == 0;
}

bool ddr_super_same_member(const struct ddr_super *a, const struct ddr_super *b)
{
	return uuid_equal(a->array_uuid, b->array_uuid) &&
	       uuid_equal(a->member[a->this_member].uuid, b->member[b->this_member].uuid) &&
	       !ddr_super_geometry_differs(a, b);
}

void ddr_super_geometry(const struct ddr_super *sb, struct ddr_geometry *geo)
{
	ddr_geo_init(geo, sb->order, sb->parity, sb->layout);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of the owner pages and stamps: see format_owner.h.
 *
 * What is left of a page after its fields were taken, reserved bytes and unused entries, is checked by encoding these fields again: any byte that
 * differs then has no meaning, and must be zero.
 */
#include <endian.h>
#include <string.h>

#include "lib/disk/format_owner.h"
#include "lib/math/crc32c.h"

#define FAULT(c, i, found, want) \
	((struct ddr_fault){ .code = (c), .index = (i), .a = (found), .b = (want) })
#define FINE ((struct ddr_fault){ .code = DDR_FE_OK })

static ddr_le16 put16(uint16_t v) { return (ddr_le16){ htole16(v) }; }
static ddr_le32 put32(uint32_t v) { return (ddr_le32){ htole32(v) }; }
static ddr_le64 put64(uint64_t v) { return (ddr_le64){ htole64(v) }; }

static const struct ddr_instance nobody;

static bool same_instance(const struct ddr_instance *a, const struct ddr_instance *b)
{
	return a->cookie == b->cookie && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

/* All bytes from the first NUL on are zero, and there is one. Other bytes may be anything: a name is only shown, and passed on as it is. */
static bool is_text(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	if (n == size)
		return false;
	while (n < size && !text[n])
		n++;
	return n == size;
}

/* No control characters: the text is printed on terminals. */
static bool is_printable(const char *text, size_t size)
{
	if (!is_text(text, size))
		return false;
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static bool is_zero(const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= p[i];
	return !any;
}

/* A cookie without a boot id identifies nothing. */
static bool is_instance(const struct ddr_instance *i)
{
	return !i->cookie || !ddr_uuid_is_zero(i->boot_id);
}

/* -------------------------------------------------- rules */

static struct ddr_fault check_owner(const struct ddr_owner *o, uint32_t i, const struct ddr_super *sb)
{
	uint32_t node = i < sb->slots ? sb->slot_node[i] : 0;

	if (o->node != node)
		return FAULT(DDR_FE_O_NODE, i, o->node, node);
	if (o->state > DDR_SLOT_FENCED || (o->state == DDR_SLOT_FREE) != (o->node == 0))
		return FAULT(DDR_FE_O_STATE, i, o->state, 0);
	if (!is_instance(&o->instance) || !is_instance(&o->fenced))
		return FAULT(DDR_FE_O_INSTANCE, i, 0, 0);
	/* what was fenced has a name and a time; a slot of state fenced must say what was */
	if (same_instance(&o->fenced, &nobody) ? o->fenced_time || o->state == DDR_SLOT_FENCED : !o->fenced_time)
		return FAULT(DDR_FE_O_FENCED, i, o->fenced_time, 0);
	if (!is_printable(o->name, sizeof(o->name)))
		return FAULT(DDR_FE_O_NAME, i, 0, 0);
	if (o->log_seq > DDR_LOG_SEQ_MAX || (o->renewed && !o->log_seq))
		return FAULT(DDR_FE_O_LOG, i, o->log_seq, 0);
	return FINE;
}

static bool owes(const struct ddr_haunted *h, uint32_t debtor)
{
	return h->owes[debtor / 8] >> (debtor % 8) & 1;
}

static struct ddr_fault check_haunted(const struct ddr_owners *o, uint32_t i)
{
	static const struct ddr_haunted unused;
	const struct ddr_haunted *h = &o->haunted[i];

	if (h->kind == DDR_DISK_NONE)
		return memcmp(h->id, unused.id, sizeof(h->id)) || h->flags || h->settle || h->since || h->unanswered ||
		       !ddr_uuid_is_zero(h->member) || !is_zero(h->owes, sizeof(h->owes)) ? FAULT(DDR_FE_O_UNUSED, i, 0, 0) : FINE;
	if (h->kind > DDR_DISK_PATH || h->flags & ~DDR_HAUNTED_F_MORE)
		return FAULT(DDR_FE_O_DISK, i, h->kind, h->flags);
	if (!h->id[0] || !is_printable(h->id, sizeof(h->id)))
		return FAULT(DDR_FE_O_DISK, i, h->kind, h->flags);
	for (uint32_t d = 0; d < sizeof(h->owes) * 8; d++)
		if (owes(h, d) && (d >= DDR_MAX_DEBTORS || !o->debtor[d].node))
			return FAULT(DDR_FE_O_DEBTOR, i, d, 0);
	return FINE;
}

static struct ddr_fault check_debtor(const struct ddr_owners *o, uint32_t i, uint32_t most)
{
	static const struct ddr_debtor unused;
	const struct ddr_debtor *d = &o->debtor[i];

	if (!d->node || i >= most)
		return d->node || !ddr_uuid_is_zero(d->machine) || !ddr_uuid_is_zero(d->boot_id) ||
		       memcmp(d->name, unused.name, sizeof(d->name)) ? FAULT(DDR_FE_O_UNUSED, i, d->node, 0) : FINE;
	return is_printable(d->name, sizeof(d->name)) ? FINE : FAULT(DDR_FE_O_NAME, i, 0, 0);
}

struct ddr_fault ddr_owners_check(const struct ddr_owners *o, const struct ddr_super *sb)
{
	uint32_t debtors = ddr_owner_debtor_pages(sb->slots) * DDR_PAGE_DEBTORS;
	struct ddr_fault fault = FINE;

	for (uint32_t i = 0; !fault.code && i < sb->slots; i++)
		fault = check_owner(&o->slot[i], i, sb);
	for (uint32_t i = 0; !fault.code && i < DDR_MAX_HAUNTED; i++)
		fault = check_haunted(o, i);
	for (uint32_t i = 0; !fault.code && i < DDR_MAX_DEBTORS; i++)
		fault = check_debtor(o, i, debtors);
	return fault;
}

/* -------------------------------------------------- one page */

static enum ddr_page_kind kind_of(const struct ddr_super *sb, uint32_t index)
{
	uint32_t slots = ddr_owner_slot_pages(sb->slots);

	return index < slots ? DDR_PAGE_OF_SLOTS : index == slots ? DDR_PAGE_OF_HAUNTED : DDR_PAGE_OF_DEBTORS;
}

static void encode_owner(const struct ddr_owner *o, struct ddr_disk_owner *d)
{
	d->node = put32(o->node);
	d->state = o->state;
	memcpy(d->machine, o->machine, sizeof(d->machine));
	memcpy(d->boot_id, o->instance.boot_id, sizeof(d->boot_id));
	d->cookie = put64(o->instance.cookie);
	d->since = put64(o->since);
	memcpy(d->name, o->name, sizeof(d->name));
	memcpy(d->fenced_boot_id, o->fenced.boot_id, sizeof(d->fenced_boot_id));
	d->fenced_cookie = put64(o->fenced.cookie);
	d->fenced_time = put64(o->fenced_time);
	d->renewed = o->renewed;
	d->log_seq = put64(o->log_seq);
}

static void decode_owner(const struct ddr_disk_owner *d, struct ddr_owner *o)
{
	o->node = le32toh(d->node.raw);
	o->state = d->state;
	memcpy(o->machine, d->machine, sizeof(o->machine));
	memcpy(o->instance.boot_id, d->boot_id, sizeof(o->instance.boot_id));
	o->instance.cookie = le64toh(d->cookie.raw);
	o->since = le64toh(d->since.raw);
	memcpy(o->name, d->name, sizeof(o->name));
	memcpy(o->fenced.boot_id, d->fenced_boot_id, sizeof(o->fenced.boot_id));
	o->fenced.cookie = le64toh(d->fenced_cookie.raw);
	o->fenced_time = le64toh(d->fenced_time.raw);
	o->renewed = d->renewed == 1;	/* another value differs when it is encoded again */
	o->log_seq = le64toh(d->log_seq.raw);
}

static void encode_haunted(const struct ddr_haunted *h, struct ddr_disk_haunted *d)
{
	d->kind = h->kind;
	d->flags = h->flags;
	d->settle = put32(h->settle);
	d->since = put64(h->since);
	d->unanswered = put64(h->unanswered);
	memcpy(d->member, h->member, sizeof(d->member));
	memcpy(d->id, h->id, sizeof(d->id));
	memcpy(d->owes, h->owes, sizeof(d->owes));
}

static void decode_haunted(const struct ddr_disk_haunted *d, struct ddr_haunted *h)
{
	h->kind = d->kind;
	h->flags = d->flags;
	h->settle = le32toh(d->settle.raw);
	h->since = le64toh(d->since.raw);
	h->unanswered = le64toh(d->unanswered.raw);
	memcpy(h->member, d->member, sizeof(h->member));
	memcpy(h->id, d->id, sizeof(h->id));
	memcpy(h->owes, d->owes, sizeof(h->owes));
}

static void encode_debtor(const struct ddr_debtor *o, struct ddr_disk_debtor *d)
{
	d->node = put32(o->node);
	memcpy(d->machine, o->machine, sizeof(d->machine));
	memcpy(d->boot_id, o->boot_id, sizeof(d->boot_id));
	memcpy(d->name, o->name, sizeof(d->name));
}

static void decode_debtor(const struct ddr_disk_debtor *d, struct ddr_debtor *o)
{
	o->node = le32toh(d->node.raw);
	memcpy(o->machine, d->machine, sizeof(o->machine));
	memcpy(o->boot_id, d->boot_id, sizeof(o->boot_id));
	memcpy(o->name, d->name, sizeof(o->name));
}

static void encode_page(const struct ddr_owners *o, const struct ddr_super *sb, uint32_t index, struct ddr_disk_page *d)
{
	enum ddr_page_kind kind = kind_of(sb, index);
	uint32_t first = kind == DDR_PAGE_OF_SLOTS ? index * DDR_PAGE_SLOTS : (index - ddr_owner_slot_pages(sb->slots) - 1) * DDR_PAGE_DEBTORS;

	memset(d, 0, sizeof(*d));
	d->magic = put32(DDR_OWNER_MAGIC);
	d->version = put16(DDR_FORMAT_VERSION);
	d->index = put16((uint16_t)index);
	d->length = put32(sizeof(*d));
	d->seq = put64(sb->seq);
	memcpy(d->array_uuid, sb->array_uuid, sizeof(d->array_uuid));
	memcpy(d->cluster, o->cluster, sizeof(d->cluster));
	d->kind = put16((uint16_t)kind);
	d->pages = put16((uint16_t)ddr_owner_pages(sb->slots));
	for (uint32_t i = 0; kind == DDR_PAGE_OF_SLOTS && i < DDR_PAGE_SLOTS && first + i < sb->slots; i++)
		encode_owner(&o->slot[first + i], &d->slot[i]);
	for (uint32_t i = 0; kind == DDR_PAGE_OF_HAUNTED && i < DDR_MAX_HAUNTED; i++)
		encode_haunted(&o->haunted[i], &d->haunted[i]);
	for (uint32_t i = 0; kind == DDR_PAGE_OF_DEBTORS && i < DDR_PAGE_DEBTORS; i++)
		encode_debtor(&o->debtor[first + i], &d->debtor[i]);
	d->crc32c = put32(ddr_crc32c_block(d, sizeof(*d), offsetof(struct ddr_disk_page, crc32c)));
}

static void decode_page(const struct ddr_disk_page *d, const struct ddr_super *sb, uint32_t index, struct ddr_owners *o)
{
	enum ddr_page_kind kind = kind_of(sb, index);
	uint32_t first = kind == DDR_PAGE_OF_SLOTS ? index * DDR_PAGE_SLOTS : (index - ddr_owner_slot_pages(sb->slots) - 1) * DDR_PAGE_DEBTORS;

	if (index == 0)
		memcpy(o->cluster, d->cluster, sizeof(o->cluster));
	for (uint32_t i = 0; kind == DDR_PAGE_OF_SLOTS && i < DDR_PAGE_SLOTS && first + i < sb->slots; i++)
		decode_owner(&d->slot[i], &o->slot[first + i]);
	for (uint32_t i = 0; kind == DDR_PAGE_OF_HAUNTED && i < DDR_MAX_HAUNTED; i++)
		decode_haunted(&d->haunted[i], &o->haunted[i]);
	for (uint32_t i = 0; kind == DDR_PAGE_OF_DEBTORS && i < DDR_PAGE_DEBTORS; i++)
		decode_debtor(&d->debtor[i], &o->debtor[first + i]);
}

/* Magic, version, length and crc of a block that begins as a page and a stamp do. */
static struct ddr_fault check_envelope(const struct ddr_disk_page *d, uint32_t magic, uint32_t index)
{
	uint32_t crc;

	if (is_zero(d, sizeof(*d)))
		return FAULT(DDR_FE_BLANK, index, 0, 0);
	if (le32toh(d->magic.raw) != magic)
		return FAULT(DDR_FE_MAGIC, index, le32toh(d->magic.raw), magic);
	if (le16toh(d->version.raw) != DDR_FORMAT_VERSION)
		return FAULT(DDR_FE_VERSION, index, le16toh(d->version.raw), DDR_FORMAT_VERSION);
	if (le32toh(d->length.raw) != sizeof(*d))
		return FAULT(DDR_FE_LENGTH, index, le32toh(d->length.raw), sizeof(*d));
	crc = ddr_crc32c_block(d, sizeof(*d), offsetof(struct ddr_disk_page, crc32c));
	if (le32toh(d->crc32c.raw) != crc)
		return FAULT(DDR_FE_CRC, index, le32toh(d->crc32c.raw), crc);
	return FINE;
}

static struct ddr_fault check_page(const struct ddr_disk_page *d, const struct ddr_super *sb, uint32_t index, const uint8_t *cluster)
{
	struct ddr_fault fault = check_envelope(d, DDR_OWNER_MAGIC, index);

	/* another code than a superblock that is blank or foreign has: there is a superblock of ours */
	if (fault.code)
		return FAULT(DDR_FE_O_PAGE, index, fault.code, 0);
	if (memcmp(d->array_uuid, sb->array_uuid, sizeof(d->array_uuid)) != 0)
		return FAULT(DDR_FE_L_UUID, index, 0, 0);
	if (le16toh(d->index.raw) != index)
		return FAULT(DDR_FE_L_INDEX, index, le16toh(d->index.raw), index);
	if (le64toh(d->seq.raw) != sb->seq)
		return FAULT(DDR_FE_O_SEQ, index, le64toh(d->seq.raw), sb->seq);
	if (le16toh(d->kind.raw) != kind_of(sb, index) || le16toh(d->pages.raw) != ddr_owner_pages(sb->slots))
		return FAULT(DDR_FE_O_KIND, index, le16toh(d->kind.raw), kind_of(sb, index));
	if (memcmp(d->cluster, cluster, sizeof(d->cluster)) != 0)
		return FAULT(DDR_FE_O_CLUSTER, index, 0, 0);
	return FINE;
}

/* A feature that this version may ignore may use reserved bytes. */
static bool may_hold_more(const struct ddr_super *sb)
{
	return sb->compat & ~DDR_FEATURE_COMPAT_KNOWN || ddr_super_ro_only(sb);
}

static struct ddr_fault check_rest(const void *found, const void *again, uint32_t index)
{
	const uint8_t *a = found, *b = again;
	bool same = memcmp(a, b, DDR_META_BLOCK) == 0;
	uint32_t i = 0;

	while (!same && a[i] == b[i])
		i++;
	return same ? FINE : FAULT(DDR_FE_RESERVED, index, i, 0);
}

/* -------------------------------------------------- all pages */

static struct ddr_disk_page *page_at(void *pages, uint32_t index)
{
	return (struct ddr_disk_page *)((uint8_t *)pages + (size_t)index * DDR_META_BLOCK);
}

struct ddr_fault ddr_owners_encode(const struct ddr_owners *o, struct ddr_super *sb, void *pages)
{
	struct ddr_fault fault = ddr_owners_check(o, sb);
	uint32_t n = ddr_owner_pages(sb->slots);

	if (fault.code)
		return fault;
	for (uint32_t i = 0; i < n; i++)
		encode_page(o, sb, i, page_at(pages, i));
	sb->owner_crc = ddr_crc32c(pages, (size_t)n * DDR_META_BLOCK);
	return FINE;
}

struct ddr_fault ddr_owners_decode(const void *pages, const struct ddr_super *sb, struct ddr_owners *o)
{
	uint32_t n = ddr_owner_pages(sb->slots), crc = ddr_crc32c(pages, (size_t)n * DDR_META_BLOCK);
	const struct ddr_disk_page *d = pages;
	struct ddr_fault fault = FINE;
	struct ddr_disk_page again;
	struct ddr_owners host;

	for (uint32_t i = 0; !fault.code && i < n; i++)
		fault = check_page(d + i, sb, i, d->cluster);
	if (!fault.code && crc != sb->owner_crc)
		fault = FAULT(DDR_FE_O_CRC, 0, crc, sb->owner_crc);
	if (fault.code)
		return fault;
	memset(&host, 0, sizeof(host));
	for (uint32_t i = 0; i < n; i++)
		decode_page(d + i, sb, i, &host);
	fault = ddr_owners_check(&host, sb);
	for (uint32_t i = 0; !fault.code && !may_hold_more(sb) && i < n; i++) {
		encode_page(&host, sb, i, &again);
		fault = check_rest(d + i, &again, i);
	}
	if (!fault.code && o)
		*o = host;
	return fault;
}

void ddr_owners_follow(struct ddr_owners *o, const struct ddr_super *sb)
{
	for (uint32_t i = 0; i < sb->slots; i++) {
		struct ddr_owner *s = &o->slot[i];

		if (s->node == sb->slot_node[i])
			continue;
		if (sb->slot_node[i])
			*s = (struct ddr_owner){ .state = DDR_SLOT_OWNED };	/* another one's */
		s->node = sb->slot_node[i];
		if (!s->node)
			s->state = DDR_SLOT_FREE;
	}
}

void ddr_owners_init(struct ddr_owners *o, const struct ddr_super *sb)
{
	memset(o, 0, sizeof(*o));
	ddr_owners_follow(o, sb);
}

/* -------------------------------------------------- stamps */

static struct ddr_fault check_stamp(const struct ddr_stamp *s, const struct ddr_super *sb)
{
	if (memcmp(s->array_uuid, sb->array_uuid, sizeof(s->array_uuid)) != 0)
		return FAULT(DDR_FE_L_UUID, 0, 0, 0);
	if (s->seq == 0)
		return FAULT(DDR_FE_SEQ, 0, 0, 0);
	if (s->seq > DDR_LOG_SEQ_MAX)
		return FAULT(DDR_FE_SEQ_LIMIT, 0, s->seq, 0);
	if (s->generation == 0)
		return FAULT(DDR_FE_L_GENERATION, 0, 0, 0);
	if (s->kind != DDR_STAMP_OWNER && s->kind != DDR_STAMP_CLAIM)
		return FAULT(DDR_FE_O_KIND, 0, s->kind, DDR_STAMP_OWNER);
	if (!s->node || ddr_uuid_is_zero(s->machine) || ddr_uuid_is_zero(s->instance.boot_id) ||
	    ddr_uuid_is_zero(s->claim) != (s->kind == DDR_STAMP_OWNER))
		return FAULT(DDR_FE_O_INSTANCE, s->slot, 0, 0);
	if (!is_printable(s->name, sizeof(s->name)))
		return FAULT(DDR_FE_O_NAME, s->slot, 0, 0);
	return FINE;
}

static void put_stamp(const struct ddr_stamp *s, struct ddr_disk_stamp *d)
{
	memset(d, 0, sizeof(*d));
	d->magic = put32(DDR_STAMP_MAGIC);
	d->version = put16(DDR_FORMAT_VERSION);
	d->slot = put16(s->slot);
	d->length = put32(sizeof(*d));
	d->seq = put64(s->seq);
	memcpy(d->array_uuid, s->array_uuid, sizeof(d->array_uuid));
	d->generation = put64(s->generation);
	d->node = put32(s->node);
	d->kind = put16(s->kind);
	memcpy(d->machine, s->machine, sizeof(d->machine));
	memcpy(d->boot_id, s->instance.boot_id, sizeof(d->boot_id));
	d->cookie = put64(s->instance.cookie);
	memcpy(d->claim, s->claim, sizeof(d->claim));
	d->time = put64(s->time);
	d->stop_ms = put32(s->stop_ms);
	memcpy(d->name, s->name, sizeof(d->name));
	d->crc32c = put32(ddr_crc32c_block(d, sizeof(*d), offsetof(struct ddr_disk_stamp, crc32c)));
}

struct ddr_fault ddr_stamp_encode(const struct ddr_stamp *stamp, const struct ddr_super *sb, void *buf)
{
	struct ddr_fault fault = check_stamp(stamp, sb);
	struct ddr_disk_stamp d;

	if (!fault.code && stamp->slot >= sb->slots)
		fault = FAULT(DDR_FE_L_SLOT, 0, stamp->slot, sb->slots);
	if (fault.code)
		return fault;
	put_stamp(stamp, &d);
	memcpy(buf, &d, sizeof(d));
	return FINE;
}

struct ddr_fault ddr_stamp_decode(const void *buf, const struct ddr_super *sb, uint32_t slot, unsigned int place, struct ddr_stamp *stamp)
{
	struct ddr_fault fault = check_envelope(buf, DDR_STAMP_MAGIC, 0);
	const struct ddr_disk_stamp *d = buf;
	struct ddr_disk_stamp again;
	struct ddr_stamp s;

	if (fault.code)
		return fault;
	memset(&s, 0, sizeof(s));
	s.slot = le16toh(d->slot.raw);
	s.kind = le16toh(d->kind.raw);
	s.seq = le64toh(d->seq.raw);
	memcpy(s.array_uuid, d->array_uuid, sizeof(s.array_uuid));
	s.generation = le64toh(d->generation.raw);
	s.node = le32toh(d->node.raw);
	memcpy(s.machine, d->machine, sizeof(s.machine));
	memcpy(s.instance.boot_id, d->boot_id, sizeof(s.instance.boot_id));
	s.instance.cookie = le64toh(d->cookie.raw);
	memcpy(s.claim, d->claim, sizeof(s.claim));
	s.time = le64toh(d->time.raw);
	s.stop_ms = le32toh(d->stop_ms.raw);
	memcpy(s.name, d->name, sizeof(s.name));
	if (s.slot != slot || slot >= sb->slots)
		return FAULT(DDR_FE_L_SLOT, 0, s.slot, slot);
	fault = check_stamp(&s, sb);
	if (!fault.code && (s.seq & 1) != place)
		fault = FAULT(DDR_FE_SEQ, 0, s.seq, place);
	if (!fault.code && !may_hold_more(sb)) {
		put_stamp(&s, &again);
		fault = check_rest(buf, &again, 0);
	}
	if (!fault.code)
		*stamp = s;
	return fault;
}

bool ddr_owner_is_ours(const void *block, const struct ddr_super *sb)
{
	const struct ddr_disk_page *d = block;

	/* both kinds of block have the uuid at the same place */
	return (check_envelope(d, DDR_OWNER_MAGIC, 0).code == DDR_FE_OK || check_envelope(d, DDR_STAMP_MAGIC, 0).code == DDR_FE_OK) &&
	       memcmp(d->array_uuid, sb->array_uuid, sizeof(d->array_uuid)) == 0;
}

/* -------------------------------------------------- texts */

const char *ddr_slot_state_name(uint8_t state)
{
	static const char *const name[] = { [DDR_SLOT_FREE] = "free", [DDR_SLOT_OWNED] = "owned", [DDR_SLOT_FENCED] = "fenced" };

	return state < sizeof(name) / sizeof(name[0]) ? name[state] : "unknown";
}

const char *ddr_disk_id_name(uint8_t kind)
{
	static const char *const name[] = { [DDR_DISK_NONE] = "none", [DDR_DISK_WWN] = "wwn", [DDR_DISK_SERIAL] = "serial", [DDR_DISK_PATH] = "path" };

	return kind < sizeof(name) / sizeof(name[0]) ? name[kind] : "unknown";
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Examines a member; see exam.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exam.h"
#include "lib/disk/assemble.h"
#include "lib/disk/foreign.h"
#include "lib/disk/layout.h"

#define DIFFERENCES_MAX	4	/* damaged fields that are named for one superblock copy */

/* Stores a message. If there is no memory it is lost, and nothing else. */
static void __attribute__((format(printf, 2, 3))) damage(struct exam *exam, const char *format, ...)
{
	char **list = realloc(exam->error, (exam->n_errors + 1) * sizeof(*list));
	va_list args;
	int n;

	if (!list)
		return;
	exam->error = list;
	va_start(args, format);
	n = vasprintf(&list[exam->n_errors], format, args);
	va_end(args);
	if (n >= 0)
		exam->n_errors++;
}

/* -------------------------------------------------- superblocks */

/*
 * Names the fields in which a copy with a wrong crc differs from the other copy, which is valid: that is where the damage is. seq, crc32c, and the
 * owner_crc of format 2, always differ.
 */
static bool differs_always(const char *field)
{
	return strcmp(field, "seq") == 0 || strcmp(field, "crc32c") == 0 || strcmp(field, "owner_crc") == 0;
}

static void name_differences(const uint8_t *bad, const uint8_t *good, char *buf, size_t size)
{
	const struct ddr_field *f;
	size_t n = ddr_fields(false, &f), used = 0;
	unsigned int named = 0;
	char name[64];

	buf[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		for (uint32_t k = 0; k < f[i].count; k++) {
			uint32_t at = f[i].offset + k * (uint32_t)f[i].stride;

			if (memcmp(bad + at, good + at, f[i].size) == 0 || differs_always(f[i].name))
				continue;
			if (named++ == DIFFERENCES_MAX) {
				snprintf(buf + used, size - used, " and more");
				return;
			}
			used += (size_t)snprintf(buf + used, size - used, "%s %s", used ? "," : "",
						 ddr_field_at(false, at, name, sizeof(name)));
		}
	}
}

static void report_copy(struct exam *exam, const struct ddr_dev *dev, unsigned int i)
{
	const struct ddr_supers *s = &exam->supers;
	const struct ddr_fault *fault = &s->copy[i].fault;
	char text[256], fields[512];
	uint8_t *buf;

	if (s->copy[i].read_failed) {
		damage(exam, "superblock copy %u: %s", i, s->copy[i].error.text);
		return;
	}
	ddr_fault_text(fault, text, sizeof(text));
	if (i == 1 && !s->copy[1].offset) {
		damage(exam, "superblock copy 1: not found; its position is known from copy 0 only");
		return;
	}
	buf = ddr_dev_buffer(2u * DDR_META_BLOCK);
	fields[0] = '\0';
	if (buf && exam->sb && fault->code == DDR_FE_CRC &&
	    !ddr_dev_read(dev, buf, DDR_META_BLOCK, s->copy[i].offset, NULL) &&
	    !ddr_super_encode(exam->sb, buf + DDR_META_BLOCK).code)
		name_differences(buf, buf + DDR_META_BLOCK, fields, sizeof(fields));
	damage(exam, "superblock copy %u at byte %llu: %s%s%s", i, (unsigned long long)s->copy[i].offset, text,
	       fields[0] ? "; it differs from the valid copy in" : "", fields);
	free(buf);
}

static void report_supers(struct exam *exam, const struct ddr_dev *dev, const struct ddr_error *err)
{
	const struct ddr_supers *s = &exam->supers;
	bool trace = false;

	for (unsigned int i = 0; i < DDR_SB_COPIES; i++)
		trace |= s->copy[i].found || (s->copy[i].fault.code != DDR_FE_BLANK && s->copy[i].fault.code != DDR_FE_MAGIC);
	if (s->conflict || !trace)
		damage(exam, "%s", err->text + (strncmp(err->text, dev->path, strlen(dev->path)) ? 0 : strlen(dev->path) + 2));
	for (unsigned int i = 0; trace && i < DDR_SB_COPIES; i++)
		if (!s->copy[i].found)
			report_copy(exam, dev, i);
	if (exam->sb && ddr_super_ro_only(exam->sb))
		damage(exam, "ro_compat has features that this version does not know (0x%x): the array can be examined, but not started",
		       exam->sb->ro_compat);
	if (exam->sb && exam->bytes < ddr_layout_data_end(exam->sb))
		damage(exam, "the device has %llu bytes, but its data area ends at byte %llu: it was cut short",
		       (unsigned long long)exam->bytes, (unsigned long long)ddr_layout_data_end(exam->sb));
}

/* -------------------------------------------------- log and map */

/* Reads both places of a block at @offset. Returns the place of the newest valid one, or -1. Reports damage of each place. */
static int newest_place(struct exam *exam, const struct ddr_dev *dev, uint8_t *buf, uint16_t slot, uint32_t index,
			struct ddr_log_info *info)
{
	const struct ddr_super *sb = exam->sb;
	char what[64], text[256];
	int newest = -1;

	if (slot == DDR_MAP_SLOT)
		snprintf(what, sizeof(what), "region map block %u", index);
	else
		snprintf(what, sizeof(what), "log of slot %u block %u", slot, index);
	for (unsigned int place = 0; place < 2; place++) {
		uint64_t offset = slot == DDR_MAP_SLOT ? ddr_map_offset(sb, index, place) :
							 ddr_log_offset(sb, slot, index, place);
		uint8_t *block = buf + place * DDR_META_BLOCK;
		struct ddr_log_info here;
		struct ddr_error err;
		struct ddr_fault fault;

		if (ddr_dev_read(dev, block, DDR_META_BLOCK, offset, &err)) {
			damage(exam, "%s place %u: %s", what, place, err.text);
			continue;
		}
		fault = ddr_log_decode(block, sb, slot, index, place, &here);
		if (fault.code) {
			damage(exam, "%s place %u at byte %llu: %s", what, place, (unsigned long long)offset,
			       ddr_fault_text(&fault, text, sizeof(text)));
		} else if (newest < 0 || here.seq > info->seq) {
			*info = here;
			newest = (int)place;
		}
	}
	if (newest < 0)
		damage(exam, "%s: none of its places is valid; from this device alone %s", what,
		       slot == DDR_MAP_SLOT ? "all its regions count as written" : "all its regions count as dirty");
	return newest;
}

static void read_slot(struct exam *exam, const struct ddr_dev *dev, uint8_t *buf, uint16_t slot)
{
	struct exam_slot *s = &exam->slot[slot];
	uint64_t newest_seq = 0;

	for (uint32_t index = 0; index < exam->sb->log_blocks; index++) {
		uint64_t first = (uint64_t)index * DDR_LOG_REGIONS;
		struct ddr_log_info info;
		int place = newest_place(exam, dev, buf, slot, index, &info);
		const uint8_t *payload;

		if (place < 0) {
			s->unreadable++;
			continue;
		}
		if (info.seq > newest_seq) {
			newest_seq = info.seq;
			s->node = info.node;
			s->cookie = info.cookie;
			memcpy(s->boot_id, info.boot_id, sizeof(s->boot_id));
		}
		for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
			s->n_repairs += info.repair[i] != 0;
		payload = buf + (unsigned int)place * DDR_META_BLOCK + DDR_LOG_HEADER;
		for (uint32_t i = 0; i < DDR_LOG_REGIONS && first + i < exam->regions; i++) {
			if (!ddr_log_get(payload, i))
				continue;
			ddr_log_set(s->dirty, (uint32_t)(first + i), true);
			s->n_dirty++;
		}
	}
}

static void read_map(struct exam *exam, const struct ddr_dev *dev, uint8_t *buf)
{
	for (uint32_t index = 0; index < exam->sb->map_blocks; index++) {
		uint64_t first = (uint64_t)index * DDR_MAP_REGIONS;
		struct ddr_log_info info;
		int place = newest_place(exam, dev, buf, DDR_MAP_SLOT, index, &info);
		const uint8_t *payload = buf + (place > 0 ? DDR_META_BLOCK : 0) + DDR_LOG_HEADER;

		for (uint32_t i = 0; i < DDR_MAP_REGIONS && first + i < exam->regions; i++) {
			uint8_t nibble = place < 0 ? EXAM_UNKNOWN : ddr_map_get(payload, i);

			exam->map[first + i] = nibble;
			if (nibble == EXAM_UNKNOWN) {
				exam->n_unknown++;
				continue;
			}
			exam->n_state[nibble & DDR_REGION_STATE_MASK]++;
			exam->n_suspect += !!(nibble & DDR_REGION_F_SUSPECT);
			exam->n_written += !!(nibble & DDR_REGION_F_WRITTEN);
		}
	}
}

/* A place that was never written is no damage. */
static void read_stamps(struct exam *exam, const struct ddr_dev *dev, uint8_t *buf)
{
	const struct ddr_super *sb = exam->sb;
	char text[256];

	for (uint32_t i = 0; ddr_super_has_owners(sb) && i < sb->slots * 2; i++) {
		uint32_t slot = i / 2, place = i % 2;
		uint64_t offset = ddr_stamp_offset(sb, slot, place);
		struct ddr_error err;
		struct ddr_fault fault;
		struct ddr_stamp stamp;

		if (ddr_dev_read(dev, buf, DDR_META_BLOCK, offset, &err)) {
			damage(exam, "stamp %u of slot %u: %s", place, slot, err.text);
			continue;
		}
		fault = ddr_stamp_decode(buf, sb, slot, place, &stamp);
		if (fault.code == DDR_FE_OK && stamp.seq > exam->stamp[slot].seq)
			exam->stamp[slot] = stamp;
		else if (fault.code && fault.code != DDR_FE_BLANK)
			damage(exam, "stamp %u of slot %u at byte %llu: %s", place, slot, (unsigned long long)offset,
			       ddr_fault_text(&fault, text, sizeof(text)));
	}
}

static void read_logs(struct exam *exam, const struct ddr_dev *dev)
{
	uint8_t *buf = ddr_dev_buffer(2u * DDR_META_BLOCK);
	bool memory = buf != NULL;

	exam->regions = ddr_super_regions(exam->sb);
	exam->map = calloc(exam->regions, 1);
	memory &= exam->map != NULL;
	for (uint32_t i = 0; memory && i < exam->sb->slots; i++) {
		exam->slot[i].dirty = calloc(exam->regions / 8 + 1, 1);
		memory = exam->slot[i].dirty != NULL;
	}
	if (memory) {
		for (uint16_t i = 0; i < exam->sb->slots; i++)
			read_slot(exam, dev, buf, i);
		read_map(exam, dev, buf);
		read_stamps(exam, dev, buf);
	} else {
		damage(exam, "out of memory: the logs were not read");
		exam->sb = NULL;
	}
	free(buf);
}

/* -------------------------------------------------- the device */

static void report_foreign(struct exam *exam, const struct ddr_dev *dev)
{
	char foreign[DDR_FOREIGN_LEN];
	struct ddr_error err;

	if (exam->sb && ddr_foreign_find(dev, exam->sb, foreign, sizeof(foreign), &err) == 0 && foreign[0])
		damage(exam, "also holds a %s: another program has written to it, and the array starts without it", foreign);
}

bool exam_device(struct exam *exam, const char *path)
{
	struct ddr_error err;
	struct ddr_dev dev;

	memset(exam, 0, sizeof(*exam));
	exam->supers.newest = -1;
	if (ddr_dev_open(&dev, path, DDR_DEV_FILE, &err)) {
		damage(exam, "%s", err.text);
		return false;
	}
	exam->opened = true;
	exam->bytes = dev.bytes;
	if (ddr_dev_read_supers(&dev, &exam->supers, &err) == 0)
		exam->sb = &exam->supers.copy[exam->supers.newest].super;
	report_supers(exam, &dev, &err);
	report_foreign(exam, &dev);
	if (exam->sb)
		read_logs(exam, &dev);
	ddr_dev_close(&dev);
	return exam->sb != NULL;
}

void exam_free(struct exam *exam)
{
	for (size_t i = 0; i < exam->n_errors; i++)
		free(exam->error[i]);
	free(exam->error);
	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++)
		free(exam->slot[i].dirty);
	free(exam->map);
	memset(exam, 0, sizeof(*exam));
}

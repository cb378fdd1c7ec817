/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The table line for the kernel: made from an array that was found, or changed when a disk replaces another one. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "lib/disk/scan.h"

int ddr_scan_table_params(const struct ddr_scan_array *array, unsigned int options, char *buf, size_t size)
{
	/* indexed by the bits of DDR_TABLE_* */
	static const char *const words[] = {
		"", " 1 verify_reads", " 1 fail_if_no_daemon", " 2 verify_reads fail_if_no_daemon",
	};
	const struct ddr_super *sb = &array->assembly.super;
	char uuid[37];
	size_t used;
	int n;

	uuid_unparse_lower(sb->array_uuid, uuid);
	n = snprintf(buf, size, "%s %u %u %s %" PRIu32 " %" PRIu64 " %u", uuid, sb->order,
		     sb->parity, sb->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated", sb->region_size / 512,
		     sb->data_offset / 512, sb->roles);
	for (uint32_t role = 0; role < sb->roles; role++) {
		int32_t c = ddr_assembly_role(&array->assembly, role);

		if (n < 0 || (size_t)n >= size)
			return -1;
		used = (size_t)n;
		n += snprintf(buf + used, size - used, " %s", c < 0 ? "-" : array->cand[c].device);
	}
	if (n < 0 || (size_t)n >= size)
		return -1;
	used = (size_t)n;
	n += snprintf(buf + used, size - used, "%s", words[options & (DDR_TABLE_VERIFY_READS | DDR_TABLE_FAIL_IF_NO_DAEMON)]);
	return n < 0 || (size_t)n >= size ? -1 : 0;
}

#define WORDS_BEFORE	7u	/* UUID ORDER PARITY LAYOUT REGION OFFSET MEMBERS, then the devices */

static const char *word_at(const char *text, unsigned int n)
{
	for (text += strspn(text, " "); n; n--) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return text;
}

static bool word_is(const char *word, const char *text)
{
	return strcspn(word, " ") == strlen(text) && strncmp(word, text, strlen(text)) == 0;
}

/*
 * The options except "replace PLACE DEVICE", each with a space before it. Returns the number of words, or -1: they do
 * not fit.
 */
static int other_options(const char *word, char *buf, size_t size)
{
	size_t used = 0;
	int n = 0;

	buf[0] = '\0';
	while (*word) {
		size_t length = strcspn(word, " ");

		if (word_is(word, "replace")) {
			word = word_at(word, 3);
			continue;
		}
		if (used + length + 2 > size)
			return -1;
		used += (size_t)snprintf(buf + used, size - used, " %.*s", (int)length, word);
		word = word_at(word, 1);
		n++;
	}
	return n;
}

static void device_text(char buf[32], uint32_t major, uint32_t minor)
{
	if (major || minor)
		snprintf(buf, 32, "%" PRIu32 ":%" PRIu32, major, minor);
	else
		snprintf(buf, 32, "-");
}

char *ddr_scan_table_shadow(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *tail = members <= DDR_MAX_ROLES ? word_at(params, WORDS_BEFORE + (unsigned int)members) : "";
	size_t head = (size_t)(tail - params);
	char options[512], device[32], shadow[64] = "", count[16] = "", *text;
	int n;

	*same = false;
	if (members == 0 || members > DDR_MAX_ROLES || place >= members || *word_at(params, WORDS_BEFORE + (unsigned int)members - 1) == '\0')
		return NULL;
	n = other_options(word_at(tail, 1), options, sizeof(options));
	if (n < 0)
		return NULL;
	while (head && params[head - 1] == ' ')
		head--;
	if (major || minor) {
		device_text(device, major, minor);
		snprintf(shadow, sizeof(shadow), " replace %" PRIu32 " %s", place, device);
		n += 3;
	}
	if (n)
		snprintf(count, sizeof(count), " %d", n);
	if (asprintf(&text, "%.*s%s%s%s", (int)head, params, count, options, shadow) < 0)
		return NULL;
	*same = strcmp(text, params) == 0;
	return text;
}

/* Is there a replacement for @place, or is @device one for any place? */
static bool has_shadow(const char *params, uint32_t place, const char *device)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *word = members <= DDR_MAX_ROLES ? word_at(params, WORDS_BEFORE + (unsigned int)members + 1) : "";

	for (; *word; word = word_at(word, word_is(word, "replace") ? 3 : 1))
		if (word_is(word, "replace") && (strtoul(word_at(word, 1), NULL, 10) == place || word_is(word_at(word, 2), device)))
			return true;
	return false;
}

char *ddr_scan_table_replace(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *word = word_at(params, WORDS_BEFORE + place);
	size_t length = strcspn(word, " ");
	char device[32], *text, *without;
	bool no_shadow;

	*same = false;
	if (place >= members || length == 0)
		return NULL;
	device_text(device, major, minor);
	if (asprintf(&text, "%.*s%s%s", (int)(word - params), params, device, word + length) < 0)
		return NULL;
	*same = word_is(word, device);
	if (!has_shadow(params, place, device))
		return text;
	*same = false;
	without = ddr_scan_table_shadow(text, place, 0, 0, &no_shadow);
	free(text);
	return without;
}

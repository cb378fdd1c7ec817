// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The file that says who a machine is. See machine.h.
 *
 * The file is text, one word and its value a line; a value of "-" is none. Its last line is the crc32c of all lines before. Lines with other
 * words are of a later release, and are passed over.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <ddraid/proto.h>

#include "lib/math/crc32c.h"
#include "lib/math/uuid.h"
#include "lib/node/machine.h"

#define TITLE	"# Who this machine is for ddraid. Do not copy this file to another machine.\n"

/* ---- values ---------------------------------------------------------------------- */

/* Where a uuid as text has its dashes. */
static bool dash_at(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

/* Copies @n characters of @s in lower case, if they are hexadecimal digits, with dashes as in a uuid if @dashes; all of them must not be the same. */
static bool take_digits(const char *s, size_t n, bool dashes, char *to)
{
	bool differ = false;

	for (size_t i = 0; i < n; i++) {
		if (dashes && dash_at(i) ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
			return false;
		to[i] = (char)tolower((unsigned char)s[i]);
		differ |= !(dashes && dash_at(i)) && to[i] != to[0];
	}
	to[n] = '\0';
	return differ;
}

/* The same of a text that ends there, or with a newline there. */
static void take_mark(const char *s, size_t n, bool dashes, char *to)
{
	size_t len = s ? strcspn(s, "\n") : 0;

	if (len != n || !take_digits(s, n, dashes, to))
		*to = '\0';
}

void ddr_machine_marks(struct ddr_machine_marks *marks, const char *machine_id, const char *product)
{
	take_mark(machine_id, sizeof(marks->machine_id) - 1, false, marks->machine_id);
	take_mark(product, sizeof(marks->product) - 1, true, marks->product);
}

static unsigned int digit(char c)
{
	return c <= '9' ? (unsigned int)(c - '0') : (unsigned int)(c - 'a') + 10;
}

static bool take_uuid(const char *s, size_t len, uint8_t uuid[16])
{
	char text[37];
	unsigned int n = 0;

	if (len != 36 || !take_digits(s, len, true, text))
		return false;
	for (size_t i = 0; i < 36; i += 2) {
		i += text[i] == '-';
		uuid[n++] = (uint8_t)(digit(text[i]) << 4 | digit(text[i + 1]));
	}
	return !ddr_uuid_is_zero(uuid);
}

/* ---- the file -------------------------------------------------------------------- */

static bool is_word(const char *line, size_t len, const char *word, const char **value, size_t *n)
{
	size_t w = strlen(word);

	if (len <= w || memcmp(line, word, w) != 0 || line[w] != ' ')
		return false;
	*value = line + w + 1;
	*n = len - w - 1;
	return true;
}

static bool take_stored_mark(const char *s, size_t n, size_t size, bool dashes, char *to)
{
	*to = '\0';
	return (n == 1 && *s == '-') || (n == size - 1 && take_digits(s, n, dashes, to));
}

static bool take_ballot(const char *s, size_t n, uint64_t *ballot)
{
	*ballot = 0;
	for (size_t i = 0; i < n; i++) {
		if (!isdigit((unsigned char)s[i]) || *ballot > DDR_BALLOT_MAX / 10)
			return false;
		*ballot = *ballot * 10 + (uint64_t)(s[i] - '0');
	}
	return *ballot != 0 && *ballot <= DDR_BALLOT_MAX;
}

static bool take_line(struct ddr_identity *id, const char *line, size_t len)
{
	const char *value;
	size_t n;

	if (is_word(line, len, "machine", &value, &n))
		return take_uuid(value, n, id->machine);
	if (is_word(line, len, "machine-id", &value, &n))
		return take_stored_mark(value, n, sizeof(id->marks.machine_id), false, id->marks.machine_id);
	if (is_word(line, len, "product", &value, &n))
		return take_stored_mark(value, n, sizeof(id->marks.product), true, id->marks.product);
	if (is_word(line, len, "cluster", &value, &n)) {
		id->cluster.agreed = true;
		return take_uuid(value, n, id->cluster.id);
	}
	if (is_word(line, len, "cluster-proposed", &value, &n))
		return !id->cluster.agreed && take_uuid(value, n, id->cluster.id);
	if (is_word(line, len, "other-cluster", &value, &n))
		return take_uuid(value, n, id->cluster.other);
	if (is_word(line, len, "promised", &value, &n))
		return take_ballot(value, n, &id->cluster.promised);
	if (is_word(line, len, "ballot", &value, &n))
		return take_ballot(value, n, &id->cluster.ballot) && id->cluster.ballot <= id->cluster.promised;
	return true;
}

/* The length of all lines before the last one, which has their checksum; 0: it has not. */
static size_t checked(const char *text, size_t len)
{
	char last[32];
	size_t at = len;

	if (!len || len > DDR_IDENTITY_MAX || text[len - 1] != '\n')
		return 0;
	for (at = len - 1; at > 0 && text[at - 1] != '\n'; at--)
		;
	snprintf(last, sizeof(last), "crc32c %08" PRIx32 "\n", ddr_crc32c(text, at));
	return len - at == strlen(last) && memcmp(text + at, last, len - at) == 0 ? at : 0;
}

static bool parse(struct ddr_identity *id, const struct ddr_identity_file *file)
{
	size_t len = checked(file->text, file->len);

	memset(id, 0, sizeof(*id));
	for (size_t at = 0; at < len;) {
		const char *line = file->text + at, *end = memchr(line, '\n', len - at);

		if (!end || !take_line(id, line, (size_t)(end - line)))
			return false;
		at += (size_t)(end - line) + 1;
	}
	return !ddr_uuid_is_zero(id->machine);
}

static void format_uuid(const uint8_t uuid[16], char text[37])
{
	char *p = text;

	for (unsigned int i = 0; i < 16; i++) {
		if (dash_at((size_t)(p - text)))
			*p++ = '-';
		p += snprintf(p, 3, "%02x", uuid[i]);
	}
}

static int add_uuid(char *text, int n, const char *word, const uint8_t uuid[16])
{
	char id[37];

	if (ddr_uuid_is_zero(uuid))
		return n;
	format_uuid(uuid, id);
	return n + snprintf(text + n, DDR_IDENTITY_MAX - (size_t)n, "%s %s\n", word, id);
}

static int add_ballot(char *text, int n, const char *word, uint64_t ballot)
{
	return ballot ? n + snprintf(text + n, DDR_IDENTITY_MAX - (size_t)n, "%s %" PRIu64 "\n", word, ballot) : n;
}

size_t ddr_identity_format(const struct ddr_identity *id, char text[DDR_IDENTITY_MAX])
{
	char machine[37], last[32];
	int n, m;

	format_uuid(id->machine, machine);
	n = snprintf(text, DDR_IDENTITY_MAX, TITLE "machine %s\nmachine-id %s\nproduct %s\n", machine, *id->marks.machine_id ? id->marks.machine_id : "-",
		     *id->marks.product ? id->marks.product : "-");
	n = add_uuid(text, n, id->cluster.agreed ? "cluster" : "cluster-proposed", id->cluster.id);
	n = add_uuid(text, n, "other-cluster", id->cluster.other);
	n = add_ballot(text, n, "promised", id->cluster.promised);
	n = add_ballot(text, n, "ballot", id->cluster.ballot);
	m = snprintf(last, sizeof(last), "crc32c %08" PRIx32 "\n", ddr_crc32c(text, (size_t)n));
	memcpy(text + n, last, (size_t)m);
	return (size_t)n + (size_t)m;
}

/* ---- whose it is ------------------------------------------------------------------- */

static bool differ(const char *stored, const char *now)
{
	return *stored && *now && strcmp(stored, now) != 0;
}

/* Adds what was not known when the file was written. */
static bool learn(char *stored, const char *now, size_t size)
{
	if (*stored || !*now)
		return false;
	memcpy(stored, now, size);
	return true;
}

static enum ddr_machine_news make_new(struct ddr_identity *id, const struct ddr_machine_marks *marks, const uint8_t random[16],
				      enum ddr_machine_news why)
{
	memset(id, 0, sizeof(*id));
	memcpy(id->machine, random, sizeof(id->machine));
	id->marks = *marks;
	return why;
}

enum ddr_machine_news ddr_machine_decide(struct ddr_identity *id, const struct ddr_identity_file *file, const struct ddr_machine_marks *marks,
					 const uint8_t random[16], bool *write)
{
	*write = file->how != DDR_IDENTITY_UNREADABLE;
	if (file->how == DDR_IDENTITY_UNREADABLE)
		return make_new(id, marks, random, DDR_MACHINE_HIDDEN);
	if (file->how == DDR_IDENTITY_MISSING)
		return make_new(id, marks, random, DDR_MACHINE_FIRST);
	if (!parse(id, file))
		return make_new(id, marks, random, DDR_MACHINE_DAMAGED);
	/* either alone may stay the same in a copy: a template is cloned with its machine-id, and firmware of many machines has one uuid */
	if (differ(id->marks.machine_id, marks->machine_id) || differ(id->marks.product, marks->product))
		return make_new(id, marks, random, DDR_MACHINE_COPIED);
	*write = learn(id->marks.machine_id, marks->machine_id, sizeof(marks->machine_id));
	*write |= learn(id->marks.product, marks->product, sizeof(marks->product));
	return DDR_MACHINE_SAME;
}

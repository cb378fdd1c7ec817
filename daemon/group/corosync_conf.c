// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Is this node in a cluster, by its corosync.conf? See corosync.h.
 *
 * Must never: answer "no" in doubt. A node of a cluster that serves its arrays alone writes to the same disks as the others without
 * coordination.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "daemon/group/corosync.h"

struct conf {
	unsigned int line, depth;
	bool nodelist;			/* the outermost open section is the list of nodes */
	unsigned int nodes, addresses;
	uint32_t node;			/* id of the last one; 0: none */
};

static bool is_word(const char *s, const char *word)
{
	size_t n = strlen(word);

	return strncmp(s, word, n) == 0 && s[n + strspn(s + n, " \t")] == '{';
}

/* As corosync reads it: a number from 1 to 4294967295. Returns 0 if it is none. */
static uint32_t id_of(const char *s)
{
	unsigned long long id;
	char *end;

	s += strspn(s, " \t");
	if (*s < '0' || *s > '9')
		return 0;
	errno = 0;
	id = strtoull(s, &end, 10);
	return errno || end[strspn(end, " \t\r\n")] || id > UINT32_MAX ? 0 : (uint32_t)id;
}

static const char *take_key(struct conf *c, const char *s)
{
	c->addresses += strncmp(s, "ring0_addr", 10) == 0;
	if (!c->nodelist || c->depth != 2 || strncmp(s, "nodeid", 6) != 0 || s[6 + strspn(s + 6, " \t")] != ':')
		return NULL;
	c->node = id_of(strchr(s, ':') + 1);
	return c->node ? NULL : "the id of a node is not a number from 1 to 4294967295";
}

/* Parses one line as corosync does: a section opens, a key has a value, or a section ends. Returns what is wrong, or NULL. */
static const char *take_line(struct conf *c, const char *s)
{
	s += strspn(s, " \t\r\n");
	if (*s == '\0' || *s == '#')
		return NULL;
	if (strchr(s, '{')) {
		if (c->depth == 0)
			c->nodelist = is_word(s, "nodelist");
		c->nodes += c->depth == 1 && c->nodelist && is_word(s, "node");
		c->depth++;
		return NULL;
	}
	if (strchr(s, ':'))
		return take_key(c, s);
	if (!strchr(s, '}'))
		return "neither a section nor a key with a value";
	if (c->depth == 0)
		return "a closing brace without a section";
	c->depth--;
	return NULL;
}

/* NULL: the whole file was read, and is valid. */
static const char *take_file(struct conf *c, FILE *f, int *error)
{
	const char *why = NULL;
	char *line = NULL;
	size_t size = 0;
	ssize_t n;

	errno = 0;
	while (!why && (n = getline(&line, &size, f)) >= 0) {
		c->line++;
		why = strlen(line) != (size_t)n ? "there are zero bytes in it" : take_line(c, line);
	}
	*error = why || feof(f) ? 0 : errno ? errno : EIO;
	free(line);
	return why || *error || c->depth == 0 ? why : "a section is not closed";
}

static int fails(char *err, size_t size, const char *path, int error)
{
	snprintf(err, size, "%s cannot be read (%s), so it is unknown whether this node belongs to a cluster; make it readable, or set transport = "
		 "corosync or local in ddraid.conf", path, strerror(error));
	return -error;
}

int ddr_corosync_configured(const char *path, uint32_t *node, char *err, size_t size)
{
	struct conf c = { 0 };
	struct stat st;
	const char *why;
	int error;
	FILE *f;

	*err = '\0';
	*node = 0;
	f = fopen(path, "re");
	if (!f) {
		error = errno;
		/* a dangling link was meant to lead to a file */
		if (error == ENOTDIR || (error == ENOENT && lstat(path, &st) && (errno == ENOENT || errno == ENOTDIR)))
			return 0;
		return fails(err, size, path, error);
	}
	why = take_file(&c, f, &error);
	fclose(f);
	if (error)
		return fails(err, size, path, error);
	if (why)
		snprintf(err, size, "%s cannot be parsed (line %u: %s), so it is treated as a cluster configuration: no array is served until "
			 "corosync runs. Correct it, or set transport = local in ddraid.conf", path, c.line, why);
	if (why || c.nodes != 1 || c.addresses != 1)
		return 1;
	*node = c.node;
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* See expect.h. Must never: let an expectation that is broken pass without a line in the transcript. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "world.h"

#define MAX_NEVER	8
#define MAX_TEXT	256

static char known[MAX_TEXT], never[MAX_NEVER][MAX_TEXT], first_broken[MAX_TEXT + 16];
static uint32_t n_never, n_broken;
static char *answers;		/* since expect_since(), one a line, each with its node in front */
static size_t n_answers;

void expect_since(void)
{
	free(answers);
	answers = NULL;
	n_answers = 0;
}

void expect_begin(void)
{
	expect_since();
	known[0] = 0;
	n_never = n_broken = 0;
}

static void copy(char *to, const char *text)
{
	if (!*text || strlen(text) >= MAX_TEXT)
		die("an expectation is empty or too long", text);
	strcpy(to, text);
}

void expect_known(const char *rule)
{
	copy(known, rule);
}

const char *expect_known_rule(void)
{
	return known[0] ? known : NULL;
}

void expect_never(const char *what)
{
	if (n_never == MAX_NEVER)
		die("too many expectations", what);
	copy(never[n_never++], what);
}

void expect_anything(void)
{
	n_never = 0;
}

/* Is @what in the line, which begins with "N: "? If @what begins so too, the node must be the same. */
static bool is_in(const char *line, const char *what)
{
	size_t digits = strspn(what, "0123456789"), node = strcspn(line, " ") + 1;

	if (digits && what[digits] == ':')
		return strncmp(line, what, digits + 2) == 0 && strstr(line + node, what + digits + 2);
	return strstr(line + node, what);
}

static void broken(FILE *to, const char *how, const char *what)
{
	fprintf(to, "    broken: %s%s\n", how, what);
	if (!n_broken++)
		snprintf(first_broken, sizeof(first_broken), "%s%s", how, what);
}

void expect_must(const char *what, FILE *to)
{
	for (const char *p = answers; p && *p; p += strlen(p) + 1)
		if (is_in(p, what))
			return;
	broken(to, "there is no ", what);
}

void expect_answer(uint32_t node, const char *text, FILE *to)
{
	size_t room = strlen(text) + 16;
	char *line;

	answers = realloc(answers, n_answers + room + 1);
	if (!answers)
		die("out of memory", text);
	line = answers + n_answers;
	n_answers += (size_t)snprintf(line, room, "%u: %s", node, text) + 1;
	answers[n_answers] = 0;		/* an empty line ends them */
	for (uint32_t i = 0; i < n_never; i++)
		if (is_in(line, never[i]))
			broken(to, "never ", never[i]);
}

uint32_t expect_broken(const char **first)
{
	*first = first_broken;
	return n_broken;
}

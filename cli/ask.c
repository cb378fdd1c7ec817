// SPDX-License-Identifier: GPL-2.0-or-later
/* See ask.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/ask.h"
#include "cli/cli.h"

static bool can_ask(const char *what, bool yes, const char *text)
{
	if (yes || isatty(STDIN_FILENO))
		return true;
	cli_fail(what, "%s; there is no terminal to ask on. Give --yes to confirm", text);
	return false;
}

bool cli_can_ask(const char *what, bool yes, const char *format, ...)
{
	char text[1500];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return can_ask(what, yes, text);
}

bool cli_asked(const char *what, bool yes)
{
	char answer[16] = "";

	if (yes)
		return true;
	fprintf(stderr, "Type yes to continue: ");
	fflush(stderr);
	if (fgets(answer, sizeof(answer), stdin) && strcmp(answer, "yes\n") == 0)
		return true;
	cli_fail(what, "nothing was changed");
	return false;
}

bool cli_confirm(const char *what, bool yes, const char *format, ...)
{
	char text[1500];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!can_ask(what, yes, text))
		return false;
	cli_warn(what, "%s", text);
	return cli_asked(what, yes);
}

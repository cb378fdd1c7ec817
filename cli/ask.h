/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The question before an operation that cannot be undone. */
#ifndef DDR_CLI_ASK_H
#define DDR_CLI_ASK_H

#include <stdbool.h>

/*
 * Prints the sentence, and asks for "yes" on the terminal. @yes: the operator has answered already (--yes), so the sentence is only
 * printed. Without a terminal the answer is no, and the message names --yes. Returns false: no, and that was printed. Must never:
 * treat silence, or the end of a pipe, as a yes.
 */
/*
 * The two halves of cli_confirm(), for callers that print something in between. cli_can_ask() returns false if nobody can be asked;
 * that was printed, with the sentence as the reason.
 */
bool cli_can_ask(const char *what, bool yes, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool cli_asked(const char *what, bool yes);
bool cli_confirm(const char *what, bool yes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The question before an operation that cannot be undone. */
#ifndef DDR_CLI_ASK_H
#define DDR_CLI_ASK_H

#include <stdbool.h>

/*
 * Prints the sentence, and asks for "yes" on the terminal. @yes: the operator has answered already (--yes), only the sentence is printed. Without a
 * terminal nobody can be asked: then it is a no, and the line says that --yes answers. False: no, and that was printed.
 * Must never: treat silence, or the end of a pipe, as a yes.
 */
/* The two halves of it, where more is printed between. False: nobody can be asked, and that was printed with the sentence as the reason. */
bool cli_can_ask(const char *what, bool yes, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool cli_asked(const char *what, bool yes);
bool cli_confirm(const char *what, bool yes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What must, and must never, be among the answers of a scenario, whatever else they are. A scenario that fails only because a rule of the
 * design is not built yet is marked as known: it must fail, and exactly as it is written down.
 */
#ifndef DDR_TESTS_SCENARIOS_EXPECT_H
#define DDR_TESTS_SCENARIOS_EXPECT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A file begins: nothing is expected, and nothing broken. */
void expect_begin(void);
/* The rule that will close what the file shows; not NULL: the file is known to fail. */
void expect_known(const char *rule);
const char *expect_known_rule(void);
/* From now on no answer may contain @what, which may begin with a node ("2: "). */
void expect_never(const char *what);
/* Forgets what must never be answered. */
void expect_anything(void);
/* Forgets the answers so far: expect_must() looks at later ones only. */
void expect_since(void);
/* Is there an answer that contains @what? If not, this is noted in @to as broken. */
void expect_must(const char *what, FILE *to);
/* An answer of @node (0: the only one). If it must never be, this is noted in @to as broken. */
void expect_answer(uint32_t node, const char *text, FILE *to);
/* How many expectations were broken, and the first one of them. */
uint32_t expect_broken(const char **first);

#endif

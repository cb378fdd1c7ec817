/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a fuzzer of this directory consists of. With clang, `-fsanitize=fuzzer` links
 * LLVMFuzzerTestOneInput() to libFuzzer and driver.c is left out; `make check` links
 * driver.c, which makes a fixed number of inputs from a seed.
 */
#ifndef DDR_TESTS_FUZZ_H
#define DDR_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_INPUT_MAX	16384u

/* Gives one input to the code under test; aborts if a property does not hold. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes valid input number @n (any number) in @buf of FUZZ_INPUT_MAX bytes; returns its length. */
size_t fuzz_seed(uint64_t n, uint8_t *buf);
/* Repairs what would make every mutated input stop at the first check (crc32c). */
void fuzz_repair(uint8_t *buf, size_t size);

/* assert() that no NDEBUG removes. */
#define fuzz_require(condition) do { \
	if (!(condition)) { \
		fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
		abort(); \
	} \
} while (0)

#endif

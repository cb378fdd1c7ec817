/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a fuzzer without libFuzzer:
 *
 *	fuzz-X [-n COUNT] [-s SEED] [-i NUMBER]	seeded mutations of valid inputs; -i: that one only
 *	fuzz-X FILE...				inputs from files
 *
 * Input number i depends on SEED and i alone; the number of one that fails is printed.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define DEFAULT_COUNT	20000u
#define DEFAULT_SEED	1u

static volatile uint64_t current_seed, current_number;

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint64_t interesting(uint64_t *state)
{
	static const uint64_t values[] = {
		0, 1, 2, 3, 7, 8, 16, 17, 63, 64, 65, 255, 256, 511, 512, 4095, 4096, 4097, 7936, 31744, 65535, 65536,
		1u << 20, (1u << 20) - 4096, 1u << 30, INT32_MAX, UINT32_MAX, 1ull << 38, 1ull << 50, INT64_MAX,
		UINT64_MAX, UINT64_MAX - 4095,
	};

	return next(state) % 4 ? values[next(state) % (sizeof(values) / sizeof(values[0]))] : next(state);
}

static void mutate_once(uint8_t *buf, size_t *size, uint64_t *state)
{
	size_t at = next(state) % *size, len;
	uint64_t value;

	switch (next(state) % 8) {
	case 0:			/* a bit */
		buf[at] ^= (uint8_t)(1u << next(state) % 8);
		break;
	case 1:			/* a byte */
		buf[at] = (uint8_t)interesting(state);
		break;
	case 2: case 3: case 4:	/* a field */
		len = (size_t)2 << next(state) % 3;
		at -= at % len;
		value = interesting(state);
		for (size_t i = 0; i < len && at + i < *size; i++)
			buf[at + i] = (uint8_t)(value >> (8 * i));
		break;
	case 5:			/* a piece of it elsewhere */
		len = 1 + next(state) % 64;
		value = next(state) % *size;
		if (at + len <= *size && value + len <= *size)
			memmove(buf + at, buf + value, len);
		break;
	case 6:			/* zeroes or ones */
		len = 1 + next(state) % 512;
		memset(buf + at, next(state) % 2 ? 0 : 0xff, len < *size - at ? len : *size - at);
		break;
	default:		/* an end */
		if (next(state) % 16 == 0)
			*size = at ? at : 1;
		break;
	}
}

static void run_one(uint64_t seed, uint64_t number)
{
	static uint8_t buf[FUZZ_INPUT_MAX];
	uint64_t state = seed * 0x2545f4914f6cdd1du + number;
	unsigned int mutations = (unsigned int)(next(&state) % 9);
	size_t size;

	current_number = number;
	size = fuzz_seed(next(&state), buf);
	for (unsigned int i = 0; i < mutations; i++)
		mutate_once(buf, &size, &state);
	if (next(&state) % 8)
		fuzz_repair(buf, size);
	LLVMFuzzerTestOneInput(buf, size);
}

static void on_death(int sig)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "died of signal %d at input %llu; replay: -s %llu -i %llu\n", sig,
			 (unsigned long long)current_number, (unsigned long long)current_seed,
			 (unsigned long long)current_number);

	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(2);
	signal(sig, SIG_DFL);
	raise(sig);
}

static int run_file(const char *path)
{
	static uint8_t buf[FUZZ_INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	n = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	LLVMFuzzerTestOneInput(buf, n);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t count = DEFAULT_COUNT, seed = DEFAULT_SEED, only = 0;
	bool single = false;
	int c, rc = 0;

	while ((c = getopt(argc, argv, "n:s:i:")) != -1) {
		uint64_t v = c == '?' ? 0 : strtoull(optarg, NULL, 0);

		if (c == '?')
			return 2;
		count = c == 'n' ? v : count;
		seed = c == 's' ? v : seed;
		only = c == 'i' ? v : only;
		single |= c == 'i';
	}
	current_seed = seed;
	signal(SIGABRT, on_death);
	signal(SIGSEGV, on_death);
	for (int i = optind; i < argc; i++)
		rc |= run_file(argv[i]);
	if (optind < argc)
		return rc;
	if (single)
		run_one(seed, only);
	for (uint64_t i = 0; i < count && !single; i++)
		run_one(seed, i);
	printf("%llu inputs of seed %llu\n", single ? 1ull : (unsigned long long)count, (unsigned long long)seed);
	return 0;
}

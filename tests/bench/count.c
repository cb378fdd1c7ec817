// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many instructions a read or write of a block device takes, on a machine whose time stamp counter counts them (QEMU's -icount
 * with shift 0).
 *
 *	count DEVICE read|write BYTES NUMBER ROUNDS
 *
 * Each round does NUMBER operations of BYTES at places that are the same in each round and in each run, one after the other, and
 * prints the instructions for one, those of the kernel and its interrupts included. A round before them is not printed. Fails if
 * the counter counts something else.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <x86intrin.h>

#define LOOPS	1000000u	/* of two instructions */
#define PAGE	4096u

static uint64_t counted(void)
{
	return __rdtsc();
}

/* Few interrupts, if any, are in the count: all of them take less than a tenth. */
static void check_counter(void)
{
	uint64_t loops = LOOPS, from = counted(), n;

	__asm__ volatile("1:\n\tdecq %0\n\tjnz 1b" : "+r"(loops) : : "cc");
	n = counted() - from;
	if (n < 2ull * LOOPS || n > 22ull * LOOPS / 10)
		errx(1, "the counter does not count instructions: %llu for %u", (unsigned long long)n, 2 * LOOPS);
}

static uint64_t round_of(int fd, int write, char *data, size_t bytes, unsigned int number, uint64_t places)
{
	uint64_t place = 1, from = counted();
	unsigned int i;

	for (i = 0; i < number; i++) {
		off_t at = place % places * bytes;
		ssize_t n = write ? pwrite(fd, data, bytes, at) : pread(fd, data, bytes, at);

		if (n != (ssize_t)bytes)
			err(1, "%zd of %zu bytes at %lld", n, bytes, (long long)at);
		place = place * 6364136223846793005ull + 1442695040888963407ull;
	}
	return (counted() - from) / number;
}

int main(int argc, char **argv)
{
	size_t bytes = argc == 6 ? strtoul(argv[3], NULL, 0) : 0;
	unsigned int number = bytes ? strtoul(argv[4], NULL, 0) : 0;
	int rounds = number ? atoi(argv[5]) : 0, write, fd, i;
	char *data;
	off_t size;

	if (!rounds || bytes % PAGE)
		errx(2, "usage: count DEVICE read|write BYTES NUMBER ROUNDS");
	write = !strcmp(argv[2], "write");
	fd = open(argv[1], O_RDWR | O_DIRECT);
	if (fd < 0)
		err(1, "%s", argv[1]);
	size = lseek(fd, 0, SEEK_END);
	data = aligned_alloc(PAGE, bytes);
	if (size < (off_t)bytes || !data)
		errx(1, "%s is too small, or there is no memory", argv[1]);
	memset(data, 0x5a, bytes);
	check_counter();
	for (i = -1; i < rounds; i++) {
		uint64_t n = round_of(fd, write, data, bytes, number, size / bytes);

		if (i >= 0)
			printf("%llu\n", (unsigned long long)n);
	}
	return 0;
}

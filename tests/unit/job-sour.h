/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Members of a rig (job-rig.h) some of whose bytes are unreadable. It affects only reads by DDR_ENGINE_THREADS; the program is linked
 * with --wrap=preadv2.
 */
#ifndef DDR_TESTS_UNIT_JOB_SOUR_H
#define DDR_TESTS_UNIT_JOB_SOUR_H

#include <semaphore.h>
#include <stdatomic.h>

#include "tests/unit/job-rig.h"

/* Set while no request is under way. */
struct sour {
	/* Bytes that cannot be read. @times: 0: never; n: n - 1 reads fail, and later ones return them as they are, or (@changes) another byte */
	struct { int fd; off_t at; int error; unsigned int times; bool changes; } bad[8];
	unsigned int n;
	uint32_t slow;			/* reads of this length wait for @go ... */
	atomic_uint waiting;		/* ... so many came */
	sem_t go;
};

extern struct sour sour;

/* Member @m answers reads of one byte of @block with @error (errno). */
void goes_bad(struct rig *rig, unsigned int m, uint64_t block, int error);

#endif

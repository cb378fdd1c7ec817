/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One sentence that says what was refused, where, why, and what to do. Library functions whose refusal a person must
 * understand take a struct ddr_error; the caller owns it and prints it. Must never allocate or print.
 */
#ifndef DDR_LIB_ERROR_H
#define DDR_LIB_ERROR_H

#include <stdbool.h>

#define DDR_ERROR_LEN	1024

struct ddr_error {
	char text[DDR_ERROR_LEN];	/* one line, no newline; longer text is cut */
	bool own;			/* what failed was this process or its machine (ddr_own_failure()): nothing is known of the other side */
};

/*
 * Does a call that failed with @error (positive) fail because of this process or its machine: no memory, no descriptors, an interruption?
 * That is never evidence against the disk, the file or the node that the call was for. EAGAIN is not among them, since drivers return it.
 */
bool ddr_own_failure(int error);

/* Sets the message. Returns -1, so that a refusal is one statement. @err may be NULL. */
int ddr_error_set(struct ddr_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a call that failed with @error: sets @err->own, too. */
int ddr_error_call(struct ddr_error *err, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Puts "<prefix>: " before the message. Returns -1. */
int ddr_error_prefix(struct ddr_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

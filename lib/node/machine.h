/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who a machine is: a random id, made once, and kept in a file together with what else tells machines apart. If that does not match the machine that
 * reads the file, the file came here with a copied disk image, and this machine needs an id of its own.
 *
 * Sans-I/O: it is given the contents of files and random bytes, and says what is to be written. It never allocates or logs.
 *
 * It must never: change the id of a machine because something could not be read.
 */
#ifndef DDR_LIB_MACHINE_H
#define DDR_LIB_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/node/cluster.h"

#define DDR_IDENTITY_MAX	512u	/* bytes of the file; a longer one is damaged */

/* What tells machines apart without us. "": not known. */
struct ddr_machine_marks {
	char machine_id[33];		/* of /etc/machine-id: 32 lower-case digits */
	char product[37];		/* the uuid that the firmware has (DMI), in lower case */
};

/* What the file holds. */
struct ddr_identity {
	uint8_t machine[16];		/* random, never zero */
	struct ddr_machine_marks marks;
	struct ddr_cluster_ids cluster;
};

/*
 * Takes over the contents of /etc/machine-id and of the firmware's product uuid; NULL: could not be read. What is not of its form, or is
 * the same on many machines (all zeroes, all ones), is not known.
 */
void ddr_machine_marks(struct ddr_machine_marks *marks, const char *machine_id, const char *product);

enum ddr_machine_news {
	DDR_MACHINE_SAME,		/* the machine is the one that made the file */
	DDR_MACHINE_FIRST,		/* there is no file yet */
	DDR_MACHINE_COPIED,		/* the file is another machine's: @id is new, and the rest of the file does not count here */
	DDR_MACHINE_DAMAGED,		/* the file holds nothing that can be used: @id is new */
	DDR_MACHINE_HIDDEN,		/* the file cannot be read now: @id is new, and must not be written */
};

/* What could be read of the file. */
struct ddr_identity_file {
	enum { DDR_IDENTITY_READ, DDR_IDENTITY_MISSING, DDR_IDENTITY_UNREADABLE } how;
	size_t len;			/* up to one more than DDR_IDENTITY_MAX */
	char text[DDR_IDENTITY_MAX + 1];
};

/*
 * Fills @id for the machine with these @marks. @random: 16 bytes, used if it needs a new id. *@write: the file is to be written, with
 * ddr_identity_format().
 */
enum ddr_machine_news ddr_machine_decide(struct ddr_identity *id, const struct ddr_identity_file *file, const struct ddr_machine_marks *marks,
					 const uint8_t random[16], bool *write);

/* Writes the contents of the file, without a NUL. Returns its length. */
size_t ddr_identity_format(const struct ddr_identity *id, char text[DDR_IDENTITY_MAX]);

#endif

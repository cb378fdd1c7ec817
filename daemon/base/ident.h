/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who this machine is (lib/node/machine.h), as the daemon keeps it: read once at start, and written by a thread.
 *
 * It must never: write from the loop's thread (the state directory may lie on an array), or end the daemon: with an id that could not be stored the arrays
 * are served all the same.
 */
#ifndef DDR_DAEMON_IDENT_H
#define DDR_DAEMON_IDENT_H

#include <qb/qbloop.h>

#include "daemon/base/worker.h"
#include "lib/conf.h"
#include "lib/node/machine.h"

struct ddr_ident {
	struct ddr_identity id;		/* what the file has, or will have; all zero: not read yet */
	bool doubled;			/* another machine with this id has been in the group since the daemon runs */
	bool stored;			/* the file has it: the machine is the same after a restart */
	bool fixed;			/* the file must not be written */
	/* set by the owner: what was to be stored is, after ddr_ident_cluster(); from the loop. May be NULL */
	void (*changed)(void *ctx);
	void *ctx;
	/* internal */
	qb_loop_t *loop;
	char dir[DDR_CONF_PATH_MAX];
	struct ddr_worker worker;	/* writes */
	bool writing;
	char text[DDR_IDENTITY_MAX];	/* what it writes */
	size_t len;
	int result;
	int refusal;			/* the last error that was logged */
	qb_loop_timer_handle retry;
};

/* Reads who this machine is. It sleeps: before anything is served. 0, or a negative errno: the kernel gave no random bytes. */
int ddr_ident_open(struct ddr_ident *i, qb_loop_t *loop, const char *dir);
/* Stores the ids of the cluster; @i->changed follows, when they are. */
void ddr_ident_cluster(struct ddr_ident *i, const struct ddr_cluster_ids *ids);
/*
 * The id of the cluster that this node is in, by which arrays are told from those of others; NULL: there is none yet, or it is not stored. A machine
 * without a cluster (@clustered is false) is one of its own.
 */
static inline const uint8_t *ddr_ident_cluster_id(const struct ddr_ident *i, bool clustered)
{
	if (!i->stored)
		return NULL;
	if (!clustered)
		return i->id.machine;
	return i->id.cluster.agreed ? i->id.cluster.id : NULL;
}
/* The daemon ends; a thread that writes may still run. */
void ddr_ident_close(struct ddr_ident *i);

/* ident_file.c: the file, and what the machine says of itself. All sleep. */
#define DDR_IDENT_FILE	"identity"

void ddr_ident_read(const char *dir, struct ddr_identity_file *file);
void ddr_ident_marks(struct ddr_machine_marks *marks);
/* All of it or nothing, durably. 0, or a negative errno. */
int ddr_ident_write(const char *dir, const char *text, size_t len);

#endif

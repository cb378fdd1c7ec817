/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two kinds of descriptors of /dev/ddraid: the control descriptor, which reports the arrays that the kernel has, and the channel
 * of one array. See <ddraid/uapi.h>.
 *
 * It must never: sleep, allocate after a channel was opened, trust a record that it did not check, or lose one. All functions belong
 * to the loop's thread.
 */
#ifndef DDR_DAEMON_KCHAN_H
#define DDR_DAEMON_KCHAN_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qbloop.h>

#include <ddraid/uapi.h>

#define DDR_KCHAN_QUEUE	2048u	/* the largest number of records that may be queued for the kernel */

enum ddr_kctl_what {
	DDR_KCTL_APPEARED, DDR_KCTL_RESUMED, DDR_KCTL_REMOVED,
	DDR_KCTL_LISTED,	/* the list that follows the open has ended: all arrays are known */
	DDR_KCTL_LOST,		/* the module was unloaded */
};

/* A report of the control descriptor, about one array or all. */
struct ddr_kctl_news {
	enum ddr_kctl_what what;
	uint8_t uuid[16];	/* of the array */
	bool listed;		/* it was in the list, so it existed before this daemon */
	bool as_bound;		/* it was resumed for the first time, with the table that a daemon was bound to before */
	uint64_t cookie;	/* of the array that was removed */
};

struct ddr_kctl;

/*
 * Opens the control descriptor as soon as /dev/ddraid exists: loads the module (runs modprobe once, which may take a while), then
 * watches /dev. Returns 0, or a negative errno.
 */
int ddr_kctl_open(struct ddr_kctl **out, qb_loop_t *loop, void (*told)(void *ctx, const struct ddr_kctl_news *news), void *ctx);
void ddr_kctl_close(struct ddr_kctl *k);
bool ddr_kctl_connected(const struct ddr_kctl *k);

/*
 * record() must not close the channel; gone() may. held(): this daemon stood still, and must stay for its kernel as if it still did: not one call is made
 * on the channel, since each is a sign of life, which lets writes go on that the kernel has stopped. Records are queued until it returns false;
 * ddr_kchan_flush() goes on then. NULL: never.
 */
struct ddr_kchan_ops {
	bool (*held)(void *ctx);
	void (*record)(void *ctx, const struct ddr_rec *rec);
	/* superseded (-ESTALE), or the array is gone (-ENODEV); all records from the kernel were passed on */
	void (*gone)(void *ctx, int error);
};

struct ddr_kchan;

/*
 * Binds to the array bind->uuid with an epoch above that of every earlier daemon since boot, and fills the output fields of @bind.
 * Records are only read after ddr_kchan_start(). Errors as those of DDR_IOC_BIND.
 */
int ddr_kchan_open(struct ddr_kchan **out, qb_loop_t *loop, struct ddr_bind *bind,
		   const struct ddr_kchan_ops *ops, void *ctx);
int ddr_kchan_start(struct ddr_kchan *c);
void ddr_kchan_close(struct ddr_kchan *c);
/*
 * Queues a record. False if the queue is full (ddr_kchan_room() shows that before): the record is lost, and the caller must not
 * continue as if it had been sent. KILL always fits, and is only queued once.
 */
bool ddr_kchan_put(struct ddr_kchan *c, const struct ddr_rec *rec);
unsigned int ddr_kchan_room(const struct ddr_kchan *c);
/* After gone(): takes the oldest record that the kernel never received; false if there is none. */
bool ddr_kchan_take(struct ddr_kchan *c, struct ddr_rec *rec);
/* Writes what is queued, as far as the kernel accepts it; the loop writes the rest. */
void ddr_kchan_flush(struct ddr_kchan *c);

#endif

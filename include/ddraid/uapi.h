/* SPDX-License-Identifier: (GPL-2.0-only WITH Linux-syscall-note) OR LGPL-2.1-or-later */
/*
 * The kernel channel: /dev/ddraid, between the target dm-ddraid and ddraidd.
 *
 * An open descriptor starts as a *control* descriptor: reading it yields the
 * arrays that exist (DDR_K_APPEARED each, then DDR_K_LIST_END), and from then on
 * arrays that appear, resume or disappear. DDR_IOC_BIND turns it into the *channel* of one array.
 *
 * Everything after that is fixed-size records, read and written in batches: read()
 * returns as many whole records as fit, write() takes a whole number of records,
 * checks each and stops at the first bad one (it returns the bytes taken before it,
 * or the error if there were none). poll() works. Neither side trusts the other:
 * an unknown type, region, member, sequence number or a nonzero reserved field is
 * refused (-EINVAL, -ERANGE, -ENOENT) and changes nothing.
 *
 * Units: regions, blocks (4096 bytes) as each record says. Integers are native; the
 * structure has no padding and is the same for 32 and 64 bits.
 * doc/kernel-interface.md describes every record and its order.
 */
#ifndef DDRAID_UAPI_H
#define DDRAID_UAPI_H

#include <linux/types.h>
#include <linux/ioctl.h>

#define DDR_ABI_VERSION		9u
/*
 * The versions of the protocol between nodes (proto.h) that the module serves: in each of them its node promises to the others what this kernel does,
 * such as to read a member no more. The daemon speaks only versions that the loaded module serves. If you raise DDR_MSG_VERSION, decide first whether
 * the module does what the new version promises; then raise this. A build with DDRAID_NEXT_VERSION is for tests (proto.h).
 */
#define DDR_SERVES_LOWEST	20u
#ifdef DDRAID_NEXT_VERSION
#define DDR_SERVES_HIGHEST	21u
#else
#define DDR_SERVES_HIGHEST	20u
#endif
#define DDR_DEVICE_NAME		"ddraid"
#define DDR_UAPI_MAX_ROLES	10u
#define DDR_UAPI_SHADOW		10u	/* as a member's index: the disk that replaces the one at its place */
#define DDR_UAPI_PLACES		11u	/* number of member indices, including the shadow's */
#define DDR_NO_MEMBER		0xffffffffu

struct ddr_rec {			/* 64 bytes */
	__u32	type;			/* enum ddr_rec_type */
	__u32	flags;			/* DDR_F_* */
	__u64	seq;			/* names a request; its answer carries the same */
	__u64	start;			/* first region or block */
	__u64	count;			/* number of regions or blocks */
	__s32	status;			/* 0 or a negative errno; DDR_K_ERROR: enum ddr_error_class */
	__u32	member;			/* member index (= position in the table), DDR_UAPI_SHADOW or DDR_NO_MEMBER */
	__u64	arg[3];
};

enum ddr_rec_type {
	/* control descriptor, kernel to daemon; arg[0..1]: array uuid, bytes in order */
	DDR_K_APPEARED	= 1,		/* an array object exists (table loaded); start: its cookie */
	DDR_K_RESUMED	= 2,		/* its mapped device was resumed; count: 1: for the first time, with the table to which a daemon was bound before (DDR_BIND_F_LOADED) */
	DDR_K_REMOVED	= 3,		/* it is gone */
	DDR_K_LIST_END	= 4,		/* end of the list given after open */

	/* channel, kernel to daemon */
	DDR_K_HELD	= 16,		/* after bind: regions start..+count are granted here */
	DDR_K_HELD_END	= 17,		/* end of that list, count: regions listed in all */
	DDR_K_LOCK	= 18,		/* wants regions start..+count; DDR_F_AHEAD: nobody waits yet */
	DDR_K_CLOSED	= 19,		/* answer to REAP, or the array is being removed: grants start..+count are closed;
					 * status 0: every member write in them ended successfully */
	DDR_K_REAPED	= 20,		/* end of the answer to REAP seq; count: regions closed, start: regions still granted */
	DDR_K_DRAINED	= 21,		/* answer to DRAIN seq: this node no longer writes blocks start..+count */
	DDR_K_ERROR	= 22,		/* a member failed an operation; bios wait for DDR_U_RESOLVE seq.
					 * member, status: class, arg[0]: enum ddr_error_op, start, count: blocks of the array */
	DDR_K_APPLIED	= 23,		/* answer to MEMBER seq: all I/O from now on uses the new state, and all earlier I/O that
					 * did not (reads of a member that is no longer readable) has ended */
	DDR_K_MISMATCH	= 24,		/* verify_reads found P or Q wrong in blocks start..+count (already re-read on this
					 * node); the bio waits for DDR_U_RESOLVE seq */
	DDR_K_SUSPEND	= 25,		/* the mapped device was suspended (status 1) or resumed (status 0) */
	DDR_K_PONG	= 26,		/* answer to PING seq */
	DDR_K_STOPPED	= 27,		/* this daemon was silent for its timeout: writes (or reads and writes) wait for its next ENABLE */

	/* channel, daemon to kernel */
	DDR_U_MEMBER	= 64,		/* member: state arg[0] (enum ddr_kmember), start: cursor in blocks; seq: answered by APPLIED */
	DDR_U_ENABLE	= 65,		/* the state is complete: parked I/O may run. DDR_F_READS: if this daemon is silent later, reads stop like writes */
	DDR_U_GRANT	= 66,		/* answer to LOCK seq (or unasked, seq 0): regions start..+count may be written */
	DDR_U_REFUSE	= 67,		/* answer to LOCK seq (or to all, seq 0): the waiting writes fail with status */
	DDR_U_REAP	= 68,		/* close up to count grants that were not used since the last REAP; answered by CLOSED..., REAPED seq */
	DDR_U_DRAIN	= 69,		/* EX: block new writes of *blocks* start..+count and end those in flight; seq names the range */
	DDR_U_RELEASE	= 70,		/* ends DRAIN seq */
	DDR_U_RESOLVE	= 71,		/* answer to ERROR or MISMATCH seq: arg[0] enum ddr_resolve */
	DDR_U_BITS	= 72,		/* regions start..+count: arg[0] DDR_RB_* (for verify_reads and suspect-reads) */
	DDR_U_FREEZE	= 73,		/* park all writes (DDR_F_READS: reads too); granted regions included */
	DDR_U_THAW	= 74,
	DDR_U_KILL	= 75,		/* this node gave up or was evicted: fail all I/O, for good */
	DDR_U_STATUS	= 76,		/* for the dmsetup status line: arg[0] enum ddr_kaction, start: done, count: todo,
					 * arg[1]: synced regions, arg[2]: mismatches */
	DDR_U_PING	= 77,		/* heartbeat; answered by PONG seq. With DDRAID_NEXT_VERSION also arg[0]: the version in use, or 0 */
	DDR_U_CONFIG	= 78,		/* arg[0]: enum ddr_kconfig, arg[1]: value */
};

/* flags */
#define DDR_F_AHEAD		(1u << 0)
#define DDR_F_READS		(1u << 2)
#define DDR_F_RESENT		(1u << 3)	/* the request was already sent to an earlier descriptor */

/* DDR_U_MEMBER states, from the kernel's view */
enum ddr_kmember {
	DDR_KM_OUT	= 0,		/* neither read nor written */
	DDR_KM_IN_SYNC	= 1,
	DDR_KM_REBUILDING = 2,		/* always written; read only below the cursor */
	DDR_KM_LEAVING	= 3,		/* it failed, and not all nodes know yet: not read, but still written, so that no write
					 * completes without it. A member that is OUT stays OUT */
};

enum ddr_error_op { DDR_OP_READ = 0, DDR_OP_WRITE = 1, DDR_OP_FLUSH = 2, DDR_OP_ZEROES = 3 };

enum ddr_error_class {
	DDR_EC_IO	= 1,		/* the member is broken or gone */
	DDR_EC_MEDIUM	= 2,		/* bad sector, or a read error while the other members have the data: concerns these blocks only */
	DDR_EC_FENCED	= 3,		/* reservation conflict: this node was fenced */
	DDR_EC_NOSPC	= 4,
	DDR_EC_TIMEOUT	= 5,
	DDR_EC_INVAL	= 6,		/* a bug of ours, or a device that reports wrong limits */
	DDR_EC_ABSENT	= 7,		/* a write or flush has to reach it, but the table names no device for it */
};

enum ddr_resolve {
	DDR_RES_RETRY	= 1,		/* evaluate again with the member states as they are now */
	DDR_RES_FAIL	= 2,		/* end the bios with EIO */
	DDR_RES_PASS	= 3,		/* MISMATCH only: return the data */
};

/* DDR_U_BITS: two bits a region */
#define DDR_RB_CLEAN		1u	/* parity is correct in the whole region: a mismatch is an error */
#define DDR_RB_SUSPECT_ERROR	2u	/* reads that need reconstruction fail */

enum ddr_kaction { DDR_KA_IDLE = 0, DDR_KA_RESYNC = 1, DDR_KA_REBUILD = 2, DDR_KA_VERIFY = 3, DDR_KA_FROZEN = 4 };

enum ddr_kconfig {
	DDR_KC_TIMEOUT_MS = 1,		/* time without a sign of life after which the daemon counts as gone */
	DDR_KC_AHEAD	= 2,		/* regions requested ahead of a sequential stream, 0: off */
};

/*
 * In: also bind to a table that was loaded and never resumed, if it is the only one. So the array can be served before its device is visible.
 * Out: the bind is to such a table. If another table is resumed first, all I/O waits for a daemon that was bound to that one.
 */
#define DDR_BIND_F_LOADED	1u

struct ddr_bind {
	__u32	abi;			/* in: DDR_ABI_VERSION; else -EPROTO and the kernel's version here */
	__u32	flags;			/* in, out: DDR_BIND_F_*, others -EINVAL */
	__u8	uuid[16];		/* in: the array */
	__u64	epoch;			/* in: must be greater than that of any earlier bind; else -ESTALE */
	__u32	timeout_ms;		/* in: as DDR_KC_TIMEOUT_MS; 1000 .. 600000 */
	/* out: what the table says, to be compared with the superblocks before DDR_U_ENABLE */
	__u32	order;
	__u32	parity;
	__u32	layout;
	__u32	region_sectors;
	__u32	members;
	__u64	data_offset_sectors;
	__u64	sectors;		/* length of the device */
	__u64	cookie;			/* this instance of the array object; never reused within a boot */
	__u32	dm_major, dm_minor;	/* of the mapped device */
	__u32	shadow_place;		/* place at which the table names a disk that replaces the member, or DDR_NO_MEMBER */
	__u32	shadow_state;		/* enum ddr_kmember, as the last daemon left it */
	__u32	dev_major[DDR_UAPI_PLACES];	/* 0:0 where the table has '-' */
	__u32	dev_minor[DDR_UAPI_PLACES];
	__u16	lowest, highest;	/* in: 0, else -EINVAL; out: DDR_SERVES_LOWEST, DDR_SERVES_HIGHEST of the module */
	__u32	reserved;		/* in: 0, else -EINVAL; out: 0 */
};

/*
 * Errors: -EPERM no CAP_SYS_ADMIN, -EPROTO another ABI, -ENOENT no such array,
 * -ESTALE an epoch not above the last one, -EBUSY this descriptor is bound already,
 * -EOPNOTSUPP a nosync array, -EAGAIN no table of it is active (wait for DDR_K_RESUMED), nor, with DDR_BIND_F_LOADED, loaded as the first.
 * A bind supersedes the array's earlier descriptor, whose reads and writes fail with
 * -ESTALE from then on.
 */
/* A type of its own: free in the kernel's list (Documentation/userspace-api/ioctl/ioctl-number.rst), 0x00-0x1f of it are ddraid's. */
#define DDR_IOC_TYPE		0xdc
#define DDR_IOC_BIND		_IOWR(DDR_IOC_TYPE, 0x00, struct ddr_bind)

#endif

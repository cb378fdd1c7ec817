// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does each device still hold its member? (daemon/array/drive_check.c, with the uevents of daemon/kernel/uevent.c and the reads of
 * daemon/disk/metaio.c on the disks of super-disks.h.) Simulated: the uevent socket, the loop, and the rest of the driver.
 */
#include "tests/unit/super-disks.h"

#include <linux/netlink.h>
#include <sys/socket.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/kernel/uevent.h"
#include "tests/sim/rig.h"

#define MAJOR_OF	8u
#define IO_TIMEOUT	5000u

static struct {
	int32_t (*event)(int32_t fd, int32_t revents, void *data);	/* the daemon's handler */
	const char *text;		/* of the next message */
	size_t len;
	uint32_t pid;			/* of the sender; 0: the kernel */
	int error;			/* recvmsg() fails with it */
	int flags;
	unsigned int sought;		/* number of searches for devices */
	unsigned int told;		/* events "exchanged", or of this name: */
	const char *event_name;
	char what[512];
	uint32_t exchanged, failed;	/* members that failed with another disk's identity; that failed by an operator's command */
	unsigned int steps;
	uint64_t bad;			/* reads from here fail; 1: all */
	uint64_t now;
} play;

static struct ddr_daemon d;
static struct ddr_array a;
static struct ddr_input input;

void ddr_drive_wake(struct ddr_array *array)
{
	(void)array;
}

/* ---- played ------------------------------------------------------------------------ */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
int32_t __wrap_qb_loop_poll_add(qb_loop_t *l, enum qb_loop_priority p, int32_t fd, int32_t events, void *data, qb_loop_poll_dispatch_fn fn);

int __wrap_socket(int domain, int type, int protocol)
{
	assert_int_equal(domain, AF_NETLINK);
	assert_int_equal(protocol, NETLINK_KOBJECT_UEVENT);
	assert_true(type & SOCK_NONBLOCK);
	return memfd_create("events", MFD_CLOEXEC);
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	(void)fd, (void)addr, (void)len;
	return 0;
}

int32_t __wrap_qb_loop_poll_add(qb_loop_t *l, enum qb_loop_priority p, int32_t fd, int32_t events, void *data, qb_loop_poll_dispatch_fn fn)
{
	(void)l, (void)p, (void)fd, (void)events;
	assert_ptr_equal(data, &d);
	play.event = fn;
	return 0;
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	struct sockaddr_nl *from = msg->msg_name;
	size_t n = play.len < msg->msg_iov[0].iov_len ? play.len : msg->msg_iov[0].iov_len;

	(void)fd, (void)flags;
	if (play.error) {
		errno = play.error;
		return -1;
	}
	*from = (struct sockaddr_nl){ .nl_family = AF_NETLINK, .nl_pid = play.pid };
	memset(msg->msg_iov[0].iov_base, 'M', msg->msg_iov[0].iov_len);
	memcpy(msg->msg_iov[0].iov_base, play.text, n);
	msg->msg_flags = play.flags | (n < play.len ? MSG_TRUNC : 0);
	return (ssize_t)n;
}

void ddr_drive_path_is_back(struct ddr_daemon *daemon, uint32_t major, uint32_t minor) { (void)daemon, (void)major, (void)minor; }
void ddr_drive_seek_again(struct ddr_daemon *daemon, uint64_t after_ms)
{
	assert_ptr_equal(daemon, &d);
	(void)after_ms;
	play.sought++;
}

void ddr_event_plain(struct ddr_array *array, int priority, const char *name, const char *text)
{
	assert_ptr_equal(array, &a);
	(void)priority;
	assert_string_equal(name, play.event_name ? play.event_name : "exchanged");
	snprintf(play.what, sizeof(play.what), "%s", text);
	play.told++;
}

struct ddr_input *ddr_drive_input(struct ddr_array *array, enum ddr_in_type type)
{
	(void)array;
	input = (struct ddr_input){ .type = type };
	return &input;
}

void ddr_drive_step(struct ddr_array *array, const struct ddr_input *in)
{
	(void)array;
	assert_int_equal(in->type, DDR_IN_EXCHANGED);
	play.exchanged |= 1u << in->member;
	play.steps++;
}

const char *ddr_drive_fail(struct ddr_array *array, uint32_t member)
{
	(void)array;
	play.failed |= 1u << member;
	return NULL;
}

/* As drive.c has it. */
static void on_meta(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space)
{
	assert_ptr_equal(ctx, &a);
	(void)io, (void)no_space;
	assert_int_equal(kind, DDR_META_CHECK);
	ddr_drive_checked(&a, failed);
}

/* ---- the array ----------------------------------------------------------------------- */

static const struct rig_geometry geo = { .order = 1, .parity = 1, .blocks = 1024, .region_blocks = 256, .slots = 4 };

static int setup(void **state)
{
	struct ddr_metaio_config cfg = { .operations = 4, .ctx = &a, .done = on_meta, .exchanged = ddr_drive_exchanged };
	struct ddr_sm_config sm = { .node = 1 };
	struct ddr_super sb;

	(void)state;
	memset(&play, 0, sizeof(play));
	memset(&a, 0, sizeof(a));
	memset(&d, 0, sizeof(d));
	rig_super(&sb, &geo);
	make_disks(1, &sb);
	sm.super = &sb;
	a.sm = rig_sm(&sm);
	assert_non_null(a.sm);
	a.members = open_members();
	for (uint32_t m = 0; m < w.sb.members; m++) {
		a.members->named |= 1u << m;
		a.members->major[m] = MAJOR_OF;
		a.members->minor[m] = 16 + m;
	}
	a.ready = true;
	a.tune.io_timeout_ms = IO_TIMEOUT;
	cfg.members = a.members;
	assert_int_equal(ddr_metaio_open(&a.meta, &cfg), 0);
	qb_list_init(&d.arrays);
	qb_list_add_tail(&a.list, &d.arrays);
	ddr_uevent_open(&d, ddr_drive_uevent);
	assert_non_null(play.event);
	play.now = 1000;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ddr_metaio_close(a.meta);
	while (w.n_flying)
		end(w.flying[--w.n_flying], -EIO);
	ddr_members_put(a.members);
	free(a.sm);
	close(d.uevent_fd);
	free_disks();
	return 0;
}

static void message(const char *text, size_t len)
{
	play.text = text;
	play.len = len;
	play.event(d.uevent_fd, 1, &d);
}

#define EVENT(strings)	message(strings, sizeof(strings))	/* with the last one's NUL */

/* Time passes; all reads that are under way end, but those of @hung. */
static void pass(uint64_t ms, uint32_t hung)
{
	play.now += ms;
	ddr_drive_check_tick(&a, play.now);
	ddr_metaio_tick(a.meta, play.now);
	for (unsigned int i = 0; i < w.n_flying;) {
		bool stays = false;

		assert_false(is_write(w.flying[i]));
		for (uint32_t m = 0; m < w.sb.members; m++)
			stays |= (hung >> m & 1) && w.flying[i]->fd == a.members->dev[m].fd;
		if (stays) {
			i++;
			continue;
		}
		struct ddr_aio_req *req = w.flying[i];

		w.flying[i] = w.flying[--w.n_flying];
		assert_int_equal(pread(req->fd, req->buf, req->len, (off_t)req->offset), req->len);
		end(req, play.bad == 1 || (play.bad && req->offset == play.bad) ? -EIO : 0);
		i = 0;
	}
}

/* The device of member 1. */
static void changed(void)
{
	ddr_drive_uevent(&d, &(struct ddr_uevent){ .device = true, .major = MAJOR_OF, .minor = 17 });
}

static void put(uint32_t m, const struct ddr_super *sb, uint16_t as)
{
	struct ddr_dev dev = { .fd = w.disk[m], .path = (char *)"disk", .bytes = BYTES };
	struct ddr_super own = *sb;
	struct ddr_error err;

	own.this_member = as;
	for (own.seq = 2; own.seq <= 3; own.seq++)
		assert_int_equal(ddr_dev_write_super(&dev, &own, &err), 0);
}

static void other_disk(uint32_t m)
{
	struct ddr_super other = w.sb;

	fixture_uuid(other.array_uuid, 4711);
	memset(other.name, 0, sizeof(other.name));
	strcpy(other.name, "other");
	put(m, &other, 2);
}

/* ---- tests --------------------------------------------------------------------------- */

static void an_event_of_a_member_makes_a_look(void **state)
{
	(void)state;
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=8\0MINOR=17");
	assert_int_equal(a.check.wanted, 2);
	assert_int_equal(play.sought, 1);
	pass(0, 7);
	assert_int_equal(ddr_metaio_asked(a.meta), 2);
	pass(0, 0);
	assert_true(ddr_metaio_idle(a.meta));
	assert_false(a.check.out);
	assert_int_equal(play.told | play.failed | play.steps, 0);
	EVENT("add@/devices/x/sdz\0ACTION=add\0SUBSYSTEM=block\0MAJOR=8\0MINOR=240");		/* of no member */
	assert_int_equal(a.check.wanted, 0);
	assert_int_equal(play.sought, 2);
}

/* Finding S27: whoever sends an event, and whatever is in it: it causes a look at one member, or none. */
static void malformed_uevents_are_ignored(void **state)
{
	static char full[16384];

	(void)state;
	play.pid = 4711;
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=8\0MINOR=17");	/* not of the kernel */
	play.pid = 0;
	message("", 0);
	EVENT("remove@/devices/x/sdb\0ACTION=remove\0SUBSYSTEM=block\0MAJOR=8\0MINOR=17");
	EVENT("change@/devices/x/tty\0ACTION=change\0SUBSYSTEM=blocks\0MAJOR=8\0MINOR=17");
	assert_int_equal(play.sought, 0);
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block");
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=8\0MINOR=");
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=-8\0MINOR=-17");
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=99999999999999999999\0MINOR=17");
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0MAJOR=4294967304\0MINOR=17");	/* 8 in 32 bits */
	EVENT("change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block\0XMAJOR=8\0MINOR=17");
	assert_int_equal(a.check.wanted, 0);
	message("change@x\0ACTION=change\0SUBSYSTEM=block\0MAJOR=8\0MINOR=17", sizeof("change@x\0ACTION=change\0SUBSYSTEM=block\0MAJOR=8\0MINOR=17") - 1);
	assert_int_equal(a.check.wanted, 2);		/* its last NUL is not there, nor needed */
	a.check.wanted = 0;
	memset(full, 'x', sizeof(full));
	message(full, 8191);				/* no end anywhere */
	assert_int_equal(a.check.wanted, 0);
}

/* Finding S27: the event of an exchange is lost, or cut off before it names the device: every member is looked at. */
static void lost_events_look_at_all(void **state)
{
	static char full[16384] = "change@/devices/x/sdb\0ACTION=change\0SUBSYSTEM=block";

	(void)state;
	play.error = ENOBUFS;
	play.event(d.uevent_fd, 1, &d);
	play.error = 0;
	assert_int_equal(play.sought, 1);
	pass(0, 7);
	assert_int_equal(ddr_metaio_asked(a.meta), 7);
	pass(1000, 0);
	memset(full + 64, 'x', sizeof(full) - 64);
	message(full, sizeof(full));
	pass(1000, 7);
	assert_int_equal(ddr_metaio_asked(a.meta), 7);
	pass(0, 0);
	assert_int_equal(play.told | play.failed, 0);
}

/* Finding S27: another identity is read once: somebody may be exchanging paths at this moment. */
static void one_read_does_not_count(void **state)
{
	(void)state;
	other_disk(1);
	changed();
	pass(0, 0);
	assert_false(ddr_metaio_idle(a.meta));		/* it is read again a second later */
	assert_int_equal(play.told | play.failed, 0);
	put(1, &w.sb, 1);
	pass(999, 0);
	assert_false(ddr_metaio_idle(a.meta));
	pass(1, 0);
	assert_true(ddr_metaio_idle(a.meta));
	assert_int_equal(play.told | play.failed | play.exchanged, 0);
	assert_int_equal(a.members->exchanged, 0);
}

/* Finding S27: another identity is read twice in a row: the member fails once, as one that holds another disk. */
static void two_reads_count(void **state)
{
	(void)state;
	strcpy(a.name, "data");
	strcpy(a.members->name[1], "/dev/sdb");
	other_disk(1);
	changed();
	pass(0, 0);
	changed();	/* events come in bursts */
	pass(1000, 0);
	assert_int_equal(play.exchanged, 2);
	assert_int_equal(play.told, 1);
	assert_non_null(strstr(play.what, "member 1 (/dev/sdb) is now another disk"));
	assert_non_null(strstr(play.what, "a superblock of member 2 of array 'other'"));
	assert_non_null(strstr(play.what, "ddraid add data /dev/sdb"));
	assert_int_equal(ddr_members_fd(a.members, 1), -1);
	for (int n = 0; n < 4; n++)
		pass(1000, 0);
	assert_int_equal(play.told, 1);
	assert_int_equal(play.steps, 1);
	assert_int_equal(play.failed, 0);		/* not as a member with an error, which would come back by its dirty regions alone */
}

/*
 * Finding S27: one copy is that of another disk, and the other copy is unreadable. If that failed as a mere error, the member would
 * come back by its dirty regions alone, and the writes that went to the other disk would be missing.
 */
static void another_identity_and_a_bad_sector(void **state)
{
	(void)state;
	other_disk(1);
	play.bad = ddr_super_offset(&w.sb, 1);
	changed();
	pass(0, 0);
	assert_int_equal(play.failed | play.exchanged, 0);
	pass(1000, 0);
	assert_int_equal(play.exchanged, 2);
	assert_int_equal(play.failed, 0);
}

/* Nothing is readable: the disk's identity is unknown, and the member fails like any other. */
static void a_member_that_cannot_be_read_is_not_called_exchanged(void **state)
{
	(void)state;
	play.bad = 1;
	changed();
	pass(0, 0);
	assert_int_equal(play.failed, 2);
	assert_int_equal(play.exchanged, 0);
}

/* Two operations find it at once: one event, one failure. */
static void an_exchanged_disk_is_reported_once(void **state)
{
	struct ddr_meta_op *op;

	(void)state;
	other_disk(1);
	changed();
	pass(0, 0);
	op = ddr_metaio_get(a.meta, DDR_META_CHECK, 0, 2);
	ddr_metaio_supers(op, &w.sb, &w.sb);
	ddr_metaio_run(op, play.now, IO_TIMEOUT);
	pass(500, 0);
	pass(1000, 0);
	pass(1000, 0);
	assert_int_equal(play.told, 1);
	assert_int_equal(play.steps, 1);
	assert_true(ddr_metaio_idle(a.meta));
}

/* An unreadable disk does not count as another disk. A read that hangs does not delay the look at the others, and is not repeated meanwhile. */
static void a_check_whose_read_hangs_delays_nothing(void **state)
{
	(void)state;
	other_disk(2);
	ddr_drive_check(&a, UINT32_MAX);		/* as after a standstill */
	pass(0, 1);
	assert_int_equal(ddr_metaio_asked(a.meta), 1);
	pass(1000, 1);
	assert_int_equal(play.exchanged, 4);
	assert_true(a.check.out);
	ddr_drive_check(&a, UINT32_MAX);
	pass(1000, 1);
	assert_int_equal(w.n_flying, 1);		/* nothing more was begun */
	assert_int_equal(play.failed, 0);
	pass(IO_TIMEOUT, 1);
	assert_int_equal(play.failed, 1);
	assert_int_equal(play.exchanged, 4);
	assert_false(a.check.out);
	pass(1000, 1);					/* the looks that were requested meanwhile happen now */
	assert_true(a.check.out);
	assert_true(ddr_metaio_asked(a.meta) & 1);
}

static void an_array_that_is_not_ready_is_not_looked_at(void **state)
{
	(void)state;
	a.ready = false;
	ddr_drive_check(&a, UINT32_MAX);
	pass(1000, 7);
	assert_int_equal(w.n_flying, 0);
	a.ready = true;
	a.members->exchanged = 1;
	pass(1000, 7);
	assert_int_equal(ddr_metaio_asked(a.meta), 6);	/* not at one that is known to hold another disk */
	pass(0, 0);
	a.broken = "something";
	ddr_drive_check(&a, UINT32_MAX);
	pass(2000, 7);
	assert_int_equal(w.n_flying, 0);
}

static void a_member_that_hangs_fails(void **state)
{
	(void)state;
	ddr_drive_stall_start(&a);
	assert_int_equal(a.stall.watched(a.stall.ctx), (1u << w.sb.members) - 1);
	play.event_name = "hangs";
	a.stall.hangs(a.stall.ctx, 1, 31000);
	assert_int_equal(play.told, 1);
	assert_non_null(strstr(play.what, "has not answered for 31 s"));
	assert_int_equal(play.failed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(an_event_of_a_member_makes_a_look), TEST(malformed_uevents_are_ignored), TEST(lost_events_look_at_all), TEST(one_read_does_not_count),
		TEST(two_reads_count), TEST(another_identity_and_a_bad_sector), TEST(a_member_that_cannot_be_read_is_not_called_exchanged), TEST(an_exchanged_disk_is_reported_once), TEST(a_check_whose_read_hangs_delays_nothing), TEST(an_array_that_is_not_ready_is_not_looked_at), TEST(a_member_that_hangs_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's part of who this machine is (daemon/base/ident.c, ident_file.c): the file is made once, durably, by a thread, and whatever goes wrong
 * the daemon has an id. Threads and timers are simulated: they run when the test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/base/ident.h"

#define OTHER_MACHINE	"1123456789abcdef0123456789abcdef\n"

static struct {
	struct ddr_worker *worker;	/* that runs */
	unsigned int threads;
	int no_thread;			/* an errno */
	void (*timer)(void *);
	void *data;
	bool no_timer;
	char calls[64];			/* what was called of the file system: w(rite), f(sync), r(ename) */
	int fails;			/* which of them; an errno with it */
	int error;
	bool short_write, no_random;
	char log[4096];
} play;

static char top[64], dir[80], path[100];
static struct ddr_ident ident;

int __wrap_open(const char *name, int flags, ...);
int __real_open(const char *name, int flags, ...);
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);
int __wrap_fsync(int fd);
int __wrap_rename(const char *from, const char *to);
int __real_rename(const char *from, const char *to);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags);

/* What the machine says of itself is below the test's directory. */
int __wrap_open(const char *name, int flags, ...)
{
	char other[160];
	unsigned int mode;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, unsigned int);
	va_end(ap);
	if (!strncmp(name, "/etc/", 5) || !strncmp(name, "/sys/", 5)) {
		snprintf(other, sizeof(other), "%s%s", top, strrchr(name, '/'));
		name = other;
	}
	return __real_open(name, flags, mode);
}

static bool called(int what)
{
	play.calls[strlen(play.calls)] = (char)what;
	if (play.fails != what)
		return false;
	errno = play.error;
	return true;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	if (called('w'))
		return -1;
	return __real_write(fd, buf, play.short_write ? len / 2 : len);
}

int __wrap_fsync(int fd)
{
	(void)fd;
	return called('f') ? -1 : 0;
}

int __wrap_rename(const char *from, const char *to)
{
	return called('r') ? -1 : __real_rename(from, to);
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned int flags)
{
	static uint8_t next = 1;

	(void)flags;
	errno = ENOSYS;
	memset(buf, next++, len);
	return play.no_random ? -1 : (ssize_t)len;
}

int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop)
{
	(void)loop;
	if (play.no_thread)
		return -play.no_thread;
	assert_null(play.worker);
	play.worker = w;
	play.threads++;
	return 0;
}

static void finish(void)
{
	struct ddr_worker *w = play.worker;

	assert_non_null(w);
	w->run(w);
	play.worker = NULL;
	w->done(w);
}

int32_t qb_loop_timer_add(struct qb_loop *loop, enum qb_loop_priority p, uint64_t ns, void *data, qb_loop_timer_dispatch_fn fn,
			  qb_loop_timer_handle *handle)
{
	(void)loop, (void)p;
	if (play.no_timer)
		return -ENOMEM;
	assert_null(play.timer);
	assert_true(ns >= QB_TIME_NS_IN_SEC);
	play.timer = fn;
	play.data = data;
	*handle = 7;
	return 0;
}

int32_t qb_loop_timer_del(struct qb_loop *loop, qb_loop_timer_handle handle)
{
	(void)loop;
	assert_int_equal(handle, 7);
	play.timer = NULL;
	return 0;
}

static void ring(void)
{
	void (*fn)(void *) = play.timer;

	assert_non_null(fn);
	play.timer = NULL;
	fn(play.data);
}

static void on_line(int32_t t, struct qb_log_callsite *cs, struct timespec *when, const char *line)
{
	(void)t, (void)cs, (void)when;
	strncat(play.log, line, sizeof(play.log) - strlen(play.log) - 2);
	strcat(play.log, "\n");
}

static void put(const char *name, const char *text)
{
	char file[160];
	FILE *f;

	snprintf(file, sizeof(file), "%s/%s", top, name);
	f = fopen(file, "w");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static void begin(void)
{
	memset(&play, 0, sizeof(play));
	assert_int_equal(ddr_ident_open(&ident, NULL, dir), 0);
}

static void command(const char *what)
{
	char line[160];

	snprintf(line, sizeof(line), "%s %s", what, top);
	assert_int_equal(system(line), 0);
}

static int fresh(void **state)
{
	(void)state;
	strcpy(top, "/tmp/ddraid-ident-XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/state", top);
	snprintf(path, sizeof(path), "%s/identity", dir);
	put("machine-id", "0123456789abcdef0123456789abcdef\n");
	put("product_uuid", "4c4c4544-0042-3510-8052-b4c04f4d3732\n");
	return 0;
}

static int gone(void **state)
{
	(void)state;
	command("rm -r");
	return 0;
}

static void made_once(uint8_t id[16])
{
	begin();
	finish();
	assert_true(ident.stored);
	memcpy(id, ident.id.machine, 16);
}

static void the_id_outlives_the_daemon(void **state)
{
	struct stat st;
	uint8_t id[16];

	(void)state;
	begin();
	assert_false(ident.stored);
	assert_int_equal(access(path, F_OK), -1);	/* the loop does not write */
	finish();
	assert_true(ident.stored);
	assert_non_null(strstr(play.log, "this machine gets the id"));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	memcpy(id, ident.id.machine, 16);
	begin();
	assert_true(ident.stored);
	assert_int_equal(play.threads, 0);
	assert_string_equal(play.log, "");
	assert_memory_equal(ident.id.machine, id, 16);
	ddr_ident_close(&ident);
}

/* Finding T1, note 24. */
static void a_cloned_image_is_another_machine(void **state)
{
	uint8_t id[16], other[16];

	(void)state;
	made_once(id);
	put("machine-id", OTHER_MACHINE);
	made_once(other);
	assert_memory_not_equal(id, other, 16);
	assert_non_null(strstr(play.log, "was copied from another machine"));
	begin();
	assert_true(ident.stored);
	assert_memory_equal(ident.id.machine, other, 16);
}

/* A power cut leaves the old file or the new one: the new one is on the disk before it gets the name, and the name before it counts. */
static void the_file_is_durable(void **state)
{
	static const char steps[] = "wfrf";
	uint8_t id[16], other[16];

	(void)state;
	made_once(id);
	assert_string_equal(play.calls, steps);
	put("machine-id", OTHER_MACHINE);
	for (const char *s = "wfr"; *s; s++) {
		begin();
		play.fails = *s;
		play.error = EIO;
		finish();
		assert_false(ident.stored);
		assert_non_null(strstr(play.log, "Input/output error"));
		assert_true(*s == 'r' || !strchr(play.calls, 'r'));
		put("machine-id", "0123456789abcdef0123456789abcdef\n");	/* the old file is still there */
		begin();
		assert_memory_equal(ident.id.machine, id, 16);
		put("machine-id", OTHER_MACHINE);
	}
	begin();
	play.short_write = true;
	finish();
	assert_false(ident.stored);
	assert_string_equal(play.calls, "w");
	play.short_write = false;
	ring();
	finish();
	assert_true(ident.stored);
	memcpy(other, ident.id.machine, 16);
	begin();
	assert_memory_equal(ident.id.machine, other, 16);
}

static void what_could_not_be_written_is_written_later(void **state)
{
	uint8_t id[16];
	char *first;

	(void)state;
	begin();
	play.no_thread = EAGAIN;
	memset(&play.log, 0, sizeof(play.log));
	assert_int_equal(ddr_ident_open(&ident, NULL, dir), 0);		/* the first one's thread is forgotten */
	memcpy(id, ident.id.machine, 16);
	first = strstr(play.log, "cannot write");
	assert_non_null(first);
	ring();
	assert_null(strstr(first + 1, "cannot write"));		/* said once */
	play.no_thread = 0;
	play.worker = NULL;
	ring();
	play.fails = 'f';
	play.error = ENOSPC;
	finish();
	assert_non_null(strstr(play.log, "No space left on device"));
	play.fails = 0;
	ring();
	finish();
	assert_true(ident.stored);
	assert_null(play.timer);
	assert_memory_equal(ident.id.machine, id, 16);
	begin();
	assert_memory_equal(ident.id.machine, id, 16);
}

/* What stands in the way is left alone, and the daemon serves with an id that lasts until it ends. */
static void a_file_that_cannot_be_read_is_left_alone(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(mkfifo(path, 0600), 0);		/* opening it must not wait either */
	begin();
	assert_int_equal(play.threads, 0);
	assert_false(ident.stored);
	assert_non_null(strstr(play.log, "cannot be read"));
	assert_int_equal(stat(path, &st), 0);
	assert_true(S_ISFIFO(st.st_mode));
}

static void a_damaged_file_is_replaced(void **state)
{
	uint8_t id[16];

	(void)state;
	made_once(id);
	assert_int_equal(truncate(path, 60), 0);
	made_once(id);
	assert_non_null(strstr(play.log, "is damaged"));
	begin();
	assert_true(ident.stored);
	assert_memory_equal(ident.id.machine, id, 16);
}

static unsigned int changes;

static void on_changed(void *ctx)
{
	assert_ptr_equal(ctx, &changes);
	assert_true(ident.stored);
	changes++;
}

/* The id of the cluster counts when it is stored, whatever else was to be stored meanwhile; and a copy is in no cluster. */
static void the_clusters_id_is_stored(void **state)
{
	struct ddr_cluster_ids ids = { .id = { 7 } };
	uint8_t id[16];

	(void)state;
	changes = 0;
	begin();
	ident.changed = on_changed;
	ident.ctx = &changes;
	ddr_ident_cluster(&ident, &ids);	/* while the machine's own is written */
	assert_int_equal(play.threads, 1);
	finish();
	assert_int_equal(changes, 0);
	assert_false(ident.stored);
	finish();
	assert_int_equal(changes, 1);
	assert_null(ddr_ident_cluster_id(&ident, true));	/* proposed */
	assert_memory_equal(ddr_ident_cluster_id(&ident, false), ident.id.machine, 16);
	ids.agreed = true;
	ids.other[3] = 9;
	ddr_ident_cluster(&ident, &ids);
	assert_null(ddr_ident_cluster_id(&ident, true));
	play.fails = 'f';
	play.error = EIO;
	finish();
	assert_int_equal(changes, 1);
	ddr_ident_cluster(&ident, &ids);			/* it is tried again anyway */
	assert_null(play.worker);
	play.fails = 0;
	ring();
	finish();
	assert_int_equal(changes, 2);
	assert_memory_equal(ddr_ident_cluster_id(&ident, true), ids.id, 16);
	begin();
	assert_true(ident.stored);
	assert_memory_equal(&ident.id.cluster, &ids, sizeof(ids));
	put("machine-id", OTHER_MACHINE);
	made_once(id);
	assert_null(ddr_ident_cluster_id(&ident, true));
	assert_int_equal(ident.id.cluster.id[0], 0);
}

static void the_daemon_ends_while_it_is_tried_again(void **state)
{
	(void)state;
	begin();
	play.fails = 'w';
	play.error = EROFS;
	play.no_timer = true;
	finish();
	assert_non_null(strstr(play.log, "out of memory for a timer"));
	begin();
	play.fails = 'w';
	play.error = EROFS;
	finish();
	assert_non_null(play.timer);
	ddr_ident_close(&ident);
	assert_null(play.timer);
	play.no_random = true;
	assert_int_equal(ddr_ident_open(&ident, NULL, dir), -ENOSYS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)
	const struct CMUnitTest tests[] = {
		TEST(the_id_outlives_the_daemon),
		TEST(a_cloned_image_is_another_machine),
		TEST(the_file_is_durable),
		TEST(what_could_not_be_written_is_written_later),
		TEST(a_file_that_cannot_be_read_is_left_alone),
		TEST(a_damaged_file_is_replaced),
		TEST(the_clusters_id_is_stored),
		TEST(the_daemon_ends_while_it_is_tried_again),
	};
	int32_t target;

	qb_log_init("test-ident", LOG_USER, LOG_DEBUG);
	qb_log_ctl(QB_LOG_SYSLOG, QB_LOG_CONF_ENABLED, QB_FALSE);
	target = qb_log_custom_open(on_line, NULL, NULL, NULL);
	qb_log_filter_ctl(target, QB_LOG_FILTER_ADD, QB_LOG_FILTER_FILE, "*", LOG_DEBUG);
	qb_log_ctl(target, QB_LOG_CONF_ENABLED, QB_TRUE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

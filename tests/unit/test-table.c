// SPDX-License-Identifier: GPL-2.0-or-later
/* The change of a table, against a model of device-mapper's ioctls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/dm-ioctl.h>
#include <qb/qbloop.h>
#include <uuid/uuid.h>

#include "daemon/kernel/table.h"

#define UUID_A	"0a1b2c3d-0000-4000-8000-00000000000a"
#define UUID_B	"0a1b2c3d-0000-4000-8000-00000000000b"
#define TAIL	" 1 1 rotating 2048 2048 3 "
#define FLAGS	(DM_NOFLUSH_FLAG | DM_SKIP_LOCKFS_FLAG)

/* ---- device-mapper ---------------------------------------------------------------- */

struct mapped {
	bool there;
	uint32_t minor;
	char uuid[DM_UUID_LEN];
	char live[256], inactive[256];	/* live "": it was not resumed yet */
	uint64_t sectors, inactive_sectors;
	unsigned int resumed;
	bool blocked, waits;		/* in a resume */
	struct ddr_table *forgets;	/* a load of it takes so long that the request is withdrawn meanwhile */
	int fails;			/* the result of a resume */
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct mapped a, b;
	unsigned int loads;
	void (*after_status)(void);
	void (*spoil)(struct dm_ioctl *head, struct dm_target_spec *spec, char *params);
} dm = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static struct mapped *find(const struct dm_ioctl *head)
{
	struct mapped *all[] = { &dm.a, &dm.b };

	for (unsigned int i = 0; i < 2; i++) {
		if (!all[i]->there)
			continue;
		if (head->uuid[0] ? !strcmp(head->uuid, all[i]->uuid) && !head->dev : head->dev == (253u << 8 | all[i]->minor))
			return all[i];
	}
	return NULL;
}

static void status(struct mapped *m, struct dm_ioctl *head)
{
	bool inactive = head->flags & DM_QUERY_INACTIVE_TABLE_FLAG;
	struct dm_target_spec spec = { .length = inactive ? m->inactive_sectors : m->sectors, .target_type = "ddraid" };
	char *at = (char *)head + head->data_start, *params = at + sizeof(spec);

	assert_true(head->flags & DM_STATUS_TABLE_FLAG);
	assert_true(m->live[0] == '\0' || !inactive);
	head->flags |= m->live[0] ? DM_ACTIVE_PRESENT_FLAG : 0;
	head->target_count = 0;
	memcpy(head->uuid, m->uuid, sizeof(head->uuid));
	if (!m->live[0] && !inactive)
		return;
	assert_true(head->data_start + sizeof(spec) + sizeof(m->live) <= head->data_size);
	head->target_count = 1;
	strcpy(params, inactive ? m->inactive : m->live);
	if (dm.spoil)
		dm.spoil(head, &spec, params);
	memcpy(at, &spec, sizeof(spec));
	if (dm.after_status)
		dm.after_status();
}

static void load(struct mapped *m, const struct dm_ioctl *head)
{
	const char *at = (const char *)head + head->data_start;
	struct dm_target_spec spec;

	memcpy(&spec, at, sizeof(spec));
	assert_int_equal(head->target_count, 1);
	assert_string_equal(spec.target_type, "ddraid");
	assert_int_equal(spec.sector_start, 0);
	assert_int_equal(spec.next % 8, 0);
	strcpy(m->inactive, at + sizeof(spec));
	m->inactive_sectors = spec.length;
	dm.loads++;
	if (m->forgets)
		ddr_table_forget(m->forgets);
}

static int resume(struct mapped *m, const struct dm_ioctl *head)
{
	assert_int_equal(head->flags, FLAGS);
	assert_int_equal(head->event_nr, 0);	/* no cookie that udev would have to answer */
	while (m->blocked) {
		m->waits = true;
		pthread_cond_broadcast(&dm.cond);
		pthread_cond_wait(&dm.cond, &dm.lock);
	}
	m->resumed++;
	if (m->fails)
		return m->fails;
	if (m->inactive[0]) {
		strcpy(m->live, m->inactive);
		m->sectors = m->inactive_sectors;
		m->inactive[0] = '\0';
	}
	return 0;
}

static int control(unsigned long what, struct dm_ioctl *head)
{
	struct mapped *m = find(head);

	assert_int_equal(head->version[0], DM_VERSION_MAJOR);
	if (!m)
		return ENXIO;
	if (what == DM_DEV_SUSPEND)
		return resume(m, head);
	if (what == DM_TABLE_STATUS)
		status(m, head);
	else if (what == DM_TABLE_LOAD)
		load(m, head);
	else if (what == DM_TABLE_CLEAR)
		m->inactive[0] = '\0';
	else
		fail_msg("ioctl 0x%lx", what);
	return 0;
}

int __wrap_ioctl(int fd, unsigned long what, void *arg);
int __wrap_ioctl(int fd, unsigned long what, void *arg)
{
	int ret;

	(void)fd;
	pthread_mutex_lock(&dm.lock);
	ret = control(what, arg);
	pthread_mutex_unlock(&dm.lock);
	errno = ret;
	return ret ? -1 : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return __real_open(strcmp(path, "/dev/mapper/control") ? path : "/dev/null", flags);
}

/* ---- the changes ------------------------------------------------------------------ */

static qb_loop_t *loop;
static struct result { bool ended, wanted; int result; char text[DDR_ERROR_LEN]; } a, b;

static void on_end(void *ctx, struct ddr_table *t)
{
	struct result *r = t->member ? &b : &a;

	r->ended = true;
	r->wanted = ctx != NULL;
	r->result = t->result;
	snprintf(r->text, sizeof(r->text), "%s", t->error.text);
	ddr_table_free(t);
	qb_loop_stop(loop);
}

/* Place 1 gets 8:99. */
static struct ddr_table *ask_for(struct result *r)
{
	struct ddr_table *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	uuid_parse(r == &a ? UUID_A : UUID_B, t->uuid);
	t->dm_major = 253;
	t->dm_minor = r == &a ? 3 : 4;
	t->place = 1;
	t->major = 8;
	t->minor = 99;
	t->member = r != &a;
	t->done = on_end;
	t->ctx = r;
	*r = (struct result){ 0 };
	return t;
}

static void begin(struct ddr_table *t)
{
	assert_int_equal(ddr_table_start(t, loop), 0);
}

static void wait_for(const struct result *r)
{
	while (!r->ended)
		qb_loop_run(loop);
}

static void run(struct ddr_table *t)
{
	begin(t);
	wait_for(t->member ? &b : &a);
}

static int set_up(void **state)
{
	(void)state;
	dm.a = (struct mapped){ .there = true, .minor = 3, .uuid = "DDRAID-" UUID_A, .live = UUID_A TAIL "8:0 8:16 8:32", .sectors = 4096 };
	dm.b = (struct mapped){ .there = true, .minor = 4, .uuid = "DDRAID-" UUID_B, .live = UUID_B TAIL "8:1 8:17 8:33", .sectors = 4096 };
	dm.loads = 0;
	dm.after_status = NULL;
	dm.spoil = NULL;
	loop = qb_loop_create();
	return loop ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	qb_loop_destroy(loop);
	return 0;
}

static void a_table_is_exchanged(void **state)
{
	struct ddr_table *t;

	(void)state;
	run(ask_for(&a));
	assert_int_equal(a.result, 0);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:32");
	assert_int_equal(dm.a.sectors, 4096);
	run(ask_for(&a));
	assert_int_equal(a.result, -EALREADY);
	assert_int_equal(dm.loads, 1);
	t = ask_for(&a);
	t->sectors = 8192;
	run(t);
	assert_int_equal(a.result, 0);
	assert_int_equal(dm.a.sectors, 8192);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:32");
	t = ask_for(&a);
	t->shadow = true;
	t->minor = 98;
	run(t);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:32 3 replace 1 8:98");
	assert_string_equal(dm.b.live, UUID_B TAIL "8:1 8:17 8:33");
}

/* Whatever is exchanged, put beside a place or made longer: options that the running table has, the next one has too. */
static void options_stay(void **state)
{
	static const char both[] = "2 verify_reads fail_if_no_daemon";
	struct ddr_table *t;
	char text[128];

	(void)state;
	snprintf(dm.a.live, sizeof(dm.a.live), "%s%s8:0 8:16 8:32 %s", UUID_A, TAIL, both);
	run(ask_for(&a));
	snprintf(text, sizeof(text), "%s%s8:0 8:99 8:32 %s", UUID_A, TAIL, both);
	assert_string_equal(dm.a.live, text);
	t = ask_for(&a);
	t->sectors = 8192;
	run(t);
	assert_int_equal(dm.a.sectors, 8192);
	assert_string_equal(dm.a.live, text);
	t = ask_for(&a);
	t->shadow = true;
	t->minor = 98;
	run(t);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:32 5 verify_reads fail_if_no_daemon replace 1 8:98");
	t = ask_for(&a);
	t->shadow = true;
	t->major = t->minor = 0;
	run(t);
	assert_string_equal(dm.a.live, text);
	t = ask_for(&a);
	t->major = t->minor = 0;
	run(t);
	snprintf(text, sizeof(text), "%s%s8:0 - 8:32 %s", UUID_A, TAIL, both);
	assert_string_equal(dm.a.live, text);
	assert_int_equal(dm.loads, 5);
}

/* One that was made by hand. */
static void a_device_without_a_uuid_is_known_by_its_number(void **state)
{
	(void)state;
	dm.a.uuid[0] = '\0';
	run(ask_for(&a));
	assert_int_equal(a.result, 0);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:32");
}

static void a_table_that_is_refused_is_cleared(void **state)
{
	(void)state;
	dm.a.fails = EIO;
	run(ask_for(&a));
	assert_int_equal(a.result, -EIO);
	assert_non_null(strstr(a.text, "activation"));
	assert_int_equal(dm.loads, 1);
	assert_string_equal(dm.a.inactive, "");
}

/* Finding S42: before its first resume the array has only a table that was loaded; that one is changed. */
static void a_table_that_was_not_resumed_yet_is_resumed_first(void **state)
{
	(void)state;
	strcpy(dm.a.inactive, dm.a.live);
	dm.a.inactive_sectors = dm.a.sectors;
	dm.a.live[0] = '\0';
	run(ask_for(&a));
	assert_int_equal(a.result, 0);
	assert_int_equal(dm.loads, 1);
	assert_int_equal(dm.a.resumed, 1);
	assert_non_null(strstr(dm.a.live, " 8:99"));
}

/* The array was stopped, and another one has the number of its device by now. */
static void another_array_is_left_alone(void **state)
{
	(void)state;
	dm.a.there = false;
	dm.b.minor = 3;
	run(ask_for(&a));
	assert_int_equal(a.result, -ENODEV);
	assert_int_equal(dm.loads, 0);
	assert_int_equal(dm.b.resumed, 0);
}

static void exchange(void)
{
	dm.a.there = false;
	dm.b.minor = 3;
}

/* The same, but the device got the number after the look. */
static void a_number_that_is_taken_meanwhile(void **state)
{
	(void)state;
	dm.after_status = exchange;
	run(ask_for(&a));
	assert_int_equal(a.result, -ENXIO);
	assert_int_equal(dm.loads, 0);
	assert_int_equal(dm.b.resumed, 0);
}

static void a_withdrawn_table_request_is_not_carried_out(void **state)
{
	struct ddr_table *t = ask_for(&a);

	(void)state;
	ddr_table_forget(t);
	run(t);
	assert_false(a.wanted);
	assert_int_equal(a.result, -ECANCELED);
	assert_int_equal(dm.loads, 0);
	dm.a.forgets = t = ask_for(&a);
	run(t);
	assert_int_equal(a.result, -ECANCELED);
	assert_int_equal(dm.loads, 1);
	assert_int_equal(dm.a.resumed, 0);
	assert_string_equal(dm.a.inactive, "");
}

/* Until the resume of A waits. */
static void wait_for_block(void)
{
	pthread_mutex_lock(&dm.lock);
	while (!dm.a.waits)
		pthread_cond_wait(&dm.cond, &dm.lock);
	pthread_mutex_unlock(&dm.lock);
}

static void release(void)
{
	pthread_mutex_lock(&dm.lock);
	dm.a.blocked = false;
	pthread_cond_broadcast(&dm.cond);
	pthread_mutex_unlock(&dm.lock);
}

/* An operation that waits for a disk of one array delays no other array. */
static void arrays_do_not_wait_for_each_other(void **state)
{
	(void)state;
	dm.a.blocked = true;
	begin(ask_for(&a));
	wait_for_block();
	run(ask_for(&b));
	assert_int_equal(b.result, 0);
	assert_false(a.ended);
	release();
	wait_for(&a);
	assert_int_equal(a.result, 0);
}

/*
 * A change that was withdrawn halfway does not overlap the next one of the same array; that one begins with the table that the first
 * one left.
 */
static void changes_of_one_array_are_one_by_one(void **state)
{
	struct ddr_table *first = ask_for(&a), *second;

	(void)state;
	dm.a.blocked = true;
	begin(first);
	wait_for_block();
	ddr_table_forget(first);
	second = ask_for(&b);
	memcpy(second->uuid, first->uuid, sizeof(second->uuid));
	second->dm_minor = 3;
	second->place = 2;
	begin(second);
	usleep(50 * 1000);	/* enough for one that would not wait */
	pthread_mutex_lock(&dm.lock);
	assert_int_equal(dm.loads, 1);
	pthread_mutex_unlock(&dm.lock);
	release();
	wait_for(&a);
	wait_for(&b);
	assert_int_equal(b.result, 0);
	assert_string_equal(dm.a.live, UUID_A TAIL "8:0 8:99 8:99");
}

static unsigned int how;

static void spoil(struct dm_ioctl *head, struct dm_target_spec *spec, char *params)
{
	if (how == 0)
		head->target_count = 2;
	else if (how == 1)
		head->target_count = 0;
	else if (how == 2)
		strcpy(spec->target_type, "linear");
	else if (how == 3)
		head->flags |= DM_BUFFER_FULL_FLAG;
	else if (how == 4)
		head->data_start = head->data_size - 8;
	else if (how == 5)
		memset(params, 'x', (size_t)((char *)head + head->data_size - params));
	else if (how == 6)
		params[0] = '\0';
	else if (how == 7)
		params[36] = 'x';
	else
		params[35] = 'f';	/* another uuid */
}

static void a_malformed_table_is_refused(void **state)
{
	(void)state;
	dm.spoil = spoil;
	for (how = 0; how <= 8; how++) {
		run(ask_for(&a));
		assert_int_equal(a.result, -ENODEV);
		assert_int_equal(dm.loads, 0);
	}
}

static void a_place_that_is_not_there_is_refused(void **state)
{
	struct ddr_table *t = ask_for(&a);

	(void)state;
	t->place = 3;
	run(t);
	assert_int_equal(a.result, -EINVAL);
	assert_int_equal(dm.loads, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_table_is_exchanged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(options_stay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_device_without_a_uuid_is_known_by_its_number, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_table_that_is_refused_is_cleared, set_up, tear_down),
		cmocka_unit_test_setup_teardown(another_array_is_left_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_table_that_was_not_resumed_yet_is_resumed_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_number_that_is_taken_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_withdrawn_table_request_is_not_carried_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(arrays_do_not_wait_for_each_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(changes_of_one_array_are_one_by_one, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_malformed_table_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_place_that_is_not_there_is_refused, set_up, tear_down),
	};

	alarm(60);	/* a change that waits for another array is to fail */
	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}

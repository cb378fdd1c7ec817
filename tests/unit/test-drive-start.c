// SPDX-License-Identifier: GPL-2.0-or-later
/* The start of an array in the daemon: when it counts as running, and what is repeated because this node or its cluster is at fault. */
#include "tests/unit/drive-fixture.h"

/*
 * Clients that see the array running query its state machine (clients_look() of the fixture): by then it exists, or the array does
 * not count as running.
 */
static void an_array_runs_when_it_has_a_state_machine(void **state)
{
	(void)state;
	for (unsigned int refused = 0; refused <= 1; refused++) {
		struct ddr_array *a = begin(false);

		ddr_array_close(a, true);
		assert_non_null(play.load);
		snprintf(play.load->assembly.note, sizeof(play.load->assembly.note), "a member is not there");
		group_refuses = refused ? -EPERM : 0;
		loaded();
		group_refuses = 0;
		assert_int_equal(a->state, refused ? DDR_ARRAY_REFUSED : DDR_ARRAY_RUNNING);
		assert_string_equal(play.event, refused ? "refused" : "assembled");
		assert_int_equal(play.n_events, 1);
		assert_int_equal(a->sm != NULL, !refused);
		end();
	}
}

/* The start failed because of this process: the array waits, says so, and starts at the next attempt. */
static void waits_and_starts(struct ddr_array *a)
{
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	assert_true(a->waiting);
	assert_null(a->chan);
	assert_null(a->sm);
	assert_non_null(strstr(a->error, "this node cannot start the array now: "));
	assert_non_null(strstr(a->error, "; trying again every 5 s"));
	assert_int_equal(play.n_events, 0);			/* it is not refused */
	play.bind_error = play.load_error = group_refuses = 0;
	play.now += 3000;
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	play.now += 2000;
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_string_equal(a->error, "");
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

/* Daemon seed 265: a start without memory counted a good member as missing. The load says so, and is repeated; --older still counts. */
static void a_load_without_memory_is_repeated(void **state)
{
	struct ddr_array *a = begin(false);
	struct ddr_load *l;

	(void)state;
	ddr_array_close(a, false);
	memcpy(d.older.uuid, uuid, sizeof(uuid));
	d.older.known.generation = 7;
	ddr_array_resumed(&d, uuid, true);
	l = play.load;
	assert_non_null(l);
	assert_int_equal(l->older.generation, 7);
	assert_int_equal(d.older.known.generation, 0);
	play.load = NULL;
	ddr_error_call(&l->error, ENOMEM, "/dev/sdb: out of memory");
	l->done(l->ctx);
	assert_non_null(strstr(a->error, "/dev/sdb: out of memory"));
	assert_int_equal(d.older.known.generation, 7);
	waits_and_starts(a);
}

static void a_start_without_memory_is_repeated(void **state)
{
	struct ddr_array *a;

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		a = begin(false);
		play.bind_error = i == 0 ? ENOMEM : 0;
		play.load_error = i == 1 ? -EAGAIN : 0;		/* no thread */
		group_refuses = i == 2 ? -ENOMEM : 0;
		ddr_array_close(a, true);
		if (i == 2)
			loaded();
		waits_and_starts(a);
	}
}

static void refused_for_its_module(struct ddr_array *a, uint16_t lowest, uint16_t highest, const char *what_to_do)
{
	char versions[160];

	bind_serves[0] = lowest;
	bind_serves[1] = highest;
	play.n_events = 0;
	if (a->state == DDR_ARRAY_RUNNING)
		ddr_array_close(a, true);
	else
		ddr_array_resumed(&d, uuid, true);
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	assert_null(play.load);
	assert_null(a->chan);
	assert_string_equal(play.event, "refused");
	assert_int_equal(play.n_events, 1);
	snprintf(versions, sizeof(versions), "the loaded kernel module serves versions %u to %u of the protocol between nodes, and this ddraidd speaks versions %u to %u. ",
		 lowest, highest, DDR_MSG_LOWEST, DDR_MSG_HIGHEST);
	assert_non_null(strstr(a->error, versions));
	assert_non_null(strstr(a->error, what_to_do));
	play.now += 60000;
	ddr_arrays_retry(&d);				/* nothing is tried again by itself */
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	assert_int_equal(play.n_events, 1);
}

/* Note 51: what this node says it speaks it does with its kernel. A module with which it speaks nothing is named, with the package and what to type. */
static void a_module_of_other_versions_is_refused(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	d.speaks = (struct ddr_speaks){ 0 };
	refused_for_its_module(a, DDR_MSG_HIGHEST + 1, DDR_MSG_HIGHEST + 2, "Install the package ddraid of the same release, then type: systemctl restart ddraidd");
	refused_for_its_module(a, DDR_MSG_LOWEST - 1, DDR_MSG_LOWEST - 1, "Install the package ddraid-dkms of the same release, then type: ddraid stop --all && "
			       "systemctl stop ddraidd && modprobe -r dm-ddraid && systemctl start ddraidd ddraid");
	refused_for_its_module(a, 0, 0, "ddraid-dkms");
	assert_int_equal(d.speaks.highest, 0);		/* so it said nothing to anybody */
	bind_serves[0] = DDR_SERVES_LOWEST;
	bind_serves[1] = DDR_SERVES_HIGHEST;
	ddr_array_resumed(&d, uuid, true);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

static void what_is_said_is_what_both_do(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	bind_serves[0] = DDR_MSG_LOWEST - 1;
	bind_serves[1] = DDR_MSG_HIGHEST + 1;
	ddr_array_close(a, true);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(d.speaks.lowest, DDR_MSG_LOWEST);
	assert_int_equal(d.speaks.highest, DDR_MSG_HIGHEST);
	a->bind.lowest = a->bind.highest = DDR_MSG_LOWEST;	/* as of a daemon that speaks more, over an older module */
	assert_true(ddr_drive_speaks(a, &d.speaks));
	assert_int_equal(d.speaks.highest, DDR_MSG_LOWEST);
	bind_serves[0] = DDR_SERVES_LOWEST;
	bind_serves[1] = DDR_SERVES_HIGHEST;
	end();
}

/* Corosync ends between the binding and the end of the load: as if it had not been there before, and no refusal. @known: that was noticed. */
static void who_cannot_join_waits_for_the_cluster(bool known)
{
	struct ddr_array *a = begin(true);

	ddr_array_close(a, true);
	group_refuses = -ENOTCONN;
	group_away = known ? "there is no cluster" : NULL;
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	assert_int_equal(play.n_events, 0);
	assert_true(strlen(a->error) > 0);
	if (known)
		assert_string_equal(a->error, group_away);
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_DOWN);	/* not at once: each attempt opens all members */
	assert_null(play.load);
	group_refuses = 0;
	group_away = NULL;
	play.now += 1000;
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_string_equal(a->error, "");
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(play.binds, 3);
	end();
}

static void a_cluster_that_goes_during_the_load_is_waited_for(void **state)
{
	(void)state;
	who_cannot_join_waits_for_the_cluster(true);
	who_cannot_join_waits_for_the_cluster(false);
}

/* Nothing was heard while this process stood still: no member is to blame for that time. */
static void members_are_not_blamed_for_a_daemon_that_stood_still(void **state)
{
	struct ddr_array *a = begin(false);
	uint64_t now = ddr_now_ms();

	(void)state;
	ddr_drive_tick(a, now);				/* however long the load took */
	a->stall.member[3].since_ms = now - 500;
	ddr_drive_tick(a, now += 100);
	ddr_drive_tick(a, now += 1900);			/* a busy machine */
	assert_int_equal(play.meta_delay, 0);
	ddr_drive_tick(a, now += 30000);
	assert_int_equal(play.meta_delay, 30000);
	assert_int_equal(play.jobs_delay, 30000);
	assert_int_equal(a->stall.member[3].since_ms, now - 2000 - 500);
	ddr_drive_tick(a, now += 100);
	assert_int_equal(play.meta_delay, 30000);
	ddr_array_close(a, true);
	play.now = now + 30000;				/* the array did not run meanwhile */
	loaded();
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(play.meta_delay, 30000);
	ddr_array_close(a, true);
	loaded();
	ddr_drive_tick(a, ddr_now_ms() + 30000);	/* stopped before the first tick */
	assert_in_range(play.meta_delay, 60000, 61000);
	end();
}

/* There was no memory for the array as it appeared, so the record of its first resume makes it known. The next one is of another table, which must be bound. */
static void an_array_that_is_known_since_its_resume_sees_the_next_table(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	ddr_array_close(a, false);
	ddr_array_removed(&d, uuid, a->bind.cookie);
	assert_null(ddr_array_by_uuid(&d, uuid));
	play.binds = 0;
	ddr_array_resumed(&d, uuid, false);
	a = ddr_array_by_uuid(&d, uuid);
	assert_non_null(a);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(play.binds, 1);
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.binds, 2);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_that_is_known_since_its_resume_sees_the_next_table),
		cmocka_unit_test(an_array_runs_when_it_has_a_state_machine),
		cmocka_unit_test(a_load_without_memory_is_repeated),
		cmocka_unit_test(a_module_of_other_versions_is_refused),
		cmocka_unit_test(what_is_said_is_what_both_do),
		cmocka_unit_test(a_start_without_memory_is_repeated),
		cmocka_unit_test(a_cluster_that_goes_during_the_load_is_waited_for),
		cmocka_unit_test(members_are_not_blamed_for_a_daemon_that_stood_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

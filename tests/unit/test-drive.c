// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon does when something does not fit: a queue to the kernel that takes nothing, a group that takes no message, more
 * questions than may be open.
 */
#include "tests/unit/drive-fixture.h"
#include "lib/cluster/slots.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---- what the state machine says ------------------------------------------------- */

static unsigned int said;

/* As many records as a step may have, numbered. */
static void says_records(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	for (out->n = 0; out->n < DDR_SM_MAX_OUT; out->n++) {
		memset(&out->out[out->n], 0, sizeof(*out->out));
		out->out[out->n].type = DDR_OUT_KERNEL;
		out->out[out->n].rec.type = DDR_U_GRANT;
		out->out[out->n].rec.seq = ++said;
	}
}

/* More than the queue holds, in one step. */
static void says_many_records(const struct ddr_input *in, struct ddr_outputs *out)
{
	says_records(in, out);
	out->more = said < 3 * DDR_KCHAN_QUEUE;
}

static void says_message(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	memset(&out->out[0], 0, 2 * sizeof(*out->out));
	out->out[0].type = DDR_OUT_MCAST;
	out->out[0].msg_len = 1;
	out->out[1].type = DDR_OUT_KERNEL;	/* must not be sent: the message that it depends on was not sent */
	out->out[1].rec.type = DDR_U_GRANT;
	out->n = 2;
}

static void says_too_much(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	out->lost = true;
}

static void gives_up(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = DDR_OUT_GIVE_UP;
	out->out[0].text = "it was put out. Stop the array, mend it, and start it again";
	out->n = 1;
}

static void gets_no_slot(const struct ddr_input *in, struct ddr_outputs *out)
{
	gives_up(in, out);
	out->out[0].text = ddr_slots_none_free;
}

static void asks_to_read(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_RELOAD, 0, ++said);
}

static void asks_to_fence(const struct ddr_input *in, struct ddr_outputs *out)
{
	if (in->type == DDR_IN_NONE)
		asks(out, DDR_OUT_FENCE, 3, ++said);
}

/* The number of records of a type that the kernel was sent. */
static unsigned int told(uint32_t type)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < play.n_told; i++)
		n += play.told[i].type == type;
	return n;
}

/* Steps until the array broke, at most @most. Returns how many it took. */
static unsigned int until_broken(struct ddr_array *a, unsigned int most)
{
	unsigned int n = 0;

	while (!a->broken && n < most) {
		step(a);
		n++;
	}
	assert_non_null(a->broken);
	return n;
}

static void says_nothing_more(struct ddr_array *a)
{
	unsigned int steps = play.steps, n_told = play.n_told, sent = play.sent;

	step(a);
	assert_non_null(ddr_drive_clean(a));		/* refused, not hung */
	assert_false(a->clean_asked);
	assert_non_null(ddr_drive_set(a, DDR_SM_IDLE_MS, 1000));
	assert_int_equal(play.steps, steps);
	assert_int_equal(play.n_told, n_told);
	assert_int_equal(play.sent, sent);
}

/* ---- a clean stop ---------------------------------------------------------------- */

static unsigned int stays;

static void counts_stays(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)out;
	stays += in->type == DDR_IN_OP_STAY;
}

static void refuses_clean(const struct ddr_input *in, struct ddr_outputs *out)
{
	counts_stays(in, out);
	if (in->type != DDR_IN_OP_CLEAN)
		return;
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = DDR_OUT_EVENT;
	out->out[0].event = DDR_EV_CLEAN_REFUSED;
	out->n = 1;
}

static struct ddr_array *asked_to_stop(void)
{
	struct ddr_array *a = begin(false);

	stays = 0;
	play.answer = counts_stays;
	assert_null(ddr_drive_clean(a));
	assert_true(a->clean_asked);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	return a;
}

/* Nobody waits for the stop any more. */
static void a_stop_that_nobody_waits_for_is_taken_back(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	ddr_drive_clean_late(a);
	assert_int_equal(stays, 0);		/* not from within whatever step */
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	assert_false(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, 0);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	end();
	a = asked_to_stop();
	ddr_drive_clean_late(a);
	assert_null(ddr_drive_clean(a));	/* another one wants it */
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	assert_true(a->clean_asked);
	end();
}

/* Its device is gone: nobody can use it any more, and the remaining regions are cleared. */
static void a_removed_array_goes_on_stopping(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	a->removed = true;
	ddr_drive_clean_late(a);
	ddr_drive_tick(a, ddr_now_ms());
	a->removed = false;
	a->parting = true;
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	assert_true(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, UINT64_MAX);
	a->parting = false;
	end();
}

/* It is clean, and the device was not removed. */
static void an_array_that_stays_after_a_clean_stop_continues(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	a->clean_asked = false;			/* as events.c does */
	a->quiet_until_ms = ddr_now_ms() + 10000;
	ddr_drive_tick(a, a->quiet_until_ms - 1);
	assert_int_equal(stays, 0);
	ddr_drive_tick(a, a->quiet_until_ms);
	assert_int_equal(stays, 1);
	assert_int_equal(a->quiet_until_ms, 0);
	end();
}

static void a_stop_that_is_refused_leaves_nothing(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	stays = 0;
	play.answer = refuses_clean;
	assert_non_null(ddr_drive_clean(a));
	assert_false(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, 0);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	end();
}

/* ---- leaving ---------------------------------------------------------------------- */

/* Rule 2, note 6: while any write may still land, wherever it was issued, the state machine is told of it before it decides. */
static void the_state_machine_is_told_of_writes_that_may_still_land(void **state)
{
	struct ddr_array *a = begin(true);
	uint32_t *writes[] = { &play.meta_writes, &play.jobs_writes, &play.late };

	(void)state;
	play.meta_writes = 4;
	assert_true(ddr_drive_leave(a));
	assert_int_equal(play.last.type, DDR_IN_OP_LEAVE);
	assert_true(play.landing);
	for (size_t i = 0; i < 3; i++) {
		play.meta_writes = play.jobs_writes = play.late = 0;
		step(a);
		assert_false(play.landing);
		*writes[i] = 4;
		step(a);
		assert_true(play.landing);
	}
	play.late = 0;
	a->grow.work[2] = calloc(1, sizeof(struct ddr_grow));
	step(a);
	assert_true(play.landing);
	free(a->grow.work[2]);
	a->grow.work[2] = NULL;
	play.meta_asked = play.jobs_asked = 4;	/* reads and flushes */
	step(a);
	assert_false(play.landing);
	end();
}

/* The write does not end: the node leaves the group without LEAVE, so that the others fence it. */
static void a_node_that_cannot_leave_in_time_leaves_without_a_message(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.jobs_writes = 4;
	a->removed = a->parting = true;
	a->part_until_ms = 0;
	run();
	assert_int_equal(play.left, 0);
	assert_true(a->cluster.leaving);
	assert_true(play.landing);
	a->part_until_ms = 0;
	run();
	assert_string_equal(play.event, "left-unsaid");
	assert_int_equal(play.left, 1);
	assert_int_equal(d.n_arrays, 0);
	end();
}

/* In messages members have their numbers, as in status. */
static void members_of_a_mask_are_numbered(void **state)
{
	char text[DDR_MEMBERS_TEXT];

	(void)state;
	assert_string_equal(ddr_drive_members_text(0, text), "");
	assert_string_equal(ddr_drive_members_text(1u << 2, text), "2");
	assert_string_equal(ddr_drive_members_text(0xffff, text), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15");
}

/* ---- the tests ------------------------------------------------------------------- */

/* However many records a step has: a kernel that takes them gets all, in order. */
static void the_kernel_gets_all_records_that_it_accepts(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	said = 0;
	play.answer = says_many_records;
	step(a);
	assert_null(a->broken);
	assert_int_equal(play.n_told, 3 * DDR_KCHAN_QUEUE);
	for (unsigned int i = 0; i < play.n_told; i++)
		assert_int_equal(play.told[i].seq, i + 1);
	end();
}

/* How often a message says that the array is to be started again. */
static unsigned int advice(const char *text)
{
	unsigned int n = 0;

	while ((text = strstr(text, "start it again")) != NULL) {
		text++;
		n++;
	}
	return n;
}

static void in_a_cluster_a_full_queue_to_the_kernel_gives_the_array_up(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	said = 0;
	play.refuse = EAGAIN;
	play.answer = says_records;
	assert_int_equal(until_broken(a, 100), DDR_KCHAN_QUEUE / DDR_SM_MAX_OUT + 1);
	assert_string_equal(play.event, "give-up");
	assert_true(a->cluster.gave_up);
	assert_int_equal(play.left, 1);
	says_nothing_more(a);
	assert_int_equal(play.n_told, 0);
	play.refuse = 0;				/* the kernel takes records again */
	run();
	assert_true(play.n_told > DDR_KCHAN_QUEUE);
	for (unsigned int i = 0; i < DDR_KCHAN_QUEUE; i++)
		assert_int_equal(play.told[i].seq, i + 1);
	assert_int_equal(play.told[DDR_KCHAN_QUEUE].type, DDR_U_KILL);
	assert_int_equal(told(DDR_U_KILL), 1);
	assert_int_equal(told(DDR_U_GRANT), DDR_KCHAN_QUEUE);
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);	/* and stays RUNNING, so that status can show it */
	assert_int_equal(play.binds, 1);
	assert_int_equal(advice(a->error), 1);
	end();
}

/* Finding T17: if all slots belong to other nodes, starting again does not help. */
static void a_node_without_a_slot_is_not_told_to_start_again(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.answer = gets_no_slot;
	step(a);
	assert_string_equal(play.event, "give-up");
	assert_int_equal(advice(a->error), 0);
	assert_non_null(strstr(a->error, "A node frees its slot when the array is stopped there"));
	end();
}

/*
 * Finding S25: the message was "its array must be stopped and started anew; stop it, and start it again". A reason comes with its own
 * advice, and no second one is added.
 */
static void a_reason_has_one_advice(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.answer = gives_up;
	step(a);
	assert_string_equal(play.event, "give-up");
	assert_int_equal(advice(a->error), 1);
	end();
}

static void without_a_cluster_a_full_queue_to_the_kernel_attaches_the_array_again(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	said = 0;
	play.refuse = EAGAIN;
	play.answer = says_records;
	until_broken(a, 100);
	assert_string_equal(play.event, "broken");
	assert_int_equal(play.n_events, 1);
	says_nothing_more(a);
	play.refuse = 0;
	play.answer = NULL;
	run();
	/* records that the old channel had accepted may still arrive, but no others */
	assert_true(told(DDR_U_GRANT) <= DDR_KCHAN_QUEUE);
	for (unsigned int i = 0; i < told(DDR_U_GRANT); i++)
		assert_int_equal(play.told[i].seq, i + 1);
	play.n_told = 0;
	assert_int_equal(play.binds, 2);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(play.made, 2);
	assert_null(a->broken);
	assert_int_equal(told(DDR_U_GRANT), 0);
	assert_int_equal(told(DDR_U_KILL), 0);
	play.answer = says_records;
	step(a);
	assert_int_equal(told(DDR_U_GRANT), DDR_SM_MAX_OUT);
	end();
}

static void a_kill_fits_into_a_full_queue(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	play.refuse = EAGAIN;
	play.answer = says_records;
	while (ddr_kchan_room(a->chan))
		step(a);
	assert_null(a->broken);
	play.answer = gives_up;
	step(a);
	step(a);					/* once more changes nothing */
	assert_null(a->broken);
	play.refuse = 0;
	play.answer = NULL;
	step(a);
	assert_int_equal(play.n_told, DDR_KCHAN_QUEUE + 1);
	assert_int_equal(play.told[DDR_KCHAN_QUEUE].type, DDR_U_KILL);
	end();
}

/* Nobody reads a superseded channel, so a full queue there is not an error. The array starts over because of the other daemon. */
static void a_superseded_channel_does_not_overflow(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.refuse = ESTALE;
	play.answer = says_records;
	for (unsigned int i = 0; i < 2 * DDR_KCHAN_QUEUE / DDR_SM_MAX_OUT; i++)
		step(a);
	assert_null(a->broken);
	play.answer = NULL;
	run();
	assert_int_equal(play.binds, 2);
	end();
}

/* The array is removed, and its last requests are answered here: a queue that overflows ends that at once. */
static void a_removed_array_that_overflows_goes(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	ddr_array_removed(&d, uuid, 7);
	play.refuse = ENODEV;
	play.answer = says_records;
	until_broken(a, 100);
	play.answer = NULL;
	run();
	assert_int_equal(d.n_arrays, 0);
	end();
}

static void a_message_that_does_not_fit_breaks(bool cluster)
{
	struct ddr_array *a = begin(cluster);

	play.room = 3;
	play.answer = says_message;
	assert_int_equal(until_broken(a, 100), 4);
	assert_int_equal(play.sent, 3);
	assert_int_equal(told(DDR_U_GRANT), 3);
	assert_string_equal(play.event, cluster ? "give-up" : "broken");
	assert_int_equal(told(DDR_U_KILL), cluster);
	assert_int_equal(play.left, cluster);
	play.room = 100;
	says_nothing_more(a);
	run();
	assert_int_equal(play.binds, cluster ? 1 : 2);
	assert_int_equal(play.left, 1);
	end();
}

static void in_a_cluster_a_message_that_does_not_fit_gives_the_array_up(void **state)
{
	(void)state;
	a_message_that_does_not_fit_breaks(true);
}

static void without_a_cluster_a_message_that_does_not_fit_attaches_the_array_again(void **state)
{
	(void)state;
	a_message_that_does_not_fit_breaks(false);
}

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

static void a_lost_output_ends_the_instance(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.answer = says_too_much;
	assert_int_equal(until_broken(a, 100), 1);
	assert_int_equal(told(DDR_U_KILL), 1);
	end();
}

static void too_many_pending_answers_end_the_instance(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.answer = asks_to_read;
	assert_int_equal(until_broken(a, 1000), DDR_ARRAY_ANSWERS + 1);
	assert_int_equal(told(DDR_U_KILL), 1);
	end();
}

/* With external fencing each failure of a node is a question to the operator; one answer covers all of them. */
static void a_node_that_fails_often_is_one_question(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "%s", DDR_FENCE_EXTERNAL);
	said = 0;
	play.answer = asks_to_fence;
	for (unsigned int i = 0; i < 10 * DDR_ARRAY_ANSWERS; i++)
		step(a);
	assert_null(a->broken);
	assert_null(ddr_drive_fence_ack(a, 3));
	play.answer = NULL;
	ddr_drive_cluster_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.node, 3);
	assert_int_equal(play.last.failure, said);
	assert_int_equal(play.last.result, 0);
	end();
}

/* The nodes of the view are those of @nodes, a bit for each. Returns when that was. */
static uint64_t view(struct ddr_array *a, uint32_t nodes, uint64_t ring)
{
	uint32_t node[4], pid[4] = { 11, 12, 13, 14 }, n = 0;

	for (uint32_t i = 1; i < 4; i++)
		if (nodes >> i & 1)
			node[n++] = i;
	ddr_drive_transport_events.view(a, node, pid, n, ring);
	return play.now;
}

/* Node 3 is to be fenced: only a fencing that began after that moment counts. */
static uint64_t fenced_since(struct ddr_array *a)
{
	play.answer = asks_to_fence;
	step(a);
	play.answer = NULL;
	return play.lost_ms;
}

/*
 * Rule 6: the node was lost, and fenced. While this node was cut off, that one came back to the others and was lost once more. The
 * earlier fencing does not prove the later failure dead, and this node cannot know what happened meanwhile.
 */
static void an_old_fence_is_no_proof_for_who_was_away(void **state)
{
	struct ddr_array *a = begin(true);
	uint64_t lost, back;

	(void)state;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/bin/true");
	view(a, 0xe, 1);
	lost = view(a, 0x6, 2);
	assert_true(fenced_since(a) <= lost);
	view(a, 0x2, 2);			/* the daemon of node 2 restarts: the node was not away from corosync */
	view(a, 0x6, 2);
	assert_true(fenced_since(a) <= lost);
	lost = view(a, 0x2, 3);			/* we are cut off */
	back = view(a, 0x6, 4);
	assert_true(fenced_since(a) > lost);
	assert_true(fenced_since(a) <= back);
	lost = back;
	back = view(a, 0x6, 5);			/* and so quickly that the view is the same */
	assert_true(fenced_since(a) > lost);
	assert_true(fenced_since(a) <= back);
	end();
}

/*
 * A node that meets another release in the group, and takes no part yet, leaves the group and says why; otherwise no node could agree
 * on anything. A node that takes part stays, since leaving would get it fenced; and every node stays if the other release has left.
 */
static void a_node_that_meets_another_protocol_version_refuses_the_array(void **state)
{
	static const struct { bool takes_part, gone, stays; } cases[] = { { false, false, false }, { true, false, true }, { false, true, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddr_array *a = begin(true);

		play.takes_part = cases[i].takes_part;
		view(a, 0x6, 1);
		ddr_drive_transport_events.foreign(a, 2, 99);
		view(a, 0xe, 2);
		if (cases[i].gone)
			view(a, 0xa, 3);
		assert_int_equal(a->state, DDR_ARRAY_RUNNING);		/* not from within a step */
		run();
		assert_int_equal(a->state, cases[i].stays ? DDR_ARRAY_RUNNING : DDR_ARRAY_REFUSED);
		assert_int_equal(play.left, !cases[i].stays);
		if (!cases[i].stays) {
			assert_null(a->chan);
			assert_string_equal(play.event, "refused");
			assert_non_null(strstr(a->error, "node 2 (node 2) speaks version 99 of the group protocol, this one version "));
		}
		end();
	}
}

/* ---- one step at a time ------------------------------------------------------------ */

static struct ddr_array *stepped;

static void steps_within(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in, (void)out;
	play.answer = NULL;
	step(stepped);
}

/*
 * All arrays use the same memory for the outputs of a step. A step that begins within another one, of the same array or of another one,
 * ends the process before it can overwrite anything; one after the other is as it always is.
 */
static void a_step_within_a_step_ends_the_process(void **state)
{
	static const uint8_t uuid2[16] = { 2 };
	struct ddr_array *a = begin(false), *b;
	struct ddr_members *members = play.members;

	(void)state;
	play.members = calloc(1, sizeof(*play.members));
	ddr_array_appeared(&d, uuid2, false);
	b = ddr_array_by_uuid(&d, uuid2);
	loaded();
	step(a);
	step(b);
	step(a);
	for (unsigned int i = 0; i < 2; i++) {
		int status = 0;
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (pid == 0) {
			setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
			stepped = i ? a : b;
			play.answer = steps_within;
			step(a);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
	end();
	free(members);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_gets_all_records_that_it_accepts),
		cmocka_unit_test(in_a_cluster_a_full_queue_to_the_kernel_gives_the_array_up), cmocka_unit_test(a_reason_has_one_advice),
		cmocka_unit_test(a_node_without_a_slot_is_not_told_to_start_again),
		cmocka_unit_test(without_a_cluster_a_full_queue_to_the_kernel_attaches_the_array_again),
		cmocka_unit_test(a_kill_fits_into_a_full_queue),
		cmocka_unit_test(a_superseded_channel_does_not_overflow),
		cmocka_unit_test(a_removed_array_that_overflows_goes),
		cmocka_unit_test(in_a_cluster_a_message_that_does_not_fit_gives_the_array_up),
		cmocka_unit_test(without_a_cluster_a_message_that_does_not_fit_attaches_the_array_again),
		cmocka_unit_test(an_array_runs_when_it_has_a_state_machine),
		cmocka_unit_test(a_load_without_memory_is_repeated),
		cmocka_unit_test(a_start_without_memory_is_repeated),
		cmocka_unit_test(a_cluster_that_goes_during_the_load_is_waited_for),
		cmocka_unit_test(members_are_not_blamed_for_a_daemon_that_stood_still),
		cmocka_unit_test(a_lost_output_ends_the_instance),
		cmocka_unit_test(too_many_pending_answers_end_the_instance),
		cmocka_unit_test(a_node_that_fails_often_is_one_question),
		cmocka_unit_test(an_old_fence_is_no_proof_for_who_was_away),
		cmocka_unit_test(a_stop_that_nobody_waits_for_is_taken_back),
		cmocka_unit_test(a_removed_array_goes_on_stopping),
		cmocka_unit_test(an_array_that_stays_after_a_clean_stop_continues),
		cmocka_unit_test(a_stop_that_is_refused_leaves_nothing),
		cmocka_unit_test(the_state_machine_is_told_of_writes_that_may_still_land),
		cmocka_unit_test(a_node_that_cannot_leave_in_time_leaves_without_a_message),
		cmocka_unit_test(a_node_that_meets_another_protocol_version_refuses_the_array), cmocka_unit_test(members_of_a_mask_are_numbered),
		cmocka_unit_test(a_step_within_a_step_ends_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

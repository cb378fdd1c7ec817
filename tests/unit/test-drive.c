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

static void loads_anew(const struct ddr_input *in, struct ddr_outputs *out)
{
	asks(out, DDR_OUT_ANEW, 0, in->type);
	out->out[0].text = "it is too old";
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

static void says_enable(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = DDR_OUT_KERNEL;
	out->out[0].rec.type = DDR_U_ENABLE;
	out->n = 1;
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

/* Rule L8. A kernel whose daemon was silent refuses what it writes first, since that was decided before: it is written again. */
static void what_was_decided_before_a_silence_is_written_again(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	said = 0;
	play.refuse = ETIME;
	play.answer = says_records;
	step(a);
	assert_null(a->broken);
	assert_int_equal(play.n_told, 0);
	play.answer = NULL;
	play.refuse = 0;
	run();
	assert_int_equal(told(DDR_U_GRANT), DDR_SM_MAX_OUT);
	for (unsigned int i = 0; i < DDR_SM_MAX_OUT; i++)
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

/* The node leaves the group, and the kernel waits until it is bound to anew. The next state machine learns that these are the same superblocks. */
static void what_is_too_old_to_start_with_is_loaded_again(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	a->adopted = (struct ddr_adoption){ .until_ms = play.now + 60000 };
	memcpy(a->adopted.uuid, a->uuid, sizeof(a->uuid));
	play.answer = loads_anew;
	step(a);
	assert_int_equal(play.n_events, 0);
	says_nothing_more(a);
	play.answer = NULL;
	run();
	assert_int_equal(play.left, 1);
	assert_int_equal(told(DDR_U_FREEZE), 1);	/* rule 8: nobody looks at the quorum for it meanwhile */
	assert_int_equal(play.n_told, told(DDR_U_FREEZE) + told(DDR_U_PING));
	assert_int_equal(play.binds, 2);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_true(a->adopted.until_ms);		/* the operator's word was for a start, and this load is for that */
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(play.made, 2);
	assert_true(play.again);
	assert_null(a->broken);
	step(a);
	assert_int_equal(play.binds, 2);
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

/* Rule I3: it is not attached again by itself, in a cluster or without one, and the operator can read why. */
static void an_array_that_another_machine_uses_is_refused(void **state)
{
	(void)state;
	for (unsigned int cluster = 0; cluster < 2; cluster++) {
		struct ddr_array *a = begin(cluster);

		a->broken = "another machine uses the array";
		a->stamp.taken = true;
		snprintf(a->error, sizeof(a->error), "node 8 has claimed it");
		run();
		assert_int_equal(a->state, DDR_ARRAY_REFUSED);
		assert_null(a->chan);
		assert_string_equal(a->error, "node 8 has claimed it");
		assert_string_equal(play.event, "refused");
		end();
	}
}

/* Rule I3: without a cluster nobody says whether another machine has adopted the array while this daemon stood still. */
static void a_kernel_that_had_stopped_goes_on_after_a_look(void **state)
{
	const struct ddr_rec rec = { .type = DDR_K_STOPPED, .member = DDR_NO_MEMBER };

	(void)state;
	for (unsigned int cluster = 0; cluster < 2; cluster++) {
		struct ddr_array *a = begin(cluster);

		a->ready = true;
		a->super.owner_pages = 4;
		d.ident.stored = true;
		play.owner_known = (struct ddr_owner){ .node = a->d->transport->node(a->d), .state = DDR_SLOT_OWNED };
		play.owner_known.instance.cookie = a->bind.cookie;
		ddr_drive_record(a, &rec);
		assert_int_equal(a->stamp.stopped, !cluster);
		assert_int_equal(a->check.wanted, cluster ? 0 : UINT32_MAX);
		assert_false(ddr_drive_rests(a, 10000));
		play.answer = says_enable;		/* for another reason, such as a longer table */
		play.n_told = 0;
		step(a);
		assert_int_equal(play.n_told, cluster);
		play.answer = NULL;
		a->stamp.stopped = false;
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_gets_all_records_that_it_accepts),
		cmocka_unit_test(what_was_decided_before_a_silence_is_written_again),
		cmocka_unit_test(in_a_cluster_a_full_queue_to_the_kernel_gives_the_array_up),
		cmocka_unit_test(a_reason_has_one_advice),
		cmocka_unit_test(a_node_without_a_slot_is_not_told_to_start_again),
		cmocka_unit_test(without_a_cluster_a_full_queue_to_the_kernel_attaches_the_array_again),
		cmocka_unit_test(what_is_too_old_to_start_with_is_loaded_again),
		cmocka_unit_test(a_kill_fits_into_a_full_queue),
		cmocka_unit_test(a_superseded_channel_does_not_overflow),
		cmocka_unit_test(a_removed_array_that_overflows_goes),
		cmocka_unit_test(in_a_cluster_a_message_that_does_not_fit_gives_the_array_up),
		cmocka_unit_test(without_a_cluster_a_message_that_does_not_fit_attaches_the_array_again),
		cmocka_unit_test(a_lost_output_ends_the_instance),
		cmocka_unit_test(too_many_pending_answers_end_the_instance),
		cmocka_unit_test(members_of_a_mask_are_numbered),
		cmocka_unit_test(a_step_within_a_step_ends_the_process),
		cmocka_unit_test(an_array_that_another_machine_uses_is_refused),
		cmocka_unit_test(a_kernel_that_had_stopped_goes_on_after_a_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* The queue of a transport: messages of all lengths come out as they were put in, in order, wherever the ring ends. */
#include "tests/unit/fixture.h"

#include "daemon/group/queue.h"

#define STEPS	400000u

static struct ddr_queue q;
static uint32_t lengths[STEPS];

static void messages_of_all_lengths_stay_in_order(void **state)
{
	uint8_t in[DDR_SM_MSG_MAX], out[DDR_SM_MSG_MAX];
	uint32_t put = 0, got = 0, refused = 0;

	(void)state;
	srandom(5);
	for (uint32_t i = 0; i < STEPS; i++) {
		uint32_t len = (uint32_t)random() % (DDR_SM_MSG_MAX + 1), left = DDR_QUEUE_BYTES - q.used;

		if (random() % 100 < (i / 20000 % 2 ? 40 : 60)) {
			memset(in, (int)put, len);
			if (ddr_queue_put(&q, in, len)) {
				lengths[put++] = len;
				continue;
			}
			assert_true(left < len + sizeof(len));
			refused++;
		}
		if (!q.n)
			continue;
		assert_int_equal(ddr_queue_first(&q, out), lengths[got]);
		for (uint32_t k = 0; k < lengths[got]; k++)
			assert_int_equal(out[k], (uint8_t)got);
		ddr_queue_drop(&q);
		got++;
		assert_int_equal(q.n, put - got);
	}
	assert_true(refused > 0 && got > 10 * DDR_QUEUE_BYTES / DDR_SM_MSG_MAX);	/* it was full, and went round */
}

static void a_message_that_is_too_long_is_refused(void **state)
{
	static const uint8_t msg[DDR_SM_MSG_MAX + 1];

	(void)state;
	memset(&q, 0, sizeof(q));
	assert_false(ddr_queue_put(&q, msg, DDR_SM_MSG_MAX + 1));
	assert_int_equal(q.n + q.used, 0);
}

static void all_messages_of_a_step_fit(void **state)
{
	static const uint8_t msg[DDR_SM_MSG_MAX];

	(void)state;
	memset(&q, 0, sizeof(q));
	for (unsigned int i = 0; i < DDR_SM_MSG_LONG; i++)
		assert_true(ddr_queue_put(&q, msg, DDR_SM_MSG_MAX));
	for (unsigned int i = 0; i < DDR_SM_MAX_OUT - DDR_SM_MSG_LONG; i++)
		assert_true(ddr_queue_put(&q, msg, DDR_SM_MSG_SHORT));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_of_all_lengths_stay_in_order),
		cmocka_unit_test(a_message_that_is_too_long_is_refused),
		cmocka_unit_test(all_messages_of_a_step_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

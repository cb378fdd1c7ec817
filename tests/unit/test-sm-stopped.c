// SPDX-License-Identifier: GPL-2.0-or-later
/* A kernel that stopped its I/O because this daemon was silent goes on only after another ENABLE, rule L8. */
#include "sm-cluster.h"

static int setup(void **state)
{
	return cx_setup(state, 2);
}

/* The last ENABLE since the log was forgotten; NULL: there is none. */
static const struct ddr_rec *enabled(struct cx *c, uint32_t i)
{
	int at = cx_find(&c->node[i], DDR_OUT_KERNEL, DDR_U_ENABLE);

	return at < 0 ? NULL : &c->node[i].log[at].rec;
}

static void stopped(struct cx *c, uint32_t i)
{
	cx_forget(c);
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_STOPPED, .member = DDR_NO_MEMBER });
	cx_settle(c);
}

static void a_stopped_kernel_is_enabled_again(void **state)
{
	struct cx *c = *state;

	for (int i = 0; i < 2; i++) {
		stopped(c, 0);
		assert_non_null(enabled(c, 0));
		assert_int_equal(enabled(c, 0)->flags, DDR_F_READS);	/* in a cluster */
		assert_null(enabled(c, 1));
		cx_forget(c);
		cx_tick(c, 1000);
		cx_settle(c);
		assert_null(enabled(c, 0));	/* once each time */
	}
}

static void but_not_without_quorum(void **state)
{
	struct cx *c = *state;

	cx_view(c, 1, 1, false);
	cx_settle(c);
	stopped(c, 0);
	assert_null(enabled(c, 0));
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_non_null(enabled(c, 0));
	assert_int_equal(enabled(c, 0)->flags, DDR_F_READS);
}

/* Its next binding is enabled when it has heard of all members, as any other one; STOPPED was about the last one. */
static void nor_for_the_next_binding(void **state)
{
	struct cx *c = *state;

	cx_view(c, 1, 1, false);
	cx_settle(c);
	stopped(c, 0);
	cx_op(c, 0, DDR_IN_K_DETACHED, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_null(enabled(c, 0));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_stopped_kernel_is_enabled_again), TEST(but_not_without_quorum), TEST(nor_for_the_next_binding),
	};

	return cmocka_run_group_tests_name("state machine: a kernel that stopped", tests, NULL, NULL);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The messages between nodes in a build that speaks the next version as well (DDRAID_NEXT_VERSION, include/ddraid/proto.h): each version has its own form, and
 * neither is taken for the other. The drill cluster_rolling upgrades a cluster to such a build.
 */
#define DDRAID_NEXT_VERSION

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ddraid/uapi.h>

#include "lib/wire/msg.c"

#define NEXT	(DDR_MSG_VERSION + 1u)

static size_t hello(uint16_t version, uint8_t buf[DDR_MSG_MAX])
{
	struct ddr_msg m = { .type = DDR_M_HELLO, .version = version, .sender = 2, .hello = { .view = 7, .n_out = 1, .out = { 3 } } };

	return ddr_msg_encode(&m, buf, DDR_MSG_MAX);
}

static void each_version_has_its_own_form(void **state)
{
	uint8_t buf[DDR_MSG_MAX], next[DDR_MSG_MAX];
	size_t len = hello(DDR_MSG_VERSION, buf), longer = hello(NEXT, next);
	struct ddr_msg m;

	(void)state;
	assert_int_equal(DDR_MSG_LOWEST, DDR_MSG_VERSION);
	assert_int_equal(DDR_MSG_HIGHEST, NEXT);
	assert_int_equal(DDR_SERVES_HIGHEST, NEXT);
	assert_int_equal(longer, len + 4);
	assert_null(ddr_msg_decode(buf, len, &m));
	assert_int_equal(m.version, DDR_MSG_VERSION);
	assert_null(ddr_msg_decode(next, longer, &m));
	assert_int_equal(m.version, NEXT);
	assert_int_equal(m.hello.out[0], 3);
	next[4]--;					/* said in a view of the version before */
	assert_non_null(ddr_msg_decode(next, longer, &m));
	next[4]++;
	next[longer - 4]++;				/* another word */
	assert_non_null(ddr_msg_decode(next, longer, &m));
	buf[4]++;					/* of a node that did not move up */
	assert_non_null(ddr_msg_decode(buf, len, &m));
	assert_int_equal(ddr_msg_other_version(buf, len), 0);
	buf[4]++;
	assert_int_equal(ddr_msg_other_version(buf, len), NEXT + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_version_has_its_own_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

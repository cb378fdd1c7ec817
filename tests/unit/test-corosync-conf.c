// SPDX-License-Identifier: GPL-2.0-or-later
/* What is read from a corosync.conf: a node must serve alone only if it is certain that it is alone. */
#include <setjmp.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/group/corosync.h"

#define TWO	"totem {\n\tversion: 2\n\tcluster_name: c\n}\n\nnodelist {\n\tnode {\n\t\tring0_addr: 10.0.0.1\n\t\tnodeid: 1\n\t}\n" \
		"\tnode {\n\t\tring0_addr: 10.0.0.2\n\t\tnodeid: 2\n\t}\n}\n\nquorum {\n\tprovider: corosync_votequorum\n}\n"
#define ONE	"# as the package brings it\n\ntotem {\n\tversion: 2\n\n\t# crypto {\n\tcrypto_cipher: none\n}\nlogging {\n\tfileline: off\n}\n" \
		"quorum {\n\tprovider: corosync_votequorum\n}\nnodelist {\n\t# ring0_addr: of another one\n\tnode {\n\t\tname: node1\n\t\tnodeid: 1\n" \
		"\t\tring0_addr: 127.0.0.1\n\t}\n}\n"

static char dir[] = "/tmp/ddraid-corosync-XXXXXX", path[64], err[512];
static uint32_t node;

static int says_of(const char *text, size_t len)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
	return ddr_corosync_configured(path, &node, err, sizeof(err));
}

static int says(const char *text)
{
	return says_of(text, strlen(text));
}

static void a_file_in_order(void **state)
{
	(void)state;
	assert_int_equal(says(TWO), 1);
	assert_string_equal(err, "");
	assert_int_equal(says(ONE), 0);
	assert_string_equal(err, "");
	assert_int_equal(says("totem {\n\tversion: 2\n}\n"), 1);	/* without a list the nodes are found by multicast */
	assert_string_equal(err, "");
	/* of the lists of nodes alone, and as corosync reads them */
	assert_int_equal(says("nodelist{\r\n node  {\r\n  ring0_addr:a\r\n }\r\n}\r\n"), 0);
	assert_int_equal(says("other {\n node {\n  ring0_addr: a\n }\n}\n"), 1);
	assert_int_equal(says("nodelist {\n node {\n  ring0_addr: a\n }\n node {\n  ring1_addr: b\n }\n}\n"), 1);
}

static int with_id(const char *line)
{
	char text[256];

	snprintf(text, sizeof(text), "nodelist {\n node {\n  ring0_addr: a\n%s }\n}\n", line);
	return says(text);
}

/* Finding T1: a list that was cut down to this node alone does not make it node 1. */
static void the_only_node_has_its_id(void **state)
{
	static const char *const wrong[] = { "nodeid: 0\n", "nodeid: x\n", "nodeid:\n", "nodeid: 4294967296\n", "nodeid: 1 2\n", "nodeid: -1\n" };

	(void)state;
	assert_int_equal(says(ONE), 0);
	assert_int_equal(node, 1);
	assert_int_equal(with_id("  nodeid: 2\n"), 0);
	assert_int_equal(node, 2);
	assert_int_equal(with_id("  nodeid :4294967295 \r\n"), 0);
	assert_int_equal(node, UINT32_MAX);
	assert_int_equal(with_id(""), 0);
	assert_int_equal(node, 0);
	assert_int_equal(says("other {\n x {\n  nodeid: 7\n }\n}\nnodelist {\n node {\n  ring0_addr: a\n  nodeids: 8\n }\n}\n"), 0);
	assert_int_equal(node, 0);
	assert_int_equal(says(TWO), 1);
	assert_int_equal(node, 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(with_id(wrong[i]), 1);		/* as what cannot be parsed */
		assert_non_null(strstr(err, "the id of a node"));
		assert_int_equal(node, 0);
	}
}

/*
 * However much of a cluster's file has been written, it never counts as that of a single node; a single node's file counts only when
 * it is complete.
 */
static void a_part_of_a_file_is_not_one_node(void **state)
{
	(void)state;
	for (size_t n = 0; n < strlen(TWO); n++)
		assert_int_equal(says_of(TWO, n), 1);
	for (size_t n = 0; n + 2 < strlen(ONE); n++)	/* at the end only the newline is missing */
		assert_int_equal(says_of(ONE, n), 1);
	assert_non_null(strstr(err, path));
	assert_non_null(strstr(err, "a section is not closed"));
	assert_int_equal(says(ONE "}\n"), 1);
	assert_non_null(strstr(err, "line 23"));
	assert_int_equal(says(ONE "rest of a word\n"), 1);
	assert_int_equal(says_of(ONE "\0\0\0\0", sizeof(ONE) + 3), 1);
	assert_non_null(strstr(err, "zero bytes"));
}

static void no_file_is_no_cluster(void **state)
{
	char below[80];

	(void)state;
	unlink(path);
	assert_int_equal(ddr_corosync_configured(path, &node, err, sizeof(err)), 0);
	assert_string_equal(err, "");
	says(TWO);
	snprintf(below, sizeof(below), "%s/corosync.conf", path);	/* the directory is a file */
	assert_int_equal(ddr_corosync_configured(below, &node, err, sizeof(err)), 0);
	assert_string_equal(err, "");
}

/* The file exists and is unreadable: the answer is unknown. */
static void what_cannot_be_read_is_an_error(void **state)
{
	(void)state;
	assert_int_equal(ddr_corosync_configured(dir, &node, err, sizeof(err)), -EISDIR);
	assert_non_null(strstr(err, dir));
	assert_non_null(strstr(err, "transport = "));
	assert_null(strchr(err, '\n'));
	unlink(path);
	assert_int_equal(symlink("corosync.conf", path), 0);
	assert_int_equal(ddr_corosync_configured(path, &node, err, sizeof(err)), -ELOOP);
	unlink(path);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(ddr_corosync_configured(path, &node, err, sizeof(err)), -ENOENT);
	unlink(path);
	says(ONE);
	assert_int_equal(chmod(path, 0), 0);
	if (geteuid() == 0)	/* root may read everything, so the question is asked as a user who may not */
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(ddr_corosync_configured(path, &node, err, sizeof(err)), -EACCES);
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/corosync.conf", dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_in_order), cmocka_unit_test(the_only_node_has_its_id), cmocka_unit_test(a_part_of_a_file_is_not_one_node), cmocka_unit_test(no_file_is_no_cluster),
		cmocka_unit_test(what_cannot_be_read_is_an_error),
	};

	return cmocka_run_group_tests_name("corosync.conf", tests, setup, teardown);
}

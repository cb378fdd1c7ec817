/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ddraid table: prints the table line for `dmsetup create`. It only reads the disks and changes nothing; the daemon checks the
 * devices again when the device appears.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include <uuid/uuid.h>

#include "cli/cli.h"
#include "lib/disk/scan.h"

static int print_table(const struct ddr_scan_array *array, unsigned int options)
{
	char params[DDR_MAX_ROLES * PATH_MAX + 256];

	if ((options & DDR_TABLE_VERIFY_READS) && !array->assembly.super.parity)
		return cli_fail("table", "'%s' has no parity, so --verify-reads cannot check anything", array->assembly.super.name);
	if (ddr_scan_table_params(array, options, params, sizeof(params)))
		return cli_fail("table", "the device names make the table line too long; use shorter names");
	printf("0 %" PRIu64 " ddraid %s\n", ddr_scan_sectors(&array->assembly.super), params);
	cli_tell_foreign("table", array);
	if (array->assembly.note[0])
		cli_warn("table", "%s", array->assembly.note);
	return cli_finish("table");
}

int cmd_table(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "uuid", required_argument, NULL, 'u' },
		{ "verify-reads", no_argument, NULL, 'v' },
		{ "fail-if-no-daemon", no_argument, NULL, 'f' },
		{ 0 },
	};
	const char *which = NULL;
	unsigned int table = 0;
	struct ddr_scan_array array;
	struct ddr_error err;
	struct ddr_scan scan;
	uuid_t parsed;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'v' || c == 'f') {
			table |= c == 'v' ? DDR_TABLE_VERIFY_READS : DDR_TABLE_FAIL_IF_NO_DAEMON;
			continue;
		}
		if (c != 'u')
			return cli_bad_option(cmd, c, argv);
		if (uuid_parse(optarg, parsed))
			return cli_usage(cmd, "'%s' is not a uuid", optarg);
		which = optarg;
	}
	if (argc - optind != (which ? 0 : 1))
		return cli_usage(cmd, "give the name of one array, or --uuid and its uuid");
	if (!which)
		which = argv[optind];
	if (cli_scan(cmd->name, which, &scan, &err))
		return cli_fail(cmd->name, "%s", err.text);
	rc = ddr_scan_assemble(&scan, which, NULL, &array, &err) ? cli_fail(cmd->name, "%s", err.text) : print_table(&array, table);
	ddr_scan_free(&scan);
	return rc;
}

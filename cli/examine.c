/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * ddraid examine: shows the superblocks, logs and maps of disks, damage included. Needs
 * neither the daemon nor the other members, and changes nothing. Exit code 0 if every
 * device is a member whose superblock can be read, else 1.
 */
#include <getopt.h>
#include <stdio.h>

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/exam.h"

int cmd_examine(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	struct json_object *list = NULL;
	int c, rc, devices, invalid = 0;
	const char *first_invalid = NULL;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'j')
			return cli_bad_option(cmd, c, argv);
		if (!list)
			list = json_object_new_array();
	}
	devices = argc - optind;
	if (devices < 1) {
		json_object_put(list);
		return cli_usage(cmd, "give at least one device");
	}
	for (int i = optind; i < argc; i++) {
		struct exam exam;

		if (!exam_device(&exam, argv[i]) && invalid++ == 0)
			first_invalid = argv[i];
		if (list)
			json_object_array_add(list, exam_json(&exam, argv[i]));
		else
			exam_print(&exam, argv[i]);
		exam_free(&exam);
	}
	if (list)
		cli_print_json(list);
	rc = cli_finish(cmd->name);
	if (!rc && invalid)
		rc = cli_fail(cmd->name, "%d of %d devices %s no valid member of an array (%s%s); what is wrong is listed above",
			      invalid, devices, devices == 1 ? "is" : "are", first_invalid, invalid > 1 ? ", ..." : "");
	return rc;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid set: changes settings of a running array, or lists them. The values are checked here, for a clear usage error, and again by
 * the daemon.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "lib/conf.h"

/* Settings that are not options of ddraid.conf: they belong to the array, not to the node. */
static bool special(const char *key)
{
	return !strcmp(key, "suspect-reads") || !strcmp(key, "suspect_reads") || !strcmp(key, "suspect");
}

/* Splits @setting into a key and a value, and checks both as far as possible here; nothing is sent before all settings are valid. */
static int check_one(const struct cli_command *cmd, char *setting)
{
	char *value = strchr(setting, '=');
	char err[DDR_CONF_ERROR_MAX];
	struct ddr_conf conf;

	if (!value)
		return cli_usage(cmd, "'%s' is not KEY=VALUE", setting);
	*value++ = '\0';
	ddr_conf_defaults(&conf);
	if (!special(setting) && ddr_conf_set(&conf, setting, value, true, err, sizeof(err)))
		return cli_usage(cmd, "%s; man ddraid.conf lists the settings", err);
	return CLI_DONE;
}

static int set_one(struct ddr_ipc *ipc, const char *name, const char *setting)
{
	struct json_object *request = client_request("set", name), *data;

	json_object_object_add(request, "key", json_object_new_string(setting));
	json_object_object_add(request, "value", json_object_new_string(setting + strlen(setting) + 1));
	if (!client_call(ipc, "set", request, &data, 4 * CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	return CLI_DONE;
}

static int list(struct ddr_ipc *ipc, const char *name)
{
	struct json_object *data;

	if (!client_call(ipc, "set", client_request("settings", name), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	if (!json_object_is_type(data, json_type_object)) {
		json_object_put(data);
		return cli_fail("set", "ddraidd sent no data: daemon and command are from different releases; systemctl restart ddraidd");
	}
	json_object_object_foreach(data, key, value)
		printf("%s = %s\n", client_clean(key), json_object_is_type(value, json_type_string) ? client_clean(json_object_get_string(value)) : "-");
	json_object_put(data);
	return cli_finish("set");
}

int cmd_set(const struct cli_command *cmd, int argc, char **argv)
{
	struct ddr_ipc *ipc;
	int rc = CLI_DONE;

	if (cli_no_options(cmd, argc, argv))
		return CLI_USAGE;
	if (argc < 2)
		return cli_usage(cmd, "give the name of an array, and KEY=VALUE to change a setting");
	for (int i = 2; i < argc && rc == CLI_DONE; i++)
		rc = check_one(cmd, argv[i]);
	if (rc)
		return rc;
	ipc = client_connect("set");
	if (!ipc)
		return CLI_FAILED;
	if (argc == 2)
		rc = list(ipc, argv[1]);
	for (int i = 2; i < argc && rc == CLI_DONE; i++)
		rc = set_one(ipc, argv[1], argv[i]);
	ddr_ipc_close(ipc);
	return rc;
}

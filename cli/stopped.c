/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes an array that is stopped on all nodes, for a change of its superblocks; see stopped.h. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/guard.h"
#include "cli/stopped.h"

#define LOCK_MS	5000u

void stopped_init(struct stopped *s, const char *cmd)
{
	memset(s, 0, sizeof(*s));
	s->cmd = cmd;
	for (size_t c = 0; c < DDR_ASSEMBLE_MAX; c++)
		s->dev[c].fd = -1;
}

int stopped_ask(struct stopped *s)
{
	struct ddr_ipc *ipc = client_connect(s->cmd);
	struct json_object *data;
	bool ok = ipc && client_call(ipc, s->cmd, client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS);

	if (ok) {
		cli_adopt_node(data, &s->node);
		json_object_put(data);
	}
	ddr_ipc_close(ipc);
	return ok ? CLI_DONE : CLI_FAILED;
}

int stopped_check(const struct stopped *s)
{
	const struct ddr_super *sb = &s->array.assembly.super;
	uint8_t recorded[DDR_UUID_LEN];
	struct cli_dm_info info;
	struct ddr_error err;
	char uuid[37];

	if (cli_dm_find_array(cli_format_uuid(sb->array_uuid, uuid), &info, &err) == 0 && info.exists)
		return cli_fail(s->cmd, "'%s' is started on this node, as /dev/mapper/%s; stop it on all nodes first", sb->name, info.name);
	if (cli_adopt_needed(&s->node, &s->array, recorded, &err))
		return cli_fail(s->cmd, "%s", err.text);
	/* a node without a cluster keeps its slot when it stops; its locks are free, so it does not run the array */
	for (uint32_t i = 0; i < sb->slots; i++)
		if (sb->slot_node[i] && sb->slot_node[i] != s->node.alone)
			return cli_fail(s->cmd, "'%s' is in use by node %" PRIu32 ", or that node died while using it; start the array, stop it "
					"on all nodes, then try again", sb->name, sb->slot_node[i]);
	return CLI_DONE;
}

bool stopped_plays(const struct stopped *s, size_t c)
{
	return s->array.assembly.verdict[c] == DDR_V_CURRENT;
}

int32_t stopped_member(const struct stopped *s, size_t c)
{
	const struct ddr_assembly *a = &s->array.assembly;

	for (int32_t m = 0; m < a->super.members && stopped_plays(s, c); m++)
		if (a->device[m] == (int32_t)c)
			return m;
	return -1;
}

static int open_all(struct stopped *s)
{
	struct ddr_error err;

	for (size_t c = 0; c < s->array.n; c++) {
		if (!stopped_plays(s, c))
			continue;
		cli_guard_at(s->array.cand[c].device, NULL);
		if (ddr_dev_open(&s->dev[c], s->array.cand[c].device, DDR_DEV_WRITE | DDR_DEV_EXCL | DDR_DEV_FILE, &err) ||
		    ddr_dev_lock(&s->dev[c], LOCK_MS, &err))
			return cli_fail(s->cmd, "%s", err.text);
	}
	return CLI_DONE;
}

/* Reads all superblocks again, now that nobody else can change them: only these are used. */
static int read_again(struct stopped *s)
{
	const struct ddr_super before = s->array.assembly.super, *now = &s->array.assembly.super;
	struct ddr_error err;

	for (size_t c = 0; c < s->array.n; c++) {
		if (!stopped_plays(s, c))
			continue;
		cli_guard_at(s->array.cand[c].device, NULL);
		if (ddr_dev_read_supers(&s->dev[c], &s->supers[c], &err))
			return cli_fail(s->cmd, "%s", err.text);
		s->array.cand[c].super = &s->supers[c].copy[s->supers[c].newest].super;
	}
	if (ddr_assemble(s->array.cand, s->array.n, NULL, &s->array.assembly, &err))
		return cli_fail(s->cmd, "%s", err.text);
	if (now->generation != before.generation || now->seq != before.seq || strcmp(now->name, before.name) != 0)
		return cli_fail(s->cmd, "'%s': another program or node changed its superblocks meanwhile; try again", before.name);
	return stopped_check(s);
}

int stopped_take(struct stopped *s)
{
	struct ddr_error err;
	int rc = open_all(s);

	if (!rc && !s->node.alone && hold_take(&s->hold, s->array.assembly.super.array_uuid, &err))
		rc = cli_fail(s->cmd, "'%s': %s", s->array.assembly.super.name, err.text);
	if (!rc)
		rc = read_again(s);
	if (!rc && hold_check(&s->hold, &err))
		rc = cli_fail(s->cmd, "'%s': %s", s->array.assembly.super.name, err.text);
	return rc;
}

void stopped_free(struct stopped *s)
{
	hold_drop(&s->hold);
	for (size_t c = 0; c < DDR_ASSEMBLE_MAX; c++)
		ddr_dev_close(&s->dev[c]);
	ddr_scan_free(&s->scan);
}

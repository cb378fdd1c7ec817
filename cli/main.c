/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command `ddraid`: finds the subcommand and runs it. One table has everything about the subcommands. */
#include <ctype.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

static const struct cli_command commands[] = {
	{ "create", "NAME --order N [--parity 0|1|2] [--layout dedicated|rotating] [--region-size SIZE] [--nodes M] [--format 1|2] "
	  "[--spare DEV]... [--overwrite] [--allow-512e] [--unequal] [--allow-files] [--yes] [--json] DEV...",
	  "create an array on empty disks", cmd_create },
	{ "start", "NAME | --all [--degraded] [--older] [--timeout SECONDS] [--wait-disks SECONDS] [--verify-reads] [--fail-if-no-daemon] [--adopt] [--yes]", "assemble an array and start it", cmd_start },
	{ "stop", "NAME | --all [--wait SECONDS] [--force]", "stop an array", cmd_stop },
	{ "status", "[NAME] [--json] [--check]", "show the arrays of this node", cmd_status },
	{ "when", "[NAME] [--json]", "show running jobs, their speed, and when they finish", cmd_when },
	{ "events", "[--json]", "print each change as it happens", cmd_events },
	{ "set", "NAME [KEY=VALUE]...", "list or change settings of a running array", cmd_set },
	{ "fail", "NAME MEMBER", "mark a member failed, so that it is no longer used", cmd_fail },
	{ "add", "NAME DEV [--overwrite] [--allow-512e] [--yes]", "add a new disk as a spare, or take back a failed or missing member", cmd_add },
	{ "replace", "NAME MEMBER [DEV] [--overwrite] [--allow-512e] [--yes]", "copy a working member to a new disk or a spare, which then takes "
									       "its place", cmd_replace },
	{ "remove", "NAME MEMBER", "remove a failed member or a spare from the member table", cmd_remove },
	{ "grow", "NAME [--size SIZE] [--json]", "grow the array into the room that its members have", cmd_grow },
	{ "rename", "NAME NEWNAME", "rename an array that is stopped on all nodes", cmd_rename },
	{ "upgrade", "NAME", "give an array that is stopped on all nodes the newest on-disk format", cmd_upgrade },
	{ "wipe", "DEV... [--overwrite] [--allow-files] [--yes]", "erase the superblocks of disks, so that they are no longer members", cmd_wipe },
	{ "verify", "NAME start|pause|stop|status [--priority 1-5] [--repair] [--json]",
	  "compare parity and data of everything written", cmd_verify },
	{ "fence-ack", "NODE", "assert that a lost node is powered off, so that its regions are recovered", cmd_fence_ack },
	{ "table", "NAME | --uuid UUID [--verify-reads] [--fail-if-no-daemon]", "print the table line for dmsetup create", cmd_table },
	{ "estimate", "NAME | --order N [--parity 0|1|2] [--layout dedicated|rotating] --member-size SIZE, and for both: --rate SIZE [--write-rate SIZE] "
	  "[--iops N] [--write-iops N] [--written PERCENT] [--afr PERCENT [--unreadable CHANCE] [--wait HOURS]] [--json]",
	  "estimate speed and reliability of an array from the figures of one member", cmd_estimate },
	{ "bench", "DEV... [--seconds N] [--json]", "measure the read speed of disks, for estimate; writes nothing", cmd_bench },
	{ "examine", "DEV... [--json]", "show the superblocks, logs and maps of disks", cmd_examine },
};

#define N_COMMANDS	(sizeof(commands) / sizeof(commands[0]))

static void print_commands(FILE *to)
{
	fprintf(to, "usage: ddraid COMMAND ...\n\ncommands:\n");
	for (size_t i = 0; i < N_COMMANDS; i++)
		fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].summary);
	fprintf(to, "\nddraid COMMAND --help shows the usage of a command; see also man ddraid.\n");
}

static const struct cli_command *find_command(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

#define HELP_COLUMNS	80

/* The length of the next argument of a usage line: up to a space outside of brackets. An option stays with its value, which is in capitals. */
static size_t usage_word(const char *s)
{
	int depth = 0;
	size_t n = 0;

	for (; s[n]; n++) {
		depth += (s[n] == '[') - (s[n] == ']');
		if (s[n] == ' ' && !depth && !(s[0] == '-' && isupper((unsigned char)s[n + 1])))
			break;
	}
	return n;
}

static int print_help(const struct cli_command *cmd)
{
	int used = printf("usage: ddraid %s", cmd->name);

	for (const char *s = cmd->arguments; *s; ) {
		size_t n = usage_word(s);

		if (used + 1 + (int)n > HELP_COLUMNS)
			used = printf("\n             ") - 1;
		used += printf(" %.*s", (int)n, s);
		s += n + (s[n] == ' ');
	}
	printf("\n\n%s; see man ddraid\n", cmd->summary);
	return cli_finish(cmd->name);
}

#define WORD_MAX	32u

static bool same_letter(char a, char b)
{
	return tolower((unsigned char)a) == b;
}

/* How many letters must be changed, added, removed, or swapped with the next one (Levenshtein, Damerau); case is ignored. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), d[WORD_MAX + 1][WORD_MAX + 1];

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			if (!i || !j) {
				d[i][j] = i + j;
				continue;
			}
			d[i][j] = 1 + (d[i - 1][j] < d[i][j - 1] ? d[i - 1][j] : d[i][j - 1]);
			if (d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]) < d[i][j])
				d[i][j] = d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
			if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]) && d[i - 2][j - 2] + 1 < d[i][j])
				d[i][j] = d[i - 2][j - 2] + 1;
		}
	return d[n][m];
}

/* The only command that was probably meant, or NULL: @name is its beginning, or at most two letters are wrong. */
static const char *probably(const char *name)
{
	size_t least = 3, len = strlen(name);
	const char *found = NULL;

	for (size_t i = 0; i < N_COMMANDS; i++) {
		size_t d = len > 1 && !strncasecmp(commands[i].name, name, len) ? 0 : distance(name, commands[i].name);

		if (d < least && d < len) {
			least = d;
			found = commands[i].name;
		} else if (d == least) {
			found = NULL;
		}
	}
	return found;
}

static int unknown_command(const char *name)
{
	const char *meant = probably(name);

	cli_fail("", "unknown command '%s'%s%s%s ddraid help lists the commands", name, meant ? ", did you mean '" : "", meant ? meant : "",
		 meant ? "'?" : ";");
	return CLI_USAGE;
}

/* ddraid help [COMMAND] */
static int help(const char *name)
{
	const struct cli_command *cmd = name ? find_command(name) : NULL;

	if (cmd)
		return print_help(cmd);
	if (name)
		return unknown_command(name);
	print_commands(stdout);
	return cli_finish("help");
}

static bool is_one_of(const char *arg, const char *a, const char *b, const char *c)
{
	return !strcmp(arg, a) || !strcmp(arg, b) || !strcmp(arg, c);
}

int main(int argc, char **argv)
{
	const struct cli_command *cmd;

	/* if the reader goes away, a write fails, and that is reported */
	signal(SIGPIPE, SIG_IGN);
	opterr = 0;
	if (argc < 2) {
		print_commands(stderr);
		return CLI_USAGE;
	}
	if (is_one_of(argv[1], "help", "--help", "-h"))
		return help(argc > 2 ? argv[2] : NULL);
	if (is_one_of(argv[1], "version", "--version", "-V")) {
		printf("ddraid %s\n", PACKAGE_VERSION);
		return cli_finish("version");
	}
	cmd = find_command(argv[1]);
	if (!cmd)
		return unknown_command(argv[1]);
	for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help(cmd);
	}
	return cmd->run(cmd, argc - 1, argv + 1);
}

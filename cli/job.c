// SPDX-License-Identifier: GPL-2.0-or-later
/* Prints a job; see job.h. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/job.h"

#define BAR_WIDTH	24
#define INDENT		11

static void print_bar(uint64_t done, uint64_t total)
{
	int full = total ? (int)(done * BAR_WIDTH / total) : 0;

	if (!isatty(STDOUT_FILENO))
		return;
	putchar('[');
	for (int i = 0; i < BAR_WIDTH; i++)
		putchar(i < full ? '#' : '.');
	printf("] ");
}

static void print_progress(struct json_object *job)
{
	uint64_t done = client_number(job, "done"), total = client_number(job, "total");
	char buf[32];

	printf("  %-8s ", client_clean(client_text(job, "type")));
	print_bar(done, total);
	printf("%5.1f %%", total ? (double)done * 100 / (double)total : 0.0);
	if (client_flag(job, "paused"))
		printf(", paused");
	else if (client_number(job, "rate"))
		printf(", %s/s", cli_format_size(client_number(job, "rate"), buf, sizeof(buf)));
	if (!client_null(job, "eta"))
		printf(", %s left", cli_format_duration(client_number(job, "eta"), buf, sizeof(buf)));
	putchar('\n');
}

static void print_what(struct json_object *job)
{
	char a[32], b[32];

	printf("%*s%s of %s", INDENT, "", cli_format_size(client_number(job, "done"), a, sizeof(a)),
	       cli_format_size(client_number(job, "total"), b, sizeof(b)));
	if (!client_null(job, "member"))
		printf(", onto member %" PRIu64, client_number(job, "member"));
	if (!client_null(job, "replaces"))
		printf(" for member %" PRIu64, client_number(job, "replaces"));
	if (!client_null(job, "priority"))
		printf(", priority %" PRIu64, client_number(job, "priority"));
	putchar('\n');
}

static void print_found(struct json_object *job)
{
	printf("%*s%" PRIu64 " blocks differed", INDENT, "", client_number(job, "mismatches"));
	if (!client_null(job, "repaired"))
		printf(", %" PRIu64 " of them repaired", client_number(job, "repaired"));
	putchar('\n');
}

void job_print(struct json_object *array, struct json_object *job)
{
	struct json_object *cluster = client_object(array, "cluster"), *nodes = client_object(cluster, "nodes");

	print_progress(job);
	print_what(job);
	if (client_number(job, "mismatches"))
		print_found(job);
	for (size_t i = 0; client_number(job, "node") != client_number(cluster, "node") && i < client_length(nodes); i++) {
		struct json_object *n = client_at(nodes, i);

		if (client_number(n, "id") == client_number(job, "node"))
			printf("%*srunning on %s%s\n", INDENT, "", client_clean(client_text(n, "name")),
			       client_null(job, "rate") ? "; speed not known yet" : "; speed from its last report");
	}
	if (!client_null(job, "waits"))
		printf("%*swaits: %s\n", INDENT, "", client_clean(client_text(job, "waits")));
}

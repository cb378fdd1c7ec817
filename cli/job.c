// SPDX-License-Identifier: GPL-2.0-or-later
/* A job in words; see job.h. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/job.h"

#define BAR_WIDTH	30

static const char *duration(uint64_t s, char *buf, size_t size)
{
	if (s < 120)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 7200)
		snprintf(buf, size, "%" PRIu64 " min", (s + 30) / 60);
	else
		snprintf(buf, size, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s % 3600 / 60);
	return buf;
}

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

void job_print(struct json_object *array, struct json_object *job)
{
	uint64_t done = client_number(job, "done"), total = client_number(job, "total");
	char a[32], b[32], c[32], d[32];

	printf("  %-8s ", client_clean(client_text(job, "type")));
	print_bar(done, total);
	printf("%5.1f %%  %s of %s", total ? (double)done * 100 / (double)total : 0.0,
	       cli_format_size(done, a, sizeof(a)), cli_format_size(total, b, sizeof(b)));
	if (client_flag(job, "paused"))
		printf(", paused");
	else if (client_number(job, "rate"))
		printf(", %s/s", cli_format_size(client_number(job, "rate"), c, sizeof(c)));
	if (!client_null(job, "eta"))
		printf(", %s left", duration(client_number(job, "eta"), d, sizeof(d)));
	if (client_number(job, "mismatches"))
		printf(", %" PRIu64 " blocks differed", client_number(job, "mismatches"));
	if (client_number(job, "repaired"))
		printf(", %" PRIu64 " of them put right", client_number(job, "repaired"));
	if (!client_null(job, "priority"))
		printf(", priority %" PRIu64, client_number(job, "priority"));
	if (!client_null(job, "member"))
		printf(", onto member %" PRIu64, client_number(job, "member"));
	if (client_number(job, "node") && client_number(job, "node") != client_number(client_object(array, "cluster"), "node"))
		printf(", by node %" PRIu64 ", which knows its rate", client_number(job, "node"));
	putchar('\n');
}

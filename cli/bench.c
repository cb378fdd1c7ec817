// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid bench: measures with fio how fast disks read, sequentially and at random, for ddraid estimate. Must never write to a disk.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "lib/disk/devio.h"

#define DEF_SECONDS	5
#define MAX_SECONDS	3600
#define OUTPUT_MAX	(1u << 20)
#define MIN_BYTES	(64u << 20)	/* a smaller area would only measure caches */
#define ALIGN		(1u << 20)

extern char **environ;

struct bench {
	uint64_t seconds;		/* of each measurement */
	bool json;
	char *output;			/* the output of fio, OUTPUT_MAX bytes */
};

struct figures {
	double begin, end;		/* sequential, in bytes a second, in the first and the last tenth */
	double iops;			/* 4 KiB random, with as many requests in parallel as a disk can use */
};

/* -------------------------------------------------- fio */

/* Reads everything from @fd, as text; what does not fit is dropped. */
static void read_all(int fd, char *buf)
{
	size_t n = 0;
	ssize_t got;

	while ((got = read(fd, buf + n, OUTPUT_MAX - 1 - n)) > 0 || (got < 0 && errno == EINTR))
		n += got > 0 ? (size_t)got : 0;
	buf[n] = '\0';
}

/* Runs fio with @argv and reads its output. Returns its exit code, or a negative errno. */
static int run(const char *const argv[], char *output)
{
	posix_spawn_file_actions_t actions;
	int fds[2], rc, status = 0;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
	rc = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);	/* posix_spawnp() does not modify argv */
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	if (!rc)
		read_all(fds[0], output);
	close(fds[0]);
	if (rc)
		return -rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* fio's figures for the reads of its only job: an object within *@root, which the caller puts; NULL: no such output. */
static struct json_object *parse(char *output, struct json_object **root)
{
	char *text = *output == '{' ? output : strstr(output, "\n{");	/* after its messages */
	struct json_object *jobs;

	*root = text ? json_tokener_parse(text) : NULL;
	jobs = client_object(*root, "jobs");
	return client_length(jobs) == 1 ? client_object(client_at(jobs, 0), "read") : NULL;
}

/* The last error message of fio, without its newline. */
static const char *complaint(char *output)
{
	char *line = NULL;

	for (char *p = output; (p = strstr(p, "fio: ")); p++)
		if (p == output || p[-1] == '\n')
			line = p;
	if (line)
		line[strcspn(line, "\n")] = '\0';
	return line ? line : "it printed nothing";
}

/* One measurement. @key: the figure to take from fio's output. */
static int measure(const struct bench *b, const char *path, uint64_t offset, uint64_t size, bool random, const char *key, double *out)
{
	char file[2 * PATH_MAX + 16], place[64], area[64], seconds[32], *to = file;
	const char *const argv[] = {
		"fio", "--name=ddraid-bench", file, "--readonly", "--direct=1", "--ioengine=libaio", "--time_based=1", seconds, place, area,
		random ? "--rw=randread" : "--rw=read", random ? "--bs=4k" : "--bs=1M", random ? "--iodepth=32" : "--iodepth=8",
		"--output-format=json", NULL
	};
	struct json_object *root, *read, *value;
	int rc;

	to += sprintf(to, "--filename=");
	for (const char *p = path; *p && to < file + sizeof(file) - 3; p++) {
		if (*p == ':' || *p == '\\')		/* fio separates file names by these */
			*to++ = '\\';
		*to++ = *p;
	}
	*to = '\0';
	snprintf(place, sizeof(place), "--offset=%" PRIu64, offset);
	snprintf(area, sizeof(area), "--size=%" PRIu64, size);
	snprintf(seconds, sizeof(seconds), "--runtime=%" PRIu64, b->seconds);
	rc = run(argv, b->output);
	if (rc == -ENOENT)
		return cli_fail("bench", "bench needs fio: apt install fio");
	if (rc)
		return cli_fail("bench", "fio cannot read %s: %s", path, rc < 0 ? strerror(-rc) : complaint(b->output));
	read = parse(b->output, &root);
	*out = read && json_object_object_get_ex(read, key, &value) ? json_object_get_double(value) : 0;
	json_object_put(root);
	return *out > 0 ? CLI_DONE : cli_fail("bench", "fio returned no result for %s: %s", path, complaint(b->output));
}

/* -------------------------------------------------- disks */

static int measure_disk(const struct bench *b, const char *path, struct figures *f)
{
	struct ddr_error err;
	struct ddr_dev dev;
	uint64_t tenth;
	int rc;

	if (strlen(path) >= PATH_MAX || ddr_dev_open(&dev, path, 0, &err))
		return cli_fail("bench", "%s", strlen(path) >= PATH_MAX ? "a name is too long" : err.text);
	tenth = dev.bytes / 10 / ALIGN * ALIGN;
	rc = dev.bytes < MIN_BYTES ? cli_fail("bench", "%s has %" PRIu64 " bytes; at least 64 MiB are needed to measure", path, dev.bytes) : CLI_DONE;
	if (!rc)
		rc = measure(b, path, 0, tenth, false, "bw_bytes", &f->begin);
	if (!rc)
		rc = measure(b, path, 9 * tenth, tenth, false, "bw_bytes", &f->end);
	if (!rc)
		rc = measure(b, path, 0, 10 * tenth, true, "iops", &f->iops);
	ddr_dev_close(&dev);
	return rc;
}

/* The average rate of a read from one end to the other. */
static double rate(const struct figures *f)
{
	return 2 / (1 / f->begin + 1 / f->end);
}

static void print_disk(const char *path, const struct figures *f)
{
	char begin[32], end[32];

	printf("%s: sequential %s/s at its start and %s/s at its end, random 4 KiB %.0f per second\n", client_clean(path),
	       cli_format_size((uint64_t)f->begin, begin, sizeof(begin)), cli_format_size((uint64_t)f->end, end, sizeof(end)), f->iops);
	fflush(stdout);
}

static struct json_object *disk_json(const char *path, const struct figures *f)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "device", json_object_new_string(path));
	json_object_object_add(o, "rate", json_object_new_double(rate(f)));
	json_object_object_add(o, "rate_begin", json_object_new_double(f->begin));
	json_object_object_add(o, "rate_end", json_object_new_double(f->end));
	json_object_object_add(o, "iops", json_object_new_double(f->iops));
	return o;
}

static int measure_all(const struct bench *b, char **paths, int n)
{
	struct json_object *list = json_object_new_array();
	double slowest = 0, fewest = 0;
	int rc = CLI_DONE;

	for (int i = 0; i < n && !rc; i++) {
		struct figures f = { 0 };

		rc = measure_disk(b, paths[i], &f);
		if (rc)
			break;
		if (b->json)
			json_object_array_add(list, disk_json(paths[i], &f));
		else
			print_disk(paths[i], &f);
		slowest = i && slowest < rate(&f) ? slowest : rate(&f);
		fewest = i && fewest < f.iops ? fewest : f.iops;
	}
	if (!rc && b->json)
		cli_print_json(json_object_get(list));
	else if (!rc)
		printf("an array is as fast as its slowest member: ddraid estimate ... --rate %.0f --iops %.0f\n", slowest, fewest < 1 ? 1 : fewest);
	json_object_put(list);
	return rc ? rc : cli_finish("bench");
}

int cmd_bench(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = { { "seconds", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' }, { 0 } };
	struct bench b = { .seconds = DEF_SECONDS };
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 's' && !cli_parse_uint(optarg, 1, MAX_SECONDS, &b.seconds))
			return cli_usage(cmd, "--seconds must be 1 to %d, not '%s'", MAX_SECONDS, optarg);
		if (c != 's' && c != 'j')
			return cli_bad_option(cmd, c, argv);
		b.json |= c == 'j';
	}
	if (optind == argc)
		return cli_usage(cmd, "give the disks to read");
	b.output = malloc(OUTPUT_MAX);
	if (!b.output)
		return cli_fail("bench", "out of memory");
	rc = measure_all(&b, argv + optind, argc - optind);
	free(b.output);
	return rc;
}

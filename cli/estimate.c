// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid estimate: estimates speed and reliability of an array that exists, or of one that does not exist yet, from the figures of
 * its slowest member. It only computes (lib/estimate.c), and touches no disk.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "lib/conf.h"
#include "lib/disk/layout.h"
#include "lib/estimate.h"

#define MAX_HOURS	(10 * 8766.0)
#define MAX_RATE	(1ull << 50)
#define MAX_IOPS	1000000000.0
#define REGIONS		1000u		/* dirty regions assumed after a crash */

struct estimate {
	const char *name;		/* NULL: an array that does not exist yet */
	struct ddr_estimate_in in;
	int order, layout;		/* -1: not given */
	bool shape_given, json;
};

/* -------------------------------------------------- arguments */

enum option_id { O_ORDER = 256, O_PARITY, O_LAYOUT, O_SIZE, O_RATE, O_WRITE_RATE, O_IOPS, O_WRITE_IOPS, O_WRITTEN, O_AFR, O_UNREADABLE, O_WAIT, O_JSON };

static const struct option options[] = {
	{ "order", required_argument, NULL, O_ORDER },
	{ "parity", required_argument, NULL, O_PARITY },
	{ "layout", required_argument, NULL, O_LAYOUT },
	{ "member-size", required_argument, NULL, O_SIZE },
	{ "rate", required_argument, NULL, O_RATE },
	{ "write-rate", required_argument, NULL, O_WRITE_RATE },
	{ "iops", required_argument, NULL, O_IOPS },
	{ "write-iops", required_argument, NULL, O_WRITE_IOPS },
	{ "written", required_argument, NULL, O_WRITTEN },
	{ "afr", required_argument, NULL, O_AFR },
	{ "unreadable", required_argument, NULL, O_UNREADABLE },
	{ "wait", required_argument, NULL, O_WAIT },
	{ "json", no_argument, NULL, O_JSON },
	{ 0 },
};

/* Options that describe the array. */
static int take_shape(const struct cli_command *cmd, int c, struct estimate *e)
{
	uint64_t n;

	e->shape_given = true;
	switch (c) {
	case O_ORDER:
		if (!cli_parse_uint(optarg, 0, DDR_MAX_ORDER, &n))
			return cli_usage(cmd, "--order must be 0, 1, 2 or 3 (1, 2, 4 or 8 data members), not '%s'", optarg);
		e->order = (int)n;
		break;
	case O_PARITY:
		if (!cli_parse_uint(optarg, 0, DDR_MAX_PARITY, &n))
			return cli_usage(cmd, "--parity must be 0, 1 or 2, not '%s'", optarg);
		e->in.parity = (uint8_t)n;
		break;
	case O_LAYOUT:
		if (strcmp(optarg, "dedicated") && strcmp(optarg, "rotating"))
			return cli_usage(cmd, "--layout must be dedicated or rotating, not '%s'", optarg);
		e->layout = strcmp(optarg, "rotating") ? DDR_LAYOUT_DEDICATED : DDR_LAYOUT_ROTATING;
		break;
	default:
		if (!cli_parse_size(optarg, &e->in.member_bytes) || !e->in.member_bytes)
			return cli_usage(cmd, "--member-size must be a size such as 4T, not '%s'", optarg);
	}
	return CLI_DONE;
}

static int take_rate(const struct cli_command *cmd, const char *option, double *out)
{
	uint64_t n;

	if (!cli_parse_size(optarg, &n) || !n || n > MAX_RATE)
		return cli_usage(cmd, "%s must be bytes per second, such as 180M, not '%s'", option, optarg);
	*out = (double)n;
	return CLI_DONE;
}

static int take_real(const struct cli_command *cmd, const char *what, double min, double max, double unit, double *out)
{
	if (!cli_parse_real(optarg, min, max, out))
		return cli_usage(cmd, "%s, not '%s'", what, optarg);
	*out *= unit;
	return CLI_DONE;
}

static int take(const struct cli_command *cmd, int c, char **argv, struct estimate *e)
{
	switch (c) {
	case O_ORDER:
	case O_PARITY:
	case O_LAYOUT:
	case O_SIZE:
		return take_shape(cmd, c, e);
	case O_RATE:
		return take_rate(cmd, "--rate", &e->in.read_rate);
	case O_WRITE_RATE:
		return take_rate(cmd, "--write-rate", &e->in.write_rate);
	case O_IOPS:
		return take_real(cmd, "--iops must be a number from 1", 1, MAX_IOPS, 1, &e->in.read_iops);
	case O_WRITE_IOPS:
		return take_real(cmd, "--write-iops must be a number from 1", 1, MAX_IOPS, 1, &e->in.write_iops);
	case O_WRITTEN:
		return take_real(cmd, "--written must be above 0 and at most 100 (percent)", 0.001, 100, 0.01, &e->in.written);
	case O_AFR:
		return take_real(cmd, "--afr must be above 0 and at most 99 (percent of such disks that fail per year)", 0.0001, 99, 0.01,
				 &e->in.afr);
	case O_UNREADABLE:
		return take_real(cmd, "--unreadable must be a chance per bit, such as 1e-15", 0, 0.1, 1, &e->in.unreadable);
	case O_WAIT:
		return take_real(cmd, "--wait must be 0 to 87660 hours", 0, MAX_HOURS, 3600, &e->in.wait_s);
	case O_JSON:
		e->json = true;
		return CLI_DONE;
	}
	return cli_bad_option(cmd, c, argv);
}

static int parse(const struct cli_command *cmd, int argc, char **argv, struct estimate *e)
{
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		rc = take(cmd, c, argv, e);
		if (rc)
			return rc;
	}
	e->name = argv[optind];
	if (argc - optind > 1)
		return cli_usage(cmd, "give one name, not %d", argc - optind);
	if (e->name && e->shape_given)
		return cli_usage(cmd, "--order, --parity, --layout and --member-size describe an array that does not exist yet; '%s' has its own",
				 e->name);
	if (!e->name && (e->order < 0 || !e->in.member_bytes))
		return cli_usage(cmd, "give the name of an array, or --order and --member-size");
	if (!e->in.read_rate)
		return cli_usage(cmd, "--rate is missing: how much the slowest member reads, in bytes per second");
	if (!e->in.afr && (e->in.unreadable || e->in.wait_s))
		return cli_usage(cmd, "--unreadable and --wait need --afr");
	if (!e->in.write_rate)
		e->in.write_rate = e->in.read_rate;
	if (!e->in.write_iops)
		e->in.write_iops = e->in.read_iops;
	return CLI_DONE;
}

/* -------------------------------------------------- the array */

static int shape_of_request(struct estimate *e)
{
	struct ddr_layout_request req = {
		.member_bytes = e->in.member_bytes, .order = (uint8_t)e->order, .parity = e->in.parity,
		.layout = e->layout >= 0 ? (uint8_t)e->layout : ddr_layout_default((uint64_t)e->order, e->in.parity), .slots = DDR_DEF_SLOTS,
		.leave = true, .owners = true,
	};
	struct ddr_super sb = { 0 };
	struct ddr_error err;

	if (ddr_layout_compute(&req, &sb, &err))
		return cli_fail("estimate", "%s", err.text);
	e->in.order = req.order;
	e->in.layout = req.layout;
	e->in.array_bytes = sb.array_blocks * DDR_BLOCK_SIZE;
	e->in.region_size = sb.region_size;
	return CLI_DONE;
}

/* The rate that resync, rebuild and replace get while the array is in use. */
static int busy_rate(struct ddr_ipc *ipc, struct estimate *e)
{
	char err[DDR_CONF_ERROR_MAX];
	struct json_object *data;
	struct ddr_conf conf;
	const char *text;

	if (!client_call(ipc, "estimate", client_request("settings", e->name), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	ddr_conf_defaults(&conf);
	text = client_text(data, "resync_min_rate");
	if (*text && ddr_conf_set(&conf, "resync_min_rate", text, true, err, sizeof(err)) == 0)
		e->in.busy_rate = (double)conf.tune.resync_min;
	json_object_put(data);
	return CLI_DONE;
}

static int shape_of_array(struct ddr_ipc *ipc, struct estimate *e)
{
	struct json_object *data, *a;
	uint64_t order, parity;

	if (!client_call(ipc, "estimate", client_request("status", e->name), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	a = client_at(data, 0);
	order = client_number(a, "order");
	parity = client_number(a, "parity");
	e->in.array_bytes = client_number(a, "size");
	e->in.region_size = (uint32_t)client_number(a, "region_size");
	e->in.layout = strcmp(client_text(a, "layout"), "rotating") ? DDR_LAYOUT_DEDICATED : DDR_LAYOUT_ROTATING;
	json_object_put(data);
	if (order > DDR_MAX_ORDER || parity > DDR_MAX_PARITY || !e->in.array_bytes || !e->in.region_size)
		return cli_fail("estimate", "ddraidd sent no geometry of '%s': daemon and command are from different releases; systemctl restart "
					    "ddraidd", e->name);
	e->in.order = (uint8_t)order;
	e->in.parity = (uint8_t)parity;
	return busy_rate(ipc, e);
}

static int find_shape(struct estimate *e)
{
	struct ddr_conf conf;
	struct ddr_ipc *ipc;
	int rc;

	ddr_conf_defaults(&conf);
	e->in.busy_rate = (double)conf.tune.resync_min;
	if (!e->name)
		return shape_of_request(e);
	ipc = client_connect("estimate");
	if (!ipc)
		return CLI_FAILED;
	rc = shape_of_array(ipc, e);
	ddr_ipc_close(ipc);
	return rc;
}

/* -------------------------------------------------- output */

static const char *rate_text(double rate, char *buf, size_t size)
{
	return cli_format_size((uint64_t)(rate + 0.5), buf, size);
}

static void print_rates(const char *what, const double rate[2])
{
	char low[32], high[32];

	rate_text(rate[0], low, sizeof(low));
	rate_text(rate[1], high, sizeof(high));
	if (strcmp(low, high) == 0)
		printf("%s %s/s", what, low);
	else
		printf("%s %s/s to %s/s", what, low, high);
}

static void print_iops(const char *what, const double iops[2])
{
	if (iops[0] + 0.5 >= iops[1])
		printf("%s %.0f a second", what, iops[0]);
	else
		printf("%s %.0f to %.0f a second", what, iops[0], iops[1]);
}

static void print_speeds(const struct ddr_estimate_in *in, const struct ddr_estimate *o)
{
	char buf[32];

	print_rates("  sequential     read", o->read_rate);
	printf(", write %s/s\n", rate_text(o->write_rate, buf, sizeof(buf)));
	if (in->read_iops) {
		print_iops("  random 4 KiB   read", o->read_iops);
		printf(", write %.0f: each block is spread over all data disks, so all of them seek for it\n", o->write_iops);
	}
	if (!in->parity)
		return;
	print_rates("  one disk less  read", o->degraded_rate);
	if (in->read_iops)
		print_iops(",", o->degraded_iops);
	putchar('\n');
}

static const char *seconds(double s, char *buf, size_t size)
{
	return cli_format_duration((uint64_t)(s + 0.5), buf, size);
}

static void print_jobs(const struct ddr_estimate_in *in, const struct ddr_estimate *o)
{
	char a[32], b[32], c[32];

	if (!in->parity) {
		printf("  no parity: the array is lost when any disk fails\n");
		return;
	}
	printf("  rebuild        %s while the array is idle; %s under constant load (resync_min_rate %s)\n",
	       seconds(o->rebuild_s, a, sizeof(a)), seconds(o->rebuild_busy_s, b, sizeof(b)), rate_text(in->busy_rate, c, sizeof(c)));
	printf("  verify         %s while the array is idle; under constant load %s at priority 1 and %s at 5\n",
	       seconds(o->verify_s, a, sizeof(a)), seconds(o->verify_busy_s[0], b, sizeof(b)), seconds(o->verify_busy_s[4], c, sizeof(c)));
	printf("  after a crash  %s for %u regions of %s that were being written\n", seconds(o->resync_region_s * REGIONS, a, sizeof(a)), REGIONS,
	       cli_format_size(in->region_size, b, sizeof(b)));
}

static void print_dangers(const struct ddr_estimate_in *in, const struct ddr_estimate *o)
{
	if (!in->afr)
		return;
	printf("  in a year      more disks fail than the parity covers: %.2g %%", o->array_lost * 100);
	if (in->parity && in->unreadable)
		printf("; a rebuild hits blocks that are unreadable and not reconstructible: %.2g %%", o->block_lost * 100);
	putchar('\n');
}

static void print(const struct estimate *e, const struct ddr_estimate *o)
{
	const struct ddr_estimate_in *in = &e->in;
	char size[32];

	printf("%s%sorder %u, parity %u, %s: %u disks, %u of them may fail\n", e->name ? e->name : "", e->name ? ": " : "", in->order, in->parity,
	       in->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated", o->members, o->may_fail);
	printf("  size           %s, %u of %u disks\n", cli_format_size(in->array_bytes, size, sizeof(size)), o->data, o->members);
	print_speeds(in, o);
	print_jobs(in, o);
	print_dangers(in, o);
}

static void add(struct json_object *o, const char *key, double value)
{
	json_object_object_add(o, key, json_object_new_double(value));
}

static void add_pair(struct json_object *o, const char *key, const double value[2])
{
	struct json_object *pair = json_object_new_array();

	json_object_array_add(pair, json_object_new_double(value[0]));
	json_object_array_add(pair, json_object_new_double(value[1]));
	json_object_object_add(o, key, pair);
}

static struct json_object *as_json(const struct estimate *e, const struct ddr_estimate *r)
{
	struct json_object *o = json_object_new_object(), *busy = json_object_new_array();
	const struct ddr_estimate_in *in = &e->in;

	json_object_object_add(o, "name", e->name ? json_object_new_string(e->name) : NULL);
	json_object_object_add(o, "order", json_object_new_int(in->order));
	json_object_object_add(o, "parity", json_object_new_int(in->parity));
	json_object_object_add(o, "layout", json_object_new_string(in->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated"));
	json_object_object_add(o, "members", json_object_new_int64(r->members));
	json_object_object_add(o, "size", json_object_new_uint64(in->array_bytes));
	json_object_object_add(o, "region_size", json_object_new_int64(in->region_size));
	add_pair(o, "read_rate", r->read_rate);
	add(o, "write_rate", r->write_rate);
	add_pair(o, "read_iops", r->read_iops);
	add(o, "write_iops", r->write_iops);
	add_pair(o, "degraded_read_rate", r->degraded_rate);
	add_pair(o, "degraded_read_iops", r->degraded_iops);
	add(o, "rebuild_s", r->rebuild_s);
	add(o, "rebuild_busy_s", r->rebuild_busy_s);
	add(o, "verify_s", r->verify_s);
	for (unsigned int i = 0; i < sizeof(r->verify_busy_s) / sizeof(r->verify_busy_s[0]); i++)
		json_object_array_add(busy, json_object_new_double(r->verify_busy_s[i]));
	json_object_object_add(o, "verify_busy_s", busy);
	add(o, "resync_region_s", r->resync_region_s);
	json_object_object_add(o, "array_lost", in->afr ? json_object_new_double(r->array_lost) : NULL);
	json_object_object_add(o, "block_lost", in->afr && in->parity ? json_object_new_double(r->block_lost) : NULL);
	return o;
}

int cmd_estimate(const struct cli_command *cmd, int argc, char **argv)
{
	struct estimate e = { .order = -1, .layout = -1, .in = { .parity = 1, .written = 1 } };
	struct ddr_estimate out;
	int rc = parse(cmd, argc, argv, &e);

	if (!rc)
		rc = find_shape(&e);
	if (rc)
		return rc;
	ddr_estimate(&e.in, &out);
	if (e.json)
		cli_print_json(as_json(&e, &out));
	else
		print(&e, &out);
	return cli_finish("estimate");
}

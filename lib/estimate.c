// SPDX-License-Identifier: LGPL-2.1-or-later
/* What to expect of an array. See estimate.h. */
#include <math.h>
#include <string.h>

#include "lib/disk/format.h"
#include "lib/estimate.h"
#include "lib/priority.h"

#define YEAR_S		(365.25 * 86400)
/* The share of the slowest member's streaming rate that rebuild, verify and resync reach: measured, see doc/performance.md. */
#define JOBS_GET	0.95

static double lesser(double a, double b)
{
	return a < b ? a : b;
}

/*
 * Every block lies on all data members, so each request moves all of them. With a rotating layout each member is left
 * out of some units in sequential reads, and of some blocks in random reads.
 */
static void speeds(const struct ddr_estimate_in *in, struct ddr_estimate *e)
{
	double spread = in->layout == DDR_LAYOUT_ROTATING ? (double)e->members / e->data : 1;
	double without_one = in->layout == DDR_LAYOUT_ROTATING ? (double)(e->members - 1) / e->data : 1;

	e->read_rate[0] = e->data * in->read_rate;
	e->read_rate[1] = e->read_rate[0] * spread;
	e->write_rate = e->data * in->write_rate;
	e->read_iops[0] = in->read_iops;
	e->read_iops[1] = in->read_iops * spread;
	e->write_iops = in->write_iops;
	if (!in->parity)
		return;
	e->degraded_rate[0] = e->read_rate[0];
	e->degraded_rate[1] = e->read_rate[0] * without_one;
	e->degraded_iops[0] = in->read_iops;
	e->degraded_iops[1] = in->read_iops * without_one;
}

static void jobs(const struct ddr_estimate_in *in, struct ddr_estimate *e)
{
	double slower = lesser(in->read_rate, in->write_rate) * JOBS_GET;
	double bytes = (double)in->array_bytes / e->data * in->written;		/* on each member */

	if (!in->parity)
		return;
	e->resync_region_s = (double)in->region_size / e->data / slower;
	e->rebuild_s = bytes / slower;
	e->rebuild_busy_s = bytes / lesser(slower, in->busy_rate / e->data);
	e->verify_s = bytes / (in->read_rate * JOBS_GET);
	for (unsigned int i = 0; i < DDR_PRIORITY_LAST; i++)
		e->verify_busy_s[i] = e->verify_s * 100 / ddr_priority_share(i + 1);
}

/* The chance that something with this rate per second happens within a year. */
static double within_a_year(double per_s)
{
	return -expm1(-per_s * YEAR_S);
}

/*
 * Members fail independently and without memory, and failed ones are rebuilt one after the other: the usual Markov
 * chain. The rate at which one member more fails than the array tolerates is then the rate of the first failure times
 * the chance, for each further one, that it comes before the rebuild of the one before has ended. See Chen, Lee,
 * Gibson, Katz and Patterson, "RAID: High-Performance, Reliable Secondary Storage", ACM Computing Surveys 26(2),
 * 1994.
 */
static void dangers(const struct ddr_estimate_in *in, struct ddr_estimate *e)
{
	double fails = -log1p(-in->afr) / YEAR_S;	/* of one member, per second */
	double exposed_s = e->rebuild_s + in->wait_s;
	double bits = (double)in->array_bytes * in->written * 8;	/* what a rebuild reads, of all data */
	double comes = e->members * fails;		/* rate at which a state with this many failed members is reached */

	if (in->afr <= 0)
		return;
	for (uint32_t out = 1; out < in->parity; out++)
		comes *= lesser((e->members - out) * fails * exposed_s, 1);
	if (in->parity) {
		e->block_lost = within_a_year(comes * -expm1(bits * log1p(-in->unreadable)));
		comes *= lesser((e->members - in->parity) * fails * exposed_s, 1);
	}
	e->array_lost = within_a_year(comes);
}

void ddr_estimate(const struct ddr_estimate_in *in, struct ddr_estimate *out)
{
	memset(out, 0, sizeof(*out));
	out->data = 1u << in->order;
	out->members = out->data + in->parity;
	out->may_fail = in->parity;
	speeds(in, out);
	jobs(in, out);
	dangers(in, out);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* The rig of job-rig.h. It does not check what the jobs write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "tests/unit/job-rig.h"

uint64_t ddr_now_ms(void)
{
	return 1000;
}

static void on_job(void *ctx, const struct ddr_job_result *r)
{
	struct rig *rig = ctx;

	rig->result = *r;
	rig->done = true;
	qb_loop_stop(rig->loop);
}

static void on_meta(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space)
{
	struct rig *rig = ctx;

	(void)kind;
	assert_int_equal(io, 77);
	rig->meta_failed = failed;
	rig->meta_returned = ddr_metaio_returned(rig->meta);
	rig->meta_no_space = no_space;
	rig->meta_blamed |= failed;
	rig->meta_reports++;
	rig->done = true;
	qb_loop_stop(rig->loop);
}

size_t area(const struct rig *rig)
{
	return (size_t)BLOCKS * rig->geo.chunk;
}

void make_member(struct rig *rig, unsigned int m)
{
	char path[48];
	struct ddr_error err;
	int fd;

	snprintf(path, sizeof(path), "%s/ddraid-job-XXXXXX", fixture_dir("/tmp"));
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, DATA_OFFSET + (off_t)area(rig) + DDR_TAIL_BYTES), 0);
	rig->before[m] = aligned_alloc(4096, area(rig));
	for (size_t i = 0; i < area(rig); i++)
		rig->before[m][i] = (uint8_t)random();
	assert_int_equal(pwrite(fd, rig->before[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
	close(fd);
	assert_int_equal(ddr_dev_open(&rig->members->dev[m], path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	rig->members->open |= 1u << m;
	unlink(path);
}

static uint32_t valid(void *ctx)
{
	return ~((const struct rig *)ctx)->gone;
}

static void on_unable(void *ctx, int error)
{
	struct rig *rig = ctx;

	rig->unable = error;
}

void rig_open(struct rig *rig, unsigned int order, unsigned int parity, unsigned int layout, uint64_t engine)
{
	memset(rig, 0, sizeof(*rig));
	assert_true(ddr_geo_init(&rig->geo, order, parity, layout));
	rig->sb.order = (uint8_t)order;
	rig->sb.parity = (uint8_t)parity;
	rig->sb.layout = (uint8_t)layout;
	rig->sb.data_offset = DATA_OFFSET;
	rig->sb.array_blocks = BLOCKS;
	rig->loop = qb_loop_create();
	rig->members = ddr_members_new();
	rig->members->n = rig->geo.roles;
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		make_member(rig, m);
	assert_int_equal(ddr_jobs_open(&rig->jobs, &(struct ddr_jobs_config){ .loop = rig->loop, .engine = engine,
				       .members = rig->members, .super = &rig->sb, .stock = &rig->stock, .done = on_job, .unable = on_unable, .valid = valid, .ctx = rig }), 0);
	assert_int_equal(ddr_metaio_open(&rig->meta, &(struct ddr_metaio_config){ .loop = rig->loop, .engine = engine,
				  .operations = 8, .members = rig->members, .still = &rig->still, .done = on_meta, .unable = on_unable, .ctx = rig }), 0);
}

void rig_close(struct rig *rig)
{
	ddr_jobs_close(rig->jobs);
	ddr_metaio_close(rig->meta);
	ddr_members_put(rig->members);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		free(rig->before[m]);
	qb_loop_destroy(rig->loop);
}

void run(struct rig *rig, struct ddr_job_range *r)
{
	r->io = 5;
	rig->done = false;
	ddr_jobs_range(rig->jobs, r, 1000, 60000);
	ddr_jobs_tick(rig->jobs, 1001);
	if (!rig->done)
		qb_loop_run(rig->loop);
	assert_true(rig->done);
	assert_int_equal(rig->result.io, 5);
}

void job(struct rig *rig, uint32_t members, uint64_t start, uint64_t count, bool repair)
{
	/* a range that only reads runs as verify does: the result has to be the same */
	struct ddr_job_range r = { .start = start, .count = count, .members = members, .repair = repair, .unlocked = !repair, .idle = !repair };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	run(rig, &r);
	assert_int_equal(rig->result.scan, !repair);
}

static void loop_stops(void *data)
{
	qb_loop_stop(data);
}

void loop_for(struct rig *rig, unsigned int ms)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(rig->loop, QB_LOOP_LOW, ms * QB_TIME_NS_IN_MSEC, rig->loop, loop_stops, &timer), 0);
	qb_loop_run(rig->loop);
	qb_loop_timer_del(rig->loop, timer);
}

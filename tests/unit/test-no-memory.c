// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon without free memory: it may be asked for a grant because the kernel wants to write pages back to get memory. From READY
 * on every allocation in its code fails here, yet grants, clearing marks, a resync and a member failure still work.
 */
#include "tests/unit/served-rig.h"

#define MEMBER_BYTES	(64ull << 20)
#define REGIONS		32u
#define GIVE_UP_MS	20000u	/* of waiting for anything here */

static struct {
	bool on;
	unsigned int refused;		/* allocations */
	bool (*reached)(void);
} without;

/* ---- memory ---------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);

static bool refuse(void)
{
	without.refused += without.on;
	return without.on;
}

void *__wrap_malloc(size_t size)
{
	return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return refuse() ? NULL : __real_realloc(p, size);
}

int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
	return refuse() ? ENOMEM : __real_posix_memalign(p, align, size);
}

/* ---- the loop -------------------------------------------------------------------- */

static void on_tick(void *data)
{
	qb_loop_timer_handle timer;

	(void)data;
	play.now += 10;
	ddr_drive_tick(&a, play.now);
	if (without.reached() || play.now >= GIVE_UP_MS)
		qb_loop_stop(play.loop);
	else
		assert_int_equal(qb_loop_timer_add(play.loop, QB_LOOP_LOW, 2 * QB_TIME_NS_IN_MSEC, NULL, on_tick, &timer), 0);
}

static void until(bool (*reached)(void))
{
	qb_loop_timer_handle timer;

	without.reached = reached;
	assert_int_equal(qb_loop_timer_add(play.loop, QB_LOOP_LOW, 2 * QB_TIME_NS_IN_MSEC, NULL, on_tick, &timer), 0);
	qb_loop_run(play.loop);
	assert_true(reached());
	assert_int_equal(without.refused, 0);
	assert_null(a.broken);
}

static bool is_ready(void)
{
	return play.ready;
}

static bool all_granted(void)
{
	return play.granted == (1ull << REGIONS) - 1;
}

static bool all_clear(void)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(a.sm, &st);
	return st.dirty == 0 && st.needs_sync == 0 && st.clean == REGIONS;
}

static bool is_out(void)
{
	return play.resolved && play.out;
}

/* Outstanding requests at the stop are freed when they end, and no loop runs any more then. */
static bool is_idle(void)
{
	return ddr_metaio_idle(a.meta) && ddr_jobs_idle(a.jobs);
}

static void no_memory_with(uint64_t engine)
{
	struct ddr_sm_status st;
	struct ddr_super sb;

	memset(&without, 0, sizeof(without));
	begin(engine);
	fixture_super(&sb, 2, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	start(&a, &sb, MEMBER_BYTES);
	kernel_says((struct ddr_rec){ .type = DDR_K_HELD_END, .member = DDR_NO_MEMBER });
	until(is_ready);

	without.on = true;
	for (uint64_t r = 0; r < REGIONS; r++)		/* each one a request of its own: as many log writes as it likes */
		kernel_says((struct ddr_rec){ .type = DDR_K_LOCK, .seq = r + 1, .start = r, .count = 1, .member = DDR_NO_MEMBER });
	until(all_granted);
	kernel_says((struct ddr_rec){ .type = DDR_K_CLOSED, .start = 0, .count = REGIONS, .member = DDR_NO_MEMBER });
	until(all_clear);				/* flushed, in the map, cleared, and synced for the first time */
	kernel_says((struct ddr_rec){ .type = DDR_K_ERROR, .seq = 1, .member = 2, .status = DDR_EC_IO, .start = 3, .count = 1,
				      .arg = { DDR_OP_WRITE } });
	until(is_out);
	ddr_sm_get_status(a.sm, &st);
	assert_int_equal(st.member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(st.generation, 2);
	without.on = false;

	until(is_idle);
	ddr_drive_stop(&a);
	free(d.outs);
	ddr_kchan_close(a.chan);
	close(play.peer);
	qb_loop_destroy(d.loop);
}

static void no_memory_with_the_best_engine(void **state)
{
	(void)state;
	no_memory_with(DDR_ENGINE_AUTO);
}

static void no_memory_with_threads(void **state)
{
	(void)state;
	no_memory_with(DDR_ENGINE_THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_with_the_best_engine),
		cmocka_unit_test(no_memory_with_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The simulated members and all I/O on them: a part of drive-fixture.h, which includes it after the declaration of the simulation. */
#ifndef DDR_TESTS_UNIT_DRIVE_MEMBERS_H
#define DDR_TESTS_UNIT_DRIVE_MEMBERS_H

int ddr_metaio_open(struct ddr_metaio **out, const struct ddr_metaio_config *cfg)
{
	play.meta = *cfg;
	*out = NULL;
	return 0;
}

void ddr_metaio_close(struct ddr_metaio *m)
{
	(void)m;
}

int ddr_metaio_prepare(struct ddr_metaio *m, unsigned int member)
{
	(void)m, (void)member;
	return play.prepare_fails ? -ENOMEM : 0;
}

struct ddr_meta_op *ddr_metaio_get(struct ddr_metaio *m, enum ddr_metaio_kind kind, uint64_t io, uint32_t members)
{
	(void)m, (void)io, (void)members;
	assert_true(play.super_writes && kind == DDR_META_SB);
	return NULL;
}

void *ddr_metaio_block(struct ddr_meta_op *op, unsigned int member)
{
	(void)op, (void)member;
	return NULL;
}

void ddr_metaio_at(struct ddr_meta_op *op, uint64_t offset)
{
	(void)op, (void)offset;
}

void ddr_metaio_supers(struct ddr_meta_op *op, const struct ddr_super *now, const struct ddr_super *next)
{
	(void)op, (void)now, (void)next;
}

void ddr_metaio_whose(struct ddr_meta_op *op, const uint8_t (*cluster)[DDR_UUID_LEN], unsigned int n, uint64_t generation, const struct ddr_super *loaded)
{
	(void)op, (void)cluster, (void)n, (void)generation, (void)loaded;
}

struct ddr_fault ddr_metaio_owners(struct ddr_meta_op *op, const struct ddr_owners *owners, const struct ddr_super *next)
{
	(void)op;
	play.pages = *owners;
	play.pages_given++;
	return ddr_owners_check(owners, next);
}

void ddr_metaio_refuse(struct ddr_meta_op *op)
{
	(void)op;
	play.refused++;
}

void ddr_metaio_run(struct ddr_meta_op *op, uint64_t now_ms, uint64_t timeout_ms)
{
	(void)op, (void)now_ms, (void)timeout_ms;
}

bool ddr_metaio_stamp(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb)
{
	(void)m, (void)stamp, (void)sb;
	play.stamps_begun |= 1u << member;
	return false;
}

bool ddr_metaio_look(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb)
{
	(void)m, (void)stamp, (void)sb;
	play.looked_at |= 1u << member;
	return true;
}

uint32_t ddr_metaio_stamped(const struct ddr_metaio *m)
{
	(void)m;
	return play.stamped;
}

bool ddr_metaio_stamping(const struct ddr_metaio *m, unsigned int member, uint64_t *ended)
{
	(void)m, (void)member;
	*ended = 0;
	return false;
}

void ddr_metaio_stamp_afresh(struct ddr_metaio *m, unsigned int member)
{
	(void)m, (void)member;
}

void ddr_metaio_kick(struct ddr_metaio *m)
{
	(void)m;
}

void ddr_metaio_tick(struct ddr_metaio *m, uint64_t now_ms)
{
	(void)m, (void)now_ms;
}

void ddr_metaio_delay(struct ddr_metaio *m, uint64_t ms)
{
	(void)m;
	play.meta_delay += ms;
}

void ddr_metaio_delay_held(struct ddr_metaio *m, uint64_t ms)
{
	(void)m;
	play.meta_delay += ms;
}

const char *ddr_metaio_engine(const struct ddr_metaio *m)
{
	(void)m;
	return "none";
}

int ddr_jobs_open(struct ddr_jobs **out, const struct ddr_jobs_config *cfg)
{
	(void)cfg;
	*out = NULL;
	return 0;
}

void ddr_jobs_close(struct ddr_jobs *j)
{
	(void)j;
}

void ddr_jobs_range(struct ddr_jobs *j, const struct ddr_job_range *r, uint64_t now_ms, uint64_t timeout_ms)
{
	(void)j, (void)r, (void)now_ms, (void)timeout_ms;
}

void ddr_jobs_delay(struct ddr_jobs *j, uint64_t ms)
{
	(void)j;
	play.jobs_delay += ms;
}

bool ddr_jobs_idle(const struct ddr_jobs *j)
{
	(void)j;
	return true;
}

void ddr_jobs_tick(struct ddr_jobs *j, uint64_t now_ms)
{
	(void)j, (void)now_ms;
}

void ddr_members_get(struct ddr_members *m)
{
	m->refs++;
}

void ddr_members_put(struct ddr_members *m)
{
	if (m)
		m->refs--;
}

void ddr_members_keep(struct ddr_members *m, enum ddr_members_user user, uint32_t members)
{
	assert_int_equal(user, DDR_MEMBERS_GROW);
	m->kept[user] = members;
	play.kept_growing = members;
}

void ddr_members_end(struct ddr_members *m, struct ddr_members **all)
{
	(void)m;
	(void)all;
	play.ends++;
}

int ddr_members_fd(const struct ddr_members *m, unsigned int i)
{
	return m->open >> i & 1 ? 100 + (int)i : -1;
}

uint32_t ddr_members_settle_ms(const struct ddr_members *m, const struct ddr_conf *conf)
{
	(void)m;
	return ddr_conf_settle_ms(conf, true);
}

uint32_t ddr_members_by_device(const struct ddr_members *m, uint32_t major, uint32_t minor)
{
	for (unsigned int i = 0; i < m->n; i++)
		if (m->major[i] == major && m->minor[i] == minor)
			return i;
	return DDR_NO_MEMBER;
}

void ddr_members_own_again(struct ddr_members *m, unsigned int i)
{
	m->exchanged &= ~(1u << i);
}

bool ddr_members_replace(struct ddr_members *m, unsigned int i, struct ddr_dev *dev)
{
	m->n_old++;
	m->open &= ~(1u << i);
	m->major[i] = m->minor[i] = 0;
	if (!dev) {
		play.let_go |= 1u << i;
		return true;
	}
	play.replaced |= 1u << i;
	m->open |= 1u << i;
	m->dev[i].rdev = dev->rdev;
	m->major[i] = major(dev->rdev);
	m->minor[i] = minor(dev->rdev);
	dev->fd = -1;
	return true;
}

void ddr_members_close_old(struct ddr_members *m, unsigned int i)
{
	m->old[i] = m->old[--m->n_old];
}

bool ddr_metaio_idle(const struct ddr_metaio *m)
{
	(void)m;
	return !play.busy;
}

bool ddr_metaio_quiet(const struct ddr_metaio *m)
{
	return ddr_metaio_idle(m);
}

void ddr_metaio_take_back(struct ddr_metaio *m)
{
	(void)m;
	play.taken_back++;
}

uint32_t ddr_metaio_returned(const struct ddr_metaio *m)
{
	(void)m;
	return 0;
}

uint32_t ddr_metaio_asked(const struct ddr_metaio *m)
{
	(void)m;
	return play.meta_asked;
}

uint32_t ddr_jobs_asked(const struct ddr_jobs *j)
{
	(void)j;
	return play.jobs_asked;
}

uint32_t ddr_metaio_writes(const struct ddr_metaio *m)
{
	(void)m;
	return play.meta_writes;
}

uint32_t ddr_jobs_writes(const struct ddr_jobs *j)
{
	(void)j;
	return play.jobs_writes;
}

uint32_t ddr_members_late(const struct ddr_members *all, const uint8_t array[16])
{
	(void)all;
	return array[0] == 1 ? play.late : 0;	/* a test may have a second array */
}

bool ddr_jobs_use(const struct ddr_jobs *j, int fd)
{
	(void)j;
	return play.jobs_fd && fd == play.jobs_fd;
}

int ddr_grow_start(struct ddr_grow *g, qb_loop_t *loop)
{
	(void)loop;
	play.grow[g->member] = g;
	return play.grow_fails;
}

void ddr_grow_free(struct ddr_grow *g)
{
	free(g);
}

uint64_t ddr_grow_bytes(const struct ddr_super *sb, uint64_t blocks)
{
	(void)sb;
	return blocks;
}

void ddr_jobs_resize(struct ddr_jobs *j, uint64_t blocks)
{
	(void)j;
	play.job_blocks = blocks;
}

int ddr_finder_start(struct ddr_finder *f, qb_loop_t *loop)
{
	(void)loop;
	assert_null(play.finder);
	play.finder = f;
	return 0;
}

void ddr_finder_free(struct ddr_finder *f)
{
	play.found_freed++;
	free(f);
}

int ddr_table_start(struct ddr_table *t, qb_loop_t *loop)
{
	(void)loop;
	play.table = t;
	return 0;
}

void ddr_table_forget(struct ddr_table *t)
{
	t->ctx = NULL;
}

void ddr_table_free(struct ddr_table *t)
{
	free(t);
}

int ddr_load_start(struct ddr_load *l, qb_loop_t *loop)
{
	(void)loop;
	assert_null(play.load);
	if (play.load_error)
		return play.load_error;
	play.load = l;
	return 0;
}

void ddr_load_cancel(struct ddr_load *l)
{
	(void)l;
}

void ddr_load_free(struct ddr_load *l)
{
	free(l);
}

/* Every read of the members fails at once, unless the test takes them: the answer waits for a tick. */
int ddr_reload_start(struct ddr_reload *r, qb_loop_t *loop)
{
	(void)loop;
	if (!play.takes)
		return -EAGAIN;
	play.reload = r;
	return 0;
}

void ddr_reload_free(struct ddr_reload *r)
{
	play.reloads_freed++;
	free(r->block);
	free(r);
}

#endif

// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of /dev/ddraid and of device-mapper's tables, before the model kernel of each node (kernel.c of ddrsim). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/kernel/table.h"
#include "twin.h"

static uint64_t channels;
static uint64_t bound[SIM_MAX_NODES];	/* the channel that counts, by node */

static uint64_t *bound_of(const struct proc *p)
{
	return &bound[p->n - p->s->node];
}

/* ---- the control descriptor -------------------------------------------------------- */

static void add(struct file *f, uint32_t type, uint64_t start, uint64_t count)
{
	struct ddr_rec *rec = &f->rec[f->n_rec++];

	if (f->n_rec == sizeof(f->rec) / sizeof(f->rec[0]))
		sim_violation(f->p->s, "more records than could be for one array");
	*rec = (struct ddr_rec){ .type = type, .start = start, .count = count, .member = DDR_NO_MEMBER };
	memcpy(rec->arg, f->p->s->sb0.array_uuid, 16);
}

void twin_control_opened(struct file *f)
{
	if (f->p->n->k.there) {
		add(f, DDR_K_APPEARED, f->p->n->k.cookie, 0);
		add(f, DDR_K_RESUMED, 0, 0);
	}
	add(f, DDR_K_LIST_END, 0, 0);
}

void twin_control_tell(struct proc *p, uint32_t type, uint64_t start, uint64_t count)
{
	struct file *f = NULL;

	while ((f = twin_next_file(f)))
		if (f->kind == FILE_CONTROL && f->p == p)
			add(f, type, start, count);
}

/* ---- the channel of the array ------------------------------------------------------ */

/* In a table that was written by hand; or the module is one of another release, which serves none of the daemon's versions. */
static void go_wrong(struct ddr_bind *bind, uint32_t what)
{
	uint32_t minor = bind->dev_minor[0];
	bool newer = bind->cookie & 1;

	switch (what) {
	case 1: bind->order++; return;
	case 2: bind->parity ^= 1; return;
	case 3: bind->layout ^= 1; return;
	case 4: bind->region_sectors *= 2; return;
	case 5: bind->data_offset_sectors += 8; return;
	case 6: bind->sectors *= 1000; return;	/* whatever the array has grown to by then */
	case 7: bind->members--; return;
	case SIM_TABLES:
		bind->lowest = newer ? DDR_SERVES_HIGHEST + 1 : 1;
		bind->highest = newer ? DDR_SERVES_HIGHEST + 2 : DDR_SERVES_LOWEST - 1;
		return;
	default:
		bind->dev_minor[0] = bind->dev_minor[1];
		bind->dev_minor[1] = minor;
	}
}

int twin_bind(struct file *f, struct ddr_bind *bind)
{
	struct sim *s = f->p->s;
	struct kernel *k = &f->p->n->k;

	if (!k->there || memcmp(bind->uuid, s->sb0.array_uuid, sizeof(bind->uuid)) != 0)
		return -ENOENT;
	twin_effect();
	f->kind = FILE_CHANNEL;
	f->channel = *bound_of(f->p) = ++channels;
	f->p->unseen = false;
	f->p->unlooked = false;		/* all of it is read anew; what another machine has written to the superblocks is not simulated */
	twin_given_back(s, f->p->n);
	bind->flags = 0;
	bind->lowest = DDR_SERVES_LOWEST;
	bind->highest = DDR_SERVES_HIGHEST;
	bind->order = s->geo.order;
	bind->parity = s->geo.parity;
	bind->layout = s->geo.layout;
	bind->region_sectors = s->sb0.region_size / 512;
	bind->members = s->g.roles;
	bind->data_offset_sectors = s->sb0.data_offset / 512;
	bind->sectors = k->blocks * (DDR_BLOCK_SIZE / 512);
	bind->cookie = f->p->cookie = k->cookie;
	bind->dm_major = TWIN_DM_MAJOR;
	bind->dm_minor = 0;
	bind->shadow_place = k->disk[DDR_UAPI_SHADOW] == SIM_NOBODY ? DDR_NO_MEMBER : k->shadow_place;
	bind->shadow_state = k->state[DDR_UAPI_SHADOW];
	for (uint32_t i = 0; i < DDR_UAPI_PLACES; i++) {
		bool named = i < s->g.roles || (i == DDR_UAPI_SHADOW && k->disk[i] != SIM_NOBODY);

		bind->dev_major[i] = named ? TWIN_MAJOR : 0;
		bind->dev_minor[i] = named ? k->disk[i] + 1u : 0;
	}
	if (f->p->n->wrong_table)
		go_wrong(bind, f->p->n->wrong_table);
	k->timeout = bind->timeout_ms;
	sim_trace(s, "node %u: bound", f->p->n->id);
	kernel_bind(s, k);
	kernel_run(s, k);
	return 0;
}

static bool stale(const struct file *f)
{
	return f->channel != *bound_of(f->p);
}

void twin_channel_closed(const struct file *f)
{
	struct kernel *k = &f->p->n->k;

	if (stale(f))
		return;
	*bound_of(f->p) = 0;
	k->attached = false;
	k->n_queue = 0;
}

bool twin_channel_ready(const struct file *f, int events)
{
	return events == POLLOUT || stale(f) || !f->p->n->k.there || f->p->n->k.n_queue;
}

ssize_t twin_channel_read(struct file *f, void *buf, size_t len)
{
	struct kernel *k = &f->p->n->k;
	uint32_t n = (uint32_t)(len / sizeof(struct ddr_rec));

	if (stale(f)) {
		errno = ESTALE;
		return -1;
	}
	if (!k->there)
		return 0;
	twin_serves(f->p, "reads from its kernel");
	kernel_heard(f->p->s, k);
	if (!k->n_queue) {
		errno = EAGAIN;
		return -1;
	}
	n = n < k->n_queue ? n : k->n_queue;
	n = 1 + (uint32_t)sim_rand(f->p->s, n);
	memcpy(buf, k->queue, n * sizeof(struct ddr_rec));
	k->n_queue -= n;
	memmove(k->queue, k->queue + n, k->n_queue * sizeof(struct ddr_rec));
	return (ssize_t)(n * sizeof(struct ddr_rec));
}

static void take(struct proc *p, const struct ddr_rec *rec)
{
	struct kernel *k = &p->n->k;

	switch (rec->type) {
	case DDR_U_PING:
		kernel_tell(p->s, k, &(struct ddr_rec){ .type = DDR_K_PONG, .seq = rec->seq, .member = DDR_NO_MEMBER });
		return;
	case DDR_U_CONFIG:
		if (rec->arg[0] == DDR_KC_TIMEOUT_MS)
			kernel_set_timeout(k, rec->arg[1]);
		return;
	case DDR_U_KILL:
		k->killed = true;
		kernel_run(p->s, k);
		return;
	case DDR_U_ENABLE:
	case DDR_U_RESOLVE:
		/*
		 * A table that it has not been bound to waits for the one that has; what waited for an answer was given back as the table was exchanged,
		 * and whatever fails still is told again to the next one that binds.
		 */
		if (!p->unseen)
			kernel_record(p->s, k, rec);
		return;
	case DDR_U_GRANT:
		if (!p->n->quorate)
			sim_violation(p->s, "rule 8: a grant without quorum");
		__attribute__((fallthrough));
	default:
		kernel_record(p->s, k, rec);
	}
}

ssize_t twin_channel_write(struct file *f, const void *buf, size_t len)
{
	const struct ddr_rec *rec = buf;
	size_t n = len / sizeof(*rec);

	for (size_t i = 0; i < n; i++) {
		if (stale(f) || !f->p->n->k.there) {
			errno = stale(f) ? ESTALE : ENODEV;
			return -1;
		}
		if (f->p->s->rare.taken != f->p->n->id || rec[i].type != DDR_U_KILL)
			twin_serves(f->p, "writes to its kernel");
		if (!kernel_heard(f->p->s, &f->p->n->k)) {
			errno = ETIME;
			return -1;
		}
		twin_effect();
		take(f->p, &rec[i]);
	}
	return (ssize_t)len;
}

/* ---- tables ------------------------------------------------------------------------ */

int ddr_table_start(struct ddr_table *t, qb_loop_t *loop)
{
	(void)loop;
	if (twin_fails(CALL_THREAD))
		return -errno;
	if (me->table)
		sim_violation(me->s, "two tables of one array are loaded at once");
	me->table = t;
	me->n->table_due = !t->sectors;
	me->n->resize = t->sectors / (DDR_BLOCK_SIZE / 512);
	me->n->table_member = t->major ? t->minor - 1 : DDR_NO_MEMBER;
	me->n->table_place = t->shadow ? DDR_UAPI_SHADOW : t->place;
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

/* It is loaded, or not. */
void twin_table_done(struct proc *p, int result)
{
	struct ddr_table *t = p->table;

	p->table = NULL;
	p->n->table_due = false;
	p->n->resize = 0;
	if (!t)
		return;
	t->result = result;
	if (result)
		ddr_error_set(&t->error, "%s", strerror(-result));
	t->done(t->ctx, t);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the superblocks of the devices while an array is loaded, and searches these for signatures of other programs. See load_supers.h. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/disk/load_supers.h"
#include "lib/disk/look.h"

#define LOOKS		20u	/* how often superblocks that change meanwhile are read ... */
#define PAUSE_MS	100	/* ... and the pause between two times */

/* Takes what was read from the device at place @p. */
static void take_supers(struct ddr_load *l, struct ddr_load_supers *all, unsigned int p, const struct ddr_look *look)
{
	struct ddr_candidate *c = &all->cand[all->n];

	all->place[all->n] = p;
	all->s[all->n] = look->supers;
	all->error[all->n] = look->error;
	*c = (struct ddr_candidate){ .device = l->members->name[p], .bytes = l->members->dev[p].bytes };
	all->foreign[all->n][0] = '\0';
	c->foreign = all->foreign[all->n];
	if (look->supers.newest < 0)
		c->error = all->error[all->n].text;
	else
		c->super = &all->s[all->n].copy[look->supers.newest].super;
	if (c->super && !l->name[0]) {
		memcpy(l->name, c->super->name, sizeof(l->name));
		snprintf(l->members->array, sizeof(l->members->array), "%s", l->name);
	}
	all->n++;
}

/* A device that hangs counts as absent, whatever makes it hang: it is closed here, and the thread that is in it has a descriptor of its own. */
void ddr_load_leave_out(struct ddr_load *l, unsigned int p, const char *why)
{
	qb_log(LOG_ERR, "array '%s': %s %s; it counts as missing", l->members->array, l->members->name[p], why);
	ddr_members_leave_out(l->members, p, why);
}

/* It may have been opened long ago: others have grown the array meanwhile, or the device was another disk then. Asking for the size does not block. */
static void learn_size(struct ddr_dev *dev)
{
	uint64_t bytes = ddr_dev_size(dev);

	dev->bytes = bytes ? bytes : dev->bytes;
}

int ddr_load_supers_read(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from, uint32_t but)
{
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	bool own = false;
	char why[80];

	for (unsigned int p = from; p < l->members->n; p++) {
		struct ddr_error err;

		if (!(l->members->open & ~but & (1u << p)))
			continue;
		learn_size(&l->members->dev[p]);
		switch (ddr_look_read(&look[p], &l->members->dev[p], l->limit_ms, &err)) {
		case DDR_LOOK_HANGS:
			ddr_load_leave_out(l, p, "has not answered since an earlier read");
			break;
		case DDR_LOOK_FAILED:
			l->error = err;
			own = true;
			break;
		case DDR_LOOK_RUNS:
			break;
		}
	}
	snprintf(why, sizeof(why), "has not delivered its superblock within %u ms", l->limit_ms);
	for (unsigned int p = from; p < l->members->n; p++) {
		if (look[p] && !ddr_look_wait(look[p])) {
			ddr_load_leave_out(l, p, why);
		} else if (look[p] && look[p]->supers.newest < 0 && look[p]->error.own) {
			l->error = look[p]->error;
			own = true;
		} else if (look[p]) {
			take_supers(l, all, p, look[p]);
		}
		ddr_look_put(look[p]);
	}
	return own ? -1 : 0;
}

/* ---- one consistent picture ---------------------------------------------------------- */

/* What the devices held, in the order in which they were read. */
struct picture {
	size_t n;
	struct { unsigned int place; uint64_t generation, seq; } at[DDR_MAX_MEMBERS];
};

static void take_picture(struct picture *p, const struct ddr_load_supers *all)
{
	memset(p, 0, sizeof(*p));
	for (; p->n < all->n; p->n++) {
		const struct ddr_super *sb = all->cand[p->n].super;

		p->at[p->n].place = all->place[p->n];
		p->at[p->n].generation = sb ? sb->generation : 0;
		p->at[p->n].seq = sb ? sb->seq : 0;
	}
}

static bool is_same(const struct picture *p, const struct picture *q)
{
	for (size_t i = 0; i < p->n && i < q->n; i++)
		if (p->at[i].place != q->at[i].place || p->at[i].generation != q->at[i].generation || p->at[i].seq != q->at[i].seq)
			return false;
	return p->n == q->n;
}

static bool is_level(const struct picture *p)
{
	for (size_t i = 1; i < p->n; i++)
		if (p->at[i].generation != p->at[0].generation || p->at[i].seq != p->at[0].seq)
			return false;
	return true;
}

/*
 * Two reads in a row that find the same: numbers only grow, so between them all of it was on the devices at the same moment. If all
 * superblocks are equal, one read says that.
 */
int ddr_load_supers_settle(struct ddr_load *l, struct ddr_load_supers *all, uint32_t but)
{
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	struct picture before, now;

	take_picture(&now, all);
	if (is_level(&now))
		return 0;
	for (unsigned int i = 0; i < LOOKS; i++) {
		before = now;
		all->n = 0;
		if (ddr_load_supers_read(l, all, 0, but))
			return -1;
		take_picture(&now, all);
		if (is_level(&now) || is_same(&before, &now))
			return 1;
		qb_log(LOG_INFO, "array '%s': another node changed the superblocks while they were read; reading them again", l->members->array);
		nanosleep(&pause, NULL);
	}
	ddr_error_set(&l->error, "another node changed the superblocks of array '%s' during each of %u reads in a row", l->members->array, LOOKS);
	l->error.own = true;	/* nothing is known about the members, and it is tried again */
	return -1;
}

/* ---- signatures of other programs ---------------------------------------------------- */

/* A device that delivered its superblock and hangs now is still a member: its log cannot be read either, and it fails when the array starts to write. */
int ddr_load_foreign_read(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from)
{
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	struct ddr_error err;
	bool own = false;

	for (size_t c = 0; c < all->n; c++) {
		if (all->place[c] < from || !all->cand[c].super)
			continue;
		if (!ddr_load_begun(ddr_look_member(&look[c], &l->members->dev[all->place[c]], l->limit_ms, &err), l->members, all->place[c],
				    "the signatures of other programs", &err)) {
			l->error = err;
			own = true;
		}
	}
	for (size_t c = 0; c < all->n; c++) {
		if (look[c] && ddr_look_wait(look[c]))
			memcpy(all->foreign[c], look[c]->foreign, sizeof(all->foreign[c]));
		if (all->foreign[c][0])
			snprintf(l->members->error[all->place[c]], sizeof(l->members->error[0]), "%s also holds a %s, so another program has "
				"written to it",
				 all->cand[c].device, all->foreign[c]);
		ddr_look_put(look[c]);
	}
	return own ? -1 : 0;
}

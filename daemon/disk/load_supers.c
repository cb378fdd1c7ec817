// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads the superblocks of the devices while an array is loaded, and searches these for signatures of other programs. See load_supers.h. */
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/load_supers.h"
#include "lib/disk/look.h"

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

/* Reads the superblocks of the devices from place @from on, except those in @but. */
void ddr_load_supers_read(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from, uint32_t but)
{
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	char why[80];

	for (unsigned int p = from; p < l->members->n; p++) {
		struct ddr_error err;

		if (!(l->members->open & ~but & (1u << p)))
			continue;
		switch (ddr_look_read(&look[p], &l->members->dev[p], l->limit_ms, &err)) {
		case DDR_LOOK_HANGS:
			ddr_load_leave_out(l, p, "has not answered since an earlier read");
			break;
		case DDR_LOOK_FAILED:
			ddr_load_leave_out(l, p, err.text);
			break;
		case DDR_LOOK_RUNS:
			break;
		}
	}
	snprintf(why, sizeof(why), "has not delivered its superblock within %u ms", l->limit_ms);
	for (unsigned int p = from; p < l->members->n; p++) {
		if (look[p] && ddr_look_wait(look[p]))
			take_supers(l, all, p, look[p]);
		else if (look[p])
			ddr_load_leave_out(l, p, why);
		ddr_look_put(look[p]);
	}
}

/*
 * Searches the devices from place @from on for other programs' signatures. A device that delivered its superblock and hangs now is
 * still a member: its log cannot be read either, and it fails when the array starts to write.
 */
void ddr_load_foreign_read(const struct ddr_load *l, struct ddr_load_supers *all, unsigned int from)
{
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	struct ddr_error err;

	for (size_t c = 0; c < all->n; c++)
		if (all->place[c] >= from && all->cand[c].super)
			ddr_load_begun(ddr_look_member(&look[c], &l->members->dev[all->place[c]], l->limit_ms, &err), l->members, all->place[c],
				       "the signatures of other programs", &err);
	for (size_t c = 0; c < all->n; c++) {
		if (look[c] && ddr_look_wait(look[c]))
			memcpy(all->foreign[c], look[c]->foreign, sizeof(all->foreign[c]));
		if (all->foreign[c][0])
			snprintf(l->members->error[all->place[c]], sizeof(l->members->error[0]), "%s also holds a %s, so another program has "
				"written to it",
				 all->cand[c].device, all->foreign[c]);
		ddr_look_put(look[c]);
	}
}

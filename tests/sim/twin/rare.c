// SPDX-License-Identifier: GPL-2.0-or-later
/* What seldom befalls the machine of a real daemon (rare.c of ddrsim has when). */
#include <errno.h>
#include <string.h>

#include <json-c/json.h>

#include "daemon/ipc/status.h"
#include "twin.h"

/* ---- clients ------------------------------------------------------------------------ */

static void status(struct proc *p, const void *arg)
{
	struct ddr_array *a;

	(void)arg;
	qb_list_for_each_entry(a, &p->d->arrays, list) {
		json_object_put(ddr_status_array(a));
		json_object_put(ddr_status_findings(a));
	}
}

/* ---- the machine -------------------------------------------------------------------- */

/* /dev/ddraid is lost, and so often looked for in vain; @blind: and /dev cannot be watched. */
static bool module_goes(struct proc *p, uint64_t times, bool blind)
{
	struct file *f = NULL;

	while ((f = twin_next_file(f)))
		if (f->kind == FILE_CONTROL && f->p == p)
			break;
	if (!f)
		return false;
	f->ended = true;
	p->n->no_module = (uint32_t)times;
	if (blind) {
		p->fails |= 1u << CALL_INOTIFY;
		p->error[CALL_INOTIFY] = EMFILE;
	}
	return true;
}

static bool locks(struct sim *s, struct node *n, uint64_t member, uint64_t ms)
{
	if (member >= s->sb0.members)
		return false;
	n->locked_until[member] = s->now + ms;
	sim_trace(s, "node %u: a program locks member %llu for %llu ms", n->id, (unsigned long long)member, (unsigned long long)ms);
	return true;
}

bool node_rare(struct sim *s, struct node *n, const struct act *a)
{
	struct proc *p = twin_of(s, n);
	bool runs = p->alive && !n->stopped;

	switch ((enum rare_what)a->sub) {
	case RARE_CLOCK:
		n->clock_s += (int64_t)a->arg[0];
		return true;
	case RARE_LOCK: return locks(s, n, a->arg[0], a->arg[1]);
	case RARE_MODULE: return runs && module_goes(p, a->arg[0], a->arg[1]);
	case RARE_GROUP: return runs && twin_own_group_ends(p);
	case RARE_STATUS:
		if (runs)
			twin_run(p, status, NULL);
		return runs;
	default: return false;
	}
}

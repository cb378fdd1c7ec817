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

/*
 * start --adopt: on a node that is alone; in a cluster it is refused, while that has an id. (Without one, nobody knows whether the array is another's.)
 */
static void adopt(struct proc *p, const void *arg)
{
	static struct ddr_owners owners;
	struct ddr_array *a = twin_array(p);
	char why[256];

	(void)arg;
	check_newest_owners(p->s, &owners);
	if (!ddr_identity_adopt(p->d, p->s->sb0.array_uuid, owners.cluster, why, sizeof(why)) && a)
		ddr_array_adopted(a);
}

void twin_adopt(struct proc *p)
{
	twin_run(p, adopt, NULL);
}

static bool adopts(struct proc *p)
{
	struct ddr_super sb;

	if (!check_newest_super(p->s, &sb) || (p->s->cluster && !p->d->ident.id.cluster.agreed))
		return false;
	twin_adopt(p);
	return true;
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

/* A process that is no ddraidd of this release is in the group of the array, or leaves it; all daemons there hear of it. */
static bool user(struct sim *s, const struct node *n, bool is)
{
	if (!s->cluster || is == (s->rare.user != 0) || (is && !n->up))
		return false;
	s->rare.user = is ? n->id : 0;
	for (struct proc *p = twin_proc; p < twin_proc + SIM_MAX_NODES; p++)
		if (p->alive)
			twin_own_group_changed(p);
	sim_trace(s, "node %u: a command %s the group of the array", n->id, is ? "joins" : "leaves");
	return true;
}

/* Do all others have stored the id of the cluster? What more of them lose than may be missing is lost: then the operator adopts the array. */
static bool others_know(const struct sim *s, const struct proc *p)
{
	if (s->rare.clone)
		return false;
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (twin_of(s, n) != p && !twin_knows_cluster(twin_of(s, n)))
			return false;
	return true;
}

static bool damaged(struct sim *s, struct proc *p, uint64_t byte)
{
	if (!p->s || !p->file.len || !others_know(s, p))
		return false;
	p->n->another = true;
	p->n->adopt_pid = 0;
	p->file.text[byte % p->file.len] ^= 1;
	sim_trace(s, "node %u: the file of its identity is damaged", p->n->id);
	return true;
}

/* The image of its disk comes from another machine. */
static uint32_t marks_of(const struct node *n)
{
	return n->clone_of ? n->clone_of : n->id;
}

static bool copied(struct sim *s, struct proc *p, uint64_t from)
{
	const struct proc *other = p->s && from && from <= s->n_nodes ? twin_of(s, &s->node[from - 1]) : NULL;

	if (!other || other == p || !other->file.len || !others_know(s, p))
		return false;
	p->n->another = true;
	p->n->adopt_pid = 0;
	p->file = other->file;
	sim_trace(s, "node %u: the file of its identity is a copy of that of node %u", p->n->id, other->n->id);
	return true;
}

/* The same, and nothing tells the machines apart: a virtual machine that was copied. Its daemon is restarted. */
static bool is_clone(struct sim *s, struct node *n, uint32_t of)
{
	struct proc *p = twin_of(s, n);

	if (!s->cluster || s->rare.clone || of > s->n_nodes || n->hidden || s->node[of - 1].hidden || !copied(s, p, of))
		return false;
	s->rare.clone = n->id;
	n->clone_of = of;
	sim_trace(s, "node %u: it is a copy of node %u", n->id, of);
	if (p->alive)
		node_kill(s, n);
	return true;
}

/* rm identity; systemctl restart ddraidd, on the copy, as status says. */
static bool no_clone(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	if (s->rare.clone != n->id)
		return false;
	s->rare.clone = 0;
	p->file.len = 0;
	sim_trace(s, "node %u: it is no copy any more", n->id);
	if (p->alive && !node_ends(s, n))
		node_kill(s, n);
	return true;
}

/* Who can read it again restarts ddraidd, as its log says. */
static bool hidden(struct sim *s, struct node *n, bool is)
{
	struct proc *p = twin_of(s, n);
	bool change = n->hidden != is;

	n->hidden = is;
	if (change)
		sim_trace(s, "node %u: the file of its identity %s be read", n->id, is ? "cannot" : "can");
	if (!is && p->alive && p->d->ident.fixed && !node_ends(s, n))
		node_kill(s, n);
	return change;
}

/* All nodes look for the disk, or have looked at it, and the array is about to use it again. */
static bool is_sought(const struct sim *s, uint32_t m)
{
	static struct ddr_sm_status st;

	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		if (n->sm)
			ddr_sm_get_status(n->sm, &st);
		if (n->sm && (st.sought >> m & 1))
			return true;
	}
	return false;
}

static bool at_rest(const struct sim *s, uint32_t m);

/* Somebody makes a file system on a disk that no array uses any more, or empties it again: then it may be one of the array again. */
static bool foreign(struct sim *s, const struct node *n, uint32_t m)
{
	if (m >= s->sb0.members || (!s->disk[m].foreign && (!sim_may_put_back(s, n, m) || is_sought(s, m) || !at_rest(s, m))))
		return false;
	s->disk[m].foreign = !s->disk[m].foreign;
	sim_trace(s, "member %u: %s file system", m, s->disk[m].foreign ? "a" : "no");
	return true;
}

/* A rebuild that compares works there. */
static bool rebuilt(const struct sim *s, uint64_t block)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (const struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++)
			if (io->used && io->type == DDR_OUT_JOB_RANGE && io->job == DDR_KA_REBUILD && io->fits && block >= io->start && block < io->start + io->count)
				return true;
	return false;
}

/* One block of one disk at a time, so that what it should be can be told. A rebuild is rare: it moves there. */
static bool wrong(struct sim *s, uint32_t m, uint64_t block)
{
	if (m >= s->sb0.members || block >= s->blocks || s->disk[m].dead || !s->g.parity || (s->g.parity == 1 && m != check_member(s, ddr_geo_data(&s->g), block)))
		return false;
	for (uint32_t i = 0; i < s->sb0.members; i++)
		if (s->disk[i].wrong && !rebuilt(s, block))
			return false;
	for (uint32_t i = 0; i < s->sb0.members; i++)
		s->disk[i].wrong = false;
	s->disk[m].wrong = true;
	s->disk[m].wrong_block = block;
	sim_trace(s, "member %u: verify reads wrong contents of block %llu", m, (unsigned long long)block);
	return true;
}

/* No array has the disk in use: one that hangs, or is another one by now, costs nothing. */
static bool idle(const struct sim *s, uint32_t m)
{
	struct ddr_super sb;

	return m < s->sb0.members && check_newest_super(s, &sb) && sb.member[m].state != DDR_MEMBER_IN_SYNC && sb.member[m].state != DDR_MEMBER_REBUILDING;
}

static bool in_use(const struct sim *s, uint32_t m)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t p = 0; n->k.there && p < DDR_UAPI_PLACES; p++)
			if (n->k.disk[p] == m && n->k.state[p] != DDR_KM_OUT)
				return true;
	return !idle(s, m);
}

static bool slow(struct sim *s, struct node *n, uint32_t m, uint64_t ms)
{
	if (!idle(s, m) || n->slow_until[m] > s->now)
		return false;
	n->slow_until[m] = s->now + ms;
	sim_trace(s, "node %u: who opens or reads member %u hangs for %llu ms", n->id, m, (unsigned long long)ms);
	return true;
}

/* Nobody writes superblocks just now: one that looks and then writes cannot see what happens in between. */
static bool at_rest(const struct sim *s, uint32_t m)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		if (twin_pending(twin_of(s, n), m))
			return false;
		for (uint32_t i = 0; i < SIM_MAX_IO && n->n_io; i++)
			if (n->io[i].used && n->io[i].type == DDR_OUT_SB_WRITE)
				return false;
	}
	return true;
}

/* Another disk is behind the device of one that the array does not use, on all nodes, until the old one is put back. */
static bool swap(struct sim *s, uint32_t m, uint64_t what)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || d->exchanged || d->dead || s->lossy || in_use(s, m) || !at_rest(s, m))
		return false;
	d->exchanged = true;
	d->strayed = 0;
	d->blank = what == 2;
	d->small = what == 3;
	sim_trace(s, "member %u is another disk now (%llu)", m, (unsigned long long)what);
	for (struct node *o = s->node; o < s->node + s->n_nodes; o++)
		node_hears(s, o, NEWS_CHANGED, m);
	return true;
}

/* What it keeps is that of a machine that served a copy of these disks: that array went on, and these did not. */
static bool remembers(struct sim *s, struct node *n, uint64_t by)
{
	struct proc *p = twin_of(s, n);
	struct ddr_super sb;

	if (!p->s || p->alive || n->k.there || n->newer || s->lossy || !check_newest_super(s, &sb))
		return false;
	p->known.generation = sb.generation + by;
	memcpy(p->known.gen_id, sb.gen_id, sizeof(sb.gen_id));
	p->known.gen_id[0] ^= 0xff;
	n->newer = true;
	sim_trace(s, "node %u remembers generation %llu of an array that was copied", n->id, (unsigned long long)p->known.generation);
	return true;
}

/* dmsetup remove, while the daemon loads the array: nothing is in flight, or nothing may be yet. */
static bool goes(struct sim *s, struct proc *p)
{
	const struct ddr_array *a = p->alive && !p->n->stopped ? twin_array(p) : NULL;

	if (!a || a->state != DDR_ARRAY_LOADING || !p->n->k.there || p->n->wrong_table || (p->n->k.enabled && kernel_busy(&p->n->k)))
		return false;
	kernel_power(s, &p->n->k);
	p->n->removed = true;
	sim_trace(s, "node %u: the array is removed while it is loaded", p->n->id);
	twin_control_tell(p, DDR_K_REMOVED, p->cookie, 0);
	return true;
}

/* ---- a machine that stands still, and its array on another one --------------------- */

static uint8_t pair_of[DDR_MAX_MEMBERS][2][DDR_META_BLOCK];	/* what the claims were written over */
static uint32_t taken_slot;

/* Its slot; -1: not all members show that this daemon has it, or something is on its way to one. */
static int shown_slot(struct sim *s, const struct proc *p)
{
	const struct ddr_array *a = p->alive && p->n->sm ? twin_array(p) : NULL;
	static struct ddr_owners owners;
	struct ddr_super sb;
	int slot = -1;

	if (!a || !a->ready || a->broken || !check_newest_super(s, &sb) || twin_given(p->n))
		return -1;
	check_newest_owners(s, &owners);
	for (uint32_t i = 0; i < sb.slots; i++)
		if (sb.slot_node[i] == p->n->id && owners.slot[i].state == DDR_SLOT_OWNED && owners.slot[i].instance.cookie == p->n->k.cookie)
			slot = (int)i;
	for (uint32_t m = 0; m < sb.members; m++) {
		bool used = sb.member[m].state == DDR_MEMBER_IN_SYNC || sb.member[m].state == DDR_MEMBER_REBUILDING;
		const struct disk *d = &s->disk[m];

		if (used && (!(ddr_metaio_stamped(a->meta) >> m & 1) || d->dead || d->exchanged || d->cut || twin_hangs(p, m)))
			return -1;
	}
	return slot;
}

/* The machine sleeps for @ms. Meanwhile another one adopts the array: it watches, claims, and goes on. What it writes behind its claim is its own business. */
static bool taken(struct sim *s, struct node *n, uint64_t ms)
{
	struct ddr_stamp claim = { .kind = DDR_STAMP_CLAIM, .generation = 1, .node = 99, .machine = { 99 }, .instance = { .boot_id = { 99 }, .cookie = 99 }, .claim = { 99 }, .stop_ms = 30000, .name = "elsewhere" };
	int slot = !s->cluster && n->stopped && !s->rare.taken ? shown_slot(s, twin_of(s, n)) : -1;

	if (slot < 0)
		return false;
	claim.slot = (uint16_t)slot;
	memcpy(claim.array_uuid, s->sb0.array_uuid, sizeof(claim.array_uuid));
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		memcpy(pair_of[m], s->disk[m].stamp[slot], sizeof(pair_of[m]));
		for (unsigned int place = 0; place < 2; place++) {
			claim.seq = 1000000 + place;
			if (ddr_stamp_encode(&claim, &s->sb0, s->disk[m].stamp[slot][place]).code != DDR_FE_OK)
				sim_violation(s, "a claim that cannot be");
		}
	}
	taken_slot = (uint32_t)slot;
	s->rare.taken = n->id;
	s->now += ms;
	sim_trace(s, "node %u: it stands still for %llu ms, and another machine has adopted the array", n->id, (unsigned long long)ms);
	return true;
}

void twin_given_back(struct sim *s, const struct node *n)
{
	if (s->rare.taken != n->id)
		return;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		memcpy(s->disk[m].stamp[taken_slot], pair_of[m], sizeof(pair_of[m]));
	s->rare.taken = 0;
	sim_trace(s, "node %u: the other machine has given the array back", n->id);
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
	case RARE_SHORTAGE:
		n->short_until = s->now + a->arg[0];
		return true;
	case RARE_USER: return user(s, n, a->arg[0]);
	case RARE_DAMAGED: return damaged(s, p, a->arg[0]);
	case RARE_COPIED: return marks_of(n) != marks_of(&s->node[(a->arg[0] + s->n_nodes - 1) % s->n_nodes]) && copied(s, p, a->arg[0]);
	case RARE_HIDDEN: return hidden(s, n, a->arg[0]);
	case RARE_NO_GROUP:
		n->no_group_until = s->now + a->arg[0];
		return s->cluster;
	case RARE_PATH:
		n->path_to = (uint32_t)a->arg[0];
		n->path_until = s->now + a->arg[1];
		return true;
	case RARE_FOREIGN: return foreign(s, n, (uint32_t)a->arg[0]);
	case RARE_WRONG: return wrong(s, (uint32_t)a->arg[0], a->arg[1]);
	case RARE_READONLY:
		n->readonly_until = s->now + a->arg[0];
		return true;
	case RARE_CLONE: return a->arg[0] ? is_clone(s, n, (uint32_t)a->arg[0]) : no_clone(s, n);
	case RARE_ADOPT: return runs && adopts(p);
	case RARE_WEDGE:
		n->wedged_until = s->now + a->arg[0];
		return s->cluster;
	case RARE_TABLE:
		n->wrong_table = n->k.there ? n->wrong_table : (uint32_t)(a->arg[0] % (SIM_TABLES + 1));
		return !n->k.there;
	case RARE_SLOW: return slow(s, n, (uint32_t)a->arg[0], a->arg[1]);
	case RARE_SWAP: return swap(s, (uint32_t)a->arg[0], a->arg[1]);
	case RARE_OLDER: return remembers(s, n, a->arg[0]);
	case RARE_LIES: return sim_disk_lies(s, (uint32_t)a->arg[0]);
	case RARE_GONE: return goes(s, p);
	case RARE_TAKEN: return taken(s, n, a->arg[0]);
	case RARE_OTHERS: return twin_others(s, n, a->arg[0], a->arg[1]);
	case RARE_MUTE: return twin_mute(s, n, a->arg[0], a->arg[1]);
	case RARE_STRANGERS: return twin_strangers(s, n, a->arg[0]);
	case RARE_MAPS: return twin_no_table(n, a->arg[0]);
	default: return false;
	}
}

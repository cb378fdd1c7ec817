// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A real daemon starts the array, or its operator adopts it: what the world does meanwhile, and what must not come of it (starts.c of ddrsim has when).
 *
 * Rule I3, as a machine that only sees the disks can tell whether it is kept. Who adopts reads the stamps of all slots, waits, reads them again, reads the
 * superblocks, and claims; after as long a wait it reads once more. What has changed between two of these reads of a member must keep it from writing anything,
 * and from starting the array; and what has not changed is no reason to refuse it.
 */
#include <errno.h>
#include <string.h>

#include "twin.h"

#define MORE_MS		5000u	/* DDR_CLAIM_MORE_MS, by the rule's text */
#define OTHER		99u	/* the machine that uses the array, too */

static bool gone(const struct sim *s, const struct node *n, uint32_t m)
{
	const struct disk *d = &s->disk[m];

	return disk_gone(s, n, d) || d->exchanged || d->failed || d->hangs_until[n - s->node] > s->now;
}

/* ---- what it has read and written ----------------------------------------------------------- */

void twin_load_begins(struct proc *p, const struct ddr_worker *w)
{
	const struct ddr_array *a;

	qb_list_for_each_entry(a, &p->d->arrays, list)
		if (a->load && w == &a->load->worker) {
			p->claim = (struct twin_claim){ .of = w };
			p->n->claims = 0;
			p->n->strangers_gone = false;
		}
}

/* For how long the owner of a stamp, or a slot, may write without its daemon. */
static uint32_t wait_of(const struct proc *p, const struct ddr_stamp *stamp)
{
	return memcmp(stamp->machine, p->d->ident.id.machine, sizeof(stamp->machine)) == 0 ? MORE_MS : stamp->stop_ms + MORE_MS;
}

/* Of each place the newest stamp that a member has delivered counts. */
static void note_stamps(struct proc *p, const struct disk *d)
{
	struct ddr_stamp stamp;

	for (uint32_t slot = 0; slot < p->s->sb0.slots && !d->exchanged; slot++)
		for (unsigned int place = 0; place < 2; place++)
			if (ddr_stamp_decode(d->stamp[slot][place], &p->s->sb0, slot, place, &stamp).code == DDR_FE_OK && stamp.seq > p->claim.found[slot][place].seq) {
				p->claim.found[slot][place].seq = stamp.seq;
				p->claim.found[slot][place].ms = wait_of(p, &stamp);
			}
}

static void at_least(struct twin_claim *c, uint64_t ms)
{
	c->wait_ms = c->wait_ms > ms ? c->wait_ms : (uint32_t)ms;
}

/* All that is known of the owners by now. */
static void note_wait(struct proc *p)
{
	static const uint8_t unknown[DDR_UUID_LEN];
	const struct ddr_owners *owners = check_owners_now(p->s);
	struct twin_claim *c = &p->claim;

	at_least(c, MORE_MS);
	for (uint32_t i = 0; owners && i < p->s->sb0.slots; i++) {
		at_least(c, c->found[i][0].ms);
		at_least(c, c->found[i][1].ms);
		if (owners->slot[i].state == DDR_SLOT_OWNED && memcmp(owners->slot[i].machine, unknown, sizeof(unknown)) != 0 &&
		    memcmp(owners->slot[i].machine, p->d->ident.id.machine, sizeof(owners->slot[i].machine)) != 0)
			at_least(c, p->d->conf.tune.daemon_timeout_ms + MORE_MS);
	}
}

void twin_stamps_read(struct proc *p, uint32_t m)
{
	struct twin_claim *c = &p->claim;
	uint32_t bit = 1u << m;

	if (twin_thread() != c->of)
		return;
	p->n->claims |= 1;
	c->other_disk |= p->s->disk[m].exchanged;
	c->must |= c->read[0] & c->moved & bit;
	c->moved &= ~bit;
	if (c->wrote_ms && p->s->now < c->wrote_ms + c->wait_ms)
		sim_violation(p->s, "I3: node %u looks %llu ms after its claims, and had to wait for %u ms", p->n->id, (unsigned long long)(p->s->now - c->wrote_ms),
			      c->wait_ms);
	if (c->wrote_ms) {
		c->read[2] |= bit;
	} else if (c->read[0] & bit) {
		c->read[1] |= bit;
	} else {
		c->read[0] |= bit;
		c->read_ms = p->s->now;
		note_stamps(p, &p->s->disk[m]);
	}
}

void twin_super_read(struct proc *p, uint32_t m)
{
	struct twin_claim *c = &p->claim;

	if (!p->n->claims || twin_thread() != c->of)
		return;
	c->must |= c->newer & 1u << m;
	c->other_disk |= p->s->disk[m].exchanged;
	c->checked = p->s->disk[m].exchanged ? c->checked & ~(1u << m) : c->checked | 1u << m;
}

void twin_stamps_written(struct proc *p, uint32_t m)
{
	struct twin_claim *c = &p->claim;

	if (twin_thread() != c->of)
		return;
	note_wait(p);
	if (c->must)
		sim_violation(p->s, "I3: node %u claims a slot on member %u, and has seen that another machine uses the array", p->n->id, m);
	if (!(c->read[1] & c->checked & 1u << m))
		sim_violation(p->s, "I3: node %u claims a slot on member %u, at which it has not looked twice", p->n->id, m);
	if (p->s->now < c->read_ms + c->wait_ms)
		sim_violation(p->s, "I3: node %u claims a slot %llu ms after its first look, and had to wait for %u ms", p->n->id,
			      (unsigned long long)(p->s->now - c->read_ms), c->wait_ms);
	p->n->claims |= 2;
	c->moved &= ~(1u << m);
	c->wrote_ms = p->s->now;
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* Each of these devices has a superblock of another array, and the table says that it has a member in sync. */
static bool table_has_strangers(const struct proc *p)
{
	struct ddr_super sb;

	if (!p->n->strangers || p->was_refused || !check_newest_super(p->s, &sb))
		return false;
	for (uint32_t i = 0; i < p->s->g.roles; i++) {
		uint32_t m = p->n->k.disk[i];

		if (m < sb.members && (p->n->strangers >> m & 1) && sb.member[m].state == DDR_MEMBER_IN_SYNC && !disk_gone(p->s, p->n, &p->s->disk[m]) &&
		    !(p->absent >> m & 1) && p->s->disk[m].hangs_until[p->n - p->s->node] <= p->began_ms)
			return true;
	}
	return false;
}

/* Two members in sync at each other's place; what no superblock ever said; or a module of another release. (Of a member that is out nothing counts.) */
static bool table_is_wrong(const struct proc *p)
{
	const struct kernel *k = &p->n->k;
	struct ddr_super sb;

	if (!p->n->wrong_table || !check_newest_super(p->s, &sb))
		return false;
	if (p->n->wrong_table != 8)
		return true;
	for (uint32_t i = 0; i < 2; i++)
		if (k->disk[i] >= sb.members || sb.member[k->disk[i]].state != DDR_MEMBER_IN_SYNC || sb.member[k->disk[i]].role != i ||
		    p->s->disk[k->disk[i]].failed || gone(p->s, p->n, k->disk[i]) || p->was_refused || (p->absent >> k->disk[i] & 1))
			return false;
	return true;
}

/* Was a slot another instance's, as the load has read it? */
static bool open_slot(const struct proc *p, const struct ddr_sm_config *cfg)
{
	for (uint32_t i = 0; i < cfg->super->slots; i++)
		if (cfg->super->slot_node[i] && (cfg->owners->slot[i].instance.cookie != p->n->k.cookie ||
						 memcmp(cfg->owners->slot[i].instance.boot_id, p->d->boot_id, sizeof(p->d->boot_id)) != 0))
			return true;
	return false;
}

void twin_load_ends(struct proc *p, const struct ddr_sm_config *cfg)
{
	const struct twin_claim *c = &p->claim;

	if (c->must)
		sim_violation(p->s, "I3: node %u starts the array, and has seen that another machine uses it", p->n->id);
	if (c->wrote_ms && !c->read[2])
		sim_violation(p->s, "I3: node %u starts the array, and has not looked at its claims", p->n->id);
	if (cfg->adopt && !p->s->cluster && !c->wrote_ms && open_slot(p, cfg))
		sim_violation(p->s, "I3: node %u adopts the array, and claims no slot", p->n->id);
	if (table_is_wrong(p))
		sim_violation(p->s, "node %u starts the array with a wrong table (%u)", p->n->id, p->n->wrong_table);
	if (table_has_strangers(p))
		sim_violation(p->s, "node %u starts the array, and its table has disks of another one", p->n->id);
	p->n->claims = 0;
}

/* Nothing that it could read shows whether another machine uses the array. */
static bool saw_nothing(const struct proc *p)
{
	struct ddr_super sb;

	if (!p->claim.late || !check_newest_super(p->s, &sb))
		return false;
	for (uint32_t m = 0; m < sb.members; m++)
		if (sb.member[m].state == DDR_MEMBER_IN_SYNC && !(p->claim.late >> m & 1) && !gone(p->s, p->n, m) && !(p->absent >> m & 1))
			return false;
	return true;
}

bool twin_not_adopted(const struct proc *p)
{
	return p->claim.must || p->claim.other_disk || saw_nothing(p);
}

bool twin_strangers_go(struct proc *p)
{
	bool any = p->n->strangers || p->n->strangers_gone;

	p->n->strangers_gone = false;
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (p->n->strangers >> m & 1)
			p->s->disk[m].exchanged = false;
	if (any)
		sim_trace(p->s, "node %u: its own disks are back", p->n->id);
	p->n->strangers = 0;
	return any;
}

/* ---- what befalls it ---------------------------------------------------------------------------- */

static bool stamps(struct sim *s, struct disk *d, uint64_t how, uint64_t seq)
{
	struct ddr_stamp stamp = { .kind = how == 2 ? DDR_STAMP_CLAIM : DDR_STAMP_OWNER, .seq = seq, .generation = 1, .node = OTHER, .machine = { OTHER },
				   .instance = { .boot_id = { OTHER }, .cookie = OTHER }, .stop_ms = seq % 3 ? 30000 : 90000 };

	memcpy(stamp.array_uuid, s->sb0.array_uuid, sizeof(stamp.array_uuid));
	stamp.claim[0] = how == 2 ? OTHER : 0;
	if (seq % 4)
		strcpy(stamp.name, "elsewhere");
	if (how == 3) {
		memset(d->stamp[0][seq & 1], (int)(1 + seq % 200), DDR_META_BLOCK);
		return true;
	}
	for (unsigned int i = 0; i < (how == 2 ? 2u : 1u); i++, stamp.seq++)
		if (ddr_stamp_encode(&stamp, &s->sb0, d->stamp[0][stamp.seq & 1]).code != DDR_FE_OK)
			sim_violation(s, "a stamp that cannot be");
	return true;
}

/* What a change of members would write, and nothing is different in it but its number. The members that have it then. */
static uint32_t supers(struct sim *s, const struct proc *p)
{
	struct ddr_super newest, sb;
	static struct ddr_owners owners;
	uint32_t written = 0;

	if ((p->n->claims & 2) || !check_newest_super(s, &newest))
		return 0;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (twin_pending(p, m))
			return 0;
	check_newest_owners(s, &owners);
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		struct disk *d = &s->disk[m];

		if (!d->has_super || (d->super.seq | 1) != (newest.seq | 1) || disk_gone(s, p->n, d) || d->exchanged)
			continue;
		sb = newest;
		sb.this_member = (uint16_t)m;
		for (unsigned int c = 0; c < 2; c++) {
			sb.seq = (newest.seq & ~1ull) + 2 + c;
			if (ddr_owners_encode(&owners, &sb, d->pages[c]).code || ddr_super_encode(&sb, d->sb[c]).code)
				sim_violation(s, "a superblock that cannot be");
		}
		disk_landed(s, d, NULL);
		written |= 1u << m;
	}
	return written;
}

bool twin_others(struct sim *s, struct node *n, uint64_t how, uint64_t members)
{
	struct proc *p = twin_of(s, n);
	const struct ddr_array *a = p->alive ? twin_array(p) : NULL;
	uint32_t done = 0, newer = 0;

	if (s->cluster || !n->claims || !a || !a->load)
		return false;
	if (how == 4 && !(newer = supers(s, p)))
		return false;
	s->rare.moves++;
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		struct disk *d = &s->disk[m];

		if (how != 4 && (members >> m & 1) && !disk_gone(s, n, d) && !d->exchanged)
			done |= stamps(s, d, how, 2000000 + 2 * s->rare.moves + (how == 1 ? s->rare.moves & 1 : 0)) ? 1u << m : 0;
	}
	p->claim.moved |= done;
	p->claim.newer |= newer;
	sim_trace(s, "node %u: another machine uses the array that it adopts (%llu, members %x)", n->id, (unsigned long long)how, done | newer);
	return done || how == 4;
}

bool twin_mute(struct sim *s, struct node *n, uint64_t members, uint64_t ms)
{
	if (s->cluster || !n->claims || n->mute)
		return false;
	n->mute = (uint32_t)members;
	n->mute_until = s->now + ms;
	sim_trace(s, "node %u: members %x do not answer who looks at their stamps for %llu ms", n->id, n->mute, (unsigned long long)ms);
	return true;
}

bool twin_looks_mute(const struct proc *p, uint32_t m)
{
	p->n->mute = p->s->now < p->n->mute_until ? p->n->mute : 0;
	return p->n->claims && (p->n->mute >> m & 1);
}

static void exchange(struct disk *d)
{
	d->exchanged = true;
	d->blank = d->small = false;
	d->strayed = 0;
}

/* Somebody has confused the cables: until the array is refused, and its own disks are put back. */
bool twin_strangers(struct sim *s, struct node *n, uint64_t members)
{
	struct proc *p = twin_of(s, n);

	if (s->cluster || s->lossy || n->k.there || p->alive || n->strangers)
		return false;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((members >> m & 1) && (s->disk[m].exchanged || twin_pending(p, m)))
			return false;
	n->strangers = (uint32_t)members & ((1u << s->sb0.members) - 1);
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (n->strangers >> m & 1)
			exchange(&s->disk[m]);
	sim_trace(s, "node %u: disks of another array are in place of members %x", n->id, n->strangers);
	return true;
}

/* The next table of this daemon cannot be loaded. */
bool twin_no_table(struct node *n, uint64_t error)
{
	n->no_table = (int)error;
	return n->table_due || n->resize;
}

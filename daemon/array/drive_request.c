// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of this node's operator to an array, as inputs of the state machine; and the cancelling of requests that no client waits
 * for any more. See array.h.
 *
 * Must never: let a request outlive the client that made it; be called from within a step, except for the *_late() functions.
 */
#include <string.h>

#include "daemon/array/drive.h"

const char *ddr_drive_request(struct ddr_array *a, const struct ddr_input *in)
{
	a->refusal = a->broken;
	ddr_drive_step(a, in);
	return a->refusal;
}

const char *ddr_drive_set(struct ddr_array *a, enum ddr_sm_key key, uint64_t value)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_SET);

	in->key = key;
	in->value = value;
	return ddr_drive_request(a, in);
}

const char *ddr_drive_verify(struct ddr_array *a, uint32_t op, uint32_t priority, uint32_t flags)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_VERIFY);

	in->key = op;
	in->value = priority;
	in->members = flags;
	return ddr_drive_request(a, in);
}

const char *ddr_drive_clean(struct ddr_array *a)
{
	const char *why;

	a->clean_asked = true;
	a->clean_late = false;
	a->clean_refusal = NULL;
	a->quiet_until_ms = UINT64_MAX;
	why = ddr_drive_request(a, ddr_drive_input(a, DDR_IN_OP_CLEAN));
	if (why) {
		a->clean_asked = false;
		a->clean_late = true;		/* the refusal may have been meant for another request */
		a->quiet_until_ms = 0;
	}
	return why;
}

void ddr_drive_clean_late(struct ddr_array *a)
{
	a->clean_late = true;
	ddr_drive_wake(a);
}

/*
 * A clean stop holds back all background work, so it must not outlive the client that asked for it: it did not complete, or the
 * device was not removed.
 */
static void forget_clean(struct ddr_array *a, uint64_t now_ms)
{
	bool stays = a->quiet_until_ms && a->quiet_until_ms != UINT64_MAX && now_ms >= a->quiet_until_ms;

	if (a->removed || a->parting || !(a->clean_late || stays))
		return;
	a->clean_late = a->clean_asked = false;
	a->quiet_until_ms = 0;
	ddr_drive_step(a, ddr_drive_input(a, DDR_IN_OP_STAY));
}

const char *ddr_drive_accept(struct ddr_array *a)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_ACCEPT);

	in->count = ddr_super_regions(&a->super);
	return ddr_drive_request(a, in);
}

static const char *of_member(struct ddr_array *a, enum ddr_in_type type, uint32_t member, const uint8_t *uuid)
{
	struct ddr_input *in = ddr_drive_input(a, type);

	in->member = member;
	if (uuid)
		memcpy(in->uuid, uuid, sizeof(in->uuid));
	return ddr_drive_request(a, in);
}

const char *ddr_drive_fail(struct ddr_array *a, uint32_t member)
{
	return of_member(a, DDR_IN_OP_FAIL_MEMBER, member, NULL);
}

const char *ddr_drive_add(struct ddr_array *a, const uint8_t uuid[16])
{
	return of_member(a, DDR_IN_OP_ADD, DDR_NO_MEMBER, uuid);
}

/* More than there are clients: the requests of clients that came and went within one tick. The last ones count; entries of others stay. */
void ddr_drive_add_late(struct ddr_array *a, const uint8_t uuid[16])
{
	memcpy(a->withdrawn[a->n_withdrawn % DDR_ARRAY_WITHDRAWN], uuid, sizeof(a->withdrawn[0]));
	a->n_withdrawn++;
	ddr_drive_wake(a);
}

static void forget_adds(struct ddr_array *a)
{
	for (unsigned int i = 0; i < a->n_withdrawn && i < DDR_ARRAY_WITHDRAWN; i++) {
		struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_WITHDRAW);

		memcpy(in->uuid, a->withdrawn[i], sizeof(in->uuid));
		ddr_drive_step(a, in);
	}
	a->n_withdrawn = 0;
}

const char *ddr_drive_remove(struct ddr_array *a, uint32_t member, const uint8_t uuid[16])
{
	return of_member(a, DDR_IN_OP_REMOVE, member, uuid);
}

static void forget_late(struct ddr_array *a)
{
	while (a->replace.late) {
		struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_REPLACE);

		in->member = (uint32_t)__builtin_ctz(a->replace.late);
		in->value = DDR_NO_MEMBER;
		a->replace.late &= a->replace.late - 1;
		ddr_drive_step(a, in);
	}
}

void ddr_drive_replace_late(struct ddr_array *a, uint32_t spare)
{
	a->replace.late |= 1u << spare;		/* the caller may be within a step */
	ddr_drive_wake(a);
}

const char *ddr_drive_replace(struct ddr_array *a, uint32_t member, uint32_t spare)
{
	struct ddr_input *in;
	const char *why;

	forget_late(a);
	in = ddr_drive_input(a, DDR_IN_OP_REPLACE);
	in->member = member;
	in->value = spare;
	why = ddr_drive_request(a, in);
	if (!why) {
		a->replace.spare = spare;
		a->replace.refusal = NULL;
	}
	return why;
}

const char *ddr_drive_seek(struct ddr_array *a, uint32_t member)
{
	return of_member(a, DDR_IN_OP_SEEK, member, NULL);
}

void ddr_drive_request_tick(struct ddr_array *a, uint64_t now_ms)
{
	forget_late(a);
	forget_adds(a);
	forget_clean(a, now_ms);
}

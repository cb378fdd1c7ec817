// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What has to be settled before the next event of the total order, and what is sent again in a new ring.
 *
 * Must never: depend on what only this node knows, where it settles.
 */
#include "sm_int.h"

void ddr_sm_settle(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	ddr_sm_member_settle(sm, s);
	ddr_order_ex_settle(s);
	ddr_sm_grow_settle(sm, s);
}

void ddr_sm_resend(struct ddr_sm *sm)
{
	if (sm->own.start == DDR_S_SENT)
		sm->own.start = DDR_S_OFF;
	sm->own.renew_sent = false;
	ddr_sm_map_view(sm);
	ddr_sm_member_view(sm);
	ddr_sm_ex_view(sm);
	ddr_sm_gone_resend(sm);
	ddr_sm_fence_resend(sm);
	ddr_sm_recover_resend(sm);
	ddr_sm_rebuild_view(sm);
	ddr_sm_verify_view(sm);
	ddr_sm_seek_view(sm);
	ddr_sm_grow_view(sm);
	ddr_sm_use_view(sm);
}

// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What is being waited for, as text: for `waits` of status, and for events.
 *
 * A value without a text does not compile, whatever the options of the build are: the switches below have no default.
 *
 * Must never: have a default.
 */
#include "sm_int.h"

#pragma GCC diagnostic error "-Wswitch"

const char *ddr_sm_wait_text(enum ddr_sm_wait wait)
{
	switch (wait) {
	case DDR_SM_WAIT_NOTHING:
		return NULL;
	case DDR_SM_WAIT_FENCED:
		return "is lost: its regions wait until it is fenced or returns";
	case DDR_SM_WAIT_EXCLUDED:
		return "was declared dead: its regions wait until it is fenced, even if its daemon runs again";
	case DDR_SM_WAIT_ACK:
		return "is lost and no node can fence it: make sure that it is powered off, then type ddraid fence-ack";
	case DDR_SM_WAIT_FAILS:
		return "is lost and cannot be fenced; all nodes with a fence_command have failed and try again: correct that, or make sure that it is "
		       "powered off, then type ddraid fence-ack";
	case DDR_SM_WAIT_BACK:
		return "is lost, but its machine is back under another node id: its regions wait until ddraidd there says that nothing of that time is left";
	case DDR_SM_WAIT_STRANGER:
		return "is another machine than the one that has its slot and may still write. Neither is fenced: that could hit the wrong one. If the old one is "
		       "powered off (or this is the same one, rebooted without its identity file), type ddraid fence-ack";
	case DDR_SM_WAIT_QUORUM:
		return "no quorum: I/O is frozen until more nodes of the cluster are up";
	case DDR_SM_WAIT_VIEW:
		return "the nodes have not agreed on their view yet";
	case DDR_SM_WAIT_STATE:
		return "this node is receiving the state of the group";
	case DDR_SM_WAIT_TOLD_ACK:
		return "it is lost and no node can fence it: make sure that it is powered off, then type ddraid fence-ack";
	case DDR_SM_WAIT_TOLD_NEXT:
		return "fencing failed; the next node tries";
	case DDR_SM_WAIT_TOLD_FAILS:
		return "fencing failed on every node that can; it is tried again after a pause of up to 60 s. If that does not help, make sure that the "
		       "node is powered off, then type ddraid fence-ack";
	case DDR_SM_WAIT_TOLD_STRANGER:
		return "another machine has its node id now and waits, since the old one may still write. Neither is fenced: that could hit the wrong one. If the "
		       "old one is powered off, type ddraid fence-ack";
	}
	return NULL;
}

const char *ddr_sm_space_text(enum ddr_space kind)
{
	switch (kind) {
	case DDR_SPACE_SUPER:
		return "superblocks cannot be written; what depends on them waits (a member that fails, a node that starts)";
	case DDR_SPACE_LOG:
		return "writes to regions that are not marked dirty yet wait";
	case DDR_SPACE_MAP:
		return "regions stay marked dirty until the region map is written";
	case DDR_SPACE_SLOT:
		return "the recovery of another node's regions waits";
	case DDR_SPACE_GROW:
		return "the array does not grow until that is resolved";
	case DDR_SPACE_JOB:
		return "resync, rebuild and repair wait";
	case DDR_SPACE_KINDS:
		break;
	}
	return NULL;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * In which versions of the protocol between nodes an array is served here: this daemon has to speak them, and the module that has the array has to serve
 * them. See array.h.
 *
 * Must never: offer a version that the loaded module does not serve. The other nodes would rely on what this kernel does not do [note 51].
 */
#include <stdio.h>

#include "daemon/array/array.h"
#include "lib/wire/msg.h"

_Static_assert(DDR_SERVES_LOWEST == DDR_MSG_LOWEST && DDR_SERVES_HIGHEST == DDR_MSG_HIGHEST, "a release's module serves all that its daemon speaks");

bool ddr_drive_speaks(const struct ddr_array *a, struct ddr_speaks *both)
{
	const struct ddr_speaks own = { DDR_MSG_LOWEST, DDR_MSG_HIGHEST };

	return ddr_speaks_both(own, (struct ddr_speaks){ a->bind.lowest, a->bind.highest }, both);
}

/* An older module can only be replaced once its arrays are gone; a newer one waits for its daemon. */
void ddr_drive_speaks_not(struct ddr_array *a)
{
	bool older = a->bind.highest < DDR_MSG_LOWEST;

	snprintf(a->error, sizeof(a->error), "the loaded kernel module serves versions %u to %u of the protocol between nodes, and this ddraidd speaks versions %u "
					     "to %u. Install the package %s of the same release, then type: %s",
		 a->bind.lowest, a->bind.highest, DDR_MSG_LOWEST, DDR_MSG_HIGHEST, older ? "ddraid-dkms" : "ddraid",
		 older ? "ddraid stop --all && systemctl stop ddraidd && modprobe -r dm-ddraid && systemctl start ddraidd ddraid" : "systemctl restart ddraidd");
}

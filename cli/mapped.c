// SPDX-License-Identifier: GPL-2.0-or-later
/* See mapped.h. */
#include <json-c/json.h>

#include "cli/client.h"
#include "cli/dm.h"
#include "cli/mapped.h"
#include "lib/dm.h"

void cli_mapped_add(struct json_object *arrays)
{
	struct cli_dm_info info;
	struct ddr_error err;

	ddr_dm_init();
	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *a = client_at(arrays, i);

		/* by its uuid: the device may have been renamed (dmsetup) */
		if (!json_object_is_type(a, json_type_object) || cli_dm_find_array(client_text(a, "uuid"), &info, &err) || !info.exists)
			continue;
		json_object_object_add(a, "suspended", json_object_new_boolean(info.suspended));
		json_object_object_add(a, "shown", json_object_new_boolean(info.live));
	}
}

bool cli_mapped_hidden(struct json_object *array)
{
	return client_flag(array, "ready") && client_object(array, "shown") && !client_flag(array, "shown");
}

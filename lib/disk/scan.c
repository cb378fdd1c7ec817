/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds and assembles arrays on this machine; see scan.h. Which devices may hold a member: scan_sys.c. The table
 * line: scan_table.c.
 */
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uuid/uuid.h>

#include "lib/disk/look.h"
#include "lib/disk/scan.h"
#include "lib/disk/scan_udev.h"

#define SYS_BLOCK	"/sys/class/block"
#define POLL_MS		250u	/* how often the progress of slow devices is checked */
#define AT_ONCE		32u	/* devices read in parallel: many hanging ones cost hardly more time than one */

/* -------------------------------------------------- the scan */

/* True if what was found is, or was, a superblock of ours. */
static bool has_trace(const struct ddr_supers *s)
{
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++) {
		enum ddr_format_error code = s->copy[i].fault.code;

		if (s->copy[i].found)
			return true;
		if (!s->copy[i].read_failed && code && code != DDR_FE_BLANK && code != DDR_FE_MAGIC)
			return true;
	}
	return false;
}

/* A scan in progress, and the devices that are being read. */
struct search {
	struct ddr_scan *scan;
	const struct ddr_scan_how *how;
	struct ddr_look *look[AT_ONCE];
	unsigned int at[AT_ONCE];	/* their places in the order of the search */
	uint64_t moves[AT_ONCE];	/* the progress of each at the last check */
	size_t n;
	unsigned int next;
	uint64_t until_ms;		/* answers are waited for until then */
	bool enough;			/* what was found is all that is needed ... */
	uint64_t moved_ms;		/* ... and no device has made progress since then */
};

static int add_hung(struct ddr_scan *scan, const char *path, bool pending, struct ddr_error *err)
{
	struct ddr_scan_hung *list = realloc(scan->hung, (scan->n_hung + 1) * sizeof(*list));

	if (!list)
		return ddr_error_call(err, ENOMEM, "out of memory");
	scan->hung = list;
	snprintf(list[scan->n_hung].path, sizeof(list->path), "%s", path);
	list[scan->n_hung].pending = pending;
	list[scan->n_hung++].known = !pending && !ddr_look_tell(path);
	return 0;
}

static int add_device(struct ddr_scan *scan, const struct ddr_look *look, unsigned int at, struct ddr_error *err)
{
	struct ddr_scan_device *list, *d;

	if (look->error.own && (!look->opened || look->supers.newest < 0)) {	/* it may be a member: without it nothing can be said */
		*err = look->error;
		return -1;
	}
	if (!look->opened || !has_trace(&look->supers))
		return 0;
	list = realloc(scan->dev, (scan->n + 1) * sizeof(*list));
	if (!list)
		return ddr_error_call(err, ENOMEM, "out of memory");
	scan->dev = list;
	d = &list[scan->n++];
	memcpy(d->path, look->path, sizeof(d->path));
	d->bytes = look->bytes;
	d->supers = look->supers;
	d->error = look->error;
	d->at = at;
	memcpy(d->foreign, look->foreign, sizeof(d->foreign));
	return 0;
}

/* Notes the progress of all. Has any of them made progress since the last time? */
static bool any_moved(struct search *s)
{
	bool moved = false;

	for (size_t i = 0; i < s->n; i++) {
		uint64_t moves = ddr_look_moves(s->look[i]);

		moved |= moves != s->moves[i];
		s->moves[i] = moves;
	}
	return moved;
}

/*
 * Waits for the first answer. Returns its index, or -1: none came in time, and none is to be expected soon. Progress is only checked while
 * nothing answers: a check costs four system calls for each device.
 */
static int wait_first(struct search *s)
{
	uint64_t now = ddr_look_now();
	int first = -1;

	while (first < 0 && now < s->until_ms && (!s->enough || now < s->moved_ms + DDR_SCAN_GRACE_MS)) {
		bool polls = s->enough && now + POLL_MS < s->until_ms;

		first = ddr_look_wait_first(s->look, s->n, polls ? now + POLL_MS : s->until_ms);
		now = ddr_look_now();
		if (first < 0 && any_moved(s))
			s->moved_ms = now;
	}
	s->scan->cut |= first < 0 && !(s->enough && now >= s->moved_ms + DDR_SCAN_GRACE_MS);
	return first;
}

/* One device has answered, or is late, or the time is over: takes its result and ends the look. */
static int settle(struct search *s, struct ddr_error *err)
{
	int first = wait_first(s), i = first < 0 ? 0 : first, rc;
	struct ddr_look *look = s->look[i];
	unsigned int at = s->at[i];

	s->n--;
	memmove(&s->look[i], &s->look[i + 1], (s->n - (size_t)i) * sizeof(s->look[0]));	/* NOLINT(bugprone-sizeof-expression): pointers are moved */
	memmove(&s->at[i], &s->at[i + 1], (s->n - (size_t)i) * sizeof(s->at[0]));
	memmove(&s->moves[i], &s->moves[i + 1], (s->n - (size_t)i) * sizeof(s->moves[0]));
	rc = ddr_look_ended(look) ? add_device(s->scan, look, at, err) : add_hung(s->scan, look->path, first < 0, err);
	ddr_look_put(look);
	if (first >= 0) {
		s->moved_ms = ddr_look_now();
		s->enough = !rc && s->how->enough && s->how->enough(s->how->ctx, s->scan);
	}
	return rc;
}

static int in_order(const void *a, const void *b)
{
	const struct ddr_scan_device *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* After an error nothing is waited for any more. */
static int take_all(struct search *s, int rc, struct ddr_error *err)
{
	while (s->n && !rc)
		rc = settle(s, err);
	for (size_t i = 0; i < s->n; i++)
		ddr_look_put(s->look[i]);
	if (!rc && s->scan->n)
		qsort(s->scan->dev, s->scan->n, sizeof(*s->scan->dev), in_order);
	return rc;
}

static bool left_out(const struct ddr_scan_how *how, const char *path)
{
	struct stat st;

	if (how->n_leave_out == 0 || stat(path, &st) || !S_ISBLK(st.st_mode))
		return false;
	for (size_t i = 0; i < how->n_leave_out; i++)
		if (how->leave_out[i] == st.st_rdev)
			return true;
	return false;
}

static int look_at(struct search *s, const char *path, unsigned int flags, struct ddr_error *err)
{
	struct ddr_look *look;

	if (left_out(s->how, path))
		return 0;
	if (s->n == AT_ONCE && settle(s, err))
		return -1;
	switch (ddr_look_start(&look, path, flags, s->how->limit_ms, err)) {
	case DDR_LOOK_FAILED:
		return -1;
	case DDR_LOOK_HANGS:
		return add_hung(s->scan, path, false, err);
	case DDR_LOOK_RUNS:
		s->at[s->n] = s->next++;
		s->moves[s->n] = 0;
		s->look[s->n++] = look;
		s->moved_ms = ddr_look_now();	/* it has not had its time yet, however long it took to start all of them */
	}
	return 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_possible(const struct dirent *e)
{
	return !ddr_scan_never_a_member(e->d_name);
}

/* Looks at those of @n devices that udev's records do not rule out. */
static int scan_some(struct search *s, struct dirent *const *list, size_t n, struct ddr_scan_record *record, enum ddr_scan_pick *pick,
		     struct ddr_error *err)
{
	char path[PATH_MAX];
	int rc = 0;

	for (size_t i = 0; i < n; i++)
		ddr_scan_record_read(list[i]->d_name, &record[i]);
	ddr_scan_picks(record, n, s->how->first, pick);
	for (size_t i = 0; i < n && !rc; i++) {
		if (pick[i] == DDR_SCAN_SKIP || !ddr_scan_worth_opening(list[i]->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/%s", list[i]->d_name);
		for (char *p = path; (p = strchr(p, '!')); )
			*p = '/';	/* sysfs writes the slash of cciss/c0d0 as '!' */
		rc = look_at(s, path, pick[i] == DDR_SCAN_BRIEF ? DDR_LOOK_BRIEF : 0, err);
	}
	return rc;
}

static int scan_all(struct search *s, struct ddr_error *err)
{
	struct ddr_scan_record *record;
	enum ddr_scan_pick *pick;
	struct dirent **list;
	int n = scandir(SYS_BLOCK, &list, is_possible, compare_names), rc;

	if (n < 0)
		return ddr_error_call(err, errno, "cannot list the block devices in " SYS_BLOCK ": %s", strerror(errno));
	record = calloc((size_t)n + 1, sizeof(*record));
	pick = calloc((size_t)n + 1, sizeof(*pick));
	rc = record && pick ? scan_some(s, list, (size_t)n, record, pick, err) : ddr_error_call(err, ENOMEM, "out of memory");
	free(record);
	free(pick);
	for (int i = 0; i < n; i++)
		free(list[i]);
	free(list);
	return rc;
}

static bool seen(const struct search *s, const char *path)
{
	for (size_t i = 0; i < s->scan->n; i++)
		if (strcmp(s->scan->dev[i].path, path) == 0)
			return true;
	for (size_t i = 0; i < s->scan->n_hung; i++)
		if (strcmp(s->scan->hung[i].path, path) == 0)
			return true;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->look[i]->path, path) == 0)
			return true;
	return false;
}

/* One pattern of how.listed. Two names of the same device count once. */
static int scan_pattern(struct search *s, const char *pattern, struct ddr_error *err)
{
	char path[PATH_MAX];
	glob_t found;
	int rc = 0;

	if (glob(pattern, 0, NULL, &found))
		return 0;
	for (size_t i = 0; !rc && i < found.gl_pathc; i++)
		if (realpath(found.gl_pathv[i], path) && !seen(s, path))
			rc = look_at(s, path, DDR_DEV_FILE, err);
	globfree(&found);
	return rc;
}

static int scan_listed(struct search *s, const char *listed, struct ddr_error *err)
{
	char *copy = strdup(listed), *state = NULL;
	int rc = copy ? 0 : ddr_error_call(err, ENOMEM, "out of memory");

	for (char *p = copy ? strtok_r(copy, " \t\n", &state) : NULL; p && !rc; p = strtok_r(NULL, " \t\n", &state))
		rc = scan_pattern(s, p, err);
	free(copy);
	return rc;
}

int ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err)
{
	const char *listed = how->listed;
	struct search s = { .scan = scan, .how = how, .moved_ms = ddr_look_now(), .until_ms = UINT64_MAX };
	int rc;

	if (how->wait_ms)
		s.until_ms = s.moved_ms + how->wait_ms;
	*scan = (struct ddr_scan){ 0 };
	s.enough = how->enough && how->enough(how->ctx, scan);
	if (!listed && geteuid() != 0)
		return ddr_error_set(err, "only root may read the disks; use sudo");
	rc = take_all(&s, listed ? scan_listed(&s, listed, err) : scan_all(&s, err), err);
	if (rc)
		ddr_scan_free(scan);
	return rc;
}

void ddr_scan_free(struct ddr_scan *scan)
{
	free(scan->dev);
	free(scan->hung);
	*scan = (struct ddr_scan){ 0 };
}

/* -------------------------------------------------- arrays of the scan */

static const struct ddr_super *super_of(const struct ddr_scan_device *d)
{
	return d->supers.newest < 0 ? NULL : &d->supers.copy[d->supers.newest].super;
}

/* Is @a the newer of two superblocks of one array? */
static bool is_newer(const struct ddr_super *a, const struct ddr_super *b)
{
	return a->generation != b->generation ? a->generation > b->generation : a->seq > b->seq;
}

static int by_name(const void *a, const void *b)
{
	const struct ddr_scan_name *one = a, *two = b;
	int order = strcmp(one->name, two->name);

	return order ? order : memcmp(one->uuid, two->uuid, DDR_UUID_LEN);
}

size_t ddr_scan_arrays(const struct ddr_scan *scan, struct ddr_scan_name *list, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < scan->n; i++) {
		const struct ddr_super *sb = super_of(&scan->dev[i]);
		size_t k = 0;

		while (sb && k < n && memcmp(list[k].uuid, sb->array_uuid, DDR_UUID_LEN) != 0)
			k++;
		if (!sb || k == max || (k < n && !is_newer(sb, super_of(&scan->dev[list[k].device]))))
			continue;
		memcpy(list[k].uuid, sb->array_uuid, DDR_UUID_LEN);
		memcpy(list[k].name, sb->name, sizeof(list[k].name));
		list[k].device = i;
		n += k == n;
	}
	qsort(list, n, sizeof(*list), by_name);
	return n;
}

const struct ddr_scan_name *ddr_scan_twin(const struct ddr_scan_name *list, size_t n, size_t i)
{
	for (size_t k = 0; k < n; k++)
		if (k != i && strcmp(list[k].name, list[i].name) == 0)
			return &list[k];
	return NULL;
}

/* Puts the uuid of the only array with this name into @uuid. */
static int find_name(const struct ddr_scan *scan, const struct ddr_scan_name *list, size_t n, const char *name, uint8_t uuid[DDR_UUID_LEN],
		     struct ddr_error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct ddr_scan_name *twin = strcmp(list[i].name, name) == 0 ? ddr_scan_twin(list, n, i) : NULL;

		if (strcmp(list[i].name, name) != 0)
			continue;
		if (twin)
			return ddr_error_set(err, "two arrays have the name %s (see %s and %s); give the uuid, which ddraid examine shows, or "
					     "rename one of them: ddraid rename UUID NEWNAME", name, scan->dev[list[i].device].path,
					     scan->dev[twin->device].path);
		memcpy(uuid, list[i].uuid, DDR_UUID_LEN);
		return 0;
	}
	return ddr_error_set(err, "no device belongs to an array with the name %s; see ddraid examine DEV...", name);
}

/* The uuid that @which stands for: @which itself, or that of the only array with this name. */
static int find_uuid(const struct ddr_scan *scan, const char *which, uint8_t uuid[DDR_UUID_LEN], struct ddr_error *err)
{
	struct ddr_scan_name *list;
	int rc;

	if (uuid_parse(which, uuid) == 0)
		return 0;
	list = calloc(scan->n + 1, sizeof(*list));
	if (!list)
		return ddr_error_set(err, "out of memory");
	rc = find_name(scan, list, ddr_scan_arrays(scan, list, scan->n), which, uuid, err);
	free(list);
	return rc;
}

int ddr_scan_assemble(const struct ddr_scan *scan, const char *which, const struct ddr_known *known,
		  struct ddr_scan_array *array, struct ddr_error *err)
{
	uint8_t uuid[DDR_UUID_LEN];

	array->n = 0;
	if (find_uuid(scan, which, uuid, err))
		return -1;
	for (size_t i = 0; i < scan->n; i++) {
		const struct ddr_super *sb = super_of(&scan->dev[i]);

		if (!sb || memcmp(sb->array_uuid, uuid, DDR_UUID_LEN) != 0)
			continue;
		if (array->n == DDR_ASSEMBLE_MAX)
			return ddr_error_set(err, "more than %u devices claim to belong to %s; set DDRAID_DEVICES to the right ones",
					     DDR_ASSEMBLE_MAX, which);
		array->cand[array->n++] = (struct ddr_candidate){
			.device = scan->dev[i].path, .super = sb, .bytes = scan->dev[i].bytes, .foreign = scan->dev[i].foreign,
		};
	}
	if (array->n == 0)
		return ddr_error_set(err, "no device belongs to an array with the uuid %s; see ddraid examine DEV...", which);
	return ddr_assemble(array->cand, array->n, known, &array->assembly, err);
}

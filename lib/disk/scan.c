/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Finding and assembling arrays on this machine; see scan.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>
#include <libudev.h>
#include <uuid/uuid.h>

#include "lib/disk/look.h"
#include "lib/disk/scan.h"

#define SYS_BLOCK	"/sys/class/block"
#define DM_UUID_PREFIX	"DDRAID-"
#define STACK_MAX	16u	/* devices upon one another that are followed; what stands higher is left alone */
#define POLL_MS		250u	/* so often it is looked whether those that are waited for get on */
#define AT_ONCE		32u	/* devices that are looked at side by side, so that many that hang cost hardly more time than one */

/* -------------------------------------------------- what sysfs says */

/* First line of a small file; false if there is none. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(buf, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/*
 * Is the first target of a mapped device ours? One that was made by hand has no uuid that says so, and whoever reads it may wait
 * for the very daemon that looks. By the ioctl itself: libdevmapper is not for several threads.
 */
static bool has_our_target(unsigned int major, unsigned int minor)
{
	struct { struct dm_ioctl head; char data[4096]; } arg = {
		.head.version = { DM_VERSION_MAJOR, 0, 0 },
		.head.data_size = sizeof(arg), .head.data_start = sizeof(arg.head),
		.head.flags = DM_STATUS_TABLE_FLAG,
		.head.dev = (minor & 0xff) | (__u64)major << 8 | (__u64)(minor & ~0xffu) << 12,
	};
	int fd = open("/dev/" DM_DIR "/" DM_CONTROL_NODE, O_RDWR | O_CLOEXEC);
	struct dm_target_spec spec;
	bool ours;

	if (fd < 0)
		return false;
	ours = ioctl(fd, DM_TABLE_STATUS, &arg) == 0 && arg.head.target_count > 0 &&
	       arg.head.data_start + sizeof(spec) <= sizeof(arg);
	close(fd);
	if (!ours)
		return false;
	memcpy(&spec, (const char *)&arg + arg.head.data_start, sizeof(spec));
	return strncmp(spec.target_type, "ddraid", sizeof(spec.target_type)) == 0;
}

static bool is_ddraid_device(const char *name)
{
	char path[PATH_MAX], text[256];
	unsigned int major, minor;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dm/uuid", name);
	if (!read_line(path, text, sizeof(text)))
		return false;		/* no mapped device */
	if (strncmp(text, DM_UUID_PREFIX, strlen(DM_UUID_PREFIX)) == 0)
		return true;
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	return read_line(path, text, sizeof(text)) && sscanf(text, "%u:%u", &major, &minor) == 2 && has_our_target(major, minor);
}

/* True if something other than a ddraid device stands on top of @name. */
static bool held_by_others(const char *name)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool held = false;
	DIR *dir;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/holders", name);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!held && (e = readdir(dir)))
		held = e->d_name[0] != '.' && !is_ddraid_device(e->d_name);
	closedir(dir);
	return held;
}

/* Whoever opens a mapped device that is suspended waits until it is resumed. */
static bool is_suspended(const char *name)
{
	char path[PATH_MAX], suspended[32];

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dm/suspended", name);
	return read_line(path, suspended, sizeof(suspended)) && strcmp(suspended, "1") == 0;
}

/* On whatever stands on an array, a read may wait for the daemon of that array, which may be the one that looks. */
static bool stands_on_ours(const char *name, unsigned int depth)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool ours = false;
	DIR *dir;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/slaves", name);
	if (depth == 0)
		return true;
	dir = opendir(path);
	if (!dir)
		return false;		/* it has none: a disk, a partition */
	while (!ours && (e = readdir(dir)))
		ours = e->d_name[0] != '.' && (is_ddraid_device(e->d_name) || stands_on_ours(e->d_name, depth - 1));
	closedir(dir);
	return ours;
}

/*
 * Optical and floppy drives take seconds to open and never hold a member. The file of a loop device may lie on an array, and
 * memory is no place for data.
 */
static bool never_a_member(const char *name)
{
	static const char *const kinds[] = { "sr", "fd", "loop", "ram", "zram" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

/*
 * Does udev say that it is one path of a multipath device? That device is the member, also while it is not there yet. Where no udev
 * runs it says nothing.
 */
static bool is_path(const char *name)
{
	struct udev *udev = udev_new();
	struct udev_device *dev = udev ? udev_device_new_from_subsystem_sysname(udev, "block", name) : NULL;
	const char *path = dev ? udev_device_get_property_value(dev, "DM_MULTIPATH_DEVICE_PATH") : NULL;
	const char *type = dev ? udev_device_get_property_value(dev, "ID_FS_TYPE") : NULL;
	bool is = (path && strcmp(path, "1") == 0) || (type && strcmp(type, "mpath_member") == 0);

	udev_device_unref(dev);
	udev_unref(udev);
	return is;
}

static bool worth_opening(const char *name)
{
	char path[PATH_MAX], sectors[32];

	if (name[0] == '.' || never_a_member(name) || is_path(name))
		return false;
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/size", name);
	if (!read_line(path, sectors, sizeof(sectors)) || strcmp(sectors, "0") == 0)
		return false;
	return !is_ddraid_device(name) && !is_suspended(name) && !stands_on_ours(name, STACK_MAX) && !held_by_others(name);
}

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

/* A scan under way, and the devices that are being looked at. */
struct search {
	struct ddr_scan *scan;
	const struct ddr_scan_how *how;
	struct ddr_look *look[AT_ONCE];
	unsigned int at[AT_ONCE];	/* where they are in the order of the search */
	uint64_t moves[AT_ONCE];	/* how far each had got at the last poll */
	size_t n;
	unsigned int next;
	uint64_t until_ms;		/* until then answers are waited for */
	bool enough;			/* what was found is all that is needed, */
	uint64_t moved_ms;		/* and since then nothing has got on */
};

static int add_hung(struct ddr_scan *scan, const char *path, bool pending, struct ddr_error *err)
{
	struct ddr_scan_hung *list = realloc(scan->hung, (scan->n_hung + 1) * sizeof(*list));

	if (!list)
		return ddr_error_set(err, "out of memory");
	scan->hung = list;
	snprintf(list[scan->n_hung].path, sizeof(list->path), "%s", path);
	list[scan->n_hung].pending = pending;
	list[scan->n_hung++].known = !pending && !ddr_look_tell(path);
	return 0;
}

static int add_device(struct ddr_scan *scan, const struct ddr_look *look, unsigned int at, struct ddr_error *err)
{
	struct ddr_scan_device *list, *d;

	if (!look->opened || !has_trace(&look->supers))
		return 0;
	list = realloc(scan->dev, (scan->n + 1) * sizeof(*list));
	if (!list)
		return ddr_error_set(err, "out of memory");
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

/* Notes how far all have got. Has any got on since the last time? */
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

/* Waits for the first. Its index, or -1: none has answered in time, nor will soon. */
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

/* One has answered, or is late, or the time is over: it is not looked at any more. */
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
		if (s->enough)
			any_moved(s);
	}
	return rc;
}

static int in_order(const void *a, const void *b)
{
	const struct ddr_scan_device *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* After an error nothing more is waited for. */
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
	}
	return 0;
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int scan_all(struct search *s, struct ddr_error *err)
{
	char path[PATH_MAX];
	struct dirent **list;
	int n = scandir(SYS_BLOCK, &list, NULL, compare_names), rc = 0;

	if (n < 0)
		return ddr_error_set(err, "cannot list the block devices in " SYS_BLOCK ": %s", strerror(errno));
	for (int i = 0; i < n; i++) {
		if (!rc && worth_opening(list[i]->d_name)) {
			snprintf(path, sizeof(path), "/dev/%s", list[i]->d_name);
			for (char *p = path; (p = strchr(p, '!')); )
				*p = '/';	/* sysfs writes the slash of cciss/c0d0 so */
			rc = look_at(s, path, 0, err);
		}
		free(list[i]);
	}
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

/* One pattern of how.listed; two names of one device count once. */
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
	int rc = copy ? 0 : ddr_error_set(err, "out of memory");

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
		return ddr_error_set(err, "only root may look at the disks; use sudo");
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

/* The array of this name, the only one, into @uuid. */
static int find_name(const struct ddr_scan *scan, const struct ddr_scan_name *list, size_t n, const char *name, uint8_t uuid[DDR_UUID_LEN],
		     struct ddr_error *err)
{
	for (size_t i = 0; i < n; i++) {
		const struct ddr_scan_name *twin = strcmp(list[i].name, name) == 0 ? ddr_scan_twin(list, n, i) : NULL;

		if (strcmp(list[i].name, name) != 0)
			continue;
		if (twin)
			return ddr_error_set(err, "two arrays have the name %s (see %s and %s); give the uuid, which ddraid examine shows, or give one of "
					     "them another name: ddraid rename UUID NEWNAME", name, scan->dev[list[i].device].path,
					     scan->dev[twin->device].path);
		memcpy(uuid, list[i].uuid, DDR_UUID_LEN);
		return 0;
	}
	return ddr_error_set(err, "no device belongs to an array with the name %s; see ddraid examine DEV...", name);
}

/* The uuid that @which means: itself, or that of the only array of this name. */
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
			return ddr_error_set(err, "more than %u devices say that they belong to %s; set DDRAID_DEVICES "
					     "to the right ones", DDR_ASSEMBLE_MAX, which);
		array->cand[array->n++] = (struct ddr_candidate){
			.device = scan->dev[i].path, .super = sb, .bytes = scan->dev[i].bytes, .foreign = scan->dev[i].foreign,
		};
	}
	if (array->n == 0)
		return ddr_error_set(err, "no device belongs to an array with the uuid %s; see ddraid examine DEV...", which);
	return ddr_assemble(array->cand, array->n, known, &array->assembly, err);
}

/* -------------------------------------------------- the table line */

int ddr_scan_table_params(const struct ddr_scan_array *array, unsigned int options, char *buf, size_t size)
{
	/* by the bits of DDR_TABLE_* */
	static const char *const words[] = {
		"", " 1 verify_reads", " 1 fail_if_no_daemon", " 2 verify_reads fail_if_no_daemon",
	};
	const struct ddr_super *sb = &array->assembly.super;
	char uuid[37];
	size_t used;
	int n;

	uuid_unparse_lower(sb->array_uuid, uuid);
	n = snprintf(buf, size, "%s %u %u %s %" PRIu32 " %" PRIu64 " %u", uuid, sb->order,
		     sb->parity, sb->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated", sb->region_size / 512,
		     sb->data_offset / 512, sb->roles);
	for (uint32_t role = 0; role < sb->roles; role++) {
		int32_t c = ddr_assembly_role(&array->assembly, role);

		if (n < 0 || (size_t)n >= size)
			return -1;
		used = (size_t)n;
		n += snprintf(buf + used, size - used, " %s", c < 0 ? "-" : array->cand[c].device);
	}
	if (n < 0 || (size_t)n >= size)
		return -1;
	used = (size_t)n;
	n += snprintf(buf + used, size - used, "%s", words[options & (DDR_TABLE_VERIFY_READS | DDR_TABLE_FAIL_IF_NO_DAEMON)]);
	return n < 0 || (size_t)n >= size ? -1 : 0;
}

#define WORDS_BEFORE	7u	/* UUID ORDER PARITY LAYOUT REGION OFFSET MEMBERS, then the devices */

static const char *word_at(const char *text, unsigned int n)
{
	for (text += strspn(text, " "); n; n--) {
		text += strcspn(text, " ");
		text += strspn(text, " ");
	}
	return text;
}

static bool word_is(const char *word, const char *text)
{
	return strcspn(word, " ") == strlen(text) && strncmp(word, text, strlen(text)) == 0;
}

/* The options but "replace PLACE DEVICE", each with a space before it. Returns how many words that are, or -1: they do not fit. */
static int other_options(const char *word, char *buf, size_t size)
{
	size_t used = 0;
	int n = 0;

	buf[0] = '\0';
	while (*word) {
		size_t length = strcspn(word, " ");

		if (word_is(word, "replace")) {
			word = word_at(word, 3);
			continue;
		}
		if (used + length + 2 > size)
			return -1;
		used += (size_t)snprintf(buf + used, size - used, " %.*s", (int)length, word);
		word = word_at(word, 1);
		n++;
	}
	return n;
}

static void device_text(char buf[32], uint32_t major, uint32_t minor)
{
	if (major || minor)
		snprintf(buf, 32, "%" PRIu32 ":%" PRIu32, major, minor);
	else
		snprintf(buf, 32, "-");
}

char *ddr_scan_table_shadow(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *tail = members <= DDR_MAX_ROLES ? word_at(params, WORDS_BEFORE + (unsigned int)members) : "";
	size_t head = (size_t)(tail - params);
	char options[512], device[32], shadow[64] = "", count[16] = "", *text;
	int n;

	*same = false;
	if (members == 0 || members > DDR_MAX_ROLES || place >= members || *word_at(params, WORDS_BEFORE + (unsigned int)members - 1) == '\0')
		return NULL;
	n = other_options(word_at(tail, 1), options, sizeof(options));
	if (n < 0)
		return NULL;
	while (head && params[head - 1] == ' ')
		head--;
	if (major || minor) {
		device_text(device, major, minor);
		snprintf(shadow, sizeof(shadow), " replace %" PRIu32 " %s", place, device);
		n += 3;
	}
	if (n)
		snprintf(count, sizeof(count), " %d", n);
	if (asprintf(&text, "%.*s%s%s%s", (int)head, params, count, options, shadow) < 0)
		return NULL;
	*same = strcmp(text, params) == 0;
	return text;
}

/* Does a device stand beside @place, or @device beside any? */
static bool has_shadow(const char *params, uint32_t place, const char *device)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *word = members <= DDR_MAX_ROLES ? word_at(params, WORDS_BEFORE + (unsigned int)members + 1) : "";

	for (; *word; word = word_at(word, word_is(word, "replace") ? 3 : 1))
		if (word_is(word, "replace") && (strtoul(word_at(word, 1), NULL, 10) == place || word_is(word_at(word, 2), device)))
			return true;
	return false;
}

char *ddr_scan_table_replace(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same)
{
	unsigned long members = strtoul(word_at(params, WORDS_BEFORE - 1), NULL, 10);
	const char *word = word_at(params, WORDS_BEFORE + place);
	size_t length = strcspn(word, " ");
	char device[32], *text, *without;
	bool no_shadow;

	*same = false;
	if (place >= members || length == 0)
		return NULL;
	device_text(device, major, minor);
	if (asprintf(&text, "%.*s%s%s", (int)(word - params), params, device, word + length) < 0)
		return NULL;
	*same = word_is(word, device);
	if (!has_shadow(params, place, device))
		return text;
	*same = false;
	without = ddr_scan_table_shadow(text, place, 0, 0, &no_shadow);
	free(text);
	return without;
}

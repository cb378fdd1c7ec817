// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The member devices of one array. See members.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>
#include <qb/qblog.h>

#include "daemon/disk/members.h"
#include "lib/disk/bus.h"
#include "lib/disk/look.h"
#include "lib/dm.h"

struct ddr_members *ddr_members_new(void)
{
	struct ddr_members *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->refs = 1;
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		m->dev[i].fd = -1;
	return m;
}

void ddr_members_get(struct ddr_members *m)
{
	m->refs++;
}

void ddr_members_put(struct ddr_members *m)
{
	if (!m || --m->refs)
		return;
	for (struct ddr_members **p = m->all; m->ended && *p; p = &(*p)->next)
		if (*p == m) {
			*p = m->next;
			break;
		}
	while (m->n_old)
		ddr_members_close_old(m, 0);
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		ddr_dev_close(&m->dev[i]);
	free(m);
}

int ddr_members_fd(const struct ddr_members *m, unsigned int i)
{
	return m->open & ~m->exchanged & (1u << i) ? m->dev[i].fd : -1;
}

/* The value of "KEY=" in a uevent file of sysfs. False with errno. */
static bool uevent_value(const char *path, const char *key, char *buf, size_t size)
{
	size_t n = strlen(key);
	bool found = false;
	char line[256];
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, key, n) == 0 && line[n] == '=')
			found = (size_t)snprintf(buf, size, "%s", line + n + 1) < size;
	}
	fclose(f);
	errno = ENOENT;
	return found;
}

/* Is @path a node of that device? */
static bool is_node(const char *path, unsigned int major, unsigned int minor)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	errno = ENOENT;
	return S_ISBLK(st.st_mode) && st.st_rdev == makedev(major, minor);
}

bool ddr_device_node(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	char path[64], name[64];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major, minor);
	if (!uevent_value(path, "DEVNAME", name, sizeof(name)))
		return false;
	errno = ENAMETOOLONG;
	return (size_t)snprintf(buf, size, "/dev/%s", name) < size && is_node(buf, major, minor);
}

/* A device that was not resumed yet is not in sysfs. The ioctl may wait while another program removes or renames any mapped device. */
static bool dm_name_by_ioctl(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	struct dm_ioctl io = { .version = { DM_VERSION_MAJOR }, .data_size = sizeof(io), .dev = ddr_dm_dev(major, minor) };
	int fd = open("/dev/" DM_DIR "/" DM_CONTROL_NODE, O_RDWR | O_CLOEXEC);
	bool found = fd >= 0 && ioctl(fd, DM_DEV_STATUS, &io) == 0;

	if (fd >= 0)
		close(fd);
	return found && (size_t)snprintf(buf, size, "%.*s", (int)sizeof(io.name), io.name) < size;
}

bool ddr_device_dm_name(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	char path[64], name[130];	/* with the newline */
	bool found;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major, minor);
	if (access(path, F_OK))
		return dm_name_by_ioctl(major, minor, buf, size);
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/dm/name", major, minor);
	f = fopen(path, "re");
	if (!f)
		return false;
	found = fgets(name, sizeof(name), f) != NULL;
	fclose(f);
	if (!found)
		return false;
	name[strcspn(name, "\n")] = '\0';
	return (size_t)snprintf(buf, size, "%s", name) < size;
}

void ddr_device_name(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	char name[130];

	if (ddr_device_dm_name(major, minor, name, sizeof(name)) && (size_t)snprintf(buf, size, "/dev/mapper/%s", name) < size &&
	    is_node(buf, major, minor))
		return;
	if (!ddr_device_node(major, minor, buf, size))
		snprintf(buf, size, "%u:%u", major, minor);
}

const char *ddr_members_who(const struct ddr_members *m, unsigned int i, char *buf, size_t size)
{
	const char *name = i < DDR_MAX_MEMBERS ? m->name[i] : "";

	snprintf(buf, size, "%s%s%smember %u%s%s%s", *m->array ? "array '" : "", m->array, *m->array ? "': " : "", i, *name ? " (" : "", name,
		 *name ? ")" : "");
	return buf;
}

void ddr_members_log(const struct ddr_members *m, unsigned int i, const char *what, int error)
{
	char who[DDR_MEMBERS_WHO];

	qb_log(LOG_ERR, "%s: %s failed: %s", ddr_members_who(m, i, who, sizeof(who)), what, ddr_dev_strerror(ddr_members_fd(m, i), error));
}

void ddr_members_tell_usual(const struct ddr_dev *dev)
{
	if (dev->own_error)
		qb_log(LOG_WARNING, "%s: cannot create a device node in /dev/ddraid-members (%s); its usual node is locked instead, and udev "
		       "events for this disk wait until the array is stopped", dev->path, strerror(dev->own_error));
}

/* NULL: it cannot be opened, and error[] says why; or @err does, which is a failure of this process. */
static struct ddr_look *begin_open(struct ddr_members *m, unsigned int i, const char *node, unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *look = NULL;

	switch (ddr_look_open(&look, node, DDR_DEV_WRITE | DDR_DEV_OWN, limit_ms, err)) {
	case DDR_LOOK_HANGS:
		snprintf(m->error[i], sizeof(m->error[i]), "%s does not answer: it has been hanging since an earlier read", node);
		return NULL;
	case DDR_LOOK_FAILED:
		return NULL;
	case DDR_LOOK_RUNS:
		break;
	}
	return look;
}

static void end_open(struct ddr_members *m, unsigned int i, struct ddr_look *look, unsigned int limit_ms, struct ddr_error *err)
{
	if (!look)
		return;
	if (!ddr_look_wait(look)) {
		snprintf(m->error[i], sizeof(m->error[i]), "%.159s could not be opened within %u ms", look->path, limit_ms);
	} else if (!look->opened) {
		snprintf(m->error[i], sizeof(m->error[i]), "%.300s", look->error.text);
		if (look->error.own)
			*err = look->error;
	} else {
		m->dev[i] = look->dev;
		look->dev = (struct ddr_dev){ .fd = -1 };
		m->open |= 1u << i;
		ddr_members_tell_usual(&m->dev[i]);
	}
	ddr_look_put(look);
}

static void set_device(struct ddr_members *m, unsigned int i, uint32_t major, uint32_t minor)
{
	m->named |= 1u << i;
	m->major[i] = major;
	m->minor[i] = minor;
	ddr_device_name(major, minor, m->name[i], sizeof(m->name[i]));
}

int ddr_members_open(struct ddr_members *m, const struct ddr_bind *bind, unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *look[DDR_UAPI_MAX_ROLES] = { NULL };
	char node[64];

	err->own = false;
	m->n = bind->members <= DDR_UAPI_MAX_ROLES ? bind->members : DDR_UAPI_MAX_ROLES;
	for (unsigned int i = 0; i < m->n; i++) {
		unsigned int major = bind->dev_major[i], minor = bind->dev_minor[i];

		if (!major && !minor)
			continue;
		set_device(m, i, major, minor);
		if (ddr_device_node(major, minor, node, sizeof(node)))
			look[i] = begin_open(m, i, node, limit_ms, err);
		else if (ddr_own_failure(errno))
			ddr_error_call(err, errno, "cannot find the node of device %u:%u: %s", major, minor, strerror(errno));
		else
			snprintf(m->error[i], sizeof(m->error[i]), "device %u:%u is gone", major, minor);
	}
	for (unsigned int i = 0; i < m->n; i++)
		end_open(m, i, look[i], limit_ms, err);
	return err->own ? -1 : 0;
}

uint32_t ddr_members_settle_ms(const struct ddr_members *m, const struct ddr_conf *conf)
{
	bool kept = false;

	for (unsigned int i = 0; conf->settle_ms == DDR_SETTLE_AUTO && i < m->n && !kept; i++)
		kept = (m->named & (1u << i)) && ddr_bus_keeps("/sys", m->major[i], m->minor[i]);
	return ddr_conf_settle_ms(conf, kept);
}

uint32_t ddr_members_by_device(const struct ddr_members *m, uint32_t major, uint32_t minor)
{
	for (unsigned int i = 0; i < m->n; i++)
		if ((m->named & (1u << i)) && m->major[i] == major && m->minor[i] == minor)
			return i;
	return DDR_NO_MEMBER;
}

int ddr_members_add(struct ddr_members *m, const char *path, unsigned int limit_ms, struct ddr_error *err)
{
	struct stat st;

	err->own = false;
	if (m->n == DDR_MAX_MEMBERS || stat(path, &st) || !S_ISBLK(st.st_mode) ||
	    ddr_members_by_device(m, major(st.st_rdev), minor(st.st_rdev)) != DDR_NO_MEMBER)
		return 0;
	set_device(m, m->n, major(st.st_rdev), minor(st.st_rdev));
	m->n++;
	end_open(m, m->n - 1, begin_open(m, m->n - 1, path, limit_ms, err), limit_ms, err);
	return err->own ? -1 : 0;
}

void ddr_members_arrange(struct ddr_members *m, const int from[], unsigned int n, uint32_t playing)
{
	struct ddr_members old = *m;

	m->n = n;
	m->open = m->named = 0;
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++) {
		int f = i < n ? from[i] : -1;

		m->dev[i] = (struct ddr_dev){ .fd = -1 };
		m->name[i][0] = m->error[i][0] = '\0';
		m->major[i] = m->minor[i] = 0;
		if (f < 0 || !(old.named & (1u << f)))
			continue;
		m->named |= 1u << i;
		m->major[i] = old.major[f];
		m->minor[i] = old.minor[f];
		memcpy(m->name[i], old.name[f], sizeof(m->name[i]));
		memcpy(m->error[i], old.error[f], sizeof(m->error[i]));
		if ((playing & (1u << i)) && (old.open & (1u << f))) {
			m->open |= 1u << i;
			m->dev[i] = old.dev[f];
			old.dev[f] = (struct ddr_dev){ .fd = -1 };
		}
	}
	for (unsigned int f = 0; f < DDR_MAX_MEMBERS; f++)
		ddr_dev_close(&old.dev[f]);
}

bool ddr_members_replace(struct ddr_members *m, unsigned int i, struct ddr_dev *dev)
{
	if ((m->open & (1u << i)) && m->n_old == DDR_MEMBERS_OLD)
		return false;
	if (m->open & (1u << i))
		m->old[m->n_old++] = m->dev[i];
	m->dev[i] = (struct ddr_dev){ .fd = -1 };
	m->open &= ~(1u << i);
	m->exchanged &= ~(1u << i);
	m->named &= ~(1u << i);
	m->major[i] = m->minor[i] = 0;
	m->name[i][0] = m->error[i][0] = '\0';
	if (!dev)
		return true;
	m->dev[i] = *dev;
	*dev = (struct ddr_dev){ .fd = -1 };
	m->open |= 1u << i;
	set_device(m, i, major(m->dev[i].rdev), minor(m->dev[i].rdev));
	if (i >= m->n)
		m->n = i + 1;
	return true;
}

void ddr_members_exchanged(struct ddr_members *m, unsigned int i, const char *found)
{
	m->exchanged |= 1u << i;
	snprintf(m->found[i], sizeof(m->found[i]), "%s", found);
}

void ddr_members_own_again(struct ddr_members *m, unsigned int i)
{
	m->exchanged &= ~(1u << i);
}

void ddr_members_close_old(struct ddr_members *m, unsigned int i)
{
	ddr_dev_close(&m->old[i]);
	m->old[i] = m->old[--m->n_old];
}

void ddr_members_leave_out(struct ddr_members *m, unsigned int i, const char *why)
{
	ddr_dev_close(&m->dev[i]);
	m->open &= ~(1u << i);
	snprintf(m->error[i], sizeof(m->error[i]), "%.300s", why);
}

uint32_t ddr_members_lock(struct ddr_members *m, struct ddr_members_busy *busy)
{
	uint32_t members = 0, usual = 0, own = 0;
	struct ddr_error err;

	for (unsigned int i = 0; i < m->n; i++) {
		struct ddr_holder *holder = busy ? &busy->holder[i] : NULL;

		if (!(m->open & (1u << i)))
			continue;
		switch (ddr_dev_try_lock(&m->dev[i], holder, &err)) {
		case DDR_LOCK_TAKEN:
			continue;
		case DDR_LOCK_BUSY_USUAL:
			usual |= 1u << i;
			break;
		case DDR_LOCK_FAILED:
			own |= err.own ? 1u << i : 0;
			if (holder)
				*holder = (struct ddr_holder){ .text = "an error of the system" };
			break;
		case DDR_LOCK_BUSY:
			break;
		}
		members |= 1u << i;
	}
	if (busy) {
		busy->usual = usual;
		busy->own = own;
	}
	return members;
}

static uint32_t all_kept(const struct ddr_members *m)
{
	uint32_t kept = 0;

	for (unsigned int u = 0; u < DDR_MEMBERS_USERS; u++)
		kept |= m->kept[u];
	return kept;
}

/*
 * A request may have been sent to a device that was the member earlier: the locks of such devices are only released when no request
 * is in progress.
 */
static void unlock(struct ddr_members *m)
{
	uint32_t kept = all_kept(m);

	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		if (m->open & ~kept & (1u << i))
			flock(m->dev[i].fd, LOCK_UN);
	for (unsigned int i = 0; i < m->n_old && !kept; i++)
		flock(m->old[i].fd, LOCK_UN);
}

void ddr_members_keep(struct ddr_members *m, enum ddr_members_user user, uint32_t members)
{
	m->kept[user] = members;
	if (m->ended)
		unlock(m);
}

void ddr_members_end(struct ddr_members *m, struct ddr_members **all)
{
	m->ended = true;
	m->all = all;
	m->next = *all;
	*all = m;
	unlock(m);
}

uint32_t ddr_members_late(const struct ddr_members *all, const uint8_t uuid[16])
{
	uint32_t members = 0;

	for (const struct ddr_members *m = all; m; m = m->next)
		members |= memcmp(m->uuid, uuid, sizeof(m->uuid)) ? 0 : all_kept(m);
	return members;
}

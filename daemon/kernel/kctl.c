// SPDX-License-Identifier: GPL-2.0-or-later
/* The control descriptor of /dev/ddraid. See kchan.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <qb/qblog.h>
#include <qb/qbutil.h>

#include "daemon/kernel/kchan.h"

#define DEVICE		"/dev/" DDR_DEVICE_NAME
#define BATCH		64u
#define RETRY_MS	1000u	/* interval of the search for the device while /dev cannot be watched */

struct ddr_kctl {
	qb_loop_t *loop;
	void (*told)(void *ctx, const struct ddr_kctl_news *news);
	void *ctx;
	int fd;			/* the control descriptor, -1 while the module is absent */
	int inotify_fd;		/* watches /dev while fd is -1 */
	qb_loop_timer_handle retry;	/* used if /dev cannot be watched; 0: it can */
	bool retried;		/* this was logged */
	bool list_ended;
	struct ddr_rec rec[BATCH];
};

static void await_device(struct ddr_kctl *k);

static void record(struct ddr_kctl *k, const struct ddr_rec *rec)
{
	struct ddr_kctl_news news = { 0 };

	memcpy(news.uuid, rec->arg, sizeof(news.uuid));
	switch (rec->type) {
	case DDR_K_APPEARED:
		news.what = DDR_KCTL_APPEARED;
		news.listed = !k->list_ended;
		break;
	case DDR_K_RESUMED:
		news.what = DDR_KCTL_RESUMED;
		news.as_bound = rec->count != 0;
		break;
	case DDR_K_REMOVED:
		news.what = DDR_KCTL_REMOVED;
		news.cookie = rec->start;
		break;
	case DDR_K_LIST_END:
		k->list_ended = true;
		news.what = DDR_KCTL_LISTED;
		break;
	default:
		qb_log(LOG_ERR, "the kernel module sent a control record of unknown type %u; ignored", rec->type);
		return;
	}
	k->told(k->ctx, &news);
}

static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct ddr_kctl *k = data;
	ssize_t n;

	(void)revents;
	n = read(fd, k->rec, sizeof(k->rec));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0 && (size_t)n % sizeof(struct ddr_rec) == 0) {
		for (size_t i = 0; i < (size_t)n / sizeof(struct ddr_rec); i++)
			record(k, &k->rec[i]);
		return 0;
	}
	qb_log(LOG_ERR, "the control descriptor of " DEVICE " failed (%s); waiting for it to come back",
	       n < 0 ? strerror(errno) : "unexpected end");
	qb_loop_poll_del(k->loop, fd);
	close(fd);
	k->fd = -1;
	k->told(k->ctx, &(struct ddr_kctl_news){ .what = DDR_KCTL_LOST });
	await_device(k);
	return 0;
}

/* 0: open and listening. */
static int try_open(struct ddr_kctl *k)
{
	int ret;

	k->fd = open(DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (k->fd < 0)
		return -errno;
	k->list_ended = false;
	ret = qb_loop_poll_add(k->loop, QB_LOOP_HIGH, k->fd, POLLIN, k, on_readable);
	if (ret) {
		close(k->fd);
		k->fd = -1;
	}
	return ret;
}

static void stop_watching(struct ddr_kctl *k)
{
	if (k->inotify_fd < 0)
		return;
	qb_loop_poll_del(k->loop, k->inotify_fd);
	close(k->inotify_fd);
	k->inotify_fd = -1;
}

static int32_t on_dev_changed(int32_t fd, int32_t revents, void *data)
{
	char buf[sizeof(struct inotify_event) + NAME_MAX + 1]
		__attribute__((aligned(__alignof__(struct inotify_event))));
	struct ddr_kctl *k = data;

	(void)revents;
	while (read(fd, buf, sizeof(buf)) > 0)
		;
	if (try_open(k) == 0) {
		qb_log(LOG_NOTICE, DEVICE " is there");
		stop_watching(k);
	}
	return 0;
}

static int wait_for_device(struct ddr_kctl *k)
{
	int ret;

	k->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (k->inotify_fd < 0)
		return -errno;
	/* IN_ATTRIB: udev may set the mode after the node was created */
	if (inotify_add_watch(k->inotify_fd, "/dev", IN_CREATE | IN_ATTRIB | IN_MOVED_TO) < 0) {
		ret = -errno;
		goto fail;
	}
	ret = qb_loop_poll_add(k->loop, QB_LOOP_LOW, k->inotify_fd, POLLIN, k, on_dev_changed);
	if (ret)
		goto fail;
	if (try_open(k) == 0)	/* it may have been created in between */
		stop_watching(k);
	return 0;

fail:
	close(k->inotify_fd);
	k->inotify_fd = -1;
	return ret;
}

static void on_retry(void *data)
{
	struct ddr_kctl *k = data;

	k->retry = 0;
	if (try_open(k)) {
		await_device(k);
		return;
	}
	k->retried = false;
	qb_log(LOG_NOTICE, DEVICE " is there");
}

/*
 * The module was unloaded, and may come back. Others may have used up what a watch needs (fs.inotify.max_user_watches): then the
 * device is searched for regularly, since otherwise this daemon would never serve anything again.
 */
static void await_device(struct ddr_kctl *k)
{
	int ret = wait_for_device(k);

	if (!ret) {
		k->retried = false;
		return;
	}
	if (!k->retried)
		qb_log(LOG_WARNING, "the module is gone, and /dev cannot be watched for its return (%s): " DEVICE " is looked for every second",
		       strerror(-ret));
	k->retried = true;
	if (qb_loop_timer_add(k->loop, QB_LOOP_LOW, RETRY_MS * QB_TIME_NS_IN_MSEC, k, on_retry, &k->retry))
		qb_log(LOG_CRIT, "/dev cannot be watched (%s), and there is no memory for a timer: once " DEVICE " is there, type systemctl restart ddraidd", strerror(-ret));
}

static void load_module(void)
{
	char *argv[] = { (char[]){ "modprobe" }, (char[]){ "-q" }, (char[]){ "dm-ddraid" }, NULL };
	char *env[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" }, NULL };
	int status = -1;
	pid_t pid;

	if (posix_spawnp(&pid, argv[0], NULL, NULL, argv, env))
		return;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		qb_log(LOG_WARNING, "modprobe dm-ddraid failed; install the module (DKMS package, or make install)");
}

int ddr_kctl_open(struct ddr_kctl **out, qb_loop_t *loop, void (*told)(void *ctx, const struct ddr_kctl_news *news), void *ctx)
{
	struct ddr_kctl *k = calloc(1, sizeof(*k));
	int ret;

	*out = NULL;
	if (!k)
		return -ENOMEM;
	k->loop = loop;
	k->told = told;
	k->ctx = ctx;
	k->fd = -1;
	k->inotify_fd = -1;
	ret = try_open(k);
	if (ret == -ENOENT || ret == -ENXIO || ret == -ENODEV) {
		load_module();
		ret = try_open(k);
	}
	if (ret == -ENOENT || ret == -ENXIO || ret == -ENODEV) {
		qb_log(LOG_WARNING, "there is no " DEVICE ": the module dm-ddraid is not loaded; waiting for it");
		ret = wait_for_device(k);
	}
	if (ret) {
		qb_log(LOG_ERR, "cannot open " DEVICE ": %s", strerror(-ret));
		free(k);
		return ret;
	}
	*out = k;
	return 0;
}

void ddr_kctl_close(struct ddr_kctl *k)
{
	if (!k)
		return;
	stop_watching(k);
	if (k->retry)
		qb_loop_timer_del(k->loop, k->retry);
	if (k->fd >= 0) {
		qb_loop_poll_del(k->loop, k->fd);
		close(k->fd);
	}
	free(k);
}

bool ddr_kctl_connected(const struct ddr_kctl *k)
{
	return k->fd >= 0;
}

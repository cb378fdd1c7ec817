// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who this machine is. See ident.h.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/ident.h"

#define RETRY_MS	10000u	/* after a write that failed */

static void store(struct ddr_ident *i);

static void on_retry(void *data)
{
	struct ddr_ident *i = data;

	i->retry = 0;
	store(i);
}

static void failed(struct ddr_ident *i, int error)
{
	if (error != i->refusal)
		qb_log(LOG_ERR, "cannot write %s/" DDR_IDENT_FILE " (%s), so this machine has another id after the next restart of ddraidd; make the directory "
				"writable. This is tried again",
		       i->dir, strerror(error));
	i->refusal = error;
	if (!i->retry && qb_loop_timer_add(i->loop, QB_LOOP_LOW, RETRY_MS * QB_TIME_NS_IN_MSEC, i, on_retry, &i->retry))
		qb_log(LOG_ERR, "out of memory for a timer: the id of this machine stays unwritten. Free memory, then: systemctl restart ddraidd; the arrays "
				"stay up");
}

static void run(struct ddr_worker *w)
{
	struct ddr_ident *i = ddr_worker_of(w, struct ddr_ident, worker);

	i->result = ddr_ident_write(i->dir, i->text, i->len);
}

static void done(struct ddr_worker *w)
{
	struct ddr_ident *i = ddr_worker_of(w, struct ddr_ident, worker);
	char text[DDR_IDENTITY_MAX];

	i->writing = false;
	if (i->result) {
		failed(i, -i->result);
		return;
	}
	i->refusal = 0;
	if (ddr_identity_format(&i->id, text) != i->len || memcmp(text, i->text, i->len) != 0) {
		store(i);
		return;
	}
	i->stored = true;
	if (i->changed)
		i->changed(i->ctx);
}

static void store(struct ddr_ident *i)
{
	int ret;

	if (i->writing || i->fixed)
		return;
	i->len = ddr_identity_format(&i->id, i->text);
	i->worker.run = run;
	i->worker.done = done;
	ret = ddr_worker_start(&i->worker, i->loop);
	i->writing = ret == 0;
	if (ret)
		failed(i, -ret);
}

static void tell(const struct ddr_ident *i, enum ddr_machine_news news)
{
	char id[UUID_STR_LEN];

	uuid_unparse_lower(i->id.machine, id);
	switch (news) {
	case DDR_MACHINE_SAME:
		return;
	case DDR_MACHINE_FIRST:
		qb_log(LOG_NOTICE, "this machine gets the id %s, which is kept in %s/" DDR_IDENT_FILE, id, i->dir);
		return;
	case DDR_MACHINE_COPIED:
		qb_log(LOG_WARNING, "%s/" DDR_IDENT_FILE " was copied from another machine: /etc/machine-id or the firmware's uuid (DMI) is another one here. "
				    "This machine gets an id of its own, %s",
		       i->dir, id);
		return;
	case DDR_MACHINE_DAMAGED:
		qb_log(LOG_WARNING, "%s/" DDR_IDENT_FILE " is damaged; this machine gets a new id, %s, and is another machine to its cluster from now on", i->dir,
		       id);
		return;
	case DDR_MACHINE_HIDDEN:
		qb_log(LOG_ERR, "%s/" DDR_IDENT_FILE " cannot be read, so this machine has the id %s until ddraidd is restarted. Make the file readable, or "
				"remove it, then: systemctl restart ddraidd; the arrays stay up",
		       i->dir, id);
		return;
	}
}

int ddr_ident_open(struct ddr_ident *i, qb_loop_t *loop, const char *dir)
{
	struct ddr_identity_file file = { .how = DDR_IDENTITY_UNREADABLE };
	struct ddr_machine_marks marks;
	enum ddr_machine_news news;
	uint8_t random[16];
	bool write;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -errno;
	memset(i, 0, sizeof(*i));
	i->loop = loop;
	strncpy(i->dir, dir, sizeof(i->dir) - 1);
	ddr_ident_read(dir, &file);
	ddr_ident_marks(&marks);
	news = ddr_machine_decide(&i->id, &file, &marks, random, &write);
	i->fixed = news == DDR_MACHINE_HIDDEN;
	i->stored = news == DDR_MACHINE_SAME;
	tell(i, news);
	if (write)
		store(i);
	return 0;
}

void ddr_ident_cluster(struct ddr_ident *i, const struct ddr_cluster_ids *ids)
{
	i->id.cluster = *ids;
	i->stored = false;
	if (!i->retry)
		store(i);
}

void ddr_ident_close(struct ddr_ident *i)
{
	if (i->retry)
		qb_loop_timer_del(i->loop, i->retry);
	i->retry = 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The points of points.h, in the module for tests. They are written and read through the module
 * parameter "points":
 *
 *	NAME hold [NUMBER]		a thread that reaches the point waits until "off"; with
 *					a number only that many, and the others pass
 *	NAME fail [NUMBER [SKIP]]	this number fails, after SKIP have passed; without a
 *					number all
 *	NAME status WORD [NUMBER [SKIP [ROLE]]]
 *					member operations: these end with that status, if they
 *					succeeded
 *	NAME off			all pass, and held threads continue; the counters are
 *					reset to 0
 *
 * It reads as one line for each point: NAME MODE passed HITS hurt HITS held NUMBER. Hits count
 * since "off", in any mode.
 *
 * Must never: be part of a module that is installed.
 */
#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/module.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/wait.h>

#include "points.h"

#define DDR_ANY_ROLE	UINT_MAX

enum ddr_point_mode { DDR_PM_OFF, DDR_PM_HOLD, DDR_PM_FAIL, DDR_PM_STATUS };

static const char *const ddr_point_modes[] = { "off", "hold", "fail", "status" };

static const char *const ddr_point_names[DDR_NR_POINTS] = {
	[DDR_PT_ALLOC] = "alloc",
	[DDR_PT_PAGE] = "page",
	[DDR_PT_RANGE_STEP] = "range_step",
	[DDR_PT_BUFFER] = "buffer",
	[DDR_PT_WRITE_GATE] = "write_gate",
	[DDR_PT_FLUSH_GATE] = "flush_gate",
	[DDR_PT_READ_GATE] = "read_gate",
	[DDR_PT_TURNING_AWAY] = "turning_away",
	[DDR_PT_TURNED_AWAY] = "turned_away",
	[DDR_PT_REGION_PARKED] = "region_parked",
	[DDR_PT_MEMBER_READ] = "member_read",
	[DDR_PT_MEMBER_WRITE] = "member_write",
	[DDR_PT_MEMBER_ZEROES] = "member_zeroes",
	[DDR_PT_MEMBER_FLUSH] = "member_flush",
};

struct ddr_point_state {
	enum ddr_point_mode	mode;
	unsigned int		skip, left;	/* of those that come */
	unsigned int		role;
	blk_status_t		status;
	unsigned int		passed, hurt;
	unsigned int		held;
	unsigned int		turn;		/* changes with "off": held threads check it */
};

static DEFINE_SPINLOCK(ddr_points_lock);
static DECLARE_WAIT_QUEUE_HEAD(ddr_points_wait);
static struct ddr_point_state ddr_points[DDR_NR_POINTS];

static const struct {
	const char	*name;
	blk_status_t	status;
} ddr_point_statuses[] = {
	{ "again", BLK_STS_AGAIN },
	{ "resource", BLK_STS_RESOURCE },
	{ "dev_resource", BLK_STS_DEV_RESOURCE },
	{ "fenced", BLK_STS_RESV_CONFLICT },
	{ "notsupp", BLK_STS_NOTSUPP },
	{ "ioerr", BLK_STS_IOERR },
	{ "medium", BLK_STS_MEDIUM },
	{ "target", BLK_STS_TARGET },
	{ "nospc", BLK_STS_NOSPC },
	{ "timeout", BLK_STS_TIMEOUT },
	{ "protection", BLK_STS_PROTECTION },
	{ "transport", BLK_STS_TRANSPORT },
};

/* Under the lock: does the point take effect now? */
static bool ddr_point_hits(struct ddr_point_state *s, enum ddr_point_mode mode)
{
	bool hit = s->mode == mode && !s->skip && s->left;

	lockdep_assert_held(&ddr_points_lock);
	if (s->mode == mode && s->skip)
		s->skip--;
	else if (hit && s->left != UINT_MAX)
		s->left--;
	s->hurt += hit;
	s->passed += !hit;
	return hit;
}

void ddr_point_wait(enum ddr_point p)
{
	struct ddr_point_state *s = &ddr_points[p];
	unsigned int turn;
	unsigned long irq;
	bool hit;

	might_sleep();
	spin_lock_irqsave(&ddr_points_lock, irq);
	hit = ddr_point_hits(s, DDR_PM_HOLD);
	s->held += hit;
	turn = s->turn;
	spin_unlock_irqrestore(&ddr_points_lock, irq);
	if (!hit)
		return;
	wait_event(ddr_points_wait, READ_ONCE(s->turn) != turn);
	spin_lock_irqsave(&ddr_points_lock, irq);
	s->held--;
	spin_unlock_irqrestore(&ddr_points_lock, irq);
}

bool ddr_point_fails(enum ddr_point p)
{
	unsigned long irq;
	bool hit;

	spin_lock_irqsave(&ddr_points_lock, irq);
	hit = ddr_point_hits(&ddr_points[p], DDR_PM_FAIL);
	spin_unlock_irqrestore(&ddr_points_lock, irq);
	return hit;
}

blk_status_t ddr_point_status(enum ddr_point p, unsigned int role, blk_status_t status)
{
	struct ddr_point_state *s = &ddr_points[p];
	unsigned long irq;

	if (status)
		return status;
	spin_lock_irqsave(&ddr_points_lock, irq);
	if ((s->role == DDR_ANY_ROLE || s->role == role) && ddr_point_hits(s, DDR_PM_STATUS))
		status = s->status;
	spin_unlock_irqrestore(&ddr_points_lock, irq);
	return status;
}

/* ---- the parameter ----------------------------------------------------------------- */

static int ddr_point_number(char *word, unsigned int *value)
{
	return word ? kstrtouint(word, 0, value) : 0;
}

static int ddr_point_parse(struct ddr_point_state *s, char *words)
{
	char *mode = strsep(&words, " "), *word;
	unsigned int i;

	s->left = UINT_MAX;
	s->role = DDR_ANY_ROLE;
	for (i = 0; i < ARRAY_SIZE(ddr_point_modes); i++)
		if (mode && !strcmp(mode, ddr_point_modes[i]))
			break;
	if (i == ARRAY_SIZE(ddr_point_modes))
		return -EINVAL;
	s->mode = i;
	if (s->mode == DDR_PM_STATUS) {
		word = strsep(&words, " ");
		for (i = 0; i < ARRAY_SIZE(ddr_point_statuses); i++)
			if (word && !strcmp(word, ddr_point_statuses[i].name))
				break;
		if (i == ARRAY_SIZE(ddr_point_statuses))
			return -EINVAL;
		s->status = ddr_point_statuses[i].status;
	}
	if (ddr_point_number(strsep(&words, " "), &s->left) ||
	    ddr_point_number(strsep(&words, " "), &s->skip) ||
	    ddr_point_number(strsep(&words, " "), &s->role))
		return -EINVAL;
	return 0;
}

static int ddr_points_set(const char *value, const struct kernel_param *kp)
{
	struct ddr_point_state new = { };
	char line[80], *words = line, *name;
	unsigned int p;
	int r;

	strscpy(line, value, sizeof(line));
	strim(line);
	name = strsep(&words, " ");
	for (p = 0; p < DDR_NR_POINTS; p++)
		if (!strcmp(name, ddr_point_names[p]))
			break;
	if (p == DDR_NR_POINTS)
		return -ENOENT;
	r = ddr_point_parse(&new, words);
	if (r)
		return r;
	spin_lock_irq(&ddr_points_lock);
	new.held = ddr_points[p].held;
	new.turn = ddr_points[p].turn + (new.mode == DDR_PM_OFF);
	ddr_points[p] = new;
	spin_unlock_irq(&ddr_points_lock);
	wake_up_all(&ddr_points_wait);
	return 0;
}

static int ddr_points_get(char *buffer, const struct kernel_param *kp)
{
	unsigned int p;
	int n = 0;

	spin_lock_irq(&ddr_points_lock);
	for (p = 0; p < DDR_NR_POINTS; p++) {
		const struct ddr_point_state *s = &ddr_points[p];

		n += scnprintf(buffer + n, PAGE_SIZE - n, "%s %s passed %u hurt %u held %u\n",
			       ddr_point_names[p],
			       ddr_point_modes[s->mode], s->passed, s->hurt, s->held);
	}
	spin_unlock_irq(&ddr_points_lock);
	return n;
}

static const struct kernel_param_ops ddr_points_ops = {
	.set = ddr_points_set,
	.get = ddr_points_get,
};
module_param_cb(points, &ddr_points_ops, NULL, 0600);
MODULE_PARM_DESC(points, "what happens at the test points");
MODULE_INFO(ddraid_points, "for tests only");

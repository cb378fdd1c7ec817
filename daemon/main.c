// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraidd: start, main loop, end. array.h describes what it does.
 *
 * The order matters: PR_SET_IO_FLUSHER before any thread or ring, since both inherit it; memory is locked before anything is served;
 * READY only when the state is known. A SIGTERM ends the daemon and leaves the kernel's targets with their grants; ending.h describes
 * the other ways.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qb/qblog.h>
#include <systemd/sd-daemon.h>
#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/base/daemon.h"
#include "daemon/base/pidfile.h"
#include "daemon/ending.h"
#include "daemon/group/ask.h"
#include "daemon/group/corosync.h"
#include "daemon/group/fence.h"
#include "daemon/group/link.h"
#include "daemon/ipc/ipc_server.h"
#include "daemon/kernel/kchan.h"
#include "daemon/kernel/uevent.h"
#include "lib/release.h"
#include "lib/wire/ipc.h"
#include "lib/wire/ipc_fault.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif
#ifndef SYSCONFDIR
#define SYSCONFDIR "/etc"
#endif

#define COROSYNC_CONF	"/etc/corosync/corosync.conf"	/* corosync's fixed path */
#define CONF_FILE	SYSCONFDIR "/ddraid/ddraid.conf"
#define TICK_MS		200u
#define LEAVE_MS	2000u	/* at the end: for corosync's answer to our leave, without which it may drop what was sent last */
#define STACK_BYTES	(512u << 10)	/* of the thread that writes the log */
#define LEAST_FILES	64u	/* descriptors: 13 for the daemon without any array, and those that libqb opens for each client */
#define LOOK_REST_MS	10000u	/* between two looks at the schedule of verify while nothing happens */

struct options {
	const char *conf;
	bool conf_given, foreground, debug, dump, transport;
};

struct process {
	struct ddr_daemon d;
	struct ddr_ending ending;
	char *name;		/* argv[0] */
	int pid_fd;
	int parent_fd;		/* pipe to the process that waits until we are up, or -1 */
	bool told_ready, told_missing;
	uint64_t watchdog_ms;	/* 0: no watchdog */
	uint64_t watchdog_due_ms;
	qb_loop_timer_handle tick;
	bool rests;		/* nothing is due: the timer is set for when the arrays wake up */
};

/* ---- options ------------------------------------------------------------------- */

static const struct option long_options[] = {
	{ "foreground", no_argument, NULL, 'f' },
	{ "config", required_argument, NULL, 'c' },
	{ "debug", no_argument, NULL, 'd' },
	{ "dump-config", no_argument, NULL, 'D' },
	{ "transport", no_argument, NULL, 'T' },
	{ "version", no_argument, NULL, 'V' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to, "usage: ddraidd [-f] [-d] [-c FILE] [--dump-config | --transport]\n\n"
		"  -f, --foreground   stay in the foreground and log to stderr\n"
		"  -d, --debug        log everything\n"
		"  -c, --config FILE  configuration (" CONF_FILE ")\n"
		"      --dump-config  print the effective configuration, and exit\n"
		"      --transport    print corosync or local, whichever would be used now, and exit\n"
		"  -V, --version      print the version, and exit\n"
		"  -h, --help         print this text, and exit\n");
}

/* The exit code of an option that only prints: a script must not take a part of the output for all of it. */
static int printed(void)
{
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}

/* -1: continue; else the exit code. */
static int parse_options(int argc, char **argv, struct options *o)
{
	int c;

	*o = (struct options){ .conf = CONF_FILE };
	while ((c = getopt_long(argc, argv, "fc:dVh", long_options, NULL)) != -1) {
		switch (c) {
		case 'f':
			o->foreground = true;
			break;
		case 'c':
			o->conf = optarg;
			o->conf_given = true;
			break;
		case 'd':
			o->debug = true;
			break;
		case 'D':
			o->dump = true;
			break;
		case 'T':
			o->transport = true;
			break;
		case 'V':
			printf("ddraidd %s\n", PACKAGE_VERSION);
			return printed();
		case 'h':
			usage(stdout);
			return printed();
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "ddraidd: unexpected argument '%s'\n", argv[optind]);
		usage(stderr);
		return 2;
	}
	return -1;
}

/* ---- becoming a daemon ----------------------------------------------------------- */

/* The parent waits until the child is up, and exits with its success. Returns in the child. */
static int go_background(struct process *p)
{
	int fds[2];
	pid_t pid;
	char byte;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid > 0) {
		close(fds[1]);
		_exit(read(fds[0], &byte, 1) == 1 ? 0 : 1);
	}
	close(fds[0]);
	p->parent_fd = fds[1];
	setsid();
	return chdir("/") ? -errno : 0;
}

static void release_parent(struct process *p)
{
	int null;

	if (p->parent_fd < 0)
		return;
	if (write(p->parent_fd, "1", 1) != 1)
		qb_log(LOG_WARNING, "the process that started this one has ended");
	close(p->parent_fd);
	p->parent_fd = -1;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
}

/*
 * 64 arrays of 16 members need more than the usual 1024 descriptors. The fence helper has been forked already: the programs that it
 * starts, some of which use select(), keep the usual limit. False: the limit is too low for the daemon itself, and libqb would crash.
 */
static bool raise_descriptors(void)
{
	struct rlimit limit;
	rlim_t had;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return true;
	had = limit.rlim_cur;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit)) {
		fprintf(stderr, "ddraidd: cannot raise the limit of open files to %llu (%s); continuing with the old limit\n",
			(unsigned long long)limit.rlim_max, strerror(errno));
		limit.rlim_cur = had;
	}
	if (limit.rlim_cur >= LEAST_FILES)
		return true;
	fprintf(stderr, "ddraidd: the limit of open files is %llu, and ddraidd needs %u at least; raise LimitNOFILE= of its unit (systemctl edit "
		"ddraidd)\n", (unsigned long long)limit.rlim_cur, LEAST_FILES);
	return false;
}

static void open_log(const struct process *p, const struct options *o)
{
	uint8_t level = o->debug ? LOG_DEBUG : (uint8_t)p->d.conf.log_level;
	bool to_stderr = o->foreground || o->debug;

	qb_log_init("ddraidd", LOG_DAEMON, level);
	qb_log_ctl(QB_LOG_SYSLOG, QB_LOG_CONF_ENABLED, p->d.conf.log_syslog ? QB_TRUE : QB_FALSE);
	qb_log_ctl(QB_LOG_STDERR, QB_LOG_CONF_ENABLED, to_stderr ? QB_TRUE : QB_FALSE);
	qb_log_filter_ctl(QB_LOG_STDERR, QB_LOG_FILTER_ADD, QB_LOG_FILTER_FILE, "*", level);
	qb_log_format_set(QB_LOG_STDERR, "%t ddraidd[%P] %p: %b");
	qb_log_format_set(QB_LOG_SYSLOG, "%b");
	/*
	 * This comes last, and the thread is started at once: any change of a threaded target takes a lock that is only created when
	 * the thread starts, and libqb would dereference it before. A thread writes the log, since a log that waits for a disk must
	 * not delay the loop. libqb drops messages rather than queueing them without limit.
	 */
	qb_log_ctl(QB_LOG_SYSLOG, QB_LOG_CONF_THREADED, QB_TRUE);
	qb_log_ctl(QB_LOG_STDERR, QB_LOG_CONF_THREADED, QB_TRUE);
	qb_log_thread_start();
}

/* Whatever memory this process waits for, it must not wait for its own arrays. */
static void protect_memory(void)
{
	pthread_attr_t attr;

	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		fprintf(stderr, "ddraidd: PR_SET_IO_FLUSHER was refused (%s); under memory pressure the daemon may deadlock with its own arrays; "
			"give it CAP_SYS_RESOURCE\n", strerror(errno));
	/* each further arena of malloc(), for a thread of its own, counts with 64 MiB as locked, however little of it is used */
	mallopt(M_ARENA_MAX, 1);
	/* a thread's default stack is 8 MiB, and all of it would be locked; libqb's log thread uses the default */
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_setattr_default_np(&attr);
	pthread_attr_destroy(&attr);
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		fprintf(stderr, "ddraidd: cannot lock its memory (%s); give it CAP_IPC_LOCK or LimitMEMLOCK=infinity\n",
			strerror(errno));
}

/*
 * The fence helper is a separate process by now, and the daemon itself executes nothing: an attacker who controls this process must
 * not gain rights through a setuid program.
 */
static void execute_nothing(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fprintf(stderr, "ddraidd: PR_SET_NO_NEW_PRIVS was refused (%s); continuing without it\n", strerror(errno));
}

/*
 * NULL: it could not be determined, and that was logged. A node whose corosync.conf lists itself alone keeps the id that it had in its cluster: with
 * another one it would take the slot of another node for its own.
 */
static const struct ddr_transport_ops *choose_transport(struct ddr_conf *conf)
{
	int cluster = conf->transport == DDR_TRANSPORT_COROSYNC, listed;
	char err[DDR_CONF_ERROR_MAX];
	uint32_t node;

	listed = ddr_corosync_configured(COROSYNC_CONF, &node, err, sizeof(err));
	if (conf->transport == DDR_TRANSPORT_AUTO) {
		cluster = listed;
		if (*err)
			fprintf(stderr, "ddraidd: %s\n", err);
	}
	if (!conf->node_id && conf->transport == DDR_TRANSPORT_LOCAL && listed)
		fprintf(stderr, "ddraidd: transport = local, and " COROSYNC_CONF " does not tell which node this is, so it is node 1. If it had another id in its "
			"cluster, set node_id in ddraid.conf\n");
	if (!conf->node_id)
		conf->node_id = node ? node : 1;
	return cluster < 0 ? NULL : cluster ? &ddr_transport_corosync : &ddr_transport_local;
}

static int read_boot_id(uint8_t id[16])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	char text[37] = "";
	int ret = -1;

	if (f) {
		if (fscanf(f, "%36s", text) == 1)
			ret = uuid_parse(text, id);
		fclose(f);
	}
	return ret;
}

/* ---- the loop ------------------------------------------------------------------- */

static void on_listed(void *ctx)
{
	struct ddr_daemon *d = ctx;

	d->listed = true;
}

static void on_lost(void *ctx)
{
	struct ddr_daemon *d = ctx;

	d->listed = false;
	ddr_arrays_close(d);
}

static void on_control(void *ctx, const struct ddr_kctl_news *news)
{
	ddr_daemon_wake(ctx);
	switch (news->what) {
	case DDR_KCTL_APPEARED:
		ddr_array_appeared(ctx, news->uuid, news->listed);
		return;
	case DDR_KCTL_RESUMED:
		ddr_array_resumed(ctx, news->uuid, news->as_bound);
		return;
	case DDR_KCTL_REMOVED:
		ddr_array_removed(ctx, news->uuid, news->cookie);
		return;
	case DDR_KCTL_LISTED:
		on_listed(ctx);
		return;
	case DDR_KCTL_LOST:
		on_lost(ctx);
		return;
	}
}

/*
 * Without the kernel module there is nothing to be ready for, and it may never be loaded. A boot that waits for this daemon must
 * continue, up to where `ddraid start` fails and reports that.
 */
static void tell_missing(struct process *p)
{
	if (p->told_missing)
		return;
	p->told_missing = true;
	sd_notify(0, "READY=1\nSTATUS=there is no /dev/" DDR_DEVICE_NAME ": the kernel module dm-ddraid is not loaded; waiting for it");
}

static void tell_ready(struct process *p)
{
	if (!ddr_kctl_connected(p->d.kctl))
		tell_missing(p);
	if (p->told_ready || !ddr_kctl_connected(p->d.kctl) || !ddr_arrays_settled(&p->d))
		return;
	p->told_ready = true;
	qb_log(LOG_NOTICE, "ready, %u arrays", p->d.n_arrays);
	sd_notify(0, "READY=1\nSTATUS=serving");
}

/*
 * At the end of a shutdown systemd kills all processes except those with this mark, then takes down the devices that lie on an array,
 * and the array (https://systemd.io/ROOT_STORAGE_DAEMONS/). Without this process their last writes would hang.
 */
static void survive_shutdown(struct process *p)
{
	if (p->name[0] == '@')
		return;
	p->name[0] = '@';
	sd_notify(0, "STATUS=asked to stop, but arrays are still started; serving them");
}

/* Ends the loop if the daemon may end now. */
static void end_if_due(struct process *p)
{
	if (ddr_ending_due(&p->ending, &p->d, ddr_now_ms()))
		qb_loop_stop(p->d.loop);
	else if (p->ending.refused)
		survive_shutdown(p);
}

static void on_tick(void *data);

static void arm(struct process *p, uint64_t ms)
{
	if (qb_loop_timer_add(p->d.loop, QB_LOOP_MED, ms * QB_TIME_NS_IN_MSEC, p, on_tick, &p->tick)) {
		p->tick = 0;
		qb_log(LOG_CRIT, "out of memory for the daemon's timer: it no longer tells systemd that it lives. Free memory, then: systemctl restart "
		       "ddraidd; the arrays stay up");
	}
}

/* For ddr_daemon_wake(). */
static void wake(struct ddr_daemon *d)
{
	struct process *p = (struct process *)(void *)((char *)d - offsetof(struct process, d));

	if (!p->rests)
		return;
	p->rests = false;
	if (p->tick)
		qb_loop_timer_del(d->loop, p->tick);
	arm(p, TICK_MS);
}

/* Does nothing of the daemon need a tick but what has a time of its own? */
static bool may_rest(const struct process *p)
{
	bool told = p->told_ready || (p->told_missing && !ddr_kctl_connected(p->d.kctl));

	return told && p->tick && p->ending.how == DDR_ENDING_NOT && ddr_arrays_rest(&p->d) && ddr_ipcs_rest(p->d.ipc);
}

static void rest(struct process *p)
{
	uint64_t now = ddr_now_ms(), ms = ddr_rest_left(now);

	p->rests = may_rest(p);
	if (!p->rests)
		return;
	if (p->watchdog_ms && p->watchdog_due_ms < now + ms)
		ms = p->watchdog_due_ms > now ? p->watchdog_due_ms - now : 1;
	qb_loop_timer_del(p->d.loop, p->tick);
	arm(p, ms);
}

static void on_tick(void *data)
{
	struct process *p = data;
	uint64_t now = ddr_now_ms();

	arm(p, TICK_MS);
	ddr_still_held(&p->d.still);
	ddr_ipcs_tick(p->d.ipc, now);
	ddr_arrays_retry(&p->d);
	if (!p->rests || now - p->d.schedule_ms >= LOOK_REST_MS)
		ddr_schedule_tick(&p->d, now);
	tell_ready(p);
	end_if_due(p);
	if (p->watchdog_ms && now >= p->watchdog_due_ms) {
		p->watchdog_due_ms = now + p->watchdog_ms / 3;
		sd_notify(0, "WATCHDOG=1");
	}
	rest(p);
}

static int32_t on_stop(int32_t sig, void *data)
{
	struct process *p = data;
	bool leave = sig != SIGUSR1;

	qb_log(LOG_NOTICE, leave ? "signal %d: the daemon ends; the arrays stay up, and writes to them stall after a while" :
	       "signal %d: the daemon ends when no array is started any more", sig);
	sd_notify(0, "STOPPING=1");
	wake(&p->d);
	ddr_ending_begin(&p->ending, &p->d, leave ? DDR_ENDING_LEAVE : DDR_ENDING_STOP, ddr_now_ms());
	end_if_due(p);
	return 0;
}

static int32_t on_hangup(int32_t sig, void *data)
{
	(void)sig;
	(void)data;
	qb_log(LOG_NOTICE, "SIGHUP is ignored; ddraid set changes an array, and a restart of ddraidd reads the configuration again");
	return 0;
}

static int add_sources(struct process *p)
{
	qb_loop_t *loop = p->d.loop;
	uint64_t usec = 0;
	int ret = 0;

	ret |= qb_loop_signal_add(loop, QB_LOOP_HIGH, SIGTERM, p, on_stop, NULL);
	ret |= qb_loop_signal_add(loop, QB_LOOP_HIGH, SIGINT, p, on_stop, NULL);
	ret |= qb_loop_signal_add(loop, QB_LOOP_HIGH, SIGUSR1, p, on_stop, NULL);
	ret |= qb_loop_signal_add(loop, QB_LOOP_LOW, SIGHUP, p, on_hangup, NULL);
	ret |= qb_loop_timer_add(loop, QB_LOOP_MED, TICK_MS * QB_TIME_NS_IN_MSEC, p, on_tick, &p->tick);
	if (sd_watchdog_enabled(0, &usec) > 0)
		p->watchdog_ms = usec / 1000;
	return ret ? -EIO : 0;
}

static int open_cluster(struct ddr_daemon *d)
{
	int ret;

	if (!d->transport->cluster)
		return 0;
	ret = ddr_asks_open(&d->asks, d->loop);
	if (ret == 0)
		ret = ddr_corosync_open(&d->corosync, d->loop, d->asks);
	return ret ? ret : ddr_fence_open(d->fence, d->loop);
}

/* The pid file is locked already, so a process with the service's name is not ddraidd. Any user may take the name while no daemon runs. */
static void tell_taken(int ret)
{
	struct ddr_ipc_fault holder;
	struct ddr_process who;

	if (ret == -EADDRINUSE && ddr_ipc_holder(DDR_IPC_SERVICE, &holder) && ddr_process_look(&who, holder.pid))
		fprintf(stderr, "ddraidd: process %d (%s) of user %u occupies the socket name that the command connects to; kill %d, then start "
			"ddraidd again\n", (int)holder.pid, who.name, (unsigned int)holder.uid, (int)holder.pid);
	else
		fprintf(stderr, "ddraidd: cannot open the socket for the command: %s%s\n", strerror(-ret), ret == -EADDRINUSE ?
			"; ss -xlp | grep @ddraidd shows which process occupies its name" : "");
}

static int serve(struct process *p)
{
	struct ddr_daemon *d = &p->d;
	int ret;

	d->loop = qb_loop_create();
	d->wake = wake;
	ret = d->loop ? add_sources(p) : -ENOMEM;
	if (ret == 0)
		ret = ddr_ident_open(&d->ident, d->loop, d->conf.state_dir);
	if (ret == 0)
		ret = open_cluster(d);
	if (ret) {
		fprintf(stderr, "ddraidd: cannot set up its event loop or its connection to corosync: %s\n", strerror(-ret));
		return ret;
	}
	ret = ddr_ipcs_open(d);
	if (ret) {
		tell_taken(ret);
		return ret;
	}
	ret = ddr_kctl_open(&d->kctl, d->loop, on_control, d);
	if (ret) {
		fprintf(stderr, "ddraidd: cannot open /dev/%s: %s\n", DDR_DEVICE_NAME, strerror(-ret));
		ddr_ipcs_close(d);
		return ret;
	}
	ddr_uevent_open(d, ddr_drive_uevent);
	qb_log(LOG_NOTICE, "ddraidd %s, transport %s", PACKAGE_VERSION, d->transport->name);
	release_parent(p);
	qb_loop_run(d->loop);
	ddr_uevent_close(d);
	ddr_arrays_close(d);
	ddr_kctl_close(d->kctl);
	ddr_ipcs_close(d);
	ddr_fence_close(d->fence);
	ddr_link_close(d);
	ddr_corosync_close(d->corosync);
	ddr_ident_close(&d->ident);
	ddr_asks_close(d->asks, LEAVE_MS);
	return 0;
}

int main(int argc, char **argv)
{
	struct process p = { .name = argv[0], .pid_fd = -1, .parent_fd = -1 };
	char err[DDR_CONF_ERROR_MAX];
	struct options o;
	int ret = parse_options(argc, argv, &o);

	if (ret >= 0)
		return ret;
	qb_list_init(&p.d.arrays);
	if (ddr_conf_load(&p.d.conf, o.conf, o.conf_given, err, sizeof(err))) {
		fprintf(stderr, "ddraidd: %s\n", err);
		return 1;
	}
	if (o.dump) {
		ddr_conf_dump(&p.d.conf, stdout);
		return printed();
	}
	if (o.transport) {
		p.d.transport = choose_transport(&p.d.conf);
		return p.d.transport && puts(p.d.transport->name) >= 0 ? printed() : 1;
	}
	if (geteuid() != 0) {
		fprintf(stderr, "ddraidd: must run as root; type systemctl start ddraidd\n");
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	/* a service manager that waits for a notification watches this very process */
	if (!o.foreground && !getenv("NOTIFY_SOCKET") && go_background(&p)) {
		fprintf(stderr, "ddraidd: cannot go to the background: %s\n", strerror(errno));
		return 1;
	}
	if (ddr_pidfile_take(p.d.conf.run_dir, getenv("NOTIFY_SOCKET") != NULL, &p.pid_fd))
		return 1;
	if (read_boot_id(p.d.boot_id)) {
		fprintf(stderr, "ddraidd: cannot read /proc/sys/kernel/random/boot_id; mount /proc\n");
		return 1;
	}
	p.d.transport = choose_transport(&p.d.conf);
	if (!p.d.transport)
		return 1;
	ret = p.d.transport->cluster ? ddr_fence_fork(&p.d.fence) : 0;
	if (ret) {
		fprintf(stderr, "ddraidd: cannot start the process that runs fence commands: %s\n", strerror(-ret));
		return 1;
	}
	execute_nothing();
	if (!raise_descriptors())
		return 1;
	protect_memory();
	open_log(&p, &o);
	ret = ddr_release_write(p.d.conf.run_dir, p.d.transport->name);
	if (ret)
		qb_log(LOG_WARNING, "cannot write %s/ddraidd.release (%s); the package cannot be upgraded while an array is up", p.d.conf.run_dir,
		       strerror(-ret));
	ret = serve(&p);
	free(p.d.outs);
	qb_log_fini();
	return ret ? 1 : 0;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connection to the daemon (lib/wire/ipc.c) against a server of this test, in a child that is stopped, slow or another user's;
 * and the messages for each failure (lib/wire/ipc_fault.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <qb/qbdefs.h>
#include <qb/qbipcs.h>
#include <qb/qbloop.h>

#include "tests/unit/fixture.h"
#include "lib/wire/ipc.h"
#include "lib/wire/ipc_fault.h"

#define LIMIT_MS	400
#define SILENCE_MS	600

static char service[64];
static struct ddr_ipc_how how = { .service = service, .limit_ms = LIMIT_MS, .silence_ms = SILENCE_MS };

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- the server, in a child -------------------------------------------------------- */

enum mode { ANSWERS, LATER, STOPS };	/* at once; to all but pings after 2 s; stops itself when asked for anything but a ping */

static struct {
	qb_loop_t *loop;
	int32_t refusal;
	enum mode mode;
	qb_ipcs_connection_t *late;
} srv;

static void answer(qb_ipcs_connection_t *conn)
{
	static const char text[] = "{\"rc\": 0, \"data\": {}}";
	struct qb_ipc_response_header h = { .id = DDR_IPC_ID, .size = (int32_t)(sizeof(h) + sizeof(text) - 1) };
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)(uintptr_t)text, sizeof(text) - 1 } };

	qb_ipcs_response_sendv(conn, iov, 2);
}

static void on_later(void *data)
{
	answer(data);
}

static int32_t on_accept(qb_ipcs_connection_t *conn, uid_t uid, gid_t gid)
{
	(void)conn, (void)uid, (void)gid;
	return srv.refusal;
}

static int32_t on_message(qb_ipcs_connection_t *conn, void *data, size_t size)
{
	qb_loop_timer_handle timer;
	char text[256];

	size -= sizeof(struct qb_ipc_request_header);
	if (size >= sizeof(text))
		_exit(1);
	memcpy(text, (char *)data + sizeof(struct qb_ipc_request_header), size);
	text[size] = '\0';
	if (srv.mode == ANSWERS || strstr(text, "ping"))
		answer(conn);
	else if (srv.mode == LATER)
		qb_loop_timer_add(srv.loop, QB_LOOP_MED, 2000 * QB_TIME_NS_IN_MSEC, conn, on_later, &timer);
	else
		raise(SIGSTOP);
	return 0;
}

static int32_t job_add(enum qb_loop_priority p, void *data, qb_loop_job_dispatch_fn fn) { return qb_loop_job_add(srv.loop, p, data, fn); }
static int32_t add(enum qb_loop_priority p, int32_t fd, int32_t ev, void *data, qb_ipcs_dispatch_fn_t fn) { return qb_loop_poll_add(srv.loop, p, fd, ev, data, fn); }
static int32_t mod(enum qb_loop_priority p, int32_t fd, int32_t ev, void *data, qb_ipcs_dispatch_fn_t fn) { return qb_loop_poll_mod(srv.loop, p, fd, ev, data, fn); }
static int32_t del(int32_t fd) { return qb_loop_poll_del(srv.loop, fd); }

static void serve(int ready)
{
	struct qb_ipcs_service_handlers handlers = { .connection_accept = on_accept, .msg_process = on_message };
	struct qb_ipcs_poll_handlers poll = { .job_add = job_add, .dispatch_add = add, .dispatch_mod = mod, .dispatch_del = del };
	qb_ipcs_service_t *s;

	srv.loop = qb_loop_create();
	s = qb_ipcs_create(service, 0, QB_IPC_SHM, &handlers);
	qb_ipcs_poll_handlers_set(s, &poll);
	qb_ipcs_enforce_buffer_size(s, DDR_IPC_MAX);
	if (qb_ipcs_run(s) || write(ready, "1", 1) != 1)
		_exit(1);
	qb_loop_run(srv.loop);
	_exit(0);
}

/* The name is taken, and nothing is ever accepted or sent. */
static void sit(int ready, uid_t uid)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "%s", service);
	if ((uid != geteuid() && setresuid(uid, uid, uid)) || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 8) ||
	    write(ready, "1", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t begin(bool sits, uid_t uid)
{
	static unsigned int n;
	int ready[2];
	char byte;
	pid_t pid;

	snprintf(service, sizeof(service), "ddraid-test-%d-%u", (int)getpid(), n++);
	how.trusted = geteuid();
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (sits)
			sit(ready[1], uid);
		serve(ready[1]);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static pid_t server(enum mode mode, int refusal)
{
	srv.mode = mode;
	srv.refusal = refusal;
	return begin(false, 0);
}

static void end(pid_t pid)
{
	char left[80];

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	/* libqb leaves the files of a server that was killed, and a directory for each client that was refused */
	snprintf(left, sizeof(left), "rm -rf /dev/shm/qb-%d-%d-*", (int)pid, (int)getpid());
	assert_int_equal(system(left), 0);
}

static struct json_object *request(const char *cmd)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cmd", json_object_new_string(cmd));
	return o;
}

static int ask(struct ddr_ipc *c, const char *cmd, int ms)
{
	struct json_object *r = request(cmd), *reply;
	int ret = ddr_ipc_call(c, r, &reply, ms);

	json_object_put(r);
	json_object_put(reply);
	return ret;
}

static size_t open_files(void)
{
	struct ddr_process p;

	assert_true(ddr_process_look(&p, getpid()));
	return p.fds;
}

/* ---- tests ------------------------------------------------------------------------- */

static void a_request_is_answered(void **state)
{
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;
	pid_t pid = server(ANSWERS, 0);

	(void)state;
	assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), 0);
	assert_int_equal(ask(c, "status", 1000), 0);
	assert_int_equal(ask(c, "ping", 1000), 0);
	end(pid);
	assert_int_equal(ask(c, "status", 1000), -ENOTCONN);
	ddr_ipc_close(c);
}

/* Finding U2: the kernel is asked which process listens; what another user's process sends is not read. */
static void a_stranger_is_not_believed(void **state)
{
	size_t files = open_files();
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;
	pid_t pid = server(ANSWERS, 0);

	(void)state;
	how.trusted = geteuid() + 1;
	assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), -EPERM);
	assert_null(c);
	assert_int_equal(fault.step, DDR_IPC_TRUST);
	assert_int_equal(fault.pid, pid);
	assert_int_equal(fault.uid, geteuid());
	assert_true(ddr_ipc_holder(service, &fault));
	assert_int_equal(fault.pid, pid);
	end(pid);
	assert_false(ddr_ipc_holder(service, &fault));
	if (geteuid() == 0) {
		pid = begin(true, 65534);
		assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), -EPERM);
		assert_int_equal(fault.uid, 65534);
		assert_int_equal(fault.pid, pid);
		end(pid);
	}
	assert_int_equal(open_files(), files);
}

/* Finding S20: connecting ends in bounded time, and leaves nothing open; the process that does not answer is identified. */
static void connecting_to_one_that_is_stopped_ends(void **state)
{
	size_t files = open_files();
	uint64_t began = now_ms();
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;
	pid_t pid = begin(true, geteuid());

	(void)state;
	kill(pid, SIGSTOP);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), -ETIMEDOUT);
		assert_null(c);
		assert_int_equal(fault.step, DDR_IPC_WELCOME);
		assert_int_equal(fault.pid, pid);
	}
	assert_in_range(now_ms() - began, 2 * LIMIT_MS, 2 * LIMIT_MS + 2000);
	assert_int_equal(open_files(), files);
	end(pid);
}

/* Finding S20: it stops in the middle of a request that may take long. */
static void a_request_ends_when_the_server_stops(void **state)
{
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;
	uint64_t began;
	char text[600];
	pid_t pid = server(STOPS, 0);

	(void)state;
	assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), 0);
	began = now_ms();
	assert_int_equal(ask(c, "wait", 60000), -ETIMEDOUT);
	assert_in_range(now_ms() - began, SILENCE_MS, SILENCE_MS + LIMIT_MS + 3000);
	ddr_ipc_failed(c, -ETIMEDOUT, &fault);
	assert_int_equal(fault.pid, pid);
	ddr_ipc_explain(&fault, text, sizeof(text));
	if (geteuid() == 0) {
		char want[64];

		snprintf(want, sizeof(want), "kill -CONT %d", (int)pid);
		assert_non_null(strstr(text, want));
	}
	assert_non_null(strstr(text, "may still be carried out"));
	ddr_ipc_close(c);
	end(pid);
}

static bool clock_set_back;	/* while a process waits by it */

/* The function that libqb waits with, by a time of the wall clock. The clock is set back by an hour as soon as the wait has begun. */
int sem_timedwait(sem_t *sem, const struct timespec *until)
{
	struct timespec end = *until, now;

	for (end.tv_sec += clock_set_back ? 3600 : 0; sem_trywait(sem); ) {
		clock_gettime(CLOCK_REALTIME, &now);
		if (errno != EAGAIN)
			return -1;
		if (now.tv_sec > end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec >= end.tv_nsec)) {
			errno = ETIMEDOUT;
			return -1;
		}
		usleep(1000);
	}
	return 0;
}

/* Finding U9: the clock is set back while a command waits for a daemon that does not answer. It ends in time all the same. */
static void a_clock_that_is_set_back_delays_no_command(void **state)
{
	struct ddr_ipc *c;
	uint64_t began;
	pid_t pid = server(STOPS, 0);

	(void)state;
	assert_int_equal(ddr_ipc_connect_to(&c, &how, NULL), 0);
	began = now_ms();
	clock_set_back = true;
	alarm(60);			/* ends the test: else it would wait for an hour */
	assert_int_equal(ask(c, "wait", 60000), -ETIMEDOUT);
	alarm(0);
	clock_set_back = false;
	assert_in_range(now_ms() - began, SILENCE_MS, SILENCE_MS + LIMIT_MS + 3000);
	ddr_ipc_close(c);
	end(pid);
}

/* Finding S20: a daemon that works on the request, and answers others meanwhile, is waited for. */
static void a_request_that_takes_long_is_waited_for(void **state)
{
	struct ddr_ipc *c;
	pid_t pid = server(LATER, 0);

	(void)state;
	assert_int_equal(ddr_ipc_connect_to(&c, &how, NULL), 0);
	assert_int_equal(ask(c, "wait", 60000), 0);
	ddr_ipc_close(c);
	end(pid);
}

/* Finding T15: the reason for which the daemon refuses a connection arrives unchanged. */
static void a_refusal_keeps_its_reason(void **state)
{
	static const int reasons[] = { ENOSPC, EMFILE, EAGAIN, EACCES, ENOMEM };
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;

	(void)state;
	for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
		pid_t pid = server(ANSWERS, -reasons[i]);

		assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), -reasons[i]);
		assert_int_equal(fault.step, DDR_IPC_WELCOME);
		assert_int_equal(fault.pid, pid);
		end(pid);
	}
	assert_int_equal(ddr_ipc_connect_to(&c, &how, &fault), -ECONNREFUSED);
	assert_int_equal(fault.step, DDR_IPC_REACH);
	assert_int_equal(fault.pid, 0);
}

static void words(enum ddr_ipc_step step, int error, const struct ddr_process *p, const char *want)
{
	const struct ddr_ipc_fault fault = { .step = step, .error = -error, .pid = p->pid, .uid = 65534 };
	char text[600];

	ddr_ipc_words(&fault, p, true, text, sizeof(text));
	if (!strstr(text, want))
		fail_msg("step %d, error %d: \"%s\" has no \"%s\"", step, error, text, want);
	assert_null(strchr(text, '\n'));
	assert_true(strlen(text) < sizeof(text) - 1);
}

/* Finding T15: each cause has its message, and only "it does not run" advises to start the daemon. */
static void each_cause_has_its_sentence(void **state)
{
	const struct ddr_process none = { 0 }, runs = { .pid = 7, .name = "ddraidd", .state = 'S', .fds = 20, .fds_max = 1024 };
	struct ddr_process p = runs;
	char text[600];

	(void)state;
	words(DDR_IPC_REACH, ECONNREFUSED, &none, "is not running; systemctl start ddraidd");
	words(DDR_IPC_REACH, ENOENT, &none, "is not running; systemctl start ddraidd");
	words(DDR_IPC_REACH, ECONNREFUSED, &runs, "starting or ending");
	words(DDR_IPC_REACH, EAGAIN, &runs, "(process 7) does not answer");
	words(DDR_IPC_REACH, EAGAIN, &none, "does not answer");
	words(DDR_IPC_REACH, EMFILE, &runs, "ulimit -n");
	words(DDR_IPC_REACH, EACCES, &runs, "security policy");
	words(DDR_IPC_WELCOME, EAGAIN, &runs, "too many clients");
	words(DDR_IPC_WELCOME, ENOSPC, &runs, "/dev/shm is full: ddraidd runs");
	words(DDR_IPC_WELCOME, ENOMEM, &runs, "no memory");
	words(DDR_IPC_WELCOME, EMFILE, &runs, "LimitNOFILE=");
	words(DDR_IPC_WELCOME, ENFILE, &runs, "fs.file-max");
	words(DDR_IPC_WELCOME, EACCES, &runs, "drwxrwxrwt");
	words(DDR_IPC_WELCOME, ENOENT, &runs, "does not share /dev/shm");
	words(DDR_IPC_WELCOME, ECONNRESET, &runs, "closed the connection");
	words(DDR_IPC_WELCOME, ENOTCONN, &runs, "closed the connection");
	words(DDR_IPC_WELCOME, EUCLEAN, &runs, strerror(EUCLEAN));
	words(DDR_IPC_WELCOME, ETIMEDOUT, &runs, "systemctl restart ddraidd");
	words(DDR_IPC_TALK, EPIPE, &runs, "ended before it answered");
	words(DDR_IPC_TALK, EBADMSG, &runs, "different releases");
	words(DDR_IPC_TALK, ETIMEDOUT, &runs, "may still be carried out");
	p.fds = 1024;
	words(DDR_IPC_WELCOME, ETIMEDOUT, &p, "its limit of 1024 open files");
	p.elsewhere = true;
	words(DDR_IPC_REACH, ECONNREFUSED, &p, "nsenter -t 7 -n");
	p = runs;
	p.state = 'T';
	words(DDR_IPC_WELCOME, ETIMEDOUT, &p, "kill -CONT 7");
	words(DDR_IPC_REACH, ECONNREFUSED, &p, "kill -CONT 7");
	p.state = 'D';
	words(DDR_IPC_TALK, ETIMEDOUT, &p, "/proc/7/stack");
	p.state = 't';
	words(DDR_IPC_WELCOME, ETIMEDOUT, &p, "debugger");
	p.state = 'Z';
	words(DDR_IPC_WELCOME, ETIMEDOUT, &p, "ddraidd does not answer");
	words(DDR_IPC_TRUST, EPERM, &none, "ss -xlp");
	snprintf(p.name, sizeof(p.name), "perl");
	words(DDR_IPC_TRUST, EPERM, &p, "process 7 (perl) of user 65534");
	ddr_ipc_words(&(struct ddr_ipc_fault){ .step = DDR_IPC_WELCOME, .error = -EACCES }, &runs, false, text, sizeof(text));
	assert_string_equal(text, "only root may talk to ddraidd; use sudo");
}

/* Finding S20: the state of a process is that of /proc, whatever it is called. */
static void processes_are_looked_at(void **state)
{
	struct ddr_process p;
	siginfo_t info;
	char path[] = "/tmp/test-ipc-XXXXXX";
	int fd = mkstemp(path);
	pid_t pid = fork();

	(void)state;
	assert_true(fd >= 0);
	if (pid == 0) {
		int comm = open("/proc/self/comm", O_WRONLY);

		if (comm < 0 || write(comm, "a) T (\n\x01z", 9) != 9)
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
	assert_int_equal(info.si_code, CLD_STOPPED);
	assert_true(ddr_process_look(&p, pid));
	assert_int_equal(p.state, 'T');
	assert_string_equal(p.name, "a) T (??z");
	assert_true(p.fds >= 3 && p.fds_max > p.fds);
	assert_false(p.elsewhere);
	assert_true(dprintf(fd, "%d\n", (int)pid) > 0);
	assert_false(ddr_process_daemon(&p, path));	/* another one's number by now */
	assert_int_equal(p.pid, 0);
	end(pid);
	assert_false(ddr_process_look(&p, pid));
	assert_int_equal(p.state, 0);
	assert_false(ddr_process_look(&p, 0));
	assert_false(ddr_process_daemon(&p, "/nonexistent"));
	unlink(path);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_answered),
		cmocka_unit_test(a_stranger_is_not_believed),
		cmocka_unit_test(connecting_to_one_that_is_stopped_ends),
		cmocka_unit_test(a_request_ends_when_the_server_stops),
		cmocka_unit_test(a_clock_that_is_set_back_delays_no_command),
		cmocka_unit_test(a_request_that_takes_long_is_waited_for),
		cmocka_unit_test(a_refusal_keeps_its_reason),
		cmocka_unit_test(each_cause_has_its_sentence),
		cmocka_unit_test(processes_are_looked_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

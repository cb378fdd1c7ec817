// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A load whose every sector identifies itself, and its verifier.
 *
 *	writer load DEV FIRST COUNT THREADS MAX SEQ SEED SECONDS [APART [PAUSE_US]]
 *	writer verify DEV FIRST COUNT [THREADS MAX SEQ SEED] < expectations
 *	writer pulse DEV BLOCK COUNT SECONDS [APART_MS]
 *
 * load: each thread owns a part of the blocks FIRST..+COUNT and writes random runs of 1 to
 * MAX blocks of it, one after the other, the n-th of thread t with sequence number
 * SEQ + n * THREADS + t; so the number identifies the write. About every
 * APART writes (8 if not given) of all threads together one of them flushes, or writes with
 * RWF_DSYNC. On standard output: "F seq first count" for each write that is known to be
 * durable, printed only after the DSYNC write, or an fdatasync() begun after the write's end,
 * has returned; a write that failed prints "E errno first count" and ends the load.
 * SECONDS 0: until killed. PAUSE_US: of a thread between two writes.
 *
 * verify: standard input holds "first count seq": these blocks were durable with that sequence
 * number. Every sector must be a sector of its own block with that sequence number or a later
 * one; sectors of blocks without an expectation may also be all zero. Code 1 if one is not.
 * With the arguments of a load: the load's power was cut while a member of the array was missing, so blocks of a write in flight
 * may have content that was never written. Each thread had at most one write in flight, and SEED determines its writes. So the
 * verifier searches for a write that covers all such blocks of the thread, is later than all that was reported durable to the
 * thread, and can have begun after all that the disk shows was written. Its blocks are printed as "in flight"; if there is no such
 * write, all of them are bad.
 *
 * pulse: rewrites one run of COUNT blocks again and again, APART_MS (20 if not given) between two, and prints
 * "P start_ms duration_us" for each.
 *
 * Must never print a write as durable that is not: the drills rely on this.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BLOCK		4096u
#define SECTOR		512u
#define SECTORS		(BLOCK / SECTOR)
#define MAX_RUN		256u
#define PENDING		1024u		/* writes between two flushes at most */
#define MOST_WRITES	(1u << 24)	/* of a thread: where a search ends */
#define MAGIC		0x5244726177657274ull

struct head {			/* begins every sector; it determines the rest */
	uint64_t magic, block, seq, sector;
};

struct thread {
	pthread_t id;
	int fd;
	uint64_t first, count, rng, seq;
	unsigned int max, threads;
};

struct run {
	uint64_t seq, first, count;
};

static atomic_bool stop;
static pthread_mutex_t out_lock = PTHREAD_MUTEX_INITIALIZER;

/* Writes that have ended and that no flush covers yet; guarded by the lock. */
static pthread_mutex_t pending_lock = PTHREAD_MUTEX_INITIALIZER;
static struct run pending[PENDING];
static unsigned int n_pending;
static uint64_t apart = 8;
static unsigned int pause_us;

static void die(const char *what)
{
	fprintf(stderr, "writer: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t mix(uint64_t *s)	/* splitmix64 (Vigna) */
{
	uint64_t z = *s += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static void fill_sector(uint8_t *to, uint64_t block, uint64_t seq, uint64_t sector)
{
	struct head h = { MAGIC, block, seq, sector };
	uint64_t s = block * 1099511628211ull ^ seq << 20 ^ sector;
	size_t at;

	memcpy(to, &h, sizeof(h));
	for (at = sizeof(h); at < SECTOR; at += 8) {
		uint64_t v = mix(&s);

		memcpy(to + at, &v, 8);
	}
}

static void fill(uint8_t *to, uint64_t block, uint64_t count, uint64_t seq)
{
	for (uint64_t b = 0; b < count; b++)
		for (uint64_t i = 0; i < SECTORS; i++)
			fill_sector(to + b * BLOCK + i * SECTOR, block + b, seq, i);
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

/* Thread @i of a load: FIRST COUNT THREADS MAX SEQ SEED. */
static struct thread make_thread(int fd, unsigned int i, char **a)
{
	unsigned int threads = atoi(a[2]);
	uint64_t first = strtoull(a[0], NULL, 10), count = strtoull(a[1], NULL, 10) / threads;

	return (struct thread){ .fd = fd, .first = first + count * i, .count = count, .rng = strtoull(a[5], NULL, 10) * 1000003 + i,
				.seq = strtoull(a[4], NULL, 10) + i, .max = atoi(a[3]), .threads = threads };
}

static bool load_arguments(char **a)
{
	uint64_t count = strtoull(a[1], NULL, 10);
	unsigned int threads = atoi(a[2]), max = atoi(a[3]);

	return threads && threads <= 64 && max && max <= MAX_RUN && count / threads >= max;
}

/* The next write of a thread; @dice: of its other choices. */
static struct run next_run(struct thread *t, uint64_t *dice)
{
	struct run r = { .seq = t->seq, .count = 1 + mix(&t->rng) % t->max };

	r.first = t->first + mix(&t->rng) % (t->count - r.count + 1);
	*dice = mix(&t->rng);
	t->seq += t->threads;
	return r;
}

static int write_run(int fd, void *buf, uint64_t first, uint64_t count, int flags)
{
	struct iovec iov = { buf, count * BLOCK };
	ssize_t n = pwritev2(fd, &iov, 1, (off_t)(first * BLOCK), flags);

	if (n == (ssize_t)(count * BLOCK))
		return 0;
	return n < 0 ? errno : EIO;
}

static void report(const struct run *runs, unsigned int n)
{
	pthread_mutex_lock(&out_lock);
	for (unsigned int i = 0; i < n; i++)
		printf("F %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", runs[i].seq, runs[i].first, runs[i].count);
	fflush(stdout);
	pthread_mutex_unlock(&out_lock);
}

static void failed(int error, const struct run *r)
{
	pthread_mutex_lock(&out_lock);
	printf("E %d %" PRIu64 " %" PRIu64 "\n", error, r->first, r->count);
	fflush(stdout);
	pthread_mutex_unlock(&out_lock);
	atomic_store(&stop, true);
}

/* Makes durable what has ended so far, and prints it; false: it failed. */
static bool flush(int fd, struct run *mine)
{
	unsigned int n;

	pthread_mutex_lock(&pending_lock);
	n = n_pending;
	memcpy(mine, pending, n * sizeof(*mine));
	n_pending = 0;
	pthread_mutex_unlock(&pending_lock);
	if (fdatasync(fd)) {
		failed(errno, &(struct run){ 0 });
		return false;
	}
	report(mine, n);
	return true;
}

/* A write has ended; true: there is no room for another. */
static bool ended(const struct run *r)
{
	bool full;

	pthread_mutex_lock(&pending_lock);
	if (n_pending < PENDING)
		pending[n_pending++] = *r;
	full = n_pending == PENDING;
	pthread_mutex_unlock(&pending_lock);
	return full;
}

static void *load_thread(void *data)
{
	struct thread *t = data;
	struct run mine[PENDING];
	void *buf;

	if (posix_memalign(&buf, BLOCK, MAX_RUN * BLOCK))
		die("memory");
	while (!atomic_load(&stop)) {
		uint64_t dice;
		struct run r = next_run(t, &dice);
		int error;

		dice %= 2 * apart;
		fill(buf, r.first, r.count, r.seq);
		error = write_run(t->fd, buf, r.first, r.count, dice == 0 ? RWF_DSYNC : 0);
		if (error) {
			failed(error, &r);
			break;
		}
		if (dice == 0)
			report(&r, 1);
		else if ((ended(&r) || dice == 1) && !flush(t->fd, mine))
			break;
		if (pause_us)
			usleep(pause_us);
	}
	free(buf);
	return NULL;
}

static int load(int fd, char **a)
{
	unsigned int threads = atoi(a[2]), seconds = atoi(a[6]);
	struct run mine[PENDING];
	uint64_t highest = 0;
	struct thread *t;
	int64_t end;

	if (a[7]) {
		apart = strtoull(a[7], NULL, 10);
		pause_us = a[8] ? atoi(a[8]) : 0;
	}
	if (!load_arguments(a) || !apart || apart >= PENDING) {
		fprintf(stderr, "writer: load: bad arguments\n");
		return 2;
	}
	t = calloc(threads, sizeof(*t));
	if (!t)
		die("memory");
	for (unsigned int i = 0; i < threads; i++) {
		t[i] = make_thread(fd, i, a);
		if (pthread_create(&t[i].id, NULL, load_thread, &t[i]))
			die("thread");
	}
	end = now_us() + seconds * 1000000ll;
	while (!atomic_load(&stop) && (!seconds || now_us() < end))
		usleep(20000);
	atomic_store(&stop, true);
	for (unsigned int i = 0; i < threads; i++) {
		pthread_join(t[i].id, NULL);
		highest = t[i].seq > highest ? t[i].seq : highest;
	}
	flush(fd, mine);
	printf("END %" PRIu64 "\n", highest);
	return 0;
}

/* The sequence number of a sector, 0 for a never-written one; UINT64_MAX: not a sector of that place. */
static uint64_t sector_seq(const uint8_t *at, uint64_t block, uint64_t sector)
{
	static const uint8_t zero[SECTOR];
	uint8_t want[SECTOR];
	struct head h;

	if (!memcmp(at, zero, SECTOR))
		return 0;
	memcpy(&h, at, sizeof(h));
	fill_sector(want, block, h.seq, sector);
	return memcmp(at, want, SECTOR) ? UINT64_MAX : h.seq;
}

/* The verifier's record of a block. */
struct block {
	uint64_t want;			/* durable; 0: nothing is */
	uint64_t lowest, highest;	/* of its sectors, but for garbage; 0: never written */
	bool garbage, in_flight;
};

static bool within(const struct run *r, uint64_t first, uint64_t last)
{
	return first >= r->first && last < r->first + r->count;
}

/*
 * Finds the write that thread @t may have had in flight, from the content of its blocks @b (from its first one on), and marks the garbage
 * in it. It is the last write that the disk shows, or a later one. In that case the writes between had ended and are not visible, so it
 * covers them.
 */
static void find_in_flight(struct thread *t, struct block *b)
{
	uint64_t begin = t->seq, shown = 0, durable = 0, first = UINT64_MAX, last = 0, dice;

	for (uint64_t i = 0; i < t->count; i++) {
		if (b[i].garbage) {
			first = i + t->first < first ? i + t->first : first;
			last = i + t->first;
		}
		shown = b[i].highest > shown ? b[i].highest : shown;
		durable = b[i].want > durable ? b[i].want : durable;
	}
	if (first > last || last - first >= t->max)
		return;
	/* Numbers below the first one are of an earlier load. */
	for (struct run r = next_run(t, &dice); ; r = next_run(t, &dice)) {
		if (r.seq < shown || r.seq <= durable)
			continue;
		if (within(&r, first, last)) {
			for (uint64_t i = first; i <= last; i++)
				b[i - t->first].in_flight = b[i - t->first].garbage;
			return;
		}
		/* It is not this one. So if this one had begun it has ended, and all of it is covered by the one in flight, unless the disk shows it. */
		if (r.seq != shown) {
			first = r.first < first ? r.first : first;
			last = r.first + r.count - 1 > last ? r.first + r.count - 1 : last;
		}
		if (last - first >= t->max || (r.seq - begin) / t->threads > MOST_WRITES)
			return;
	}
}

static int verify(int fd, char **a)
{
	uint64_t first = strtoull(a[0], NULL, 10), count = strtoull(a[1], NULL, 10), from, len, seq;
	uint64_t bad = 0, torn = 0, expected = 0, in_flight = 0;
	struct block *blocks = calloc(count, sizeof(*blocks));
	uint8_t *buf;

	if (a[2] && !load_arguments(a)) {
		fprintf(stderr, "writer: verify: bad arguments\n");
		return 2;
	}
	if (!blocks || posix_memalign((void **)&buf, BLOCK, MAX_RUN * BLOCK))
		die("memory");
	while (scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &from, &len, &seq) == 3) {
		for (uint64_t b = from; b < from + len; b++) {
			if (b < first || b >= first + count) {
				fprintf(stderr, "writer: verify: block %" PRIu64 " is outside\n", b);
				return 2;
			}
			expected += !blocks[b - first].want;
			if (blocks[b - first].want < seq)
				blocks[b - first].want = seq;
		}
	}
	for (uint64_t b = 0; b < count; b += MAX_RUN) {
		uint64_t n = count - b < MAX_RUN ? count - b : MAX_RUN;

		if (pread(fd, buf, n * BLOCK, (off_t)((first + b) * BLOCK)) != (ssize_t)(n * BLOCK))
			die("read");
		for (uint64_t i = 0; i < n; i++) {
			struct block *block = &blocks[b + i];

			block->lowest = UINT64_MAX;
			for (uint64_t s = 0; s < SECTORS; s++) {
				uint64_t is = sector_seq(buf + i * BLOCK + s * SECTOR, first + b + i, s);

				if (is == UINT64_MAX) {
					block->garbage = true;
					continue;
				}
				block->lowest = is < block->lowest ? is : block->lowest;
				block->highest = is > block->highest ? is : block->highest;
			}
		}
	}
	for (int i = 0; a[2] && i < atoi(a[2]); i++) {
		struct thread t = make_thread(fd, i, a);

		find_in_flight(&t, blocks + (t.first - first));
	}
	for (uint64_t b = 0; b < count; b++) {
		const struct block *is = &blocks[b];
		bool lost = is->lowest < is->want;	/* even a block in flight has old or new chunks, and one chunk may be anything */
		const char *what = lost ? "lost" : is->in_flight ? "in flight" : "garbage";

		torn += !is->garbage && is->lowest != is->highest;
		in_flight += is->in_flight;
		if (!is->garbage && !lost)
			continue;
		if ((lost || !is->in_flight) && bad++ >= 40)
			continue;
		printf("block %" PRIu64 ": %s, sequence %" PRId64 " to %" PRId64 ", durable was %" PRIu64 "\n", first + b, what,
		       (int64_t)is->lowest, (int64_t)is->highest, is->want);
	}
	printf("checked %" PRIu64 " expected %" PRIu64 " torn %" PRIu64 " in flight %" PRIu64 " bad %" PRIu64 "\n", count, expected, torn, in_flight, bad);
	return bad ? 1 : 0;
}

static int pulse(int fd, char **a)
{
	uint64_t first = strtoull(a[0], NULL, 10), count = strtoull(a[1], NULL, 10), seq = 1;
	int64_t end = now_us() + strtoll(a[2], NULL, 10) * 1000000;
	unsigned int apart_ms = a[3] ? atoi(a[3]) : 20;
	void *buf;

	if (!count || count > MAX_RUN || posix_memalign(&buf, BLOCK, MAX_RUN * BLOCK))
		die("arguments");
	while (now_us() < end) {
		int64_t start = now_us();
		int error;

		fill(buf, first, count, seq++);
		error = write_run(fd, buf, first, count, 0);
		if (error) {
			printf("E %d %" PRIu64 " %" PRIu64 "\n", error, first, count);
			return 1;
		}
		printf("P %" PRId64 " %" PRId64 "\n", start / 1000, now_us() - start);
		fflush(stdout);
		usleep(apart_ms * 1000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	bool ok = false;
	int fd;

	if (argc > 2 && !strcmp(argv[1], "load"))
		ok = argc >= 10 && argc <= 12;
	else if (argc > 2 && !strcmp(argv[1], "verify"))
		ok = argc == 5 || argc == 9;
	else if (argc > 2 && !strcmp(argv[1], "pulse"))
		ok = argc == 6 || argc == 7;
	if (!ok) {
		fprintf(stderr, "usage: writer load DEV FIRST COUNT THREADS MAX SEQ SEED SECONDS [APART [PAUSE_US]] | "
			"verify DEV FIRST COUNT [THREADS MAX SEQ SEED] | pulse DEV BLOCK COUNT SECONDS [APART_MS]\n");
		return 2;
	}
	fd = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die(argv[2]);
	switch (argv[1][0]) {
	case 'l':
		return load(fd, argv + 3);
	case 'v':
		return verify(fd, argv + 3);
	default:
		return pulse(fd, argv + 3);
	}
}

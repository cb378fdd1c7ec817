// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writers and readers of a torture: every sector that is written says who wrote it.
 *
 *	stamp run DEV CONTROL RUN NODE PROCESS THREADS SEED PAUSE_US < groups
 *	stamp once DEV RUN NODE PROCESS fill|read < groups
 *
 * groups: first blocks of groups of GROUP blocks of 4096 bytes, the n-th line is group n. A stamp is RUN, NODE, PROCESS, thread, number of the operation, block
 * and sector; the rest of the sector follows from it, so that a mix of two writes within a sector is seen, too.
 *
 * run: each thread reads any blocks, and writes blocks of groups that this process owns, one operation at a time. Lines appended to the file
 * CONTROL are orders: "k N" a tick, "g N" own group N, "t N" give it back, "q" end. once: writes, or reads, all groups.
 *
 * Standard output, each line with the microseconds of CLOCK_MONOTONIC after its letter:
 *
 *	H us				it runs
 *	K us N				a tick was seen
 *	B us THREAD NUMBER r|w FIRST COUNT	printed before the operation begins
 *	E us THREAD NUMBER ERRNO [CONTENT...]	printed after it has ended; a read that ended well: see token()
 *	G us N, T us N			group N is owned; it was given back, and no write of it is in flight
 *	Q us				all threads have ended
 *
 * Must never begin an operation before its line was printed, or print its end before it has ended. Lines are in the order of their times.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define BLOCK		4096u
#define SECTOR		512u
#define SECTORS		(BLOCK / SECTOR)
#define GROUP		4u		/* blocks */
#define MOST_GROUPS	4096u
#define MOST_THREADS	64u
#define SET		4u		/* groups that a thread works on for a while, so that the others' regions become idle */
#define SET_LASTS	48u		/* operations */
#define LINE		4096u
#define MAGIC		0x70616d7453726464ull

struct head {			/* begins every sector; it determines the rest */
	uint64_t magic, run, number, block;
	uint32_t node, process, thread, sector;
};

struct thread {
	pthread_t id;
	uint64_t rng, number;
	unsigned int index, set[SET], left;
	uint8_t *buf;
};

struct group {			/* guarded by the lock */
	uint64_t first;
	unsigned int writes;	/* in flight */
	bool owned, taken;	/* taken: to be given back when no write is in flight */
};

static struct group groups[MOST_GROUPS];
static unsigned int n_groups, pause_us;
static uint64_t run;
static uint32_t node, process;
static int fd;
static atomic_bool stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, out_lock = PTHREAD_MUTEX_INITIALIZER;

static void die(const char *what)
{
	fprintf(stderr, "stamp: %s: %s\n", what, strerror(errno));
	exit(2);
}

static uint64_t mix(uint64_t *s)	/* splitmix64 (Vigna) */
{
	uint64_t z = *s += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* A line: its letter, the time, which is read under the lock of the output, and the rest. */
__attribute__((format(printf, 2, 3)))
static void say(char what, const char *format, ...)
{
	char line[LINE];
	struct timespec t;
	va_list args;
	int n;

	pthread_mutex_lock(&out_lock);
	clock_gettime(CLOCK_MONOTONIC, &t);
	n = snprintf(line, sizeof(line), "%c %" PRId64, what, (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000);
	va_start(args, format);
	n += vsnprintf(line + n, sizeof(line) - n, format, args);
	va_end(args);
	line[n++] = '\n';
	if (write(STDOUT_FILENO, line, n) != n)
		die("output");
	pthread_mutex_unlock(&out_lock);
}

/* ---- sectors ------------------------------------------------------------------------------ */

static void fill_sector(uint8_t *to, const struct head *h)
{
	uint64_t s = h->number ^ h->block << 20 ^ (uint64_t)h->node << 56 ^ (uint64_t)h->process << 44 ^ h->thread << 8 ^ h->sector ^ h->run;
	size_t at;

	memcpy(to, h, sizeof(*h));
	for (at = sizeof(*h); at < SECTOR; at += 8) {
		uint64_t v = mix(&s);

		memcpy(to + at, &v, 8);
	}
}

static void fill(uint8_t *to, uint64_t block, unsigned int count, unsigned int thread, uint64_t number)
{
	for (unsigned int i = 0; i < count * SECTORS; i++) {
		struct head h = { MAGIC, run, number, block + i / SECTORS, node, process, thread, i % SECTORS };

		fill_sector(to + i * SECTOR, &h);
	}
}

/*
 * What a sector holds, as text: "0" zeroes, "NODE.PROCESS.THREAD.NUMBER" a stamp of this place; "?bBLOCK.sSECTOR:STAMP" one of another place, "?run"
 * one of another run, "?" and a hash: anything else.
 */
static void token(char *to, size_t size, const uint8_t *at, uint64_t block, unsigned int sector)
{
	static const uint8_t zero[SECTOR];
	uint8_t want[SECTOR];
	struct head h;
	uint64_t hash = 0;

	if (!memcmp(at, zero, SECTOR)) {
		snprintf(to, size, "0");
		return;
	}
	memcpy(&h, at, sizeof(h));
	fill_sector(want, &h);
	if (h.magic != MAGIC || memcmp(at, want, SECTOR)) {
		for (size_t i = 0; i < SECTOR; i += 8) {
			uint64_t v;

			memcpy(&v, at + i, 8);
			hash ^= v;
			hash = mix(&hash);
		}
		snprintf(to, size, "?%016" PRIx64, hash);
	} else if (h.run != run) {
		snprintf(to, size, "?run");
	} else if (h.block != block || h.sector != sector) {
		snprintf(to, size, "?b%" PRIu64 ".s%u:%u.%u.%u.%" PRIu64, h.block, h.sector, h.node, h.process, h.thread, h.number);
	} else {
		snprintf(to, size, "%u.%u.%u.%" PRIu64, h.node, h.process, h.thread, h.number);
	}
}

/* The contents of blocks: for each a token if its sectors agree, else eight, joined by commas. */
static void describe(char *to, size_t size, const uint8_t *buf, uint64_t first, unsigned int count)
{
	char tokens[SECTORS][96];
	size_t n = 0;

	for (unsigned int b = 0; b < count; b++) {
		bool same = true;

		for (unsigned int s = 0; s < SECTORS; s++) {
			token(tokens[s], sizeof(tokens[s]), buf + b * BLOCK + s * SECTOR, first + b, s);
			same &= !strcmp(tokens[s], tokens[0]);
		}
		for (unsigned int s = 0; s < (same ? 1 : SECTORS) && n < size; s++)
			n += snprintf(to + n, size - n, "%c%s", s ? ',' : ' ', tokens[s]);
	}
}

/* ---- operations --------------------------------------------------------------------------- */

static int transfer(bool write, void *buf, uint64_t first, unsigned int count, int flags)
{
	struct iovec iov = { buf, count * BLOCK };
	ssize_t n = write ? pwritev2(fd, &iov, 1, (off_t)(first * BLOCK), flags) : preadv2(fd, &iov, 1, (off_t)(first * BLOCK), 0);

	if (n == (ssize_t)(count * BLOCK))
		return 0;
	return n < 0 ? errno : EIO;
}

static void operate(struct thread *t, bool write, uint64_t first, unsigned int count, int flags)
{
	uint64_t number = ++t->number;
	char what[LINE - 128] = "";
	int error;

	if (write)
		fill(t->buf, first, count, t->index, number);
	say('B', " %u %" PRIu64 " %c %" PRIu64 " %u", t->index, number, write ? 'w' : 'r', first, count);
	error = transfer(write, t->buf, first, count, flags);
	if (!write && !error)
		describe(what, sizeof(what), t->buf, first, count);
	say('E', " %u %" PRIu64 " %d%s", t->index, number, error, what);
}

/* Counts a write of the group, if this process owns it. */
static bool begin_write(unsigned int g)
{
	bool may;

	pthread_mutex_lock(&lock);
	may = groups[g].owned;
	groups[g].writes += may;
	pthread_mutex_unlock(&lock);
	return may;
}

static void end_write(unsigned int g)
{
	bool given;

	pthread_mutex_lock(&lock);
	given = !--groups[g].writes && groups[g].taken;
	groups[g].taken &= !given;
	pthread_mutex_unlock(&lock);
	if (given)
		say('T', " %u", g);
}

static unsigned int below(struct thread *t, unsigned int n)
{
	return mix(&t->rng) % n;
}

/* Groups that the thread works on for a while: those that it may write, if a few tries find any. */
static void choose_set(struct thread *t)
{
	pthread_mutex_lock(&lock);
	for (unsigned int i = 0; i < SET; i++)
		for (unsigned int try = 0; try < 8; try++) {
			t->set[i] = below(t, n_groups);
			if (groups[t->set[i]].owned)
				break;
		}
	pthread_mutex_unlock(&lock);
}

static void *work(void *data)
{
	struct thread *t = data;

	while (!atomic_load(&stop)) {
		unsigned int g, at, count;

		if (!t->left--) {
			choose_set(t);
			t->left = SET_LASTS;
		}
		at = below(t, GROUP);
		count = below(t, 2) ? 1 : 1 + below(t, GROUP - at);
		g = t->set[below(t, SET)];
		if (below(t, 2) && begin_write(g)) {
			operate(t, true, groups[g].first + at, count, below(t, 8) ? 0 : RWF_DSYNC);
			end_write(g);
			if (!below(t, 32))
				fdatasync(fd);	/* its answer is not judged here */
		} else {
			if (below(t, 4))
				g = below(t, n_groups);
			operate(t, false, groups[g].first + at, count, 0);
		}
		if (pause_us)
			usleep(below(t, 2 * pause_us));
	}
	return NULL;
}

/* ---- orders ------------------------------------------------------------------------------- */

static void own(unsigned int g, bool mine)
{
	bool given;

	pthread_mutex_lock(&lock);
	groups[g].owned = mine;
	groups[g].taken = !mine;
	given = !mine && !groups[g].writes;
	groups[g].taken &= !given;
	pthread_mutex_unlock(&lock);
	if (mine)
		say('G', " %u", g);
	else if (given)
		say('T', " %u", g);
}

static void obey(const char *line)
{
	uint64_t n = strtoull(line + 1, NULL, 10);

	if (*line == 'k')
		say('K', " %" PRIu64, n);
	else if (*line == 'q')
		atomic_store(&stop, true);
	else if ((*line == 'g' || *line == 't') && n < n_groups)
		own(n, *line == 'g');
	else
		fprintf(stderr, "stamp: bad order: %s\n", line);
}

/* Until it is told to end. */
static void follow(const char *path)
{
	char line[64], event[4096];
	int notify = inotify_init1(IN_CLOEXEC);
	FILE *orders = fopen(path, "a+e");
	size_t n = 0;
	int c;

	if (!orders || notify < 0 || inotify_add_watch(notify, path, IN_MODIFY) < 0)
		die(path);
	rewind(orders);
	while (!atomic_load(&stop)) {
		while ((c = getc(orders)) != EOF) {
			if (c == '\n') {
				line[n] = 0;
				obey(line);
				n = 0;
			} else if (n < sizeof(line) - 1) {
				line[n++] = c;
			}
		}
		clearerr(orders);
		if (!atomic_load(&stop) && read(notify, event, sizeof(event)) < 0 && errno != EINTR)
			die("inotify");
	}
	fclose(orders);
	close(notify);
}

/* ---- programs ----------------------------------------------------------------------------- */

static void read_groups(void)
{
	while (n_groups < MOST_GROUPS && scanf("%" SCNu64, &groups[n_groups].first) == 1)
		n_groups++;
	if (!n_groups) {
		fprintf(stderr, "stamp: no groups\n");
		exit(2);
	}
}

static void prepare(struct thread *t, unsigned int index, uint64_t seed)
{
	void *buf;

	if (posix_memalign(&buf, BLOCK, GROUP * BLOCK))
		die("memory");
	*t = (struct thread){ .index = index, .rng = seed * 1000003 + index, .buf = buf };
}

static void begin(char **a)
{
	run = strtoull(a[0], NULL, 10);
	node = atoi(a[1]);
	process = atoi(a[2]);
	read_groups();
	say('H', "%s", "");
}

static int run_threads(const char *control, char **a)
{
	static struct thread threads[MOST_THREADS];
	unsigned int n = atoi(a[3]);

	if (!n || n > MOST_THREADS)
		return 2;
	begin(a);
	pause_us = atoi(a[5]);
	for (unsigned int i = 0; i < n; i++) {
		prepare(&threads[i], i, strtoull(a[4], NULL, 10));
		if (pthread_create(&threads[i].id, NULL, work, &threads[i]))
			die("thread");
	}
	follow(control);
	for (unsigned int i = 0; i < n; i++)
		pthread_join(threads[i].id, NULL);
	say('Q', "%s", "");
	return 0;
}

static int once(char **a)
{
	bool write = !strcmp(a[3], "fill");
	struct thread t;

	begin(a);
	prepare(&t, 0, 0);
	for (unsigned int g = 0; g < n_groups; g++)
		operate(&t, write, groups[g].first, GROUP, 0);
	say('Q', "%s", "");
	return 0;
}

int main(int argc, char **argv)
{
	bool many = argc == 10 && !strcmp(argv[1], "run");

	if (!many && !(argc == 7 && !strcmp(argv[1], "once") && (!strcmp(argv[6], "fill") || !strcmp(argv[6], "read")))) {
		fprintf(stderr, "usage: stamp run DEV CONTROL RUN NODE PROCESS THREADS SEED PAUSE_US | once DEV RUN NODE PROCESS fill|read\n");
		return 2;
	}
	fd = open(argv[2], O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0)
		die(argv[2]);
	return many ? run_threads(argv[3], argv + 4) : once(argv + 3);
}

// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The last generation seen of each array. See state.h.
 *
 * DIR/UUID.generation holds one line: generation in decimal, a blank, its id.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/disk/state.h"
#include "lib/conf.h"
#include "lib/disk/format.h"
#include "lib/error.h"

#define STACK_BYTES	(128u << 10)
#define NOTED_MAX	64u		/* arrays whose file contents are remembered; the file of others is written each time */

struct note {
	char dir[DDR_CONF_PATH_MAX];
	uint8_t uuid[16];
	struct ddr_known known;
};

static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER;	/* one file is written at a time */

/* What the files contain, or are about to: superblocks are written far more often than their generation changes. */
static struct note noted[NOTED_MAX];
static unsigned int noted_next;		/* the entry that the next array takes */
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;	/* protects the two above; never held while sleeping */

static bool same(const struct ddr_known *a, const struct ddr_known *b)
{
	return a->generation == b->generation && !memcmp(a->gen_id, b->gen_id, sizeof(a->gen_id));
}

/* Call with noting locked. NULL: nothing is known about the array. */
static struct note *find_noted(const char *dir, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < NOTED_MAX; i++)
		if (noted[i].known.generation && !memcmp(noted[i].uuid, uuid, sizeof(noted[i].uuid)) && !strcmp(noted[i].dir, dir))
			return &noted[i];
	return NULL;
}

/* Notes what the file contains, or is about to. False: that was already known. Generation 0: it contains nothing. */
static bool note_down(const struct note *note)
{
	struct note *n;
	bool new;

	pthread_mutex_lock(&noting);
	n = find_noted(note->dir, note->uuid);
	new = !n || !same(&n->known, &note->known);
	if (!n && note->known.generation)
		n = &noted[noted_next++ % NOTED_MAX];
	if (n)
		*n = *note;
	pthread_mutex_unlock(&noting);
	return new;
}

/* The file could not be written: the next attempt must write it again. */
static void note_failed(const struct note *note)
{
	struct note *n;

	pthread_mutex_lock(&noting);
	n = find_noted(note->dir, note->uuid);
	if (n && same(&n->known, &note->known))
		n->known.generation = 0;
	pthread_mutex_unlock(&noting);
}

static void file_name(const char *dir, const uint8_t uuid[16], char *buf, size_t size)
{
	char text[37];

	uuid_unparse_lower(uuid, text);
	snprintf(buf, size, "%s/%s.generation", dir, text);
}

static int read_file(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	char path[DDR_CONF_PATH_MAX + 64], id[37] = "";
	uint64_t generation = 0;
	FILE *f;

	memset(known, 0, sizeof(*known));
	file_name(dir, uuid, path, sizeof(path));
	f = fopen(path, "re");
	if (!f)
		return ddr_own_failure(errno) ? -errno : 0;
	if (fscanf(f, "%20" SCNu64 " %36s", &generation, id) == 2 && generation && generation < DDR_GENERATION_START &&
	    uuid_parse(id, known->gen_id) == 0)
		known->generation = generation;
	else
		qb_log(LOG_WARNING, "%s is damaged, so stale disks may not be recognised at this start; check with ddraid examine that the newest ones are there", path);
	fclose(f);
	return 0;
}

int ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	struct note note;
	int ret = read_file(dir, uuid, known);

	if (ret)
		return ret;
	snprintf(note.dir, sizeof(note.dir), "%s", dir);
	memcpy(note.uuid, uuid, sizeof(note.uuid));
	note.known = *known;
	note_down(&note);
	return 0;
}

static int write_file(const char *path, const struct ddr_known *known)
{
	char text[96], id[37];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;
	int ret = 0;

	if (fd < 0)
		return -errno;
	uuid_unparse_lower(known->gen_id, id);
	n = snprintf(text, sizeof(text), "%" PRIu64 " %s\n", known->generation, id);
	if (write(fd, text, (size_t)n) != n || fsync(fd))
		ret = errno ? -errno : -EIO;
	close(fd);
	return ret;
}

/* Replaces the contents of the file. */
static int save_over(const struct note *note)
{
	char path[DDR_CONF_PATH_MAX + 64], tmp[DDR_CONF_PATH_MAX + 72];
	int ret, dir;

	file_name(note->dir, note->uuid, path, sizeof(path));
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	ret = write_file(tmp, &note->known);
	if (ret)
		return ret;
	if (rename(tmp, path))
		return -errno;
	dir = open(note->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir >= 0) {
		if (fsync(dir))
			ret = -errno;
		close(dir);
	}
	return ret;
}

static int save(const struct note *note)
{
	struct ddr_known old;
	int ret;

	if (mkdir(note->dir, 0700) && errno != EEXIST)
		return -errno;
	ret = read_file(note->dir, note->uuid, &old);
	if (ret)
		return ret;
	if (old.generation > note->known.generation || same(&old, &note->known))
		return 0;
	return save_over(note);
}

int ddr_state_lower(const char *dir, const uint8_t uuid[16], const struct ddr_known *known)
{
	struct note note = { .known = *known };
	int ret;

	snprintf(note.dir, sizeof(note.dir), "%s", dir);
	memcpy(note.uuid, uuid, sizeof(note.uuid));
	pthread_mutex_lock(&writing);
	ret = save_over(&note);
	pthread_mutex_unlock(&writing);
	if (ret == 0)
		note_down(&note);
	return ret;
}

static void *thread_main(void *data)
{
	struct note *note = data;
	char uuid[UUID_STR_LEN];
	int ret;

	pthread_mutex_lock(&writing);
	ret = save(note);
	pthread_mutex_unlock(&writing);
	if (ret) {
		uuid_unparse(note->uuid, uuid);
		qb_log(LOG_WARNING, "array %s: cannot record generation %" PRIu64 " in %s: %s", uuid, note->known.generation, note->dir,
		       strerror(-ret));
		note_failed(note);
	}
	free(note);
	return NULL;
}

void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16])
{
	struct note *note = calloc(1, sizeof(*note));
	char text[UUID_STR_LEN];
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	if (!note || !generation) {
		free(note);
		return;
	}
	snprintf(note->dir, sizeof(note->dir), "%s", dir);
	memcpy(note->uuid, uuid, sizeof(note->uuid));
	note->known.generation = generation;
	memcpy(note->known.gen_id, gen_id, sizeof(note->known.gen_id));
	if (!note_down(note)) {
		free(note);
		return;
	}
	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, &attr, thread_main, note);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (ret) {
		uuid_unparse(uuid, text);
		qb_log(LOG_WARNING, "array %s: cannot record generation %" PRIu64 ": %s", text, generation, strerror(ret));
		note_failed(note);
		free(note);
	}
}

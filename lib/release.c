// SPDX-License-Identifier: LGPL-2.1-or-later
/* Does the running release match the installed one? See release.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ddraid/proto.h>
#include <ddraid/uapi.h>

#include "lib/release.h"

/* The first line of @dir/@name, without its newline; "" if it cannot be read. */
static void read_line(const char *dir, const char *name, char *buf, size_t size)
{
	char path[512];
	FILE *f;

	buf[0] = '\0';
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(buf, (int)size, f))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(f);
}

void ddr_release_look(struct ddr_release *r, const char *module)
{
	char text[32], *end;
	struct stat st;

	*r = (struct ddr_release){ .our_abi = DDR_ABI_VERSION };
	snprintf(r->ours, sizeof(r->ours), "%s", PACKAGE_VERSION);
	r->loaded = stat(module, &st) == 0;
	read_line(module, "version", r->module, sizeof(r->module));
	read_line(module, "parameters/abi", text, sizeof(text));
	r->abi = (unsigned int)strtoul(text, NULL, 10);
	read_line(module, "parameters/protocol", text, sizeof(text));
	r->lowest = (unsigned int)strtoul(text, &end, 10);
	r->highest = (unsigned int)strtoul(end, NULL, 10);
}

/* A daemon that is started now could not serve the arrays. */
static void other_interface(const struct ddr_release *r, char *buf, size_t size)
{
	char theirs[48] = "an older version";

	if (r->abi)
		snprintf(theirs, sizeof(theirs), "version %u", r->abi);
	snprintf(buf, size, "the installed ddraidd speaks version %u of the kernel interface, the loaded module %s. Do not restart ddraidd while "
		 "an array is up: it could not serve the array. Stop the arrays (ddraid stop --all), then type: systemctl stop ddraidd && modprobe "
		 "-r dm-ddraid && systemctl start ddraidd", r->our_abi, theirs);
}

/* The same, since a node speaks with others only what its module serves. */
static bool other_protocol(const struct ddr_release *r, char *buf, size_t size)
{
	if (r->highest >= DDR_MSG_LOWEST && r->lowest <= DDR_MSG_HIGHEST)
		return false;
	snprintf(buf, size, "the installed ddraidd speaks versions %u to %u of the protocol between nodes, the loaded module serves %u to %u. Do not restart "
		 "ddraidd while an array is up: it could not serve the array. %s", DDR_MSG_LOWEST, DDR_MSG_HIGHEST, r->lowest, r->highest,
		 r->lowest > DDR_MSG_HIGHEST ? "Install the ddraid of the module's release, then type: systemctl restart ddraidd" :
		 "Stop the arrays (ddraid stop --all), then type: systemctl stop ddraidd && modprobe -r dm-ddraid && systemctl start ddraidd");
	return true;
}

const char *ddr_release_words(const struct ddr_release *r, char *buf, size_t size)
{
	buf[0] = '\0';
	if (r->loaded && r->abi != r->our_abi)
		other_interface(r, buf, size);
	else if (r->loaded && other_protocol(r, buf, size))
		return buf;
	else if (r->daemon[0] && strcmp(r->daemon, r->ours) != 0)
		snprintf(buf, size, "ddraidd (process %d) is release %s, but %s is installed; systemctl restart ddraidd starts the installed one, "
			 "and the arrays stay up", (int)r->pid, r->daemon, r->ours);
	else if (r->replaced)
		snprintf(buf, size, "ddraidd (process %d) runs a program file that was replaced or removed since, as by an upgrade; systemctl "
			 "restart ddraidd starts the installed one, and the arrays stay up", (int)r->pid);
	else if (r->loaded && strcmp(r->module, r->ours) != 0)
		snprintf(buf, size, "the loaded kernel module is release %s, but %s is installed; the next boot loads it, or, once the arrays are "
			 "stopped (ddraid stop --all), this: systemctl stop ddraidd && modprobe -r dm-ddraid && systemctl start ddraidd",
			 r->module[0] ? r->module : "(unknown)", r->ours);
	return buf;
}

int ddr_release_write(const char *run_dir, const char *transport)
{
	char path[512];
	FILE *f;
	int ret;

	snprintf(path, sizeof(path), "%s/ddraidd.release", run_dir);
	f = fopen(path, "we");
	if (!f)
		return -errno;
	fprintf(f, "pid=%d\nrelease=%s\nabi=%u\nlowest=%u\nprotocol=%u\ntransport=%s\n", (int)getpid(), PACKAGE_VERSION, DDR_ABI_VERSION, DDR_MSG_LOWEST,
		DDR_MSG_HIGHEST, transport);
	ret = fflush(f) ? -errno : 0;
	fclose(f);
	return ret;
}

// SPDX-License-Identifier: GPL-2.0-or-later
/* What sysfs says of the way to a disk (lib/disk/bus.c), on directories and links as sysfs has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/disk/bus.h"

static char sys[64];

static void run(const char *command)
{
	char line[2048];

	snprintf(line, sizeof(line), "cd %s && %s", sys, command);
	assert_int_equal(system(line), 0);
}

static int before(void **state)
{
	(void)state;
	strcpy(sys, "/tmp/ddraid-bus-XXXXXX");
	assert_non_null(mkdtemp(sys));
	run("mkdir -p dev/block class/block devices");
	return 0;
}

static int after(void **state)
{
	char line[128];

	(void)state;
	snprintf(line, sizeof(line), "rm -r %s", sys);
	return system(line);
}

/* A device with this number, whose directory is devices/@path. */
static void device(unsigned int minor, const char *path)
{
	char line[1024];

	snprintf(line, sizeof(line), "mkdir -p devices/%s && ln -s ../../devices/%s dev/block/8:%u && ln -s ../../devices/%s class/block/", path, path, minor, path);
	run(line);
}

static void transport(const char *controller, const char *text)
{
	char line[1024];

	snprintf(line, sizeof(line), "echo %s > devices/%s/transport", text, controller);
	run(line);
}

static void on(const char *upper, const char *lower)
{
	char line[1024];

	snprintf(line, sizeof(line), "mkdir -p devices/%s/slaves && ln -s ../../../class/block/%s devices/%s/slaves/%s", upper, lower, upper, lower);
	run(line);
}

static void disks_of_this_machine_keep_nothing(void **state)
{
	(void)state;
	device(0, "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda");
	device(1, "pci0000:00/0000:03:00.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb");
	device(2, "pci0000:00/0000:04:00.0/nvme/nvme0/nvme0n1");
	transport("pci0000:00/0000:04:00.0/nvme/nvme0", "pcie");
	for (unsigned int i = 0; i < 3; i++)
		assert_false(ddr_bus_keeps(sys, 8, i));
}

static void targets_and_hosts_keep_commands(void **state)
{
	(void)state;
	device(0, "pci0000:00/0000:00:05.0/virtio2/block/vda");
	device(1, "platform/host2/session1/target2:0:0/2:0:0:1/block/sdc");
	device(2, "pci0000:00/0000:05:00.0/host3/rport-3:0-1/target3:0:1/3:0:1:0/block/sdd");
	device(3, "virtual/nvme-fabrics/ctl/nvme1/nvme1n1");
	transport("virtual/nvme-fabrics/ctl/nvme1", "tcp");
	device(4, "virtual/block/nbd0");
	device(5, "pci0000:00/0000:06:00.0/nvme/nvme2/nvme2n1");	/* it does not say what it is */
	device(6, "pci0000:00/0000:00:05.0/virtio3/host4/target4:0:0/4:0:0:0/block/sde");
	device(7, "pci0000:00/atari/block/sdf");
	for (unsigned int i = 0; i < 9; i++)
		assert_true(ddr_bus_keeps(sys, 8, i));			/* 8: there is no such device */
}

/* A disk with two controllers is a child of their subsystem. */
static void every_path_counts(void **state)
{
	(void)state;
	device(0, "virtual/nvme-subsystem/nvme-subsys0/nvme0n1");
	assert_true(ddr_bus_keeps(sys, 8, 0));
	run("mkdir -p devices/virtual/nvme-subsystem/nvme-subsys0/nvme0 devices/virtual/nvme-subsystem/nvme-subsys0/nvme1");
	transport("virtual/nvme-subsystem/nvme-subsys0/nvme0", "pcie");
	assert_true(ddr_bus_keeps(sys, 8, 0));
	transport("virtual/nvme-subsystem/nvme-subsys0/nvme1", "pcie");
	assert_false(ddr_bus_keeps(sys, 8, 0));
	transport("virtual/nvme-subsystem/nvme-subsys0/nvme1", "rdma");
	assert_true(ddr_bus_keeps(sys, 8, 0));
}

static void what_stands_on_others_is_as_they_are(void **state)
{
	(void)state;
	device(0, "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda");
	device(1, "pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda/sda1");
	run("echo 1 > dev/block/8:1/partition");
	device(2, "pci0000:00/0000:05:00.0/host3/rport-3:0-1/target3:0:1/3:0:1:0/block/sdd");
	device(3, "virtual/block/dm-0");
	assert_true(ddr_bus_keeps(sys, 8, 3));		/* a device that stands on nothing, such as an error target */
	on("virtual/block/dm-0", "sda1");
	device(4, "virtual/block/dm-1");
	on("virtual/block/dm-1", "dm-0");
	for (unsigned int i = 0; i < 5; i++)
		assert_int_equal(ddr_bus_keeps(sys, 8, i), i == 2);
	on("virtual/block/dm-0", "sdd");
	assert_true(ddr_bus_keeps(sys, 8, 3) && ddr_bus_keeps(sys, 8, 4));
}

/* Sysfs has none, but the search must end. */
static void a_circle_ends(void **state)
{
	(void)state;
	device(0, "virtual/block/dm-0");
	device(1, "virtual/block/dm-1");
	on("virtual/block/dm-0", "dm-1");
	on("virtual/block/dm-1", "dm-0");
	assert_true(ddr_bus_keeps(sys, 8, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(disks_of_this_machine_keep_nothing, before, after),
		cmocka_unit_test_setup_teardown(targets_and_hosts_keep_commands, before, after),
		cmocka_unit_test_setup_teardown(every_path_counts, before, after),
		cmocka_unit_test_setup_teardown(what_stands_on_others_is_as_they_are, before, after),
		cmocka_unit_test_setup_teardown(a_circle_ends, before, after),
	};

	return cmocka_run_group_tests_name("bus", tests, NULL, NULL);
}

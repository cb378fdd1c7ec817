/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What lies between this machine and a block device, by sysfs: may a command that a machine has sent be carried out after that machine is off?
 *
 * A disk on SAS, SATA or PCIe loses what a machine has sent when its link goes down, or has it done by then. A target that is reached by a network, and the
 * host of a virtual machine, may hold commands of an initiator that is gone for some seconds (`settle`).
 */
#ifndef DDR_LIB_BUS_H
#define DDR_LIB_BUS_H

#include <stdbool.h>

/*
 * False if the device, or each device that it stands on (device-mapper, md, a partition), is on SAS, SATA or PCIe NVMe. True if not, or if sysfs does not
 * say. @sys: "/sys", or another directory for tests. Reads some small files of sysfs, which does not wait for the device; any thread.
 */
bool ddr_bus_keeps(const char *sys, unsigned int major, unsigned int minor);

#endif

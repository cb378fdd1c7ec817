/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddraid stop --shutdown: ends all I/O on arrays that would keep the machine from shutting down. */
#ifndef DDR_CLI_GODOWN_H
#define DDR_CLI_GODOWN_H

/*
 * Runs while the machine shuts down, until no array is left: resumes suspended arrays, and makes the I/O of arrays fail that were not
 * served for 30 seconds. Returns an exit code.
 */
int cli_go_down(void);

#endif

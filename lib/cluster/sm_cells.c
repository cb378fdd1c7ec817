// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The tables of the small machines, generated from the lists of sm_cells.h, and the one function that uses them.
 *
 * Must never: have a transition that the lists do not name.
 */
#include "sm_int.h"

#define CELL(machine, from, event, to, text)	CELL_##machine##_##from##_##event,
enum cell {
	CELL_NONE,
	DDR_CELLS_RANGE(CELL)
	DDR_CELLS_WORK(CELL)
	DDR_CELLS_FIX(CELL)
	DDR_CELLS_WRITE(CELL)
	DDR_CELLS_TRANS(CELL)
	CELLS
};

#define STATES	8u
#define EVENTS	14u

struct turn {
	uint8_t cell;		/* CELL_NONE: impossible */
	uint8_t to;
};

#define TURN(machine, p, e, from, event, next)	[DDR_MACHINE_##machine][p##_##from][e##_##event] = { CELL_##machine##_##from##_##event, p##_##next },
#define TURN_RANGE(machine, from, event, to, text)	TURN(machine, DDR_R, DDR_RE, from, event, to)
#define TURN_WORK(machine, from, event, to, text)	TURN(machine, DDR_WK, DDR_WKE, from, event, to)
#define TURN_FIX(machine, from, event, to, text)	TURN(machine, DDR_FX, DDR_FXE, from, event, to)
#define TURN_WRITE(machine, from, event, to, text)	TURN(machine, DDR_W, DDR_WE, from, event, to)
#define TURN_TRANS(machine, from, event, to, text)	TURN(machine, DDR_T, DDR_TE, from, event, to)

static const struct turn turns[][STATES][EVENTS] = {
	DDR_CELLS_RANGE(TURN_RANGE)
	DDR_CELLS_WORK(TURN_WORK)
	DDR_CELLS_FIX(TURN_FIX)
	DDR_CELLS_WRITE(TURN_WRITE)
	DDR_CELLS_TRANS(TURN_TRANS)
};

#define NAME(machine, from, event, to, text)	[CELL_##machine##_##from##_##event] = #machine ": " #from " on " #event,

static const char *const names[CELLS] = {
	DDR_CELLS_RANGE(NAME)
	DDR_CELLS_WORK(NAME)
	DDR_CELLS_FIX(NAME)
	DDR_CELLS_WRITE(NAME)
	DDR_CELLS_TRANS(NAME)
};

_Static_assert(CELLS <= 64 * DDR_SM_CELL_WORDS, "there is no bit for each cell");

uint32_t ddr_sm_move(struct ddr_sm *sm, enum ddr_machine machine, uint32_t state, uint32_t event)
{
	const struct turn *turn = &turns[machine][state][event];

	if (turn->cell == CELL_NONE) {
		ddr_sm_bug(sm, "the tables of the state machine have no such transition");
		return state;
	}
	sm->reached[turn->cell / 64] |= 1ull << (turn->cell % 64);
	return turn->to;
}

const char *ddr_sm_cell(uint32_t cell)
{
	return cell > CELL_NONE && cell < CELLS ? names[cell] : NULL;
}

void ddr_sm_cells(const struct ddr_sm *sm, uint64_t reached[DDR_SM_CELL_WORDS])
{
	for (uint32_t i = 0; i < DDR_SM_CELL_WORDS; i++)
		reached[i] |= sm->reached[i];
}

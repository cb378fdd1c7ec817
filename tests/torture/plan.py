# SPDX-License-Identifier: GPL-2.0-or-later
"""What the nemesis does, and when: a function of the seed and the number of the round alone.

An act belongs to a lane: one for each node, one for disks, one for the array's members. A lane does one act after the other, so acts of
different lanes overlap. In each round some kinds of acts are left out at random, so that the others meet more often (Alex Groce et al., "Swarm Testing",
ISSTA 2012). What an act needs to know of the running cluster is not in the plan: it carries a number `pick`, with which the nemesis chooses
among what is there then.
"""
import dataclasses
import random

LEFT_OUT = 0.25             # of the kinds, in each round
RETURN = 45                 # seconds that a machine is given to come back before another one may go, where only one may be out
DISK, MEMBER = "disks", "members"

# kind -> weight
NODE_KINDS = {"stop": 4, "kill": 2, "power": 2, "split": 2, "conf": 2, "shm": 1, "clock": 1, "reboot": 1, "leave": 1}
DISK_KINDS = {"slow": 2, "hang": 3, "fail": 3}
MEMBER_KINDS = {"fail": 3, "replace": 1, "verify": 2}
OUT = ("power", "split", "reboot", "leave", "kill")     # the node does not take part for a while
CONFS = ("alone", "deleted", "garbage", "empty", "other-id")


@dataclasses.dataclass(frozen=True)
class Act:
    at: float           # seconds since the round began
    lane: str
    kind: str
    lasts: float        # seconds until it is undone
    pick: int
    how: tuple = ()     # (name, value) pairs

    def get(self, name):
        return dict(self.how)[name]

    def __str__(self):
        how = "".join(f", {name} {value}" for name, value in self.how)
        return f"{self.at:6.1f} s  {self.lane}: {self.kind} for {self.lasts:.1f} s{how}"


def node_lane(number):
    return f"node {number}"


def _lasts(rng, *ranges):
    return round(rng.uniform(*rng.choice(ranges)), 1)


def _stop(rng):
    return _lasts(rng, (1, 8), (20, 90), (45, 90)), ()


def _kill(rng):
    return _lasts(rng, (0, 4), (20, 50)), ()


def _power(rng):
    return _lasts(rng, (1, 5), (10, 60)), ()


def _split(rng):
    rings = rng.choice(("both", "both", "both", 0, 1))
    return _lasts(rng, (1, 3), (10, 40)), (("rings", rings),)


def _conf(rng):
    return _lasts(rng, (5, 15), (20, 40)), (("text", rng.choice(CONFS)), ("then", rng.choice(("nothing", "reload", "restart", "restart"))))


def _clock(rng):
    return _lasts(rng, (5, 60)), (("seconds", rng.choice((-86400 * 40, -3600, -5, 5, 3600, 86400 * 400))),)


def _slow(rng):
    return _lasts(rng, (5, 40)), (("nodes", rng.choice(("one", "all"))), ("ms", rng.choice((20, 200, 800))), ("spread", rng.choice((0, 50, 400))))


def _hang(rng):
    return _lasts(rng, (1, 6), (20, 60)), (("nodes", rng.choice(("one", "one", "all"))),)


def _fail(rng):
    return _lasts(rng, (5, 40)), (("nodes", rng.choice(("one", "all"))), ("what", rng.choice(("all", "all", "write", "read", "flush"))))


def _short(rng):
    return _lasts(rng, (5, 40)), ()


def _reboot(rng):
    return _lasts(rng, (1, 20)), ()


def _verify(rng):
    return _lasts(rng, (3, 30)), (("repair", rng.random() < 0.3), ("then", rng.choice(("stop", "pause", "nothing"))))


DRAW = {"stop": _stop, "kill": _kill, "power": _power, "split": _split, "conf": _conf, "shm": _short, "clock": _clock, "reboot": _reboot, "leave": _reboot,
        "slow": _slow, "hang": _hang, "fail": _fail}
MEMBER_DRAW = {"fail": _short, "replace": _short, "verify": _verify}


def _swarm(rng, kinds):
    """Those kinds that this round has, at least one."""
    some = {kind: weight for kind, weight in kinds.items() if rng.random() >= LEFT_OUT}
    return some or kinds


def _lane(rng, lane, kinds, draw, seconds, gaps):
    at, acts = rng.uniform(2, gaps[1]), []
    while at < seconds:
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        lasts, how = draw[kind](rng)
        acts.append(Act(round(at, 1), lane, kind, lasts, rng.randrange(1 << 16), how))
        at += lasts + rng.uniform(*gaps)
    return acts


def _one_out_at_a_time(acts):
    """Without those acts that would take a node out while another one is."""
    out, until = [], {}
    for act in acts:
        if act.kind in OUT and act.lane not in (DISK, MEMBER):
            if any(end > act.at for lane, end in until.items() if lane != act.lane):
                continue
            until[act.lane] = act.at + act.lasts + RETURN
        out.append(act)
    return out


def plan(seed, number, nodes=3, seconds=300):
    """The acts of a round, in the order of their times."""
    rng = random.Random(f"torture {seed} {number} {nodes} {seconds}")
    majority = rng.random() < 0.75      # else several nodes may be out at once, and the array stands for want of quorum
    kinds, calm = _swarm(rng, NODE_KINDS), rng.choice((1, 2, 3))        # a node that is ill all the time shows nothing of the others' faults
    acts = [act for i in range(1, nodes + 1) for act in _lane(rng, node_lane(i), kinds, DRAW, seconds, (15 * calm, 60 * calm))]
    acts += _lane(rng, DISK, _swarm(rng, DISK_KINDS), DRAW, seconds, (8, 30))
    acts += _lane(rng, MEMBER, _swarm(rng, MEMBER_KINDS), MEMBER_DRAW, seconds, (8, 30))
    acts.sort(key=lambda act: (act.at, act.lane))
    return _one_out_at_a_time(acts) if majority else acts

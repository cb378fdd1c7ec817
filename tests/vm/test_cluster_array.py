# SPDX-License-Identifier: GPL-2.0-or-later
"""One array on three nodes with GFS2 on it, and one round of the drill in which a node loses its power; then what a write costs.

And, on two nodes, what jobs of one node leave to the other.
"""
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import cluster_counts  # noqa: E402
import cluster_node  # noqa: E402
import cluster_spare  # noqa: E402
import drill  # noqa: E402
import rig  # noqa: E402
import tools  # noqa: E402


def test_a_node_loses_its_power(stage, make_cluster, tmp_path):
    """The whole drill but the duration of stalls, which other tests in parallel would distort."""
    del stage
    cluster = make_cluster(disks=drill.DISKS, size=drill.SIZE)
    drill.rounds(rig.Rig(cluster, tools.build_writer(tmp_path)), lambda one, _: cluster_node.say(3, cluster_node.death(one, 3)), 1,
                 between=lambda one: print(cluster_counts.round_of(one, 1)))


WRITTEN = 128      # MiB: more than a machine looks at before it has received that another one reads


class OneAfterTheOther(cluster_spare.SpareRig):
    """The first node has the array first, so that it is the one that rebuilds."""

    def start(self, numbers=None):
        for i in sorted(numbers or self.guests):
            self.start_one(i)
            self.wait_ready(i)
        self.wait_active(self.up())


def job_of(one, kind, on):
    """What node `on` reports of the one job of that kind, which node 1 runs."""
    jobs = [j for j in one.guests[on].status(rig.NAME)["jobs"] if j["type"] == kind]
    assert [j["node"] for j in jobs] == [1], f"no {kind} is under way on node 1 any more: {jobs}"
    return jobs[0]


def reads(one):
    """Node 2 reads the array, a little all the time."""
    node = one.node(2)
    load = node.spawn(f"exec fio --name=r --filename={rig.DEV} --direct=1 --ioengine=libaio --iodepth=1 --rw=randread --bs=4k --size=64m "
                      "--thread --time_based --runtime=600 --thinktime=20000 --output-format=terse")
    count = f"$(cut -c1-9 /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor {rig.DEV})/stat)"
    begun = int(node.run(f"echo {count}").out)
    node.wait_until(f"test {count} -gt {begun + 100}", 60)
    return load


def ends(load):
    load.kill()
    load.wait(20, check=False)


def rebuild_beside(one):
    """resync_min_rate while node 2 reads, and as fast as it can when that has ended."""
    def done():
        """MiB of the array that are rebuilt."""
        return job_of(one, "rebuild", 1)["done"] / (1 << 20)

    load = reads(one)
    one.mark()
    one.guests[1].command(f"fail {rig.NAME} 0")
    one.wait_event(1, "rebuild-start", 60)
    # the first ranges were on their way before anything was known; if nothing were, all would be done before these seconds are over
    deadline, rate = time.monotonic() + 40, None
    while rate is None or rate >= 0.6:
        assert time.monotonic() < deadline, f"{rate:.1f} MiB/s while the other node reads, with at least 1/4"
        before, began = done(), time.monotonic()
        time.sleep(8)
        rate = (done() - before) / (time.monotonic() - began)
    deadline, heard = time.monotonic() + 60, job_of(one, "rebuild", 2)
    while heard["rate"] is None or heard["rate"] >= 2 << 20:    # it gets a report every ten seconds, and the first ranges are in its mean
        assert time.monotonic() < deadline, f"node 2 knows no rate, or another one: {heard}"
        time.sleep(0.5)
        heard = job_of(one, "rebuild", 2)
    assert heard["eta"] and heard["paused"] is None, heard
    ends(load)
    least, began = 4 * (WRITTEN - done()), time.monotonic()
    one.wait_event(1, "rebuild-done", 60)
    took = time.monotonic() - began
    assert took < least / 2, f"still {took:.0f} s since nobody uses the array; it would have been {least:.0f} with 1/4 MiB/s"


def verify_beside(one):
    """Of the idle class: a fiftieth of the time while node 2 reads, and all of it when that has ended."""
    one.wait_idle()
    one.mark()
    began = time.monotonic()
    one.guests[1].command(f"verify {rig.NAME} start --priority 5")
    one.wait_event(1, "verify-done", 60)
    alone = time.monotonic() - began
    load = reads(one)
    one.mark()
    one.guests[1].command(f"verify {rig.NAME} start --priority 5")
    # node 2 reports that it reads once it knows that a verify runs, and until then verify runs as fast as alone
    time.sleep(2)
    heard, began = job_of(one, "verify", 1), time.monotonic()
    time.sleep(15)
    beside, seconds = job_of(one, "verify", 1), time.monotonic() - began
    share = (beside["done"] - heard["done"]) / beside["total"] / seconds * alone
    assert share < 0.1, f"alone all of it takes {alone:.1f} s; beside the other node's reads it had {share:.2f} of the time for {seconds:.0f} s: {heard}, {beside}"
    ends(load)
    began = time.monotonic()
    one.wait_event(1, "verify-done", 60)
    took = time.monotonic() - began
    assert took < alone + 15, f"still {took:.0f} s since nobody uses the array; alone all of it takes {alone:.1f}"    # it owed a rest of up to ten


@pytest.mark.slow
def test_background_work_minds_what_other_nodes_do(stage, make_cluster, tmp_path):
    """The array is not used on node 1, which works, and node 2 reads."""
    del stage
    one = OneAfterTheOther(make_cluster(nodes=2, disks=5, size=80 << 20), tools.build_writer(tmp_path), filesystem=False,
                           resync_min_rate="256K")
    one.boot()
    one.create()
    one.node(2).run(f"dd if=/dev/urandom of={rig.DEV} bs=1M count={WRITTEN} oflag=direct conv=fsync")
    one.wait_idle()
    rebuild_beside(one)
    verify_beside(one)
    one.stop()

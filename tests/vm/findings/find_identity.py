# SPDX-License-Identifier: GPL-2.0-or-later
"""Which machine an array belongs to: a machine that left its cluster does not serve the cluster's arrays automatically."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "drills"))
from ddvm.config import time_scale  # noqa: E402
from guest import Guest  # noqa: E402

NAME = "shared"
DEV = f"/dev/mapper/{NAME}"
CONF = "/etc/corosync/corosync.conf"
FENCE = {"fence_command": "/ddvm/fence", "idle_time": "1s"}
ALONE = """totem {{
\tversion: 2
\tcluster_name: ddvm
\ttransport: knet
}}
system {{
\tsched_rr: no
}}
quorum {{
\tprovider: corosync_votequorum
\texpected_votes: 1
}}
nodelist {{
\tnode {{
\t\tnodeid: 2
\t\tname: two
\t\tring0_addr: {address}
\t}}
}}
"""


# What Debian's package installs, but for its comments.
INSTALLED = """totem {
\tversion: 2
\tcluster_name: debian
\tcrypto_cipher: none
\tcrypto_hash: none
}
quorum {
\tprovider: corosync_votequorum
}
nodelist {
\tnode {
\t\tname: node1
\t\tnodeid: 1
\t\tring0_addr: 127.0.0.1
\t}
}
"""


def daemon(node, **options):
    """(Re)starts ddraidd on the node."""
    guest = Guest(node)
    guest.start_daemon(**{**FENCE, **options})
    return guest


def end(guest):
    guest.daemon.kill(15)
    guest.daemon.wait(30, check=False)


def blocks(node, pattern, first, count=8):
    """Writes one block to each of some regions; they are flushed."""
    node.run(f"for r in $(seq {first} {first + count - 1}); do yes {pattern} | head -c 4096 | "
             f"dd of={DEV} bs=4096 count=1 seek=$((r * 256)) oflag=direct,dsync conv=nocreat iflag=fullblock status=none || exit 1; done")


def holds(node, pattern, first, count=8):
    """The same blocks are still there."""
    node.run(f"for r in $(seq {first} {first + count - 1}); do yes {pattern} | head -c 4096 > /tmp/want; "
             f"dd if={DEV} bs=4096 count=1 skip=$((r * 256)) iflag=direct status=none | cmp - /tmp/want || exit 1; done")


def uptime(node):
    return float(node.run("cat /proc/uptime").out.split()[0])


def refused(done):
    assert done.code != 0, f"the array was started: {done.out} {done.err}"
    assert f"ddraid start --adopt {NAME}" in done.err, f"nothing says what to do: {done.err}"
    assert "cluster" in done.err, done.err


def refuses(two):
    """By name, with all others, degraded, and by a table that was loaded by hand, to which the daemon attaches. At once, and nothing is written."""
    node = two.node
    begun = uptime(node)
    refused(two.command(f"start {NAME}", check=False))
    assert uptime(node) - begun < 15 * time_scale()
    refused(two.command("start --all --wait-disks 0", check=False))
    refused(two.command(f"start --degraded {NAME}", check=False))
    assert NAME not in node.run("dmsetup ls", check=False).out
    node.run(f'set -- $(ddraid table {NAME}) && dmsetup create {NAME} --uuid "DDRAID-$4" --table "$*"')
    node.wait_until("ddraid status --json | grep -q -- --adopt", 30)
    says = two.command("status").out
    assert f"ddraid start --adopt {NAME}" in says, says
    assert f"ddraid start --adopt {NAME}" in two.daemon.err, two.daemon.err
    node.run(f"dmsetup remove {NAME}")


def test_T1_a_node_that_left_its_cluster(make_cluster, stage):
    """Finding T1: its corosync.conf is cut down to itself, or gone, while the other node writes; then that one dies, and it is adopted."""
    del stage
    cluster = make_cluster(nodes=2, disks=3, size="48M")
    cluster.boot()
    cluster.start_corosync()
    one, two = cluster.node(1), cluster.node(2)
    first = daemon(one)
    first.create_and_start(NAME, 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"], f"--overwrite --yes --region-size {1 << 20}")
    blocks(one, "before", 0)
    writer = one.spawn(f"while dd if=/dev/urandom of={DEV} bs=4096 count=1 seek=5120 oflag=direct conv=nocreat status=none; do :; done")
    cluster.corosync[2].kill(15)
    cluster.corosync[2].wait(30, check=False)
    cluster.wait_members([1], [1])

    two.put(CONF, ALONE.format(address=cluster.network.address(0, 2)))
    second = daemon(two)
    refuses(second)
    end(second)
    cluster.corosync[2] = two.spawn("exec corosync -f")         # a list of one node, but a cluster by ddraid.conf
    cluster.wait_members([2], [2])
    second = daemon(two, transport="corosync")
    refuses(second)
    end(second)
    cluster.corosync[2].kill(15)
    cluster.corosync[2].wait(30, check=False)
    for conf in INSTALLED, ALONE.format(address=cluster.network.address(0, 2)).replace("nodeid: 2", "nodeid: 1"):
        two.put(CONF, conf)                                     # corosync freshly installed; the id of the other node
        second = daemon(two)
        refuses(second)
        end(second)
    two.run(f"rm {CONF}")
    second = daemon(two)
    refuses(second)

    assert writer.poll() is None, "the writer of node 1 ended"
    blocks(one, "during", 8)
    one.kill()
    refused(second.command(f"start {NAME}", check=False))
    asked = second.command(f"start --adopt {NAME}", check=False)
    assert asked.code != 0 and "--yes" in asked.err, f"without a terminal nobody can say yes: {asked.out} {asked.err}"
    begun = uptime(two)
    adopted = second.command(f"start --adopt --yes {NAME}", timeout=200)
    assert uptime(two) - begun >= 70, "its slots were not watched for twice 35 seconds"
    assert "slot 0: node 1 uses the array, or died while using it" in adopted.out and "machine " in adopted.out, adopted.out
    for wait in "35 s to see whether another machine uses it (adopted)", "35 s more to see whether another machine uses or claims it (adopted)":
        assert f"'{NAME}' waits: {wait}" in adopted.err and f"array '{NAME}': waits {wait}" in second.daemon.err, adopted.err
    holds(two, "before", 0)
    holds(two, "during", 8)
    second.wait_idle(NAME)
    second.stop(NAME)
    second.start(NAME)                                          # the entry is cleared
    blocks(two, "behind", 16)
    second.stop(NAME)
    end(second)

    two.kill()
    cluster.boot()                                              # back in the cluster, it is the cluster's again once it is adopted there
    cluster.start_corosync()
    first, second = daemon(one), daemon(two)
    used_elsewhere(first)
    second.command(f"start --adopt --yes {NAME}")
    makes_no_sense = first.command(f"start --adopt --yes {NAME}", check=False)
    assert makes_no_sense.code != 0 and "2 nodes" in makes_no_sense.err, makes_no_sense.err
    first.start(NAME)
    for node in (one, two):
        for pattern, at in ("before", 0), ("during", 8), ("behind", 16):
            holds(node, pattern, at)
    second.stop(NAME)
    first.stop(NAME)


MEMBERS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]
SUM = f"cat {' '.join(MEMBERS)} | sha256sum"


def used_elsewhere(guest, **options):
    """It is refused at once, with the ids and what to type, and nothing was written."""
    before = guest.node.run(SUM).out
    begun = uptime(guest.node)
    done = guest.command(f"start {NAME}", check=False, **options)
    assert uptime(guest.node) - begun < 15 * time_scale()
    refused(done)
    assert "was used last by another cluster" in done.err, done.err
    guest.command(f"stop {NAME}", check=False)
    assert guest.node.run(SUM).out == before, "something was written"


def test_T1_another_cluster_on_the_same_disks(make_cluster, stage):
    """Finding T1: two machines, and then their cluster, see the same disks; the node ids and the stop of the last user look right to each."""
    del stage
    cluster = make_cluster(nodes=2, disks=3, size="48M")
    cluster.boot()
    one, two = cluster.node(1), cluster.node(2)
    first, second = daemon(one), daemon(two)                    # without corosync, each with node id 1
    first.create(NAME, 1, 1, "rotating", MEMBERS, f"--overwrite --yes --region-size {1 << 20}")
    first.start(NAME)
    blocks(one, "before", 0)
    first.wait_idle(NAME)
    first.stop(NAME)
    used_elsewhere(second)
    refused(second.command(f"rename {NAME} other", check=False))
    second.command(f"start --adopt --yes {NAME}")
    holds(two, "before", 0)
    blocks(two, "alone", 8)
    second.wait_idle(NAME)
    second.stop(NAME)
    used_elsewhere(first)
    end(first)
    end(second)

    cluster.start_corosync()
    first, second = daemon(one), daemon(two)
    used_elsewhere(first)                                       # by the machine of node 2, without a cluster
    second.command(f"start --adopt --yes {NAME}")
    first.start(NAME)                                           # it is the cluster's now
    for node in (one, two):
        holds(node, "before", 0)
        holds(node, "alone", 8)
    blocks(one, "both", 16)
    first.stop(NAME)
    second.stop(NAME)
    first.start(NAME)                                           # and stays so
    makes_no_sense = second.command(f"start --adopt --yes {NAME}", check=False)
    assert makes_no_sense.code != 0 and "2 nodes" in makes_no_sense.err, makes_no_sense.err
    holds(one, "both", 16)
    first.stop(NAME)
    end(first)
    end(second)


def advice_works(cluster, first, second):
    """Node 2 gets no slot, and the reason: starting again there frees none, and the advice in the message does."""
    told = second.command(f"start {NAME}", check=False)
    assert told.code == 1, told
    assert f"has 1 slot in its dirty log, and other nodes have it: {cluster.node(1).name} (uses the array)" in told.err, told.err
    assert f"ddraid stop {NAME}" in told.err and "start it again" not in told.err, told.err
    second.command(f"stop {NAME}", check=False)
    again = second.command(f"start {NAME}", check=False)
    assert again.code == 1 and f"ddraid stop {NAME}" in again.err, again
    second.command(f"stop {NAME}", check=False)
    first.stop(NAME)
    second.start(NAME)
    blocks(cluster.node(2), "mine", 0)
    second.stop(NAME)


def test_T17_who_gets_no_slot_is_told_what_frees_one(make_cluster, stage):
    """Finding T17: an array for one node at a time, in a cluster of two; "stop it, and start it again" did not help."""
    del stage
    cluster = make_cluster(nodes=2, disks=2, size="48M")
    cluster.boot()
    cluster.start_corosync()
    first, second = daemon(cluster.node(1)), daemon(cluster.node(2))
    first.create_and_start(NAME, 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"], f"--overwrite --yes --nodes 1 --region-size {1 << 20}")
    advice_works(cluster, first, second)


MACHINE_ID = "/etc/machine-id"


def test_T1_a_cloned_machine(make_nodes, stage):
    """Finding T1: the disk image of a machine without a cluster is copied to another one; both see the same disks."""
    del stage
    one, two = make_nodes(nodes=2, disks=3, size="48M")
    for node in one, two:
        node.boot()
    one.put(MACHINE_ID, "11111111111111111111111111111111\n")
    first = daemon(one)
    first.create_and_start(NAME, 1, 1, "rotating", MEMBERS, f"--overwrite --yes --region-size {1 << 20}")
    blocks(one, "before", 0)
    first.wait_idle(NAME)
    first.stop(NAME)
    first.start(NAME)                                           # the machine itself is not asked
    first.stop(NAME)
    image = {name: one.get(f"/var/lib/ddraid/{name}") for name in one.run("ls /var/lib/ddraid").out.split() if name != "lost+found"}
    assert image, "nothing is stored"

    two.put(MACHINE_ID, "22222222222222222222222222222222\n")  # what each copy of an image gets at its first boot
    two.run("mkdir -p /var/lib/ddraid")
    begun = Guest(two)
    begun.start_daemon(**FENCE)                                 # its directory is there now
    end(begun)
    for name, content in image.items():
        two.put(f"/var/lib/ddraid/{name}", content)
    second = daemon(two)
    used_elsewhere(second)
    second.command(f"start --adopt --yes {NAME}")
    holds(two, "before", 0)
    second.wait_idle(NAME)
    second.stop(NAME)
    used_elsewhere(first)
    end(first)
    end(second)


ADOPTING = 200                  # seconds: it watches for twice 35


def late(node, first, count):
    """Writes that the kernel of a stopped daemon holds back: they have grants."""
    return node.spawn(f"r=0; for r in $(seq {first} {first + count - 1}); do yes late | head -c 4096 | "
                      f"dd of={DEV} bs=4096 count=1 seek=$((r * 256)) oflag=direct,dsync conv=nocreat iflag=fullblock status=none && echo written; done; exit 0")


def test_T1_adopted_while_another_machine_uses_it(make_nodes, stage):
    """Finding T1: a machine that uses the array is not adopted away; one whose daemon is stopped is, and does not go on with it when it wakes."""
    del stage
    one, two = make_nodes(nodes=2, disks=3, size="48M")
    for node in one, two:
        node.boot()
    first, second = daemon(one, idle_time="1h"), daemon(two)
    first.create_and_start(NAME, 1, 1, "rotating", MEMBERS, f"--overwrite --yes --region-size {1 << 20}")
    blocks(one, "before", 0)
    stamps = second.command("examine /dev/vda").out
    done = second.command(f"start --adopt --yes {NAME}", check=False, timeout=ADOPTING)
    assert done.code != 0 and "is in use by" in done.err, f"{done.out} {done.err}"
    assert "claim" not in second.command("examine /dev/vda").out, f"something was claimed: {stamps}"
    second.command(f"stop {NAME}", check=False)
    blocks(one, "during", 0)

    first.daemon.kill(19)
    one.wait_until(f"dmsetup status {NAME} | grep -q detached", 60)
    writer = late(one, 0, 2)
    second.command(f"start --adopt --yes {NAME}", timeout=ADOPTING)
    holds(two, "during", 0)
    blocks(two, "after", 0)
    assert writer.poll() is None, "the kernel of the stopped daemon did not hold the write back"
    first.daemon.kill(18)
    one.wait_until("ddraid status --json | grep -q 'another machine'", 30)
    ended = writer.wait(60, check=False)
    assert "written" not in ended.out, "a write of the machine that was adopted away was carried out"
    second.command(f"stop {NAME}")
    second.command(f"start {NAME}")
    holds(two, "after", 0)
    second.stop(NAME)

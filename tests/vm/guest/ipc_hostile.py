#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A client that sends ddraidd what no client should; runs in a guest, as root.

Prints one line for each case: the case, a tab, and the answer's error (or what happened).
The daemon has to survive all of it; the caller looks.
"""
import ctypes
import json
import os
import struct
import sys
import time

qb = ctypes.CDLL("libqb.so.100", use_errno=True)
qb.qb_ipcc_connect.restype = ctypes.c_void_p
qb.qb_ipcc_connect.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
for name, types in (("qb_ipcc_send", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]),
                    ("qb_ipcc_recv", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32]),
                    ("qb_ipcc_event_recv", [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32])):
    getattr(qb, name).restype = ctypes.c_ssize_t
    getattr(qb, name).argtypes = types
qb.qb_ipcc_disconnect.argtypes = [ctypes.c_void_p]
qb.qb_ipcc_disconnect.restype = None

MAX = 512 << 10


def connect():
    return qb.qb_ipcc_connect(b"ddraidd", MAX)


def send(conn, body, size=None, ident=1):
    header = struct.pack("<i4xi4x", ident, len(body) + 16 if size is None else size)
    return qb.qb_ipcc_send(conn, header + body, len(header) + len(body))


def receive(conn, ms=60000, function="qb_ipcc_recv"):
    buffer = ctypes.create_string_buffer(MAX)
    n = getattr(qb, function)(conn, buffer, MAX, ms)
    if n < 0:
        return f"no answer ({n})"
    answer = json.loads(buffer.raw[24:n])
    return answer.get("error", "done")


def case(what, body, ms=60000, **options):
    conn = connect()
    if not conn:
        print(f"{what}\tcannot connect")
        return
    send(conn, body, **options)
    print(f"{what}\t{receive(conn, ms)}", flush=True)
    qb.qb_ipcc_disconnect(conn)


def request(**fields):
    return json.dumps(fields).encode()


def texts():
    case("not json", b"hello")
    case("nothing", b"")
    case("half an object", b'{"cmd":')
    case("an array", b"[1]")
    case("two objects", b'{"cmd":"ping"}{"cmd":"ping"}')
    case("trailing bytes", b'{"cmd":"ping"}x')
    case("zero bytes", b"\0" * 64)
    case("bad utf-8", b'{"cmd":"\xff\xfe"}')
    case("deep", b'{"cmd":' + b"[" * 5000 + b"]" * 5000 + b"}")
    case("no cmd", b"{}")
    case("cmd is a number", b'{"cmd":7}')
    case("unknown cmd", request(cmd="reboot"))
    case("long cmd", request(cmd="x" * 100000))
    case("status of a number", b'{"cmd":"status","name":7}')
    case("status with a control character", request(cmd="status", name="a\nb"))
    case("status with a zero byte", request(cmd="status", name="a\0b"))
    case("status of a long name", request(cmd="status", name="n" * 400000))
    case("wait without a name", request(cmd="wait"))
    case("wait for ever", request(cmd="wait", name="x", timeout_ms=1 << 60))
    case("wait for a negative time", request(cmd="wait", name="x", timeout_ms=-5))
    case("wait for nothing", request(cmd="wait", name="x", timeout_ms=0))
    case("set without a key", request(cmd="set", name="data"))
    case("set a node's option", request(cmd="set", name="data", key="node_id", value="7"))
    case("set nonsense", request(cmd="set", name="data", key="idle_time", value="soon"))
    case("fail nobody", request(cmd="fail", name="data", member="99"))
    case("fail a path", request(cmd="fail", name="data", member="/dev/null"))
    case("fail without a member", request(cmd="fail", name="data"))


def headers():
    for size in (0, 15, -1, 1 << 30):       # to get no answer
        case(f"header says {size}", b'{"cmd":"ping"}', 3000, size=size)
    case("header says 17", b'{"cmd":"ping"}', size=17)
    case("another id", b'{"cmd":"ping"}', ident=-77)


def crowd():
    conns = [connect() for _ in range(20)]
    print(f"crowd\t{sum(1 for c in conns if c)} of 20")
    for conn in conns:
        if conn:
            qb.qb_ipcc_disconnect(conn)


def leave_in_the_middle():
    """A client that disconnects while its answer is due, in every possible way."""
    conn = connect()
    send(conn, request(cmd="wait", name="nobody", timeout_ms=60000))
    qb.qb_ipcc_disconnect(conn)
    if os.fork() == 0:
        conn = connect()
        send(conn, request(cmd="wait", name="nobody", timeout_ms=60000))
        os.kill(os.getpid(), 9)
    os.wait()
    conn = connect()
    send(conn, request(cmd="wait", name="nobody", timeout_ms=60000))
    send(conn, request(cmd="ping"))
    print(f"two at once\t{receive(conn)}")
    qb.qb_ipcc_disconnect(conn)


def deaf_listener(seconds):
    """Listens to events and reads none."""
    conn = connect()
    send(conn, request(cmd="events"))
    print(f"deaf\t{receive(conn)}", flush=True)
    time.sleep(seconds)


def flood(count):
    """Requests that are refused, each of which causes an event."""
    conn = connect()
    refused = 0
    for _ in range(count):
        send(conn, request(cmd="fail", name="data", member="1"))
        refused += "cannot lose another member" in receive(conn)
    print(f"flood\t{refused}")


if len(sys.argv) > 2:
    flood(int(sys.argv[2]))
elif len(sys.argv) > 1:
    deaf_listener(float(sys.argv[1]))
else:
    texts()
    headers()
    crowd()
    leave_in_the_middle()

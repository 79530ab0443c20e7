# SPDX-License-Identifier: MIT
"""POSIX locks between processes: deadlocks are noticed and holders named as on the filesystem below."""
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import threading
import time

import pytest

from harness import check_truths

# Locks `first`, says so, and waits for `second` when told to; prints how that ended.
LOCKER = """
import fcntl, sys
files = [open(path, "r+") for path in sys.argv[1:3]]
fcntl.lockf(files[0], fcntl.LOCK_EX, 10, 100)
print("locked", flush=True)
sys.stdin.readline()
try:
    fcntl.lockf(files[1], fcntl.LOCK_EX, 1, 105)
    print("got it", flush=True)
except OSError as error:
    print(error.errno, flush=True)
"""


class Locker:
    def __init__(self, first, second):
        self.process = subprocess.Popen([sys.executable, "-c", LOCKER, first, second], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "locked\n"

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def outcome(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.kill()
        self.process.wait(20)


@pytest.fixture
def files(box):
    for name in ("a", "b"):
        (box.src / name).write_bytes(bytes(1000))
    return box


def deadlock(top):
    """How the second waiter of a circle of two ends, and the first one after it."""
    one, two = Locker(top / "a", top / "b"), Locker(top / "b", top / "a")
    try:
        one.go()
        time.sleep(0.5)  # it waits by then, or the circle closes the other way round, with the same end
        two.go()
        second = two.outcome()
        two.end()
        return second, one.outcome()
    finally:
        one.end()
        two.end()


def holder(path, start, length):
    """The pid that F_GETLK names for a write lock of ours."""
    with open(path, "r+") as file:
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, lock))
        return answer[4] if answer[0] != fcntl.F_UNLCK else 0


def test_deadlock_is_noticed(files):
    native = deadlock(files.src)
    with files.mount() as mount:
        assert deadlock(mount.mnt) == native == (str(errno.EDEADLK), "got it")
    check_truths(mount.db())


def test_no_deadlock_where_ranges_differ(files):
    with files.mount() as mount:
        one = Locker(mount.mnt / "a", mount.mnt / "b")
        try:
            with open(mount.mnt / "b", "r+") as file:
                fcntl.lockf(file, fcntl.LOCK_EX, 10, 500)
                one.go()
                assert one.outcome() == "got it"
        finally:
            one.end()


def test_getlk_names_the_holder(files):
    with files.mount() as mount:
        one, two = Locker(mount.mnt / "a", mount.mnt / "b"), Locker(mount.mnt / "b", mount.mnt / "a")
        try:
            assert holder(mount.mnt / "a", 100, 1) == one.process.pid
            assert holder(mount.mnt / "b", 0, 0) == two.process.pid
            assert holder(mount.mnt / "b", 0, 50) == 0
        finally:
            one.end()
            two.end()


def test_a_blocked_lock_can_be_interrupted(box):
    (box.src / "f").write_bytes(b"x")

    def action(mnt):
        holder = os.open(mnt / "f", os.O_RDWR)
        fcntl.lockf(holder, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            other = os.open(mnt / "f", os.O_RDWR)
            signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(InterruptedError))
            signal.setitimer(signal.ITIMER_REAL, 0.5)
            try:
                fcntl.lockf(other, fcntl.LOCK_EX)
            except InterruptedError:
                os._exit(7)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        os.close(holder)
    db = box.recorded(action, cache="never")
    db.expect("setlk", path="f", error="EINTR")


def test_a_blocked_lock_holds_up_nobody_else(box):
    (box.src / "f").write_bytes(b"x")
    (box.src / "g").write_bytes(b"x")

    def wait_for_lock(mnt, kind):
        other = os.open(mnt / "f", os.O_RDWR)
        if kind == "flock":
            fcntl.flock(other, fcntl.LOCK_EX)
        else:
            libc_ofd_lock(other)
        os.close(other)

    def action(mnt):
        for kind in ("flock", "ofd"):
            holder = os.open(mnt / "f", os.O_RDWR)
            fcntl.flock(holder, fcntl.LOCK_EX) if kind == "flock" else libc_ofd_lock(holder)
            waiters = [threading.Thread(target=wait_for_lock, args=(mnt, kind)) for _ in range(12)]
            for waiter in waiters:
                waiter.start()
            time.sleep(0.3)
            assert all(waiter.is_alive() for waiter in waiters)
            for _ in range(50):
                assert (mnt / "g").read_bytes() == b"x"
            os.close(holder)
            for waiter in waiters:
                waiter.join(20)
                assert not waiter.is_alive()
    box.recorded(action, cache="never")


def libc_ofd_lock(file):
    f_ofd_setlkw = 38
    fcntl.fcntl(file, f_ofd_setlkw, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

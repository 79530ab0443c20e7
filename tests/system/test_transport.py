# SPDX-License-Identifier: MIT
"""Requests through io_uring: nothing is lost, nobody holds up others, and where it cannot be had that is said."""
import concurrent.futures
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from harness import (FSTAPE, FSTAPEFS, SLOW, Database, StartFailed, check_truths, git, make_repository, mountpoints, run,
                     wait_until)
from test_workers import among_busy_programs, idle_after_a_lone_client, threads_of

# Waits for a lock of the whole file, says so, and says when it has it.
LOCKER = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    print("waits", flush=True)
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("has it", flush=True)
"""


def test_clone(uring_on, box):
    repo = make_repository(box.top / "repo", 300)

    def work(mnt):
        git("clone", "-q", repo, mnt / "w")
        assert git("status", "--porcelain", cwd=mnt / "w").stdout == ""
        git("fsck", "--strict", cwd=mnt / "w")

    db = box.recorded(work, transport="uring")
    assert db.condition()["transport"] == "uring" and "OVER_IO_URING" in db.condition()["capabilities_taken"].split()
    assert json.loads(run(FSTAPE, "runs", "--format", "json", box.db).stdout)[0]["transport"] == "uring"
    page = box.store / "page.html"
    run(FSTAPE, "report", box.db, "-o", page)
    assert "through io_uring" in page.read_text()


def test_auto_takes_it_where_it_is_on(uring_on, box):
    with box.mount(transport="auto") as mount:
        (mount.mnt / "f").write_text("x")
    assert mount.db().condition()["transport"] == "uring" and mount.stderr == ""
    with box.mount() as mount:
        (mount.mnt / "f").write_text("x")
    assert mount.db().condition()["transport"] == "dev"


def test_large_data_from_many_threads(uring_on, box):
    block = os.urandom(3 << 20)

    def use(path):
        path.write_bytes(block)
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path.read_bytes() == block and sorted(os.listdir(path.parent))

    def work(mnt):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(use, [mnt / f"f{number}" for number in range(40)]))

    box.recorded(work, transport="uring", cache="never")


def test_those_who_wait_for_a_lock_hold_up_nobody(uring_on, box):
    """More of them than there are threads for requests, on each processor."""
    (box.src / "file").write_text("x")
    with box.mount(transport="uring", threads=4) as mount, open(mount.mnt / "file", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        lockers = [box.client(sys.executable, "-c", LOCKER, mount.mnt / "file", stdout=subprocess.PIPE)
                   for _ in range(20)]
        for locker in lockers:
            assert locker.stdout.readline() == b"waits\n"
        time.sleep(0.3)
        for number in range(200):
            (mount.mnt / f"f{number}").write_text("x")
        lockers[0].send_signal(signal.SIGINT)  # an interrupt comes another way
        assert lockers[0].wait(10 * SLOW) != 0
        fcntl.lockf(file, fcntl.LOCK_UN)
        for locker in lockers[1:]:
            assert locker.wait(20 * SLOW) == 0
    check_truths(mount.db())


# Asks alone for long enough that it is given way to, then waits for a lock.
LONE_LOCKER = """
import fcntl, os, sys, time
file = open(sys.argv[1], "r+")
until = time.monotonic() + 0.5
while time.monotonic() < until:
    os.fstat(file.fileno())
print("waits", flush=True)
fcntl.lockf(file, fcntl.LOCK_EX)
"""


def test_who_waits_for_a_lock_does_not_give_way(uring_on, box):
    """Its thread was started by one that did, and that keeps to one processor: it would, for as long as it lives."""
    (box.src / "file").write_text("x")
    with box.mount(transport="uring", cache="never") as mount, open(mount.mnt / "file", "r+") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        lockers = [box.client(sys.executable, "-c", LONE_LOCKER, mount.mnt / "file", stdout=subprocess.PIPE)]
        for round in range(4):
            assert lockers[-1].stdout.readline() == b"waits\n"
            time.sleep(0.1)
            lockers.append(box.client(sys.executable, "-c", LONE_LOCKER, mount.mnt / "file", stdout=subprocess.PIPE))
        assert lockers[-1].stdout.readline() == b"waits\n"
        waiting = wait_until(lambda: len(found := threads_of(mount.pid, "lock")) == 5 and found, what="threads that wait")
        assert set(map(repr, waiting.values())) == {repr((os.SCHED_BATCH, os.sched_getaffinity(0)))}
        fcntl.lockf(file, fcntl.LOCK_UN)
        for locker in lockers:
            assert locker.wait(20 * SLOW) == 0


def test_processors_that_are_not_ours(uring_on, box):
    """A daemon that was given one processor (taskset) stays there, though the kernel has a queue for each."""
    one = {min(os.sched_getaffinity(0))}
    with box.mount(transport="uring", limits=lambda: os.sched_setaffinity(0, one)) as mount:
        for number in range(300):
            (mount.mnt / f"f{number}").write_text("x")
        assert all(processors == one for policy, processors in threads_of(mount.pid).values())


@pytest.mark.parametrize("wait", ["auto", "pool"])
def test_among_busy_programs(uring_on, box, wait):
    among_busy_programs(box, transport="uring", wait=wait)


def test_idle_after_a_lone_client(uring_on, box):
    idle_after_a_lone_client(box, transport="uring")


def test_the_end_with_files_open_and_locks_waited_for(uring_on, box):
    """SIGTERM detaches the mount, a second one ends it."""
    (box.src / "file").write_text("x")
    mount = box.mount(transport="uring").start()
    with contextlib.suppress(OSError), open(mount.mnt / "file", "r+") as file:  # closing it fails: the mount is gone
        fcntl.lockf(file, fcntl.LOCK_EX)
        locker = box.client(sys.executable, "-c", LOCKER, mount.mnt / "file", stdout=subprocess.PIPE)
        assert locker.stdout.readline() == b"waits\n"
        mount.daemon.send_signal(signal.SIGTERM)
        wait_until(lambda: str(mount.mnt) not in mountpoints(), what="the first signal's effect")
        mount.daemon.send_signal(signal.SIGTERM)
        assert mount.wait() == 0
    assert locker.wait(10 * SLOW) != 0


def test_a_killed_recorder_loses_nothing(uring_on, box):
    """Whoever was answered is in the recording."""
    mount = box.mount(transport="uring").start()
    done = 0
    with contextlib.suppress(OSError):
        for number in range(100000):
            if number == 500:
                mount.daemon.kill()
            os.mkdir(mount.mnt / f"d{number}")
            done += 1
    mount.daemon.wait(20)
    run("umount", "-l", mount.mnt, check=False)
    run(FSTAPE, "recover", box.db)
    found = Database(box.db, mount.run).value("SELECT count(*) FROM ops WHERE op = 'mkdir' AND error IS NULL")
    assert 500 <= done <= found <= len(os.listdir(box.src)) <= done + 1


def test_where_it_is_off(uring_off, box):
    with box.mount(transport="auto") as mount:
        pass
    assert mount.db().condition()["transport"] == "dev"
    said = [line for line in mount.stderr.splitlines() if "transport=auto: requests come through /dev/fuse" in line]
    assert len(said) == 1 and "enable_uring" in said[0]
    with pytest.raises(StartFailed) as failed:
        box.mount(transport="uring").start()
    assert failed.value.returncode == 1 and "transport=uring: it is off in the kernel" in failed.value.stderr


def test_one_thread_is_one_thread(uring_on, box):
    with box.mount(transport="auto", threads=1) as mount:
        pass
    assert mount.db().condition()["transport"] == "dev" and "one thread only" in mount.stderr


def test_a_wrong_word(box):
    done = run(FSTAPEFS, "-o", f"db={box.db},transport=pigeon", box.src, box.mnt, check=False)
    assert done.returncode == 2 and "must be dev or auto or uring" in done.stderr

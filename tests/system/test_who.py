# SPDX-License-Identifier: MIT
"""The threads behind requests: found out without ever waiting for one that waits for the answer."""
import os
import sys

from harness import check_truths, run

# Opens a file that exec will close, and executes after the recorder has begun to doubt what it knows of the thread.
EXEC = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.set_inheritable(fd, False)
os.write(fd, b"x")
time.sleep(float(sys.argv[2]))
os.execv("/bin/true", ["true"])
"""


def test_exec_that_closes_files(box):
    """FLUSH comes from within execve, which holds a lock that most of /proc/PID waits for."""
    with box.mount() as mount:
        for pause in ("0", "0.05"):
            run(sys.executable, "-c", EXEC, mount.mnt / "f", pause, timeout=20)
    db = mount.db()
    check_truths(db)
    assert len(db.ops(op="flush", path="f")) >= 2


def test_first_request_is_a_flush_of_exec(box):
    """A child that has done nothing but inherit the file."""
    with box.mount() as mount:
        fd = os.open(mount.mnt / "f", os.O_RDWR | os.O_CREAT)
        child = os.fork()
        if child == 0:
            os.execv("/bin/true", ["true"])
        assert os.waitpid(child, 0)[1] == 0
        os.close(fd)
    db = mount.db()
    check_truths(db)
    db.expect("flush", path="f", pid=child)


def test_exec_is_another_program(box):
    """What a thread did before exec and after is put down to the right program."""
    with box.mount() as mount:
        run("sh", "-c", 'echo before >"$0/a"; exec touch "$0/b"', mount.mnt)
    names = {row["path"]: row["comm"] for row in mount.db().ops(op="create")}
    assert names == {"a": "sh", "b": "touch"}

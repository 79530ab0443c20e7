# SPDX-License-Identifier: MIT
"""Modes that keep requests from the recording: they do so, keep what programs rely on, and every command tells."""
import fcntl
import json
import os
import subprocess
import sys

import pytest

from harness import FSTAPE, USER, StartFailed, run

# Locks a file, opens and closes it a second time, which gives up the lock, and says so.
CLOSER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.readline()
open(sys.argv[1]).close()
print("closed", flush=True)
sys.stdin.readline()
"""


def write_files(mnt, count=50):
    for number in range(count):
        (mnt / f"f{number}").write_text("x" * number)


def test_noflush(box):
    """Closing is asked about once; who opened a file is still known when it is closed at last."""
    db = box.recorded(write_files, noflush=True)
    row = db.condition()
    assert row["modes"] == "noflush" and "POSIX_LOCKS" not in row["capabilities_taken"].split()
    assert db.value("SELECT count(*) FROM ops WHERE op = 'flush' AND error IS NULL") == 1
    assert db.value("SELECT count(*) FROM ops WHERE op = 'release' AND pid = ?", os.getpid()) == 50


def test_plain_recordings_have_no_mode(box):
    db = box.recorded(write_files, wait="sleep")
    assert db.condition()["modes"] is None and db.condition()["wait"] == "sleep"
    assert db.value("SELECT count(*) FROM ops WHERE op = 'flush'") == 50
    assert "by its modes" not in run(FSTAPE, "stats", box.db).stderr


def test_noflush_keeps_posix_locks(box):
    """A close gives them up at once, as POSIX has it: the kernel has to do it without us."""
    (box.src / "file").write_text("x")
    with box.mount(noflush=True) as mount:
        path = mount.mnt / "file"
        with subprocess.Popen([sys.executable, "-c", CLOSER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as closer, open(path, "r+") as file:
            assert closer.stdout.readline() == "locked\n"
            with pytest.raises(BlockingIOError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            closer.stdin.write("\n")
            closer.stdin.flush()
            assert closer.stdout.readline() == "closed\n"
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            closer.stdin.close()
    assert mount.db().value("SELECT count(*) FROM ops WHERE op IN ('setlk', 'getlk')") == 0


def test_writeback(box):
    """Small writes become large ones, with everything where it belongs."""
    (box.src / "old").write_bytes(b"o" * 10000)

    def work(mnt):
        with open(mnt / "new", "wb", buffering=0) as file:
            for number in range(1000):
                file.write(b"%09d\n" % number)
        descriptor = os.open(mnt / "old", os.O_WRONLY)  # the rest of the page is read, with a descriptor for writing
        os.pwrite(descriptor, b"new", 5000)
        os.close(descriptor)
        descriptor = os.open(mnt / "old", os.O_WRONLY | os.O_APPEND)
        os.write(descriptor, b"end")
        os.close(descriptor)

    db = box.recorded(work, writeback=True, cache="always")
    assert db.condition()["modes"] == "writeback"
    assert (box.src / "new").read_bytes() == b"".join(b"%09d\n" % number for number in range(1000))
    assert (box.src / "old").read_bytes() == b"o" * 5000 + b"new" + b"o" * 4997 + b"end"
    assert 1 <= db.value("SELECT count(*) FROM ops WHERE op = 'write' AND path = 'new'") < 20
    assert db.value("SELECT count(*) FROM ops WHERE op = 'write' AND (pid <> ? OR error IS NOT NULL)", os.getpid()) == 0
    assert db.value("SELECT count(*) FROM ops WHERE op = 'read' AND path = 'old' AND error IS NULL") >= 1


def test_data_that_is_not_written_yet_is_found(box):
    """The kernel asks where data is without writing first what it has: a copy would lose it."""
    with box.mount(writeback=True, cache="always") as mount, open(mount.mnt / "f", "wb", buffering=0) as file:
        os.pwrite(file.fileno(), b"x" * 5000, 1 << 20)
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) <= 1 << 20
        assert os.lseek(file.fileno(), 1 << 20, os.SEEK_HOLE) == (1 << 20) + 5000


@pytest.mark.parametrize(("options", "word"), [({}, "cache=always"), ({"cache": "never"}, "cache=always"),
                                               ({"cache": "always", "user": USER}, "root")])
def test_where_writeback_is_refused(box, options, word):
    if "user" in options:
        for path in (box.src, box.mnt, box.store):
            os.chown(path, USER, USER)
    with pytest.raises(StartFailed) as failed:
        box.mount(writeback=True, **options).start()
    assert failed.value.returncode == 2 and word in failed.value.stderr


@pytest.fixture
def hidden(box):
    box.recorded(write_files, noflush=True, label="quick")
    return box


@pytest.mark.parametrize("words", ["stats", "git", "export --format json", "check", "compare --run quick", "query --report operations"])
def test_commands_say_what_a_mode_hides(hidden, words):
    command, *options = words.split()
    done = run(FSTAPE, command, *options, hidden.db, check=False)
    said = [line for line in done.stderr.splitlines() if "by its modes" in line]
    assert len(said) == 1 and "run 1 (quick)" in said[0] and "noflush (no flush but the first" in said[0], done


def test_queries_the_list_and_the_page_say_it_too(hidden):
    assert "by its modes: noflush" in run(FSTAPE, "query", hidden.db, "SELECT 1").stderr
    assert "done, noflush" in run(FSTAPE, "runs", hidden.db).stdout
    assert [row["modes"] for row in json.loads(run(FSTAPE, "runs", "--format", "json", hidden.db).stdout)] == ["noflush"]
    page = hidden.store / "page.html"
    assert "by its modes" in run(FSTAPE, "report", hidden.db, "-o", page).stderr
    assert "Not recorded:</strong> run 1 (quick)" in page.read_text()
    target = hidden.src / "target"
    target.mkdir()
    assert "by its modes" in run(FSTAPE, "replay", hidden.db, target).stderr


def test_record_says_it_at_the_end(box):
    done = run(FSTAPE, "record", "-q", "-o", "noflush", box.db, box.src, "touch", "file")
    assert "by its modes: noflush" not in done.stderr, "quiet, and complete: nothing to say"
    done = run(FSTAPE, "record", "-o", "noflush", box.db, box.src, "touch", "file")
    assert "by its modes: noflush" in done.stderr

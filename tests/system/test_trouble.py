# SPDX-License-Identifier: MIT
"""Trouble with the database while it is recorded into: the user's files go on, and the run says what it lacks."""
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import BUILD, FSTAPE, FSTAPEFS, SLOW, TOP, check_truths, git, make_repository, mountpoints, run, snapshot, wait_until

CREATES = """
import os, sys
os.chdir(sys.argv[1])
for n in range(int(sys.argv[3]), int(sys.argv[4])):
    os.close(os.open(f"{sys.argv[2]}{n}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
"""


LOCKS = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    print("ready", flush=True)
    fcntl.lockf(file, fcntl.LOCK_EX)
"""


@pytest.fixture(scope="session")
def origin(base):
    return make_repository(base / "trouble-origin", 1500)


@pytest.fixture
def small(base, box):
    """small(KIND, MIB): a file system of that size of its own, for a database."""
    made = []

    def make(kind="ext4", mib=24):
        image, where = box.top / f"small-{len(made)}.img", box.top / f"small-{len(made)}"
        image.touch()
        os.truncate(image, mib << 20)
        run(f"mkfs.{kind}", "-q", *(["-f"] if kind == "xfs" else ["-F"]), image)
        where.mkdir()
        run("mount", "-o", "loop", image, where)
        made.append(where)
        return where

    yield make
    for where in made:
        run("umount", "-l", where, check=False)


def creates(mnt, prefix, first, last):
    """Makes files in a process of its own, which has one number of requests for each."""
    run("python3", "-c", CREATES, mnt, prefix, first, last)


def fill(where):
    """Takes what is left of a file system."""
    with open(where / "ballast", "wb", buffering=0) as file:
        with pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(65536))
        with pytest.raises(OSError, match="No space"):
            while True:
                file.write(bytes(512))
    return where / "ballast"


def account(db, op):
    """Rows and losses of one operation."""
    row = db.condition()
    lost = json.loads(row["dropped_by_op"] or "{}")
    assert sum(lost.values()) == row["dropped"]
    return len(db.ops(op=op, error=None)) + lost.get(op, 0)


def check_partial(db):
    row = db.condition()
    assert row["clean_end"] == 0 and row["dropped"] > 0 and row["note"], row
    assert row["requests"] == row["recorded"] + row["dropped"]
    assert row["recorded"] == db.value("SELECT count(*) FROM op WHERE run = ?", db.run)
    assert 0 < row["lost_from_ns"] <= row["lost_to_ns"] <= row["end_ns"]
    return row


@pytest.mark.parametrize("overflow", ["drop", "block"])
def test_a_full_disk_during_a_clone(box, small, origin, overflow):
    """The clone is intact, each lost operation is counted; when there is room again, recording goes on."""
    where = small(mib=24)
    made = box.mount(db=where / "t.db", spool="4M", threads=2, overflow=overflow, cache="always").start()
    ballast = fill(where)
    start = time.monotonic()
    git("clone", "-q", "--no-hardlinks", origin, made.mnt / "clone")
    assert git("-C", made.mnt / "clone", "status", "--porcelain").stdout == ""
    git("-C", made.mnt / "clone", "fsck", "--full")
    creates(made.mnt, "during", 0, 20000)
    assert time.monotonic() - start < 60 * SLOW, "waits 20 s once, not with every operation"
    ballast.unlink()
    made.wait_said("goes on")
    before = time.monotonic()
    creates(made.mnt, "after", 0, 300)
    assert time.monotonic() - before < 20 * SLOW
    made.unmount()
    assert made.wait() == 0, made.stderr
    assert "database or disk is full" in made.stderr and "goes on" in made.stderr, made.stderr
    assert len(made.stderr.splitlines()) <= 4, made.stderr
    db = made.db()
    row = check_partial(db)
    assert "disk was full" in row["note"], row["note"]
    files = len([name for name in os.listdir(box.src) if name.startswith(("during", "after"))])
    assert files == 20300
    made_in_clone = sum(len(names) for _, _, names in os.walk(box.src / "clone"))
    assert account(db, "create") >= files + made_in_clone - 60  # packs and the like are made under another name, links
    assert len([row for row in db.ops(op="create", error=None) if (row["path"] or "").startswith("after")]) == 300
    assert snapshot(box.src / "clone" / "d0") == snapshot(origin / "d0")


def test_each_lost_operation_is_counted(box, small):
    """A client's own count of its creates is the rows and the losses, exactly."""
    where = small(mib=16)
    made = box.mount(db=where / "t.db", spool="4M", threads=1, overflow="drop").start()
    fill(where)
    creates(made.mnt, "f", 0, 15000)
    (where / "ballast").unlink()
    made.unmount()
    assert made.wait() == 0, made.stderr
    db = made.db()
    check_partial(db)
    assert account(db, "create") == 15000 == len(os.listdir(box.src))
    done = run(FSTAPE, "stats", db.path)
    assert "is partial" in done.stderr and "missing" in done.stderr


def test_a_full_disk_holds_callers_only_for_a_while(box, small):
    """overflow=block waits for room, but not for ever; the mount ends when it is told to, whoever waits."""
    where = small(mib=64)
    made = box.mount(db=where / "t.db", spool="4M", threads=2).start()
    fill(where)
    client = box.client("python3", "-c", CREATES, made.mnt, "f", 0, 20000)
    wait_until(lambda: len(os.listdir(box.src)) > 1000, what="files")
    wait_until(lambda: stands_still(box.src), what="callers being held")
    (where / "ballast").unlink()
    start = time.monotonic()
    os.kill(made.pid, signal.SIGTERM)
    status = made.wait(40)
    assert status == 0, made.stderr
    assert time.monotonic() - start < 25 * SLOW
    client.wait(20)
    assert str(made.mnt) not in mountpoints()
    row = made.db().condition()
    assert row["dropped"] == 0 and row["requests"] == row["recorded"], row["note"]


def stands_still(directory):
    count = len(os.listdir(directory))
    time.sleep(0.7)
    return len(os.listdir(directory)) == count


def test_told_to_end_while_callers_are_held(box):
    """The database is locked, the spool full, a caller held: SIGTERM ends the mount, and nothing is lost."""
    made = box.mount(spool="4M", threads=2).start()
    lock = sqlite3.connect(box.db, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    client = box.client("python3", "-c", CREATES, made.mnt, "f", 0, 100000)
    wait_until(lambda: len(os.listdir(box.src)) > 1000, what="files")
    wait_until(lambda: stands_still(box.src), what="callers being held")
    start = time.monotonic()
    os.kill(made.pid, signal.SIGTERM)
    wait_until(lambda: str(made.mnt) not in mountpoints(), 30, what="the mount being gone")
    client.wait(30 * SLOW)
    assert time.monotonic() - start < 30 * SLOW
    lock.execute("ROLLBACK")
    lock.close()
    assert made.wait(60) == 0, made.stderr
    db = made.db()
    row = db.condition()
    assert row["state"] == "done" and row["dropped"] == 0 and row["requests"] == row["recorded"], row["note"]
    assert len(db.ops(op="create", error=None)) == len(os.listdir(box.src))


def test_locked_by_another_program(box, origin):
    """Held locked during a whole clone: nothing is lost, callers go on as long as the spool has room."""
    made = box.mount(cache="always").start()
    holder = subprocess.Popen(["sqlite3", "-batch", str(box.db)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        holder.stdin.write("BEGIN EXCLUSIVE;\nSELECT 'locked';\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "locked\n"
        git("clone", "-q", "--no-hardlinks", origin, made.mnt / "clone")
        made.wait_said("locked")
        holder.stdin.close()
        holder.wait(10)
    finally:
        holder.kill()
        holder.wait(10)
    check_truths(made.finish())
    assert "locked" in made.stderr and "goes on" in made.stderr, made.stderr


@pytest.mark.parametrize("load", ["live", "end"])
def test_the_directory_of_the_database_is_deleted(box, load):
    where = box.top / "doomed"
    where.mkdir()
    made = box.mount(db=where / "t.db", load=load, spool="4M").start()
    creates(made.mnt, "before", 0, 100)
    shutil.rmtree(where)
    made.wait_said("deleted")
    creates(made.mnt, "after", 0, 30000)
    assert len(os.listdir(box.src)) == 30100
    made.unmount()
    assert made.wait() == 3, made.stderr
    assert made.stderr.count("deleted") == 2 and str(where / "t.db") in made.stderr, made.stderr
    assert not where.exists()


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_the_disk_of_the_database_dies(box, small, kind):
    """Shut down, as after an I/O error: no write, and no store into a mapping, is accepted any more."""
    where = small(kind, 320 if kind == "xfs" else 64)
    made = box.mount(db=where / "t.db", overflow="drop", spool="4M").start()
    creates(made.mnt, "before", 0, 300)
    run("sync")
    run("python3", "-c", "import fcntl, os, struct, sys;"
        "fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))", where)
    creates(made.mnt, "after", 0, 30000)
    assert made.daemon.poll() is None, "the daemon lives"
    made.wait_said("cannot store operations")  # as soon as we pause
    assert len(os.listdir(box.src)) == 30300
    made.unmount()
    assert made.wait() == 3, made.stderr
    assert "cannot store operations" in made.stderr and "recover" in made.stderr
    assert len(made.stderr.splitlines()) <= 6, made.stderr


def test_the_spool_s_files_are_cut_off(box):
    """Somebody truncates them: the process goes on, the run says that its spool was damaged or is whole."""
    made = box.mount(load="end").start()
    creates(made.mnt, "before", 0, 300)
    for segment in box.store.glob("t.db-spool/run-*/segment-*"):
        os.truncate(segment, 0)
    creates(made.mnt, "after", 0, 3000)
    made.unmount()
    assert made.wait() == 0, made.stderr
    row = made.db().condition()
    assert row["state"] == "done" and row["requests"] >= 3300
    assert row["clean_end"] == (row["requests"] == row["recorded"])
    assert row["clean_end"] == 1 or row["note"]


def synced_log(db):
    """
    Bytes of the log that a power cut cannot take: SQLite syncs what it is about to copy into the file. Were they cut off,
    old pages of the log would hide the file's newer ones. The numbers are in the -shm: https://sqlite.org/walformat.html.
    """
    with open(f"{db}-shm", "rb") as index:
        page_size, = struct.unpack("=H", index.read(16)[14:])
        index.seek(96)
        copied, *_, attempted = struct.unpack("=9I", index.read(36))
    frames = max(copied, attempted)
    return frames and 32 + frames * (24 + page_size)


@pytest.mark.parametrize("copied", [False, True], ids=["some", "all copied"])
@pytest.mark.parametrize("left", [0.0, 0.4, 0.9])
def test_a_log_that_is_cut_off(box, left, copied):
    """As a power cut leaves it. What was in the log alone is still in the spool: each operation is there, once."""
    made = box.mount(spool="4M", threads=1).start()
    creates(made.mnt, "f", 0, 12000)
    time.sleep(0.6)
    if copied:
        run("sqlite3", "-batch", box.db, ".timeout 10000", "PRAGMA wal_checkpoint(PASSIVE)")
    made.kill()
    run("umount", "-l", made.mnt)
    log = box.store / "t.db-wal"
    os.truncate(log, max(int(log.stat().st_size * left), synced_log(box.db)))
    run(FSTAPE, "recover", box.db)
    db = made.db()
    row = db.condition()
    assert row["state"] == "recovered" and row["damaged"] == 0
    names = [row["path"] for row in db.ops(op="create", error=None)]
    assert sorted(names) == sorted(os.listdir(box.src))
    assert row["requests"] - row["recorded"] <= 1, row["note"]


def test_recovery_killed_half_way(box):
    """Again and again, at other moments; the last one finishes: each operation once."""
    made = box.mount(load="end", spool="64M").start()
    creates(made.mnt, "f", 0, 12000)
    made.kill()
    run("umount", "-l", made.mnt)
    killed = 0
    for delay in range(1, 25):
        recovery = subprocess.Popen([str(FSTAPE), "recover", "--quiet", str(box.db)], stderr=subprocess.DEVNULL)
        time.sleep(delay * 0.012)
        killed += recovery.poll() is None
        recovery.kill()
        recovery.wait(20)
    assert killed > 0
    together = [subprocess.Popen([str(FSTAPE), "recover", "--quiet", str(box.db)]) for _ in range(3)]
    assert [recovery.wait(60) for recovery in together] == [0, 0, 0]
    db = made.db()
    assert db.value("PRAGMA integrity_check") == "ok"
    row = db.condition()
    assert row["state"] == "recovered" and row["damaged"] == 0 and row["recorded"] >= row["requests"] - 1
    names = [row["path"] for row in db.ops(op="create", error=None)]
    assert sorted(names) == sorted(os.listdir(box.src))
    assert not (box.store / "t.db-spool").exists()


def test_recovery_on_a_full_disk(box, small):
    """It fails in words, loses nothing, and does its work when there is room."""
    where = small(mib=24)
    made = box.mount(db=where / "t.db", load="end", threads=1).start()
    creates(made.mnt, "f", 0, 8000)
    made.kill()
    run("umount", "-l", made.mnt)
    ballast = fill(where)
    failed = run(FSTAPE, "recover", where / "t.db", check=False)
    assert failed.returncode == 1 and "full" in failed.stderr and "t.db-spool" in failed.stderr, failed
    ballast.unlink()
    run(FSTAPE, "recover", where / "t.db")
    names = [row["path"] for row in made.db().ops(op="create", error=None)]
    assert sorted(names) == sorted(os.listdir(box.src))
    run(FSTAPE, "check", where / "t.db")


def test_messages_of_a_daemon_in_the_background(box):
    """Its standard error leads nowhere: syslog gets them."""
    if os.path.lexists("/dev/log"):
        pytest.skip("a syslog daemon runs here")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind("/dev/log")
    try:
        listener.settimeout(20)
        run(FSTAPEFS, "-o", f"db={box.db},max_db=1M,spool=4M,threads=1", box.src, box.mnt)
        creates(box.mnt, "f", 0, 20000)
        run("umount", box.mnt)
        message = listener.recv(4096).decode()
        assert "fstapefs" in message and "max_db" in message
    finally:
        listener.close()
        os.unlink("/dev/log")


@pytest.mark.parametrize("limit, spool", [(2, 16), (12, 4)])
def test_a_burst_gets_the_database_beyond_max_db_by_less_than_the_spool(box, limit, spool):
    """Several programs at once, and names that take more room than the rest of an operation."""
    made = box.mount(max_db=f"{limit}M", spool=f"{spool}M", threads=2).start()
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda number: creates(made.mnt, f"{number}-{'n' * 200}", 0, 15000), range(4)))
    made.unmount()
    assert made.wait() == 0, made.stderr
    row = check_partial(made.db())
    assert "max_db" in row["note"]
    assert row["recorded"] > 0 and os.path.getsize(box.db) < (limit + spool) << 20


def test_workers_that_wrote_little_do_not_count_as_much(box):
    """Each worker that has answered has a segment of the spool: hardly any of that will be in the database."""
    limit, waiters = 3, 12
    made = box.mount(max_db=f"{limit}M", spool="64M", threads=24).start()
    locked = made.mnt / "locked"
    locked.touch()
    with open(locked, "w") as holder:
        fcntl.lockf(holder, fcntl.LOCK_EX)
        clients = [box.client("python3", "-c", LOCKS, locked, stdout=subprocess.PIPE) for _ in range(waiters)]
        for client in clients:
            client.stdout.readline()
        time.sleep(0.5)  # all wait now, each for a worker of its own
    assert [client.wait(60) for client in clients] == [0] * waiters
    time.sleep(1)  # the loader has looked at the size
    creates(made.mnt, "f", 0, 2000)
    made.unmount()
    assert made.wait() == 0, made.stderr
    row = made.db().condition()
    assert os.path.getsize(box.db) < limit << 20
    assert row["dropped"] == 0 and row["note"] is None, row


def test_max_db_stops_recording_at_a_marked_point(box):
    limit = 1 << 20
    made = box.mount(max_db="1M", spool="4M", threads=1).start()
    creates(made.mnt, "f", 0, 20000)
    made.unmount()
    assert made.wait() == 0, made.stderr
    assert made.stderr.count("max_db") == 1, made.stderr
    db = made.db()
    row = check_partial(db)
    assert "max_db" in row["note"] and account(db, "create") == 20000
    assert limit // 2 < os.path.getsize(db.path) < limit + (3 << 20)
    # marked: everything before the point is there, nothing after it
    assert db.value("SELECT max(seq) FROM op") == row["recorded"]
    assert db.value("SELECT max(start_ns) FROM op") <= row["lost_from_ns"]


def test_rotation_keeps_the_last_runs(box):
    for number in range(5):
        box.recorded(lambda mnt: (mnt / f"f{number}").touch(), label=f"r{number}")
    db = box.recorded(lambda mnt: None, keep_runs=3, label="new")
    assert [row["label"] for row in db.rows("SELECT label FROM run ORDER BY id")] == ["r3", "r4", "new"]
    runs = {row["id"] for row in db.rows("SELECT id FROM run")}
    for table in db.rows("SELECT m.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c"
                         " WHERE m.type = 'table' AND c.name = 'run'"):
        found = {row["run"] for row in db.rows(f"SELECT DISTINCT run FROM {table['name']}")}
        assert found <= runs, table["name"]


def test_several_runs_at_once_into_one_database(box):
    """Four recorders, each busy: every run whole, no operation in another's run."""
    mounts = []
    for number in range(4):
        src, mnt = box.top / f"src{number}", box.top / f"mnt{number}"
        src.mkdir()
        mnt.mkdir()
        mounts.append(box.mount(source=src, mountpoint=mnt, label=str(number)).start())
    clients = [box.client("python3", "-c", CREATES, made.mnt, f"r{made.run}-", 0, 3000) for made in mounts]
    assert [client.wait(120) for client in clients] == [0] * 4
    for made in mounts:
        check_truths(made.finish())
        names = {row["path"] for row in made.db().ops(op="create", error=None)}
        assert names == {f"r{made.run}-{n}" for n in range(3000)}


@pytest.mark.without_mounts
def test_a_long_recording_keeps_its_memory(tmp_path):
    """Two million operations through the recorder alone: its own memory does not grow with them."""
    done = run(BUILD / "tests/bench/feed", tmp_path / "t.db", 2_000_000, timeout=300)
    own = [float(size) for size in re.findall(r"its own +([\d.]+)", done.stdout)]
    assert len(own) == 10
    if SLOW == 1:  # sanitizers keep what is freed
        assert max(own[1:9]) - min(own[1:9]) < 3 and max(own) < 30, done.stdout
    checked = run(FSTAPE, "check", tmp_path / "t.db", timeout=300)
    assert "2000012 operations" in checked.stdout


def test_killed_at_random_moments():
    """The runner that kills 300 times, ten times here."""
    done = run(TOP / "tests/bench/kills", "--kills", 10, "--seed", 7, "--build", BUILD, timeout=300)
    assert "missing after recovery: 0\nduplicates: 0" in done.stdout, done.stdout

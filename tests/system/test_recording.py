# SPDX-License-Identifier: MIT
"""What a recording promises: complete, readable with plain SQLite, its conditions stated; overflow, loading, cache modes."""
import json
import os
import platform
import re
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import Database, StartFailed, check_truths, run, wait_until


def some_work(mnt, files=200):
    for number in range(files):
        where = mnt / f"d{number % 10}"
        where.mkdir(exist_ok=True)
        (where / f"f{number}").write_text(str(number))
    for where, _, names in os.walk(mnt):
        for name in names:
            with open(os.path.join(where, name), "rb") as file:
                file.read()


@pytest.mark.parametrize("load", ["live", "end"])
@pytest.mark.parametrize("threads", [None, 1, 4])
def test_truths(any_box, load, threads):
    db = any_box.recorded(some_work, load=load, threads=threads)
    assert db.condition()["load"] == load
    assert len(db.ops(op="create", error=None)) == 200
    assert db.value("SELECT count(DISTINCT op) FROM ops") > 8


def test_the_view_in_the_plain_shell(box):
    db = box.recorded(some_work)
    text = run("sqlite3", box.db, "select op, count(*), sum(fs_ns)/1e6 from ops group by 1 order by 3 desc").stdout
    rows = [line.split("|") for line in text.splitlines()]
    assert dict((row[0], int(row[1])) for row in rows)["create"] == 200
    assert sum(int(row[1]) for row in rows) == db.condition()["requests"]
    columns = run("sqlite3", "-header", box.db, "select * from ops limit 1").stdout.splitlines()[0].split("|")
    promised = "run seq start_ns dur_ns fs_ns op class path path2 node parent fh offset length result error pid tid comm"
    assert columns[:19] == promised.split()


def test_the_run_s_conditions(box):
    db = box.recorded(some_work, label="my, label", cache="never", fsname="name")
    row = db.condition()
    assert row["label"] == "my, label" and row["cache"] == "never"
    assert row["source"] == str(box.src) and row["mountpoint"] == str(box.mnt)
    assert row["fs_type"] == "ext4" and re.fullmatch(r"/dev/loop\d+", row["device"]) and "rw" in row["fs_options"]
    assert row["kernel"] == platform.release() and row["cpus"] == os.cpu_count() and row["machine"] == platform.machine()
    assert re.match(r"3\.\d+", row["libfuse"]) and re.match(r"3\.\d+", row["sqlite"]) and row["version"]
    assert (row["overflow"], row["load"], row["data"], row["privileged"]) == ("block", "live", "none", 1)
    assert row["entry_timeout_ns"] == 0 == row["attr_timeout_ns"] and row["threads"] >= 1
    assert row["capabilities_offered"] and row["capabilities_taken"]
    assert set(row["capabilities_taken"].split()) <= set(row["capabilities_offered"].split())
    assert row["daemon_pid"] and row["end_ns"] > 0 and row["daemon_user_ns"] + row["daemon_sys_ns"] > 0
    last = db.value("SELECT max(start_ns + dur_ns) FROM ops")
    assert last <= row["end_ns"]
    anchors = db.rows("SELECT * FROM clock_anchor WHERE run = ?", db.run)
    assert anchors and all(0 <= a["after_ns"] - a["before_ns"] < 1e9 for a in anchors)
    real = row["start_real_ns"] + anchors[-1]["before_ns"]
    assert abs(real - anchors[-1]["real_ns"]) < 2e9


def test_what_was_there_before(box):
    (box.src / "d").mkdir()
    (box.src / "d" / "old").write_text("12345")
    (box.src / "d" / "old").chmod(0o640)
    os.utime(box.src / "d" / "old", ns=(1, 1_500_000_000_000_000_007))
    (box.src / "link").symlink_to("d/old")

    def action(mnt):
        (mnt / "d" / "old").read_text()
        os.listdir(mnt)
        os.readlink(mnt / "link")
        (mnt / "d" / "new").write_text("x")
    db = box.recorded(action)
    rows = {row["path"]: row for row in db.rows(
        "SELECT p.path, i.* FROM initial AS i JOIN path AS p ON p.run = i.run AND p.id = i.path WHERE i.run = ?", db.run)}
    old = rows["d/old"]
    assert (old["size"], old["mtime_ns"], old["nlink"]) == (5, 1_500_000_000_000_000_007, 1)
    assert old["mode"] == stat.S_IFREG | 0o640
    assert stat.S_ISDIR(rows["d"]["mode"]) and rows["link"]["target"] == "d/old"
    assert "d/new" not in rows


def test_cache_modes_differ_in_what_is_seen(box):
    (box.src / "f").write_text("x")

    def probe(mnt):
        for _ in range(20):
            (mnt / "f").stat()
    seen = {mode: len(box.recorded(probe, cache=mode).ops(path="f")) for mode in ("never", "auto", "always")}
    assert seen["never"] >= 20 > seen["always"], seen


def test_changes_below_are_seen_with_cache_never(box):
    (box.src / "f").write_text("one")

    def action(mnt):
        assert (mnt / "f").read_text() == "one"
        (box.src / "f").write_text("twotwo")
        assert (mnt / "f").read_text() == "twotwo"
        (box.src / "f").unlink()
        assert not (mnt / "f").exists()
        (box.src / "f").mkdir()
        assert (mnt / "f").is_dir()
        (box.src / "g").write_text("new")
        assert (mnt / "g").read_text() == "new"
    box.recorded(action, cache="never")


def test_many_runs_in_one_database(box):
    runs = [box.recorded(some_work, label=f"run {number}").run for number in range(3)]
    assert runs == [1, 2, 3]
    db = Database(box.db)
    assert db.value("SELECT count(*) FROM run WHERE state = 'done' AND clean_end = 1") == 3
    assert os.listdir(box.store) == ["t.db"], "one file is all there is"


def test_two_mounts_at_once_into_one_database(box):
    other_src, other_mnt = box.top / "src2", box.top / "mnt2"
    other_src.mkdir()
    other_mnt.mkdir()
    with box.mount() as first, box.mount(source=other_src, mountpoint=other_mnt) as second:
        some_work(first.mnt)
        some_work(second.mnt, 100)
    check_truths(first.db())
    check_truths(second.db())
    assert len(first.db().ops(op="create")) == 200 and len(second.db().ops(op="create")) == 100


def test_many_starts_at_the_same_moment(box):
    """Each opens the database, recovers what is left, makes its row: nobody takes another's run for a dead one."""
    mounts = []
    for number in range(6):
        source, target = box.top / f"s{number}", box.top / f"m{number}"
        source.mkdir()
        target.mkdir()
        mounts.append(box.mount(source=source, mountpoint=target))
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda made: made.start(), mounts))
        assert sorted(made.run for made in mounts) == [1, 2, 3, 4, 5, 6]
        list(pool.map(lambda made: some_work(made.mnt, 20), mounts))
        list(pool.map(lambda made: made.finish(), mounts))
    for made in mounts:
        check_truths(made.db())


def test_in_place(box):
    """Source and mount point are one directory: what was there is seen, below and above are the same."""
    (box.src / "old").write_text("there")
    with box.mount(mountpoint=box.src) as made:
        assert (box.src / "old").read_text() == "there"
        (box.src / "new").write_text("made")
    db = made.db()
    check_truths(db)
    db.expect("create", path="new", error=None)
    assert (box.src / "new").read_text() == "made"


def test_read_only(box):
    (box.src / "f").write_text("x")

    def action(mnt):
        assert (mnt / "f").read_text() == "x"
        with pytest.raises(OSError, match="Read-only"):
            (mnt / "g").write_text("x")
    box.recorded(action, ro=True)


def test_without_recording(box):
    made = box.mount(norecord=True)
    del made.options["db"]
    made.start()
    some_work(made.mnt)
    made.unmount()
    assert made.wait() == 0, made.stderr
    assert not box.db.exists() and len(list(box.src.glob("*/*"))) == 200


def test_a_full_spool_drops_when_told_so(box):
    """Nothing can be loaded meanwhile, so a small spool overflows: counted per operation, and the rest is whole."""
    with box.mount(overflow="drop", spool="4M", cache="never", threads=1) as made:
        other = sqlite3.connect(box.db, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for number in range(60000):
            os.access(made.mnt / f"missing-{number % 100}", os.F_OK)
        other.execute("ROLLBACK")
        other.close()
    db = made.db()
    row = db.condition()
    assert row["overflow"] == "drop" and row["dropped"] > 10000 and row["clean_end"] == 0 and row["note"]
    assert row["requests"] == row["recorded"] + row["dropped"]
    assert row["recorded"] == db.value("SELECT count(*) FROM op")
    assert 10000 < json.loads(row["dropped_by_op"])["lookup"] <= row["dropped"]
    assert db.ops_where("path IS NULL OR pid IS NULL OR comm IS NULL") == []


LOOKER = """
import os, sys
for line in sys.stdin:
    for number in range(2000):
        os.access(f"{sys.argv[1]}/missing-{number}", os.F_OK)
    print(flush=True)
"""


def test_a_program_met_while_the_spool_is_full(box):
    """What is recorded of it later says who it is: neither a name nor a path may go missing alone."""
    with box.mount(overflow="drop", spool="4M", cache="never", threads=1) as made:
        other = sqlite3.connect(box.db, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for number in range(60000):
            os.access(made.mnt / f"missing-{number % 100}", os.F_OK)
        looker = subprocess.Popen([sys.executable, "-c", LOOKER, made.mnt], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        box.clients.append(looker)
        look(looker)
        other.execute("ROLLBACK")
        other.close()
        wait_until(lambda: look(looker) or made.db().ops(op="lookup", pid=looker.pid), what="the program in the recording")
        looker.communicate()
    db = made.db()
    assert db.ops_where("path IS NULL OR pid IS NULL OR comm IS NULL") == []
    row = db.condition()
    assert row["dropped"] > 10000 and row["requests"] == row["recorded"] + row["dropped"]


def look(looker):
    looker.stdin.write(b"\n")
    looker.stdin.flush()
    assert looker.stdout.readline() == b"\n"


@pytest.mark.parametrize("threads", [1, 8])
def test_a_small_spool_blocks_and_loses_nothing(box, threads):
    def action(mnt):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: [os.access(mnt / f"missing-{n}-{i}", os.F_OK) for i in range(5000)], range(8)))
    db = box.recorded(action, spool="4M", cache="never", threads=threads)
    assert len(db.ops(op="lookup", error="ENOENT")) >= 40000


def test_a_database_locked_by_another_does_not_stop_the_mount(box):
    with box.mount() as made:
        other = sqlite3.connect(box.db, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        some_work(made.mnt)
        other.execute("ROLLBACK")
        other.close()
    check_truths(made.db())


def test_a_reader_during_the_run_sees_it_grow(box):
    with box.mount() as made:
        some_work(made.mnt)
        wait_until(lambda: len(made.db().ops(op="create")) == 200, what="rows of a live run")
        assert made.db().condition()["state"] == "recording"
    check_truths(made.db())


def test_a_database_with_an_odd_name(base, box):
    path = box.store / "it's, a \\ data\nbase?.db"
    with box.mount(db=path) as made:
        (made.mnt / "f").write_text("x")
    check_truths(made.db())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_spool_of_a_moved_database_does_no_harm(box):
    """A database put in place of another that left a spool: that spool stays, the new one works."""
    made = box.mount().start()
    (made.mnt / "f").touch()
    made.kill()
    run("umount", "-l", made.mnt)
    box.db.rename(box.store / "moved.db")
    for suffix in ("-wal", "-shm"):
        (box.store / f"t.db{suffix}").unlink(missing_ok=True)
    try:
        again = box.mount().start()
    except StartFailed as failed:
        assert failed.returncode == 1 and "spool" in failed.stderr
        return
    (again.mnt / "g").touch()
    check_truths(again.finish())

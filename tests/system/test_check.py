# SPDX-License-Identifier: MIT
"""fstape check: nothing is found in good databases, and each fault that is planted is."""
import json
import os
import shutil
import sqlite3
import time

import pytest

from harness import FSTAPE, run

# name: (the check that finds it, what is done to a good database, a word of the message)
PLANTED = {
    "an operation is missing": ("sequence", "DELETE FROM op WHERE seq = 7", "7"),
    "the last operations are missing": ("sequence", "DELETE FROM op WHERE seq > (SELECT max(seq) - 3 FROM op)", "missing"),
    "an operation too many": ("sequence", "INSERT INTO op SELECT run, seq + 100000, start_ns, dur_ns, fs_ns, op, process, path,"
                              " node, parent, fh, offset, length, result, extra FROM op WHERE seq = 5",
                              "100005"),
    "the count of rows is wrong": ("counters", "UPDATE run SET recorded = recorded + 1, requests = requests + 1", "the run says"),
    "losses are hidden": ("counters", "UPDATE run SET dropped = 5, dropped_by_op = '{\"read\":5}'", "called whole"),
    "losses do not add up": ("dropped", "UPDATE run SET clean_end = 0, note = 'x', dropped = 5, requests = requests + 5,"
                             " dropped_by_op = '{\"read\":4}'", "adds up to 4"),
    "losses of nothing": ("dropped", "UPDATE run SET dropped_by_op = '{\"juggle\":0}'", "juggle"),
    "losses that are no JSON": ("dropped", "UPDATE run SET dropped_by_op = '{'", "JSON"),
    "missing without a word": ("counters", "UPDATE run SET clean_end = 0", "no note"),
    "a path is gone": ("references", "DELETE FROM path WHERE id = (SELECT path FROM op WHERE seq = 9)", "seq"),
    "a process is gone": ("references", "DELETE FROM process WHERE id = (SELECT process FROM op WHERE seq = 20)", "process"),
    "a run is gone": ("references", "DELETE FROM run", "no such run"),
    "a kind of operation is gone": ("operations", "UPDATE op SET op = 99 WHERE seq = 4", "seq 4"),
    "operations are renamed": ("names", "UPDATE op_type SET name = 'unlook' WHERE name = 'lookup'", "unlook"),
    "time goes backwards": ("times", "UPDATE op SET start_ns = 1 WHERE seq = (SELECT max(seq) FROM op JOIN op_type AS t"
                            " ON t.code = op.op WHERE t.name = 'lookup')", "backwards"),
    "more time in the filesystem than in all": ("times", "UPDATE op SET fs_ns = dur_ns + 1 WHERE seq = 3", "seq 3"),
    "negative times": ("times", "UPDATE op SET dur_ns = -5, fs_ns = -6 WHERE seq = 3", "negative"),
    "later than the end": ("times", "UPDATE op SET start_ns = 9e18, dur_ns = 9e18 WHERE seq = (SELECT max(seq) FROM op)", "end"),
    "clocks go backwards": ("clock", "UPDATE clock_anchor SET after_ns = before_ns - 1", "backwards"),
    "an absolute path": ("paths", "UPDATE path SET path = '/etc/passwd' WHERE id = (SELECT path FROM op WHERE seq = 9)", "leave"),
    "a path upwards": ("paths", "UPDATE path SET path = 'a/../../b' WHERE id = (SELECT path FROM op WHERE seq = 9)", "leave"),
    "a circle of directories": ("paths", "UPDATE path SET parent = (SELECT max(id) FROM path) WHERE id = 2", "parent"),
    "absurd ids": ("paths", "UPDATE path SET id = 9223372036854775807 WHERE id = 3", "go up to"),
    "what an operation has besides is gone": ("references", "DELETE FROM op_extra WHERE id = 1", "op_extra"),
    "initial objects without a path": ("references", "UPDATE initial SET path = path + 1000000", "path"),
    "processor time of nobody": ("client_cpu", "INSERT INTO client_cpu VALUES (1, 1000000, 1, 1)", "never were"),
    "initial objects from nowhere": ("initial", "UPDATE initial SET seq = 1000000", "never were"),
    "git's regions without a command": ("references", "INSERT INTO git_region VALUES (1, 999999, 777777, NULL, NULL, 'main', 1, 'a', 'b',"
                                        " NULL, 0, 1, 'a/b')", "git_region"),
    "git's share of a run that is gone": ("references", "INSERT INTO git_range VALUES (9, 1, 1, NULL, NULL, 1)", "git_range"),
    "contents are gone": ("references", "INSERT INTO data VALUES (1, 5, 0, 10, x'00')", "content"),
    "values of no counter": ("references", "INSERT INTO host_value VALUES (1, 55, 0, 1)", "counter"),
    "marks are left": ("marks", "INSERT INTO spool_mark VALUES (1, 0, 1, 100)", "marks"),
    "an unknown state": ("state", "UPDATE run SET state = 'unsure'", "unsure"),
    "a spool that should be there": ("spool", "UPDATE run SET state = 'recording'", "gone"),
    "arguments that are no JSON": ("operations", "INSERT INTO op_extra (run, id, args) VALUES (1, 999999, '{'); UPDATE op SET extra = 999999 WHERE seq = 6", "JSON"),
    "a column is missing": ("schema", "ALTER TABLE clock_anchor RENAME COLUMN real_ns TO unreal_ns", "real_ns"),
    "a column is of another type": ("schema", "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql ="
                                    " replace(sql, 'mtime_ns INTEGER', 'mtime_ns TEXT') WHERE name = 'initial'", "mtime_ns"),
}


@pytest.fixture(scope="session")
def good(base, filesystems):
    """A good recording of git's work, as one file."""
    top = base / "check"
    src = top / "src"
    (src / "old").mkdir(parents=True)
    (src / "old" / "file").write_text("x")
    (src / "old" / "link").symlink_to("/anywhere/../at all")
    script = ("git init -q r && cd r && echo 1 >a && mkdir -p d/e && echo 2 >d/e/b && git add . && git -c user.name=a"
              " -c user.email=a@b commit -q -m x && git gc -q && cat ../old/file && readlink ../old/link && mv d f && cat f/e/b"
              " && (for i in 1 2 3 4; do (find . -type f | xargs cat >/dev/null) & done; wait)")
    run(FSTAPE, "record", "-q", "--cache", "never", top / "t.db", src, "bash", "-c", script)
    return top / "t.db"


def check(db, status, *words):
    done = run(FSTAPE, "check", "--format", "json", *words, db, check=False)
    assert done.returncode == status, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_nothing_is_found_in_a_good_database(good):
    done = run(FSTAPE, "check", good)
    assert done.stdout.endswith("operations\n") and "no fault in 1 runs" in done.stdout and done.stderr == ""
    assert run(FSTAPE, "check", "--quiet", good).stdout == ""
    assert check(good, 0) == []


@pytest.mark.parametrize("fault", PLANTED)
def test_each_planted_fault_is_found(good, box, fault):
    name, sql, word = PLANTED[fault]
    shutil.copy(good, box.db)
    connection = sqlite3.connect(box.db)
    connection.executescript(sql)
    connection.close()
    found = check(box.db, 1)
    assert name in [row["check"] for row in found], found
    assert any(word in row["detail"] for row in found if row["check"] == name), found
    assert all(row["found"] >= 1 and row["run"] in (1, 9, None) for row in found)
    text = run(FSTAPE, "check", box.db, check=False)
    assert text.returncode == 1 and name in text.stdout and "fstape: " in text.stderr


def test_damaged_pages_are_found(good, box):
    data = bytearray(good.read_bytes())
    db = sqlite3.connect(good)
    page = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'path'").fetchone()[0]
    db.close()
    data[(page - 1) * 4096:page * 4096] = b"\xaa" * 4096
    box.db.write_bytes(data)
    assert {row["check"] for row in check(box.db, 1)} == {"file"}


def test_a_spool_that_is_left_is_found(good, box):
    shutil.copy(good, box.db)
    (box.store / "t.db-spool" / "run-1").mkdir(parents=True)
    assert [row["check"] for row in check(box.db, 1)] == ["spool"]


def test_a_killed_and_a_full_recording_are_partial_but_not_faulty(box):
    made = box.mount(load="end").start()
    for number in range(300):
        (made.mnt / f"f{number}").touch()
    made.kill()
    run("umount", "-l", made.mnt)
    run(FSTAPE, "recover", box.db)
    with box.mount(max_db="1M", spool="4M", threads=1, overflow="drop") as made:
        for number in range(20000):
            os.access(made.mnt / f"missing-{number}", os.F_OK)
            if number % 2000 == 0:
                time.sleep(0.2)  # the loader, which looks at the size, is to come to its turn
    done = run(FSTAPE, "check", box.db)
    assert done.stderr.count("is partial") == 2 and "no fault" in done.stdout


def test_a_recording_that_goes_on_is_not_faulty(box):
    with box.mount() as made:
        (made.mnt / "f").touch()
        done = run(FSTAPE, "check", box.db)
        assert "is still being recorded" in done.stderr and "no fault" in done.stdout


def test_what_is_no_database(box):
    box.db.write_text("x" * 5000)
    done = run(FSTAPE, "check", box.db, check=False)
    assert done.returncode == 1 and "not a database" in done.stderr
    assert run(FSTAPE, "check", box.store / "none", check=False).returncode == 1
    assert run(FSTAPE, "check", check=False).returncode == 2

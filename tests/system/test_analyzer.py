# SPDX-License-Identifier: MIT
"""fstape itself: what it exits with, what it refuses, and names that would break a careless program's output."""
import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import FSTAPE, Database, check_truths, git, make_repository, mountpoints, run, wait_until

NAMES = [b"new\nline", b"tab\there", b"quote'\"`", b"comma,semi;", b"\xff\xfe\x80", b"back\\slash", b"n" * 255,
         "\u00fcml\u00e4ut \U0001f600".encode(), b"\x1b[31mred\x07", b"<b>&amp;", b"=1+1", b"-flag", b" lead", b"{\"a\":1}"]


def fstape(*args, **kwargs):
    return run(FSTAPE, *args, **kwargs)


def record(box, *command, options=(), check=False, **kwargs):
    return fstape("record", *options, box.db, box.src, "--", *command, check=check, **kwargs)


# --- record ---------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("command, status", [
    (("true",), 0),
    (("sh", "-c", "exit 3"), 3),
    (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
    (("sh", "-c", "kill -KILL $$"), 128 + signal.SIGKILL),
    (("/no/such/program",), 127),
    (("no-such-program-anywhere",), 127),
    (("/etc/passwd",), 126),
    (("/etc",), 126),
])
def test_record_passes_the_exit_status_on(box, command, status):
    done = record(box, *command)
    assert done.returncode == status, done
    if status in (126, 127):
        assert done.stderr.startswith("fstape: ") and command[0] in done.stderr
    if box.db.exists():
        for row in Database(box.db).rows("SELECT * FROM run"):
            assert row["state"] == "done" and row["exit_status"] in (status, None)
    assert str(box.src) not in mountpoints()


@pytest.mark.parametrize("break_it, words", [
    (lambda box: box.src.rmdir(), "No such file"),
    (lambda box: (box.src.rmdir(), box.src.touch()), "ot a directory"),
    (lambda box: box.db.write_text("no database" * 100), "not a database"),
    (lambda box: box.db.mkdir(), "directory"),
], ids=["source missing", "source a file", "no database", "database a directory"])
def test_record_fails_with_125(box, break_it, words):
    break_it(box)
    done = record(box, "touch", box.top / "ran")
    assert done.returncode == 125 and words in done.stderr and done.stderr.startswith("fstape"), done
    assert not (box.top / "ran").exists(), "the command must not run unrecorded"


def test_record_refuses_a_database_inside(box):
    done = fstape("record", box.src / "t.db", box.src, "--", "true", check=False)
    assert done.returncode == 125 and "inside" in done.stderr
    assert os.listdir(box.src) == []


def test_record_without_dev_fuse(box):
    done = run("unshare", "-m", "--propagation", "private", "bash", "-c",
               'mount --bind /dev/null /dev/fuse && exec "$@"', "bash", FSTAPE, "record", box.db, box.src, "--", "true",
               check=False)
    assert done.returncode == 125 and "/dev/fuse" in done.stderr, done


def test_record_in_a_chroot(box):
    """Its private mount is below the chroot; the command has to find it there, and the end of the recording too."""
    root = box.top / "root"
    root.mkdir()
    # neither path exists outside
    script = ('mount --rbind / "$1" && mount -t tmpfs tmpfs "$1/mnt" && mkdir "$1/mnt/src" && shift'
              ' && exec chroot "$@"')
    done = run("unshare", "-m", "--propagation", "slave", "bash", "-c", script, "bash", root, root, "sh", "-c",
               '"$0" record -q /mnt/t.db /mnt/src -- sh -c "echo x >f; pwd" && cat /mnt/src/f'
               ' && "$0" query /mnt/t.db --format csv "SELECT count(*) FROM ops WHERE op = \'create\' AND path = \'f\'"',
               FSTAPE, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.split() == ["/mnt/src", "x", "count(*)", "1"]


def test_record_tells_what_it_did(box):
    done = record(box, "sh", "-c", "pwd; echo x >f; cat f; ls", options=["--label", "first one"], cwd="/")
    assert done.returncode == 0, done
    assert done.stdout.splitlines() == [str(box.src), "x", "f"], "the command's output is its own"
    assert "requests" in done.stderr and "dropped" in done.stderr and "create" in done.stderr
    db = Database(box.db, 1)
    check_truths(db)
    row = db.condition()
    assert row["label"] == "first one" and row["exit_status"] == 0 and row["cache"] == "always"
    assert json.loads(row["command"]) == ["sh", "-c", "pwd; echo x >f; cat f; ls"]
    assert row["real_ns"] > 0 and row["user_ns"] + row["sys_ns"] > 0
    db.expect("create", path="f", error=None, comm="sh")
    db.expect("read", path="f", error=None, comm="cat")
    quiet = record(box, "true", options=["--quiet"])
    assert quiet.stdout == quiet.stderr == ""


def test_record_waits_for_the_recorder(box):
    """When it returns the database is whole, one file, and readable by anything."""
    record(box, "bash", "-c", "for i in {1..3000}; do : >f$i; done", check=True)
    assert sorted(os.listdir(box.store)) == ["t.db"]
    db = Database(box.db, 1)
    check_truths(db)
    assert len(db.ops(op="create", error=None)) == 3000
    assert len(os.listdir(box.src)) == 3000


def test_record_gives_standard_input_and_no_descriptors(box):
    done = subprocess.run([FSTAPE, "record", "-q", box.db, box.src, "--", "sh", "-c", "cat; ls /proc/self/fd | wc -l"],
                          input="typed\n", capture_output=True, text=True, timeout=60)
    assert done.stdout == "typed\n4\n", done


def test_record_when_the_daemon_is_killed(box):
    recorder = subprocess.Popen([FSTAPE, "record", "--public", box.db, box.src, "--", "sh", "-c",
                                 "echo x >f; while echo y >>f; do sleep 0.05; done"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    wait_until(lambda: str(box.src) in mountpoints() and (box.src / "f").exists(), what="the command's file")
    os.kill(Database(box.db, 1).condition()["daemon_pid"], signal.SIGKILL)
    _, message = recorder.communicate(timeout=60)
    assert recorder.returncode == 125 and b"recover" in message, message
    assert str(box.src) not in mountpoints()
    fstape("recover", box.db)
    row = Database(box.db, 1).condition()
    assert (row["state"], row["clean_end"]) == ("recovered", 0)


def test_record_with_programs_left_behind(box):
    """A background program that keeps a file open must not keep the recorder for ever, nor be lost from the record."""
    start = time.monotonic()
    done = record(box, "sh", "-c", "sleep 3 >left 2>&1 & exit 5")
    assert done.returncode == 5, done
    assert time.monotonic() - start < 60
    assert Database(box.db, 1).condition()["state"] == "done"


def test_record_for_an_ordinary_user(box):
    os.chown(box.src, 1000, 1000)
    os.chown(box.store, 1000, 1000)
    done = record(box, "sh", "-c", "echo x >f; id -u", user=1000, group=1000, extra_groups=[])
    assert done.returncode == 0 and done.stdout.strip() == "1000", done
    assert (box.src / "f").stat().st_uid == 1000
    db = Database(box.db, 1)
    check_truths(db)
    db.expect("create", path="f", error=None)


def test_record_git(box):
    origin = make_repository(box.top / "origin", 300)
    record(box, "git", "clone", "-q", "--no-hardlinks", origin, "clone", check=True)
    db = Database(box.db, 1)
    check_truths(db)
    assert git("status", "--porcelain", cwd=box.src / "clone").stdout == ""
    count = db.value("SELECT count(*) FROM ops WHERE op = 'create' AND error IS NULL AND path GLOB 'clone/*'"
                     " AND path NOT GLOB 'clone/.git/*'")
    assert count == len(git("ls-files", "-z", cwd=box.src / "clone").stdout.split("\0")) - 1 - 2  # two symlinks


# --- runs, stats, query ---------------------------------------------------------------------------------------

@pytest.fixture
def hostile(box):
    """A recording whose names, label and command are as bad as they can be."""
    def action(mnt):
        for name in NAMES:
            with open(os.path.join(os.fsencode(mnt), name), "wb") as file:
                file.write(b"x")
    box.recorded(action, label="la\nbel, \"x\" <i>\x1b[2J")
    return box


def read_back(text, form):
    if form == "json":
        return json.loads(text)
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_names_through_query_csv(hostile):
    text = subprocess.run([FSTAPE, "query", "--format", "csv", hostile.db,
                           "SELECT path, hex(path) AS h FROM ops WHERE op = 'create'"], capture_output=True, check=True).stdout
    rows = read_back(text.decode(errors="surrogateescape"), "csv")
    assert {bytes.fromhex(row["h"]) for row in rows} == set(NAMES)
    assert all(os.fsencode(row["path"]) == bytes.fromhex(row["h"]) for row in rows), "bytes are kept as they are"


def test_names_through_query_json(hostile):
    text = subprocess.run([FSTAPE, "query", "--format", "json", hostile.db,
                           "SELECT path, hex(path) AS h FROM ops WHERE op = 'create'"], capture_output=True, check=True).stdout
    rows = read_back(text.decode(), "json")
    assert {bytes.fromhex(row["h"]) for row in rows} == set(NAMES)
    for row in rows:
        raw = bytes.fromhex(row["h"])
        assert row["path"] == raw.decode(errors="replace") or b"\xff" in raw and "\ufffd" in row["path"]


def test_names_through_query_table(hostile):
    """No name ends a line, moves the cursor or colours what follows."""
    text = subprocess.run([FSTAPE, "query", hostile.db, "SELECT path FROM ops WHERE op = 'create'"], capture_output=True,
                          check=True).stdout
    assert b"\x1b" not in text and b"\x07" not in text and b"\t" not in text
    rows = text.rstrip(b"\n").split(b"\n")
    assert len([row for row in rows if row.strip()]) <= len(NAMES) + 3, text.decode(errors="replace")


@pytest.mark.parametrize("command", ["runs", "stats"])
@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_hostile_runs_and_stats(hostile, command, form):
    done = subprocess.run([FSTAPE, command, "--format", form, hostile.db], capture_output=True, check=True)
    if form == "table":
        assert b"\x1b" not in done.stdout
    else:
        rows = read_back(done.stdout.decode(), form)
        assert rows
        if command == "runs":
            assert rows[0]["label"] == "la\nbel, \"x\" <i>\x1b[2J"


def test_stats_agree_with_sql(box):
    box.recorded(lambda mnt: [(mnt / f"f{number}").write_text("x") for number in range(100)])
    rows = {row["op"]: row for row in json.loads(fstape("stats", "--format", "json", box.db).stdout)}
    db = Database(box.db, 1)
    for op, count, total, most in db.connection.execute(
            "SELECT op, count(*), sum(fs_ns), max(fs_ns) FROM ops GROUP BY op"):
        assert int(rows[op]["count"]) == count
        assert total in [value for value in rows[op].values() if isinstance(value, int)], rows[op]
        assert most in [value for value in rows[op].values() if isinstance(value, int)], rows[op]
    assert set(rows) == {name for (name,) in db.connection.execute("SELECT DISTINCT op FROM ops")}


def test_a_label_means_its_run(box):
    for number in range(3):
        box.recorded(lambda mnt: [(mnt / f"f{n}").touch() for n in range(number + 1)], label=f"run-{number}")
    for name, count in (("run-0", 1), ("2", 2), ("run-2", 3)):
        rows = {row["op"]: row for row in json.loads(fstape("stats", "--run", name, "--format", "json", box.db).stdout)}
        assert int(rows["create" if name == "run-0" else "lookup"]["count"]) >= count
    done = fstape("stats", "--run", "no-such", box.db, check=False)
    assert done.returncode == 1 and "no-such" in done.stderr and done.stderr.startswith("fstape: ")


@pytest.mark.parametrize("sql", [
    "INSERT INTO run (state) VALUES ('x')", "DELETE FROM op", "DROP TABLE op", "UPDATE run SET label = 'x'",
    "CREATE TABLE t (x)", "VACUUM", "ATTACH '/tmp/fstape-never.db' AS x", "VACUUM INTO '/tmp/fstape-never.db'",
    "SELECT 1; DELETE FROM op", "PRAGMA user_version = 99", "PRAGMA journal_mode = WAL", "REINDEX",
])
def test_query_refuses_to_write(hostile, sql):
    before = hostile.db.read_bytes()
    done = fstape("query", hostile.db, sql, check=False)
    if not sql.startswith("PRAGMA"):
        assert done.returncode == 1 and done.stderr.startswith("fstape: "), done
    assert hostile.db.read_bytes() == before
    assert not os.path.exists("/tmp/fstape-never.db")


@pytest.mark.parametrize("sql", ["SELECT nonsense FROM ops", "SELEC 1", "SELECT 'open", "SELECT * FROM no_such_table",
                                 "SELECT 1 1", "SELECT max(", "\x00"[:0] + "(((("])
def test_query_with_invalid_sql(hostile, sql):
    done = fstape("query", hostile.db, sql, check=False)
    assert done.returncode == 1 and done.stderr.startswith("fstape: ") and done.stdout == "", done


def test_query_results_that_are_odd(hostile):
    sql = "SELECT NULL AS n, 1.5 AS r, x'00ff' AS b, '' AS e, -9223372036854775808 AS i, 'a' AS a, 2 AS a"
    for form in ("table", "csv", "json"):
        done = fstape("query", "--format", form, hostile.db, sql)
        assert "-9223372036854775808" in done.stdout
    row = json.loads(fstape("query", "--format", "json", hostile.db, "SELECT NULL AS n, 1.5 AS r, 7 AS i").stdout)[0]
    assert row == {"n": None, "r": 1.5, "i": 7}
    assert json.loads(fstape("query", "--format", "json", hostile.db, "SELECT 1 WHERE 0").stdout) == []


def test_reading_what_is_no_recording(box):
    box.db.write_bytes(b"x" * 5000)
    with sqlite3.connect(box.store / "other.db") as other:
        other.execute("CREATE TABLE t (x)")
    other.close()
    for command in (("runs",), ("stats",), ("query", "SELECT 1"), ("recover",)):
        for path, word in ((box.db, "not a database"), (box.store / "other.db", "not a recording"),
                           (box.store / "none", "No such file")):
            done = fstape(command[0], path, *command[1:], check=False)
            assert done.returncode == 1 and word in done.stderr and str(path) in done.stderr, done
    assert not (box.store / "none").exists()


def test_an_empty_database_has_no_runs(box):
    box.recorded(lambda mnt: None)
    with sqlite3.connect(box.db) as other:
        other.execute("DELETE FROM run")
    other.close()
    assert fstape("runs", "--format", "json", box.db).stdout.strip() == "[]"
    assert fstape("stats", box.db, check=False).returncode == 1


# --- the command line -----------------------------------------------------------------------------------------

def commands():
    text = subprocess.run([FSTAPE, "--help"], capture_output=True, text=True, check=False).stdout if FSTAPE.exists() else ""
    inside = text.partition("Commands:\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in inside.splitlines()]


@pytest.mark.without_mounts
def test_the_fixed_commands_exist():
    assert {"record", "runs", "stats", "query", "compare", "bench", "recover"} <= set(commands())


@pytest.mark.without_mounts
@pytest.mark.parametrize("words", [("--help",), ("-h",), ("--version",), ("help",), *((name, "--help") for name in commands()),
                                   *(("help", name) for name in commands())], ids=" ".join)
def test_help_fits_a_terminal(words):
    done = fstape(*words)
    assert done.stderr == "" and done.stdout
    wide = [line for line in done.stdout.splitlines() if len(line.expandtabs()) > 80]
    assert wide == []


@pytest.mark.without_mounts
@pytest.mark.parametrize("words", [(), ("nonsense",), ("--nonsense",), ("runs",), ("runs", "a", "b"), ("query", "a"),
                                   ("runs", "--format", "xml", "x"), ("runs", "--nonsense", "x"), ("record", "x"),
                                   ("help", "nonsense"), ("record", "--cache", "sometimes", "a", "b")], ids=" ".join)
def test_wrong_usage(words):
    done = fstape(*words, check=False)
    expected = 125 if words and words[0] == "record" and done.returncode == 125 else 2
    assert done.returncode == expected and done.stdout == "" and done.stderr.startswith("fstape: "), done


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_output_that_cannot_be_written(hostile, form):
    with open("/dev/full", "w") as full:
        done = subprocess.run([FSTAPE, "query", "--format", form, hostile.db, "SELECT * FROM ops"], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "No space left" in done.stderr, done


def test_output_that_nobody_reads(hostile):
    reader = subprocess.Popen([FSTAPE, "query", hostile.db, "SELECT a.* FROM ops a, ops b, ops c"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader.stdout.read(100)
    reader.stdout.close()
    assert reader.wait(60) != 0
    assert reader.stderr.read().count(b"\n") <= 1
    reader.stderr.close()

# SPDX-License-Identifier: MIT
"""Recordings replayed: same results and tree on every file system, the order, strangers' recordings, bad input."""
import ctypes
import fcntl
import json
import os
import pathlib
import signal
import sqlite3
import stat
import struct
import subprocess
import time

import pytest

from harness import FILESYSTEMS, FSTAPE, Database, git, make_repository, run
from trees import differences, survey

GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")


def record(box, label, *command, args=()):
    run(FSTAPE, "record", "-q", "-l", label, *args, box.db, box.src, "--", *command, timeout=300)


def replay(db, target, *args, check=True):
    """The summary as {name: value}, and the finished process."""
    done = run(FSTAPE, "replay", "--show", "summary", "--format", "json", *args, db, target, check=False, timeout=300)
    if check and done.returncode != 0:
        why = run(FSTAPE, "replay", *args, db, empty(target), check=False, timeout=300)
        raise AssertionError(f"{done.stderr}\nonce more: {why.stdout}{why.stderr}")
    rows = json.loads(done.stdout) if done.stdout else []
    return {row["name"]: row["value"] for row in rows}, done


def empty(target):
    run("rm", "-rf", target)
    target.mkdir()
    return target


def assert_same_tree(target, source, contents=False):
    lines = differences(survey(target, contents), survey(source, contents), contents=contents)
    assert not lines, "\n".join(lines[:5])


@pytest.fixture(scope="module")
def repository(base):
    """Two commits, so that a checkout has files to write, to change and to remove."""
    path = make_repository(base / "replayed-repo", files=400)
    for number, file in enumerate(sorted(path.glob("d*/s*/f*.txt"))):
        if number % 3 == 0:
            file.write_text("changed\n" * number)
        elif number % 7 == 0:
            file.unlink()
    for number in range(50):
        (path / f"new{number}").write_text("new\n" * number)
    git("add", "-A", cwd=path)
    git("commit", "-qm", "two", cwd=path)
    return path


PARALLEL = ("-c", "checkout.workers=8", "-c", "checkout.thresholdForParallelism=1")
WORKLOADS = {
    "clone": (False, lambda w, repo: (*GIT, "-C", w, "clone", "-q", f"file://{repo}", "r")),
    "checkout": (True, lambda w, repo: (*GIT, "-C", w / "r", "checkout", "-q", "HEAD~1")),
    "checkout8": (True, lambda w, repo: (*GIT, "-C", w / "r", *PARALLEL, "checkout", "-q", "HEAD~1")),
    "status": (True, lambda w, repo: (*GIT, "-C", w / "r", "status", "-s")),
    "commit": (True, lambda w, repo: ("sh", "-c", f"cd {w}/r && echo x >new0 && mkdir n && echo y >n/y && git add -A &&"
                                      " git -c user.name=A -c user.email=a@x commit -qm three")),
    "gc": (True, lambda w, repo: (*GIT, "-C", w / "r", "gc", "-q")),
    "rm": (True, lambda w, repo: ("rm", "-rf", w / "r")),
    "tar": (False, lambda w, repo: ("sh", "-c", f"git -C {repo} archive HEAD | tar x -C {w}")),
    "two": (False, lambda w, repo: ("sh", "-c", f"git -C {w} clone -q file://{repo} a &"
                                    f" git -C {w} clone -q file://{repo} b; wait")),
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_same_results_and_tree_on_every_file_system(box, box_on, repository, workload):
    cloned, command = WORKLOADS[workload]
    if cloned:
        git("clone", "-q", f"file://{repository}", "r", cwd=box.src)
    record(box, workload, *command(box.src, repository))
    for kind in FILESYSTEMS:
        target = box_on(kind).src
        summary, _ = replay(box.db, target)
        assert summary["match_rate"] == 1 and summary["mismatched"] == 0 and summary["violations"] == 0
        assert summary["issued"] > summary["recorded"] / 2
        assert_same_tree(target, box.src)


def test_checkout_of_8_workers_again_and_again_and_without_order(box, box_on, repository):
    git("clone", "-q", f"file://{repository}", "r", cwd=box.src)
    record(box, "checkout", *WORKLOADS["checkout8"][1](box.src, repository))
    target = box_on("ext4").src
    for _ in range(5):
        summary, _ = replay(box.db, empty(target))
        assert summary["match_rate"] == 1 and summary["violations"] == 0 and summary["waits"] > 10
    failed = 0
    for _ in range(5):
        _, done = replay(box.db, empty(target), "--no-order", check=False)
        failed += done.returncode == 1
    assert failed >= 4, "the order makes no difference"
    summary, _ = replay(box.db, empty(target), "--threads", "1")
    assert summary["threads"] == 1 and summary["most_at_once"] == 1


def every_operation(top):
    """Each operation that a replay issues, some of them failing."""
    os.mkdir(top / "d", 0o711)
    os.mkdir(top / "d/e")
    file = os.open(top / "d/f", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
    os.write(file, b"x" * 10000)
    os.pwrite(file, b"y" * 100, 50000)
    os.fsync(file)
    os.fdatasync(file)
    os.posix_fallocate(file, 60000, 5000)
    os.ftruncate(file, 70000)
    os.lseek(file, 0, os.SEEK_DATA)
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 5, 0)
    fcntl.fcntl(file, fcntl.F_GETLK, lock)
    fcntl.ioctl(file, 0x80086601, bytearray(8))  # FS_IOC_GETFLAGS
    other = os.open(top / "copy", os.O_WRONLY | os.O_CREAT, 0o600)
    os.copy_file_range(file, other, 5000)
    os.close(other)
    os.unlink(top / "d/f")
    os.fstat(file)
    os.pread(file, 100, 0)
    os.close(file)
    os.symlink("d/e", top / "l")
    os.readlink(top / "l")
    os.mkfifo(top / "p", 0o622)
    os.link(top / "copy", top / "copy2")
    os.rename(top / "copy2", top / "d/e/moved")
    os.rename(top / "d/e", top / "d/g")
    os.setxattr(top / "copy", "user.a", b"value")
    os.getxattr(top / "copy", "user.a")
    os.listxattr(top / "copy")
    os.setxattr(top / "copy", "user.b", b"gone")
    os.removexattr(top / "copy", "user.b")
    os.chmod(top / "copy", 0o4751)
    os.utime(top / "copy", ns=(1_000_000_007, 2_000_000_009))
    os.utime(top / "l", ns=(5, 7), follow_symlinks=False)
    os.statvfs(top)
    with open(top / "log", "ab") as log:
        log.write(b"one\n")
    with open(top / "log", "ab") as log:
        log.write(b"two\n")
    assert sorted(os.listdir(top)) == ["copy", "d", "l", "log", "p"]
    handle = os.open(top / "d", os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    for action in (lambda: os.mkdir(top / "d"), lambda: os.rmdir(top / "d"), lambda: os.stat(top / "absent"),
                   lambda: os.unlink(top / "absent"), lambda: os.getxattr(top / "copy", "user.absent"),
                   lambda: os.open(top / "copy", os.O_CREAT | os.O_EXCL)):
        with pytest.raises(OSError):
            action()
    os.mkdir(top / "gone")
    os.rmdir(top / "gone")
    libc = ctypes.CDLL(None)
    libc.renameat2(-100, os.fsencode(top / "log"), -100, os.fsencode(top / "copy"), 2)  # RENAME_EXCHANGE


def test_every_operation_and_its_contents(any_box, box_on):
    any_box.recorded(every_operation, cache="never", data="full")
    target = box_on(any_box.fs_type).src
    summary, _ = replay(any_box.db, target)
    assert summary["mismatched"] == 0
    recorded = {row["op"] for row in Database(any_box.db).rows("SELECT DISTINCT op FROM ops")}
    assert {"setlk", "getlk", "flock", "ioctl", "copy_file_range", "fallocate", "lseek", "setxattr", "removexattr",
            "mknod", "link", "symlink", "rename", "fsyncdir", "statfs"} <= recorded
    (any_box.src / "log").chmod(0o751)  # set-id bits are left out
    assert_same_tree(target, any_box.src, contents=True)
    assert os.stat(target / "log").st_mtime_ns == 2_000_000_009
    assert os.lstat(target / "l").st_mtime_ns == 7
    assert os.getxattr(target / "log", "user.a") == b"value"
    replay(any_box.db, empty(target), "--allow-setid")
    assert stat.S_IMODE(os.stat(target / "log").st_mode) == 0o4751


def test_a_replay_is_a_run_of_its_own(box, repository):
    record(box, "tar", *WORKLOADS["tar"][1](box.src, repository))
    target, into = box.top / "t", box.store / "into.db"
    target.mkdir()
    summary, _ = replay(box.db, target, "--into", into, "-l", "again")
    replay(box.db, os.path.relpath(empty(target)), "--into", box.db, "-l", "again")  # and is stored from the root
    for db, original in ((into, 1), (box.db, 1)):
        assert run(FSTAPE, "check", db).returncode == 0
        assert not pathlib.Path(f"{db}-wal").exists()
        db = sqlite3.connect(db)
        row = db.execute("SELECT id, replay_run, recorded, state, source FROM run WHERE label = 'again'").fetchone()
        assert row[1:] == (original, summary["issued"], "done", str(target))
        count = db.execute("SELECT count(*) FROM ops JOIN replayed USING (run, seq) WHERE run = ? AND fs_ns > 0"
                           " AND fs_ns <= dur_ns AND path IS NOT NULL AND comm = 'tar'", row[:1]).fetchone()[0]
        assert count > summary["issued"] * 0.9
    db = sqlite3.connect(box.db)
    wrong = db.execute("SELECT count(*) FROM replayed AS r JOIN op AS a ON a.run = r.run AND a.seq = r.seq"
                       " JOIN op AS o ON o.run = 1 AND o.seq = r.original"
                       " WHERE a.op <> o.op OR a.path <> o.path OR r.expected <> o.result").fetchone()[0]
    assert wrong == 0
    told = "SELECT count(*) FROM replayed AS r JOIN git_ops AS a ON a.run = r.run AND a.seq = r.seq" \
           " JOIN git_ops AS o ON o.run = 1 AND o.seq = r.original WHERE (a.phase, a.command) IS "
    assert db.execute(told + "(o.phase, o.command)").fetchone()[0] == summary["issued"]
    assert run(FSTAPE, "git", "--run", "again", into).stderr == ""
    assert "create" in run(FSTAPE, "stats", "--run", "again", into).stdout


def test_operations_that_are_not_issued_have_no_times(box):
    """The kernel asks for capabilities before a write, and a replay does not: that took no time at all, not 0 ns."""
    record(box, "write", "sh", "-c", "echo text >file")
    target = box.top / "t"
    target.mkdir()
    table = run(FSTAPE, "replay", "--show", "operations", "--format", "json", box.db, target)
    rows = {row["op"]: (row["fs_mean_ns"], row["original_fs_mean_ns"], row["ratio"]) for row in json.loads(table.stdout)}
    assert rows["getxattr"] == (None, None, None)
    assert all(number > 0 for number in rows["write"])


def test_mismatches_are_told(box):
    record(box, "rm", "true")
    (box.src / "a").write_text("12345")
    record(box, "cat", "sh", "-c", f"cat {box.src}/a; mkdir {box.src}/d")
    target = box.top / "t"
    target.mkdir()
    done = run(FSTAPE, "replay", "--start-state", "none", box.db, target, check=False)
    assert done.returncode == 1 and "ENOENT" in done.stdout and "Results that differ" in done.stdout
    table = ("--show", "mismatches", "--format")
    done = run(FSTAPE, "replay", "--allow-mismatch", "--start-state", "none", *table, "json", box.db, empty(target))
    rows = json.loads(done.stdout)
    assert ("a", "ok", "ENOENT") in {(row["path"], row["expected"], row["got"]) for row in rows}
    (target / "a").write_text("123")
    done = run(FSTAPE, "replay", "--start-state", "keep", *table, "csv", box.db, target, check=False)
    assert done.returncode == 1
    assert ",mkdir,d,ok,EEXIST" in done.stdout and ",read,a,5,3" in done.stdout


def test_listings_are_compared_as_sets(box):
    for number in range(300):
        (box.src / f"file{number}").write_text("x")
    record(box, "ls", "ls", "-f", box.src)
    target = box.top / "t"
    target.mkdir()
    replay(box.db, target)
    os.rename(target / "file7", target / "fileX")
    _, done = replay(box.db, target, "--start-state", "keep", check=False)
    assert done.returncode == 1


def test_pauses_are_kept_when_they_are_asked_for(box):
    record(box, "slow", "sh", "-c", f"echo x >{box.src}/a; sleep 0.5; cat {box.src}/a; sleep 0.3; rm {box.src}/a")
    target = box.top / "t"
    target.mkdir()
    fast, _ = replay(box.db, target)
    slow, _ = replay(box.db, empty(target), "--speed", "recorded")
    twice, _ = replay(box.db, empty(target), "--speed", "2")
    assert fast["wall_ns"] < 600e6  # less than the pauses, with time for a slow machine
    assert 780e6 < slow["wall_ns"] < 2400e6
    assert 380e6 < twice["wall_ns"] < slow["wall_ns"]


def test_plan_and_explanation(box):
    record(box, "write", "sh", "-c", f"echo x >{box.src}/a; (rm {box.src}/a); mkdir {box.src}/a")
    rows = json.loads(run(FSTAPE, "replay", "--dry-run", "--format", "json", box.db).stdout)
    plan = {row["name"]: row["value"] for row in rows}
    assert plan["operations"] == Database(box.db).value("SELECT count(*) FROM op")
    assert plan["issued"] + plan["duplicate"] + plan["kernel"] + plan["forget"] == plan["operations"]
    rows = json.loads(run(FSTAPE, "replay", "--explain", "a", "--format", "json", box.db).stdout)
    ops = {row["seq"]: row["op"] for row in rows}
    assert [op for op in ops.values() if op in ("create", "unlink", "mkdir")] == ["create", "unlink", "mkdir"]
    assert any(row["not_issued"] for row in rows if row["op"] == "lookup")
    one = json.loads(run(FSTAPE, "replay", "--explain", str(rows[0]["seq"]), "--format", "json", box.db).stdout)
    assert one[0]["seq"] == rows[0]["seq"]
    assert run(FSTAPE, "replay", "--explain", "no/such", box.db, check=False).returncode == 1


def test_bad_words(box):
    record(box, "true", "true")
    target = box.top / "t"
    target.mkdir()
    for words, status, text in (
            ((box.db,), 2, "TARGET"),
            ((box.db, box.top / "absent"), 1, "absent"),
            ((box.db, box.db), 1, "Not a directory"),
            (("--speed", "0", box.db, target), 2, "--speed"),
            (("--speed", "nan", box.db, target), 2, "--speed"),
            (("--threads", "0", box.db, target), 2, "--threads"),
            (("--dry-run", box.db, target), 2, "none"),
            (("--run", "7", box.db, target), 1, "no run"),
            (("--into", "/no/such/dir/x.db", box.db, target), 1, "/no/such/dir/x.db")):
        done = run(FSTAPE, "replay", *words, check=False)
        assert done.returncode == status and text in done.stderr, (words, done.stderr)
    done = run(FSTAPE, "replay", "--into", target / "x.db", box.db, target, check=False)
    assert done.returncode == 1 and "inside what is replayed" in done.stderr and os.listdir(target) == []
    (target / "precious").write_text("x")
    done = run(FSTAPE, "replay", "--into", box.top / "x.db", box.db, target, check=False)
    assert done.returncode == 1 and "not empty" in done.stderr
    assert os.listdir(target) == ["precious"] and not os.path.exists(box.top / "x.db")


def test_names_that_are_too_long(box):
    """FUSE hands them to us, the filesystem refuses them: recordings of that are replayed without them."""
    script = ("import os\n"
              "for call in (lambda: open('x' * 256, 'w'), lambda: os.mkdir('y' * 300), lambda: os.unlink('z' * 256),\n"
              "             lambda: os.rename('a', 'b' * 256), lambda: os.link('a', 'c' * 256), lambda: os.symlink('a', 'd' * 256)):\n"
              "    open('a', 'w').close()\n"
              "    try: call()\n"
              "    except OSError: pass\n"
              "    else: raise SystemExit('made')")
    record(box, "long", "python3", "-c", script)
    assert Database(box.db).value("SELECT count(*) FROM ops WHERE length(path) > 255 AND error = 'ENAMETOOLONG'") >= 6
    target = box.top / "t"
    target.mkdir()
    replay(box.db, target)
    assert os.listdir(target) == ["a"]
    rows = json.loads(run(FSTAPE, "replay", "--dry-run", "--format", "json", box.db).stdout)
    assert json.dumps(rows).count("too_long") == 1


def test_bound_of_what_is_written(box):
    record(box, "dd", "dd", "if=/dev/zero", f"of={box.src}/a", "bs=1M", "count=3", "status=none")
    target = box.top / "t"
    target.mkdir()
    done = run(FSTAPE, "replay", "--max-bytes", "1M", box.db, target, check=False)
    assert done.returncode == 1 and "--max-bytes" in done.stderr
    assert os.listdir(target) == []
    replay(box.db, target, "--max-bytes", "4M")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped(box, number):
    record(box, "slow", "sh", "-c", f"echo x >{box.src}/a; sleep 5; rm {box.src}/a")
    target, into = box.top / "t", box.store / "into.db"
    target.mkdir()
    child = subprocess.Popen([FSTAPE, "replay", "--speed", "recorded", "--into", into, box.db, target],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 20
    while not (target / "a").exists() and time.monotonic() < end:
        time.sleep(0.02)
    child.send_signal(number)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 1 and "stopped" in err
    row = sqlite3.connect(into).execute("SELECT clean_end, note FROM run").fetchone()
    assert row[0] == 0 and "stopped" in row[1]


# --- recordings of strangers ------------------------------------------------------------------------------------------


def doctored(box, *statements):
    """A recording of a few operations, changed by somebody who means harm."""
    (box.src / "old").mkdir()
    record(box, "few", "sh", "-c",
           f"cd {box.src}; mkdir d; echo x >d/f; ln -s f d/l; cat d/f; ls d; mv d/f d/g; rm d/g")
    db = sqlite3.connect(box.db)
    for statement in statements:
        db.executescript(statement)
    db.close()


OUTSIDE = "the file that must not be touched"
HOSTILE = {
    "up": "UPDATE path SET path = '../../' || path WHERE path LIKE 'd%'",
    "up in the middle": "UPDATE path SET path = 'd/..' WHERE path = 'd/f'",
    "absolute": "UPDATE path SET path = '/etc/passwd' WHERE path = 'd/f'",
    "dots": "UPDATE path SET path = '.' WHERE path = 'd'",
    "far": "UPDATE op SET offset = 1 << 62 WHERE op = 16",
    "long": "UPDATE op SET length = 1 << 62 WHERE op IN (15, 16)",
    "negative": "UPDATE op SET offset = -5 WHERE op = 16",
    "unknown directory": "UPDATE op SET parent = 12345, path = path + 1000 WHERE op = 9",
    "circle": "UPDATE path SET parent = id",
    "no operation": "UPDATE op SET op = 99 WHERE op = 9",
    "time": "UPDATE op SET start_ns = -1",
    "many threads": "UPDATE process SET tid = -tid, start_ticks = 0",
    "numbers": "UPDATE op SET seq = seq + (1 << 40)",
    "handles": "UPDATE op SET fh = fh + 1000 WHERE op = 16",
    "one handle": "UPDATE op SET fh = 1",
    "one node": "UPDATE op SET node = 1",
    "no nodes": "UPDATE op SET node = NULL, parent = NULL",
    "json": "INSERT INTO op_extra (run, id, args) VALUES (1, 999999, '{'); UPDATE op SET extra = 999999 WHERE op = 1",
    "deep": "UPDATE path SET path = replace(hex(zeroblob(500000)), '00', 'a/') || path WHERE path = 'd/f'",
    "long name": "UPDATE path SET path = 'd/' || hex(zeroblob(200)) WHERE path = 'd/f'",
    "many handles": "UPDATE op SET fh = (1 << 62) + seq WHERE fh IS NOT NULL",
    "results": "UPDATE op SET result = -(1 << 40) WHERE op = 9",
    "text": "UPDATE initial SET target = '/etc' WHERE path > 0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_strangers_recording(box, name):
    doctored(box, HOSTILE[name])
    outside, target = box.top / "outside", box.top / "outside/t"
    outside.mkdir()
    target.mkdir()
    (outside / "file").write_text(OUTSIDE)
    done = run(FSTAPE, "replay", "--allow-mismatch", box.db, target, check=False, timeout=60)
    assert done.returncode in (0, 1), (done.returncode, done.stderr)
    assert sorted(os.listdir(outside)) == ["file", "t"]
    assert (outside / "file").read_text() == OUTSIDE
    assert done.returncode == 0 or done.stderr.startswith("fstape: "), done.stderr


def test_writing_through_a_link_that_leads_out(box):
    """The recording makes a symlink, and goes on as if it were a directory and a file."""
    outside, target = box.top / "outside", box.top / "t"
    outside.mkdir()
    target.mkdir()
    (outside / "file").write_text(OUTSIDE)
    record(box, "few", "sh", "-c",
           f"cd {box.src}; mkdir l; echo x >l/file; echo more >>l/file; chmod 777 l/file; rm l/file")
    db = sqlite3.connect(box.db)
    code = dict(db.execute("SELECT name, code FROM op_type"))
    node, path = db.execute("SELECT node, path FROM op WHERE op = ?", (code["mkdir"],)).fetchone()
    text = db.execute("SELECT max(id) + 1 FROM path").fetchone()[0]
    db.execute("INSERT INTO path (run, id, parent, path) VALUES (1, ?, 0, ?)", (text, str(outside)))
    db.execute("INSERT INTO op_extra (run, id, path2) VALUES (1, 999999, ?)", (text,))
    db.execute("UPDATE op SET op = ?, extra = 999999 WHERE op = ?", (code["symlink"], code["mkdir"]))
    db.commit()
    db.close()
    done = run(FSTAPE, "replay", "--show", "mismatches", box.db, target, check=False)
    assert done.returncode == 1 and os.readlink(target / "l") == str(outside)
    assert (outside / "file").read_text() == OUTSIDE and os.listdir(outside) == ["file"]
    assert "ENOTDIR" in done.stdout or "ELOOP" in done.stdout


def test_devices_only_when_allowed(box):
    record(box, "mknod", "mknod", box.src / "null", "c", "1", "3")
    target = box.top / "t"
    target.mkdir()
    done = run(FSTAPE, "replay", box.db, target, check=False)
    assert done.returncode == 1 and "--allow-devices" in done.stderr and os.listdir(target) == []
    replay(box.db, target, "--allow-devices")
    assert stat.S_ISCHR(os.stat(target / "null").st_mode)


def test_locks_of_processes(box):
    """Locks through two open files of one process are one set; closing either gives up all of them."""
    (box.src / "file").write_text("x" * 100)
    script = """
import fcntl, os, sys
first, second = (os.open(sys.argv[1], os.O_RDWR) for _ in range(2))
fcntl.lockf(first, fcntl.LOCK_EX, 10, 0)
fcntl.lockf(second, fcntl.LOCK_EX, 20, 5)
def other():
    if os.fork() == 0:
        file = os.open(sys.argv[1], os.O_RDWR)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
        except OSError:
            pass
        os._exit(0)
    os.wait()
other()
os.close(second)
other()
"""
    record(box, "locks", "python3", "-c", script, box.src / "file")
    db = sqlite3.connect(box.db)
    results = [row[0] for row in db.execute("SELECT error FROM ops WHERE op = 'setlk' ORDER BY seq")]
    assert results[:3] == [None, None, "EAGAIN"] and results[3] is None
    target = box.top / "t"
    target.mkdir()
    replay(box.db, target)


def test_lock_that_was_waited_for(box):
    (box.src / "file").write_text("x")
    script = f"exec 9>{box.src}/file; flock 9; (exec 8>{box.src}/file; flock 8; echo y >&8) & sleep 0.3; flock -u 9; wait"
    record(box, "flock", "bash", "-c", script)
    target = box.top / "t"
    target.mkdir()
    for _ in range(3):
        summary, _ = replay(box.db, empty(target))
        assert summary["violations"] == 0

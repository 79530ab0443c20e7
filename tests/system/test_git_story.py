# SPDX-License-Identifier: MIT
"""Git's own story of a recording: whose each operation is, in which region and phase, and what `fstape git` makes of it."""
import fcntl
import json
import os
import signal
import sqlite3
import subprocess

import pytest

from harness import FSTAPE, Database, git, make_repository, run, wait_until

WORKERS = ("-c", "checkout.workers=4", "-c", "checkout.thresholdForParallelism=1")
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_AUTHOR_NAME": "A", "LC_ALL": "C",
         "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org"}


@pytest.fixture(scope="session")
def origin(base):
    return make_repository(base / "story-origin", 2000)


def environment(**more):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**plain, **QUIET, **more}


def record(box, *command, env=None, **kwargs):
    """Records the command in the box's directory; the database of its run."""
    done = run(FSTAPE, "record", "-q", box.db, box.src, "--", *command, env=env or environment(), **kwargs)
    box.said = done.stderr
    return Database(box.db, 1)


def answer(box, part, *options):
    return json.loads(run(FSTAPE, "git", "--format", "json", "--show", part, *options, box.db).stdout)


def nothing_left(box):
    assert sorted(os.listdir(box.store)) == ["t.db"]


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_clone_with_workers(box_on, origin, kind):
    box = box_on(kind)
    db = record(box, "git", *WORKERS, "clone", f"file://{origin}", "clone")
    nothing_left(box)
    git_ops = db.value("SELECT count(*) FROM git_ops WHERE comm GLOB 'git*'")
    attributed = db.value("SELECT count(*) FROM git_ops WHERE comm GLOB 'git*' AND command_id IS NOT NULL")
    assert attributed >= 0.99 * git_ops > 10000
    made = "op = 'create' AND error IS NULL AND path GLOB 'clone/*' AND path NOT GLOB 'clone/.git/*'"
    files = db.value(f"SELECT count(*) FROM git_ops WHERE {made}")
    unpacked = db.value(f"SELECT count(*) FROM git_ops WHERE {made} AND region GLOB 'unpack_trees/unpack_trees*'")
    assert files > 2000 and unpacked >= 0.95 * files
    assert db.value(f"SELECT count(DISTINCT sid) FROM git_ops WHERE {made}") == 4
    assert db.value(f"SELECT DISTINCT phase FROM git_ops WHERE {made}") == "checkout"
    assert db.value("SELECT DISTINCT phase FROM git_ops WHERE path GLOB '*/tmp_pack_*'") == "receive pack"
    assert db.value("SELECT count(*) FROM op") == db.value("SELECT count(phase) FROM git_op")
    # what an operation weighs, with its path and its story; the rest of the file does not grow with operations
    weight = db.value("SELECT sum(pgsize) FROM dbstat WHERE name IN ('op', 'op_extra', 'path', 'git_range', 'client_cpu')")
    assert weight / db.value("SELECT count(*) FROM op") <= 51
    # a worker's region is the one that its parent was in
    assert db.value("SELECT count(*) FROM git_command AS c JOIN git_command AS p ON p.run = c.run AND p.id = c.parent"
                    " JOIN git_region AS r ON r.run = c.run AND r.id = c.region"
                    " WHERE c.name = 'checkout--worker' AND p.name = 'clone' AND r.command = p.id") == 4
    real = db.condition()["real_ns"]
    assert db.value("SELECT sum(end_ns - start_ns) FROM git_span") == real
    phases = answer(box, "phases")
    assert abs(sum(row["wall_ns"] for row in phases) - real) <= 0.01 * real
    assert all(row["wall_git_ns"] >= 0 and row["wall_fs_ns"] >= 0 and row["wall_shim_ns"] >= 0 for row in phases)
    assert sum(row["count"] for row in phases) == db.condition()["recorded"]
    assert sum(row["fs_ns"] for row in phases) == db.value("SELECT sum(fs_ns) FROM op")
    steps = {(row["op"], row["place"], row["error"]): row for row in answer(box, "anatomy")}
    assert steps["create", "worktree", False]["count"] == files
    assert 0.9 < steps["create", "worktree", False]["per_file"] <= 1
    assert 1 <= len(answer(box, "findings")) <= 3
    index = [row for row in answer(box, "locks") if row["lock"] == "clone/.git/index.lock"]
    assert len(index) == 1 and index[0]["renamed"] == 1 and 0 < index[0]["held_ns"] < real


@pytest.mark.parametrize("kind", ["xfs", "btrfs"])
def test_the_filesystem_s_own_counters(box_on, kind):
    db = record(box_on(kind), "sh", "-c", "touch f && sync f && sleep 0.2")
    device = os.path.basename(db.condition()["device"])
    counted = {row[0] for row in db.connection.execute("SELECT DISTINCT name FROM host_sample WHERE source = ?",
                                                       (f"{kind}:{device}",))}
    assert counted >= ({"log_force", "trans_sync"} if kind == "xfs" else {"commits", "commit_time"})
    assert db.value("SELECT max(value) - min(value) FROM host_sample WHERE source = ? AND name = 'writes'",
                    f"disk:{device}") > 0


def test_the_machine_is_sampled(box, origin):
    db = record(box, "sh", "-c", f"git clone -q file://{origin} a && sync && sleep 0.3")
    device = os.path.basename(db.condition()["device"])
    sources = {row[0] for row in db.connection.execute("SELECT DISTINCT source FROM host_sample")}
    assert {f"disk:{device}", "memory", "cpu", f"ext4:{device}"} <= sources
    assert any(source.startswith(f"jbd2:{device}-") for source in sources)
    assert sum(source.startswith("disk:") for source in sources) >= 2  # what holds the image file, too
    change = "SELECT max(value) - min(value) FROM host_sample WHERE source = ? AND name = ?"
    assert db.value(change, f"disk:{device}", "writes") > 0
    assert db.value(change, f"disk:{device}", "flushes") > 0
    times = [row[0] for row in db.connection.execute("SELECT DISTINCT time_ns FROM host_sample ORDER BY 1")]
    assert times[-1] >= db.condition()["real_ns"] * 0.9 and len(times) > 5
    assert {"disk:" + device, "memory"} <= {row["source"] for row in answer(box, "host")}


@pytest.mark.parametrize("kind", ["directory", "file"])
def test_reads_along_where_the_user_has_git_write(box, origin, kind):
    target = box.top / "mine"
    if kind == "directory":
        target.mkdir()
    else:
        target.write_text('{"event":"start","sid":"20200101T000000.000000Z-H1-P00000001","argv":["git","old"]}\nnonsense\n')
        before = target.read_text()
    other = subprocess.Popen(["sh", "-c", "while git --version; do sleep 0.05; done"], stdout=subprocess.DEVNULL,
                             env=environment(GIT_TRACE2_EVENT=str(target)))
    try:
        db = record(box, "git", "clone", "-q", f"file://{origin}", "a", env=environment(GIT_TRACE2_EVENT=str(target)))
    finally:
        other.kill()
        other.wait()
    names = {row[0] for row in db.connection.execute("SELECT name FROM git_command")}
    assert {"clone", "index-pack"} <= names and "version" not in names
    assert db.value("SELECT count(*) FROM git_region WHERE path GLOB 'unpack_trees/*'") > 0
    assert db.condition()["git_bad_lines"] == 0 and db.condition()["git_note"] is None
    if kind == "file":
        assert target.read_text().startswith(before) and "index-pack" in target.read_text()
    else:
        assert len(list(target.iterdir())) > 5
    nothing_left(box)


@pytest.mark.parametrize("value, why", [("0", "switches"), ("1", "neither"), ("af_unix:/tmp/no", "neither")])
def test_a_trace_that_cannot_be_read_along(box, value, why):
    db = record(box, "git", "init", "-q", "a", env=environment(GIT_TRACE2_EVENT=value))
    assert why in db.condition()["git_note"]
    assert db.value("SELECT count(*) FROM git_command") == 0
    assert set(row[0] for row in db.connection.execute("SELECT DISTINCT phase FROM git_ops WHERE comm = 'git'")) & {
        "refs and config", "git, other"}
    said = run(FSTAPE, "git", box.db).stderr
    assert why in said and "no git command told its story" in said


def test_what_git_cannot_have_written(box):
    """Whatever is in the directory: it is counted, said, and no reason to fail."""
    script = r"""
        git init -q a
        printf '{"event":"start","sid":"x-P0000000a","argv":["git"' > "$GIT_TRACE2_EVENT/cut"
        printf '\377\376\n[1,2\n{"event":"data"}\n' > "$GIT_TRACE2_EVENT/garbage"
        mkdir "$GIT_TRACE2_EVENT/folder" && mkfifo "$GIT_TRACE2_EVENT/fifo" && ln -s /dev/zero "$GIT_TRACE2_EVENT/link"
        head -c 3000000 /dev/zero > "$GIT_TRACE2_EVENT/zeros"
        touch "$GIT_TRACE2_EVENT/git-trace2-discard"
    """
    said = run(FSTAPE, "record", box.db, box.src, "--", "sh", "-c", script, env=environment()).stderr
    db = Database(box.db, 1)
    assert db.condition()["git_bad_lines"] == 5 and "5 of" in said
    assert "5 of" in db.condition()["git_note"] and "trace2.maxFiles" in db.condition()["git_note"]
    assert db.value("SELECT count(*) FROM git_command WHERE name = 'init'") == 1


def test_names_in_other_encodings(box):
    name = b"caf\xe9 \x01'\n"
    git("init", "-q", box.src / "a")
    (box.src / "a" / os.fsdecode(name)).write_text("x")
    db = record(box, "git", "-C", "a", "add", "--", os.fsdecode(name))
    assert db.condition()["git_bad_lines"] == 0
    assert db.value("SELECT argv FROM git_command").startswith("git -C a add -- caf\ufffd ")
    run(FSTAPE, "git", box.db)


def test_hooks_and_other_programs(box):
    git("init", "-q", box.src / "a")
    hook = box.src / "a" / ".git" / "hooks" / "pre-commit"
    hook.write_text("#!/bin/sh\ncp seen-by-hook copied-by-hook\n")
    hook.chmod(0o755)
    (box.src / "a" / "seen-by-hook").write_text("x")
    git("add", "seen-by-hook", cwd=box.src / "a")
    db = record(box, "sh", "-c", "cd a && git commit -q -m one && touch made-by-touch && git gc -q")
    phase = "SELECT DISTINCT phase FROM git_ops WHERE op = 'create' AND path = ?"
    command = "SELECT DISTINCT command FROM git_ops WHERE op = 'create' AND path = ?"
    assert db.value(phase, "a/copied-by-hook") == "hooks"
    assert db.value(command, "a/copied-by-hook") == "cp seen-by-hook copied-by-hook"
    assert db.value(phase, "a/made-by-touch") == "other programs"
    assert db.value(command, "a/made-by-touch") == "touch made-by-touch"
    assert db.value("SELECT hook FROM git_child WHERE class = 'hook' AND hook = 'pre-commit'") == "pre-commit"
    phases = {row["phase"]: row for row in answer(box, "phases")}
    assert phases["hooks"]["wall_ns"] > 0 and phases["maintenance"]["wall_ns"] > 0 and phases["pack objects"]["count"] > 0


def test_a_killed_record_leaves_its_story_to_recover(box, origin):
    command = subprocess.Popen(
        [FSTAPE, "record", "-q", box.db, box.src, "--", "sh", "-c", f"git clone -q file://{origin} a; touch end; sleep 100"],
        env=environment(), stderr=subprocess.PIPE)
    wait_until((box.db).exists)

    def cloned():
        spool = box.store / "t.db-spool"
        return spool.exists() and any("atexit" in file.read_text() and '"name":"clone"' in file.read_text()
                                      for file in spool.glob("git-1/*") if file.is_file())
    wait_until(cloned, 60)
    command.send_signal(signal.SIGKILL)
    command.wait()
    command.stderr.close()
    # what it ran ends with the mount
    wait_until(lambda: Database(box.db, 1).condition()["state"] == "done", 60, "the shim's end")
    assert Database(box.db).value("SELECT count(*) FROM git_command") == 0
    run(FSTAPE, "recover", box.db)
    db = Database(box.db)
    assert db.value("SELECT count(*) FROM git_command WHERE name = 'clone'") == 1
    assert db.value("SELECT count(*) FROM git_ops WHERE region GLOB 'unpack_trees/*'") > 2000
    assert not (box.store / "t.db-spool").exists()


def test_a_plain_mount_is_attributed_by_programs_and_paths(box):
    def work(mnt):
        git("init", "-q", mnt / "a")
        (mnt / "a" / "f").write_text("x")
    db = box.recorded(work)
    assert db.value("SELECT count(phase) FROM git_op") == db.value("SELECT count(*) FROM op")
    assert db.value("SELECT DISTINCT phase FROM git_ops WHERE op = 'create' AND path = 'a/f'") == "other programs"
    phase = "SELECT DISTINCT phase FROM git_ops WHERE op = 'create' AND path = 'a/.git/config.lock'"
    assert db.value(phase) == "refs and config"


def test_an_empty_run_and_one_operation(box):
    record(box, "true")
    assert "no operations" in run(FSTAPE, "git", box.db).stdout or answer(box, "phases")
    record(box, "touch", "f")
    text = run(FSTAPE, "git", box.db).stdout
    assert "other programs" in text
    assert len(answer(box, "phases")) >= 1


def test_names_cannot_talk_to_the_terminal(box):
    record(box, "sh", "-c", "mkdir .git; touch \".git/$(printf 'a\\033[2J.lock')\" Cargo.lock; rm .git/*.lock Cargo.lock")
    text = run(FSTAPE, "git", box.db).stdout
    assert "\x1b" not in text and r"a\x1b[2J.lock" in text
    assert [row["lock"] for row in answer(box, "locks")] == [".git/a\x1b[2J.lock"]  # Cargo.lock is none of git's


def test_a_checkout_of_paths_is_one(box, origin):
    git("clone", "-q", "-n", origin, box.src / "a")
    db = record(box, "git", "-C", "a", "checkout", "-q", "HEAD", "--", ".")
    assert db.value("SELECT DISTINCT phase FROM git_ops WHERE op = 'create' AND path = 'a/d0/s0/f0.txt'") == "checkout"
    assert {row["place"] for row in answer(box, "anatomy") if row["op"] == "create"} >= {"worktree"}


def test_a_database_without_attribution(box):
    record(box, "touch", "f")
    with sqlite3.connect(box.db) as db:
        db.execute("DELETE FROM git_range")
        db.execute("DELETE FROM git_span")
    assert "fstape recover" in run(FSTAPE, "git", box.db).stderr
    assert "completed" in run(FSTAPE, "recover", box.db).stdout
    assert run(FSTAPE, "git", box.db).stderr.count("not attributed") == 0


def test_whose_turn_it_is_to_load_the_story_is_said(box):
    """The mount has ended, 'fstape record' is at work on the rest; then it is gone, and has left that to recover."""
    record(box, "touch", "f")
    with sqlite3.connect(box.db) as db:
        db.execute("DELETE FROM git_range")
        db.execute("DELETE FROM git_span")
        db.execute("UPDATE run SET real_ns = NULL")
    page, story = box.store / "page.html", box.store / "t.db-spool" / "git-1"
    story.mkdir(parents=True)

    def said(*command):
        return run(FSTAPE, *command, box.db).stderr

    lock = os.open(story, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert "still at it" in said("git") and "recover" not in said("git")
    assert "still storing" in said("stats") and "killed" not in said("stats")
    done = run(FSTAPE, "recover", box.db)
    assert "run 1" in done.stdout and "left alone" in done.stdout and "nothing to recover" not in done.stdout
    run(FSTAPE, "report", "-o", page, box.db)
    assert "still at it" in page.read_text() and "still storing" in page.read_text()
    os.close(lock)
    assert "ended before it had loaded" in said("git") and "fstape recover" in said("git")
    assert "killed" in said("stats")
    run(FSTAPE, "recover", box.db)
    assert "recover" not in said("git") and "other programs" in run(FSTAPE, "git", box.db).stdout

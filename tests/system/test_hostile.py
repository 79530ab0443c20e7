# SPDX-License-Identifier: MIT
"""Every command on databases of strangers, and on partial runs: an error or an answer, soon; and the truth with it."""
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess

import pytest

from harness import FSTAPE, SLOW, TOP, git, run

DB, OUT = "{db}", "{out}"

# How each command that reads a database is called. A new command has to be put down here, or among the others.
READERS = {
    "runs": (DB,),
    "stats": (DB,),
    "query": (DB, "SELECT op, count(*), sum(fs_ns) FROM ops GROUP BY op"),
    "report": (DB, "-o", OUT),
    "compare": (DB,),
    "git": (DB,),
    "check": (DB,),
    "recover": (DB,),
    "export": (DB, "--format", "json"),
    "replay": (DB, OUT),
    "top": (DB, "--once"),
    "merge": (OUT, DB),
    "anonymize": (DB, OUT),
}
NO_READERS = {"record", "bench", "import", "push", "doctor"}  # they make runs, or need a server
QUIET_ABOUT_PARTS = {"recover", "compare", "merge", "anonymize", "replay"}  # what they say of partial runs has tests of its own
SEEDS = (TOP / "tests/fuzz/trace.seeds").read_text().splitlines()


def commands():
    listed = run(FSTAPE, "help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  (\w+) ", listed, re.M)


def call(name, db, out):
    words = [str(db) if word == DB else str(out) if word == OUT else word for word in READERS[name]]
    return subprocess.run([str(FSTAPE), name, *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60 * SLOW,
                          check=False)


@pytest.fixture(scope="session")
def good(base, filesystems):
    """A recording of git at work, whole and small."""
    top = base / "hostile"
    (top / "src").mkdir(parents=True)
    script = ("git init -q r && cd r && mkdir -p d/e && echo 1 >a && echo 2 >d/e/b && git add . &&"
              " git -c user.name=a -c user.email=a@b commit -q -m x && git status -s && git gc -q")
    run(FSTAPE, "record", "-q", "--label", "it", top / "t.db", top / "src", "bash", "-c", script)
    return top / "t.db"


def expect_an_end(box, what):
    """Each command on box.db: status 0 or 1, no signal, an error in words when it failed."""
    kept = box.db.read_bytes()
    for name in commands():
        if name not in READERS:
            continue
        box.db.write_bytes(kept)
        out = box.store / "out"
        if name == "replay":
            out.mkdir()
        done = call(name, box.db, out)
        where = f"{what}: fstape {name}: status {done.returncode}\n{done.stderr[-2000:]}"
        assert done.returncode in (0, 1), where
        assert b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr, where
        assert done.returncode == 0 or done.stderr.startswith(b"fstape: ") or (name == "replay" and done.stdout), where
        assert len(done.stderr.splitlines()) < 30, where
        for path in box.store.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path != box.db:
                path.unlink()


def test_each_command_is_known_here():
    assert set(commands()) <= set(READERS) | NO_READERS


@pytest.mark.parametrize("number", range(len(SEEDS)))
def test_what_sql_can_do_to_a_database(good, box, number):
    """The author has used all that SQLite allows: triggers, views, forged schemas, absurd values, circles."""
    shutil.copy(good, box.db)
    connection = sqlite3.connect(box.db)
    try:
        connection.executescript("PRAGMA writable_schema = ON; " + SEEDS[number])
    except sqlite3.Error:
        pass  # half of it is there
    connection.commit()
    connection.close()
    expect_an_end(box, SEEDS[number])


@pytest.mark.parametrize("seed", range(12))
def test_damaged_pages(good, box, seed):
    """Bytes changed, pages swapped, the end cut off."""
    choice = random.Random(seed)
    data = bytearray(good.read_bytes())
    for _ in range(choice.choice([1, 5, 200])):
        at = choice.randrange(100, len(data))
        data[at] = choice.randrange(256)
    if seed % 3 == 0:
        pages = len(data) // 4096
        one, other = choice.randrange(1, pages), choice.randrange(1, pages)
        data[one * 4096:one * 4096 + 4096], data[other * 4096:other * 4096 + 4096] = \
            data[other * 4096:other * 4096 + 4096], data[one * 4096:one * 4096 + 4096]
    if seed % 4 == 1:
        del data[choice.randrange(len(data)):]
    box.db.write_bytes(data)
    expect_an_end(box, f"seed {seed}")


def test_the_first_page_of_each_table(good, box):
    """Each table and index in turn cannot be read: each command that needs it says so."""
    data = good.read_bytes()
    with sqlite3.connect(good) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
        roots = connection.execute("SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0").fetchall()
    assert len(roots) > 20
    for name, page in roots:
        box.db.write_bytes(data[:(page - 1) * size] + b"\xff" * size + data[page * size:])
        expect_an_end(box, name)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(4080), b"\x00" * 8192])
def test_files_that_only_look_like_one(box, content):
    box.db.write_bytes(content)
    expect_an_end(box, content[:20])


def test_special_files(box):
    """A device or a FIFO as database is refused, and not read for ever."""
    os.mkfifo(box.store / "fifo")
    (box.store / "link").symlink_to(box.store / "link")
    for name in commands():
        if name not in READERS:
            continue
        for path in ("/dev/zero", "/dev/null", box.store / "fifo", box.store / "link", box.store, "/proc/self/mem"):
            out = box.store / "out"
            done = call(name, path, out)
            assert done.returncode in (1, 2) and done.stderr.startswith(b"fstape: "), (name, path, done)


@pytest.fixture
def partial(box):
    """A run whose recorder was killed."""
    made = box.mount(load="end", label="half").start()
    git("init", "-q", made.mnt / "r")
    for number in range(50):
        (made.mnt / f"f{number}").touch()
    made.kill()
    run("umount", "-l", made.mnt)
    run(FSTAPE, "recover", "-q", box.db)
    return box.db


def test_each_command_says_that_a_run_is_partial(partial, box):
    for name in commands():
        if name not in READERS or name in QUIET_ABOUT_PARTS:
            continue
        done = call(name, partial, box.store / "out.html")
        lines = [line for line in done.stderr.decode().splitlines() if "partial" in line]
        text = done.stdout.decode(errors="replace")
        assert len(lines) == 1 or (name == "runs" and "partial" in text), (name, done)
        assert name == "runs" or ("run 1 (half)" in lines[0] and "killed" in lines[0]), lines
        if name == "report":
            assert "killed" in (box.store / "out.html").read_text(), "the page says so, too"


def test_json_says_that_a_run_is_partial(partial):
    assert [row["complete"] for row in json.loads(run(FSTAPE, "runs", "--format", "json", partial).stdout)] == [False]
    assert {row["complete"] for row in json.loads(run(FSTAPE, "stats", "--format", "json", partial).stdout)} == {False}
    for more in ([], ["--rounds"]):
        compared = run(FSTAPE, "compare", "--run", "half", "--format", "json", *more, partial)
        assert [row["complete"] for row in json.loads(compared.stdout)] == [False]
        assert "run 1 (half) is partial" in compared.stderr


def test_a_run_without_times_is_not_compared_by_time(partial, box):
    """Who measures the command was killed: its time is unknown, which is not zero."""
    run(FSTAPE, "record", "-q", "-l", "timed", partial, box.src, "touch", "another")
    db = sqlite3.connect(partial)
    with db:
        db.execute("UPDATE run SET real_ns = NULL, user_ns = NULL, sys_ns = NULL WHERE label = 'half'")
    db.close()
    for baseline, other in (("half", "timed"), ("timed", "half")):
        chosen = ["--run", baseline, "--run", other, "--format", "json", partial]
        rows = {row["target"]: row for row in json.loads(run(FSTAPE, "compare", *chosen).stdout)}
        assert rows["timed"]["real_ns"] > 0 and rows["half"]["real_ns"] is None
        assert rows[other]["ratio"] is None, "of something to nothing, or of nothing to something"
        why = json.loads(run(FSTAPE, "compare", "--why", *chosen).stdout)
        assert why and not [row for row in why if row["share"] is not None or "idle" in row["part"]]

# SPDX-License-Identifier: MIT
"""
The named reports, each against the text in tests/golden/NAME.expected, which was worked out from story.py.

FSTAPE_GOLDEN=write writes the texts anew: look at each difference before it is committed.
"""
import csv
import io
import json
import os
import re
import subprocess

import pytest

import story
from harness import FSTAPE, TOP, run

pytestmark = pytest.mark.without_mounts

FOLDER = TOP / "analyzer" / "reports"
GOLDEN = TOP / "tests" / "golden"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sql"))
# What the story is too short for.
SET = {"stat-storms": ["--set", "min=3"], "pauses": ["--set", "min_us=50"]}
CLASSES = {"w/.git/index.lock": ("index", 1), "w/.git/objects/pack/tmp_pack_A1": ("pack", 0), "w/src/f0": ("worktree", 0),
           "w/.git/HEAD.lock": ("ref", 1), "w/.git/refs/heads/x.lock": ("ref", 1), "w": ("worktree", 0), "": ("outside", 0),
           "w/.git/config": ("config", 0), "v/.git/info/grafts": ("config", 0), "w/.git/commondir": ("config", 0),
           "w/.git": ("git", 0), "w/.git/gc.pid.lock": ("git", 1), "elsewhere": ("outside", 0)}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("reports") / "story.db"
    story.tell(path)
    return path


def query(*words, **kwargs):
    return run(FSTAPE, "query", *words, **kwargs)


def report(db, name, *words, form="json", label="story", **kwargs):
    text = query(db, "--report", name, "--run", label, "--format", form, *words, **kwargs).stdout
    return json.loads(text) if form == "json" else text


@pytest.mark.parametrize("name", NAMES)
def test_golden(db, name):
    """Exactly the rows that the story must give."""
    text = report(db, name, *SET.get(name, []), form="table")
    expected = GOLDEN / f"{name}.expected"
    if os.environ.get("FSTAPE_GOLDEN") == "write":
        expected.write_text(text)
    assert text.count("\n") > 2 and text == expected.read_text()


def test_every_golden_text_is_of_a_report():
    assert NAMES == sorted(path.stem for path in GOLDEN.glob("*.expected"))


def test_the_list_has_every_report(db):
    listed = {row["report"]: row for row in json.loads(query("--list", "--format", "json").stdout)}
    assert sorted(listed) == NAMES
    for name, row in listed.items():
        assert row["title"][0].isupper() and len(row["title"]) <= 70 and len(row["about"]) > 40, row
        about = query("--list", "--report", name).stdout
        assert max(map(len, about.splitlines())) <= 80
        assert all(f"--set {param}" in about for param in row["parameters"].split())


def test_the_readme_has_every_report():
    text = (TOP / "README.md").read_text().split("\n## Reports\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", text, re.M)
    listed = json.loads(query("--list", "--format", "json").stdout)
    assert rows == [(row["report"], row["title"]) for row in listed]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", ["empty", "single"])
def test_runs_with_little_in_them(db, name, label):
    rows = report(db, name, label=label)
    assert all(row["run"] for row in rows)


@pytest.mark.parametrize("name", NAMES)
def test_formats_agree(db, name):
    rows = report(db, name, *SET.get(name, []))
    text = subprocess.run([FSTAPE, "query", db, "--report", name, "--run", "story", "--format", "csv", *SET.get(name, [])],
                          check=True, capture_output=True).stdout.decode(errors="surrogateescape")
    table = list(csv.DictReader(io.StringIO(text, newline="")))
    assert len(rows) == len(table) > 0
    for row, line in zip(rows, table):
        assert list(row) == list(line)
        for key, value in row.items():
            if isinstance(value, int):
                assert int(line[key]) == value


@pytest.mark.parametrize("name", NAMES)
def test_sql_runs_in_the_sqlite3_shell(db, name):
    """What --print-sql prints is what one may go on from; it gives the same rows."""
    sql = query("--report", name, "--print-sql").stdout.replace("set :run 1", "set :run 2")
    done = subprocess.run(["sqlite3", "-json", db], input=sql.encode(), capture_output=True, check=True)
    assert done.stderr == b""
    rows = json.loads(done.stdout.decode(errors="replace") or "[]", strict=False)
    assert len(rows) == len(report(db, name))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_take_their_kind(db, name):
    listed = {row["report"]: row for row in json.loads(query("--list", "--format", "json").stdout)}
    for param in listed[name]["parameters"].split():
        key, preset = param.split("=", 1)
        assert len(report(db, name, "--set", f"{key}={preset}")) == len(report(db, name))
        if preset.isdigit():
            done = query(db, "--report", name, "--set", f"{key}=x", check=False)
            assert (done.returncode, done.stdout) == (2, "") and "takes a number" in done.stderr
    done = query(db, "--report", name, "--set", "nonsense=1", check=False)
    assert (done.returncode, done.stdout) == (2, "") and "nonsense" in done.stderr


def test_parameters_are_used(db):
    assert len(report(db, "slowest", "--set", "limit=3")) == 3
    assert len(report(db, "slowest", "--set", "limit=3", "-s", "limit=4")) == 4


def test_several_runs(db):
    rows = json.loads(query(db, "--report", "slowest", "--run", "story", "--run", "single", "--format", "json").stdout)
    assert {row["run"] for row in rows} == {2, 3}
    text = query(db, "--report", "slowest", "--run", "story", "--run", "3").stdout
    assert re.findall(r"^run (\d): ", text, re.M) == ["2", "3"]


@pytest.mark.parametrize("words", [("--report", "slowest"), ("DB", "--report", "none"), ("DB", "SELECT 1", "--report", "slowest"),
                                   ("DB", "--run", "1", "SELECT 1"), ("DB", "--set", "a=1", "SELECT 1"), ("--print-sql",),
                                   ("DB",), ()])
def test_wrong_use(db, words):
    done = query(*[db if word == "DB" else word for word in words], check=False)
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.startswith("fstape: ")


def test_a_database_without_what_a_report_reads(db, tmp_path):
    """Somebody's own file: a message, and not a crash."""
    broken = tmp_path / "broken.db"
    broken.write_bytes(db.read_bytes())
    subprocess.run(["sqlite3", broken, "ALTER TABLE op RENAME COLUMN fs_ns TO other"], check=True)
    done = query(broken, "--report", "slowest", check=False)
    assert done.returncode == 1 and "fs_ns" in done.stderr


def test_classes_of_paths(db):
    rows = json.loads(query(db, "SELECT path, class, lock FROM path_class WHERE run = 2", "--format", "json").stdout)
    found = {row["path"]: (row["class"], row["lock"]) for row in rows}
    assert {name: found[name] for name in CLASSES} == CLASSES


def test_classes_of_nested_repositories(tmp_path):
    """Bare ones, submodules, linked worktrees; and names that only look like git's."""
    from tape import Tape
    expected = {"x.git/objects/pack/p.idx": "pack", "x.git/refs/heads/m": "ref", "x.git/HEAD": "ref", "x.git": "git",
                "w/.git/HEAD": "ref", "w/.git/modules/lib/a/objects/12/34": "object", "w/.git/modules/lib/a/index": "index",
                "w/.git/modules/lib/a/refs/heads/m": "ref", "w/.git/worktrees/v/index.lock": "index",
                "w/.git/worktrees/v/HEAD": "ref", "w/.git/worktrees/v/logs/HEAD": "log", "w/.git/logs/refs/heads/m": "log",
                "w/.git/refs/heads/objects/pack/x": "ref", "w/.gitignore": "worktree", "w/.github/index": "worktree",
                "w/config.lock": "worktree", "wx": "outside", "w/.git/objects/info/commit-graph.lock": "pack",
                "w/.git/COMMIT_EDITMSG": "git", "w/.git/hooks/pre-commit": "hooks", "w/.git/sharedindex.12": "index"}
    tape = Tape(tmp_path / "t.db")
    tape.begin()
    process = tape.process("git", 1)
    for name in expected:
        tape.op("lookup", name, process, 1000)
    tape.end()
    tape.close()
    rows = json.loads(query(tmp_path / "t.db", "SELECT path, class FROM path_class", "--format", "json").stdout)
    found = {row["path"]: row["class"] for row in rows}
    assert {name: found[name] for name in expected} == expected

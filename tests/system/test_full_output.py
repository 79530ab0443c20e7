# SPDX-License-Identifier: MIT
"""What cannot be written out says so: why, and which file; and nothing that looks like a result is left."""
import os
import re
import subprocess

import pytest

from harness import FSTAPE, run

NO_SPACE = "No space left on device"
FORMATS = ["csv", "json", "ndjson", "perfetto", "folded", "fio"]
TABLES = ["table", "csv", "json"]

# Of each command that reads a recording, all ways to have much or little of it on standard output.
PRINTED = {
    "runs": [["--format", form, "DB"] for form in TABLES],
    "stats": [["--format", form, "DB"] for form in TABLES],
    "git": [["--format", form, "DB"] for form in TABLES],
    "query": [["--format", form, "DB", "SELECT * FROM ops"] for form in TABLES] + [["--list"]],
    "compare": [["--run", "1", "--format", form, "DB"] for form in TABLES],
    "report": [["-o", "-", "DB"]],
    "export": [["--format", form, "DB"] for form in FORMATS],
    "check": [["DB"]],
}
CASES = [[command, *words] for command, each in PRINTED.items() for words in each]


@pytest.fixture(scope="module")
def tape(base, tmp_path_factory):
    """Much more than a stream holds back; the command line has what a whole page shows."""
    top = tmp_path_factory.mktemp("full")
    (top / "src").mkdir()
    run(FSTAPE, "record", "-q", top / "t.db", top / "src", "--", "sh", "-c", "for i in $(seq 300); do echo $i >f$i; done")
    return top / "t.db"


@pytest.fixture
def tiny(tmp_path):
    """A disk without room."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", tmp_path], check=True)
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


def to_full(words, **more):
    with open("/dev/full", "w", encoding="ascii") as full:
        return subprocess.run([FSTAPE, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False, **more)


def complaints(stderr):
    return [line for line in stderr.splitlines() if "cannot write" in line]


@pytest.mark.parametrize("words", CASES, ids=" ".join)
def test_standard_output_that_is_full(tape, words):
    done = to_full([str(tape) if word == "DB" else word for word in words])
    assert done.returncode == 1
    assert complaints(done.stderr) == [f"fstape: cannot write to standard output, /dev/full: {NO_SPACE}"], done.stderr


def test_help_that_finds_no_room():
    listed = set(re.findall(r"^  ([a-z]+) ", run(FSTAPE, "help").stdout, re.M))
    assert listed >= set(PRINTED)
    for words in (["help"], ["--version"], *([command, "--help"] for command in sorted(listed))):
        assert to_full(words).returncode == 1, words


@pytest.mark.parametrize("words", [["export", "--format", form] for form in FORMATS] + [["report"]], ids=" ".join)
def test_a_file_on_a_full_disk(tape, tiny, words):
    if words[-1] == "folded":
        (tiny / "fill").write_bytes(bytes(16 << 10))
    before = os.listdir(tiny)
    done = run(FSTAPE, *words, "-o", tiny / "out", tape, check=False)
    assert done.returncode == 1 and os.listdir(tiny) == before
    assert complaints(done.stderr) == [f"fstape: cannot write {tiny}/out: {NO_SPACE}"], done.stderr
    done = run(FSTAPE, *words, "-o", "/dev/full", tape, check=False)
    assert done.returncode == 1 and complaints(done.stderr) == [f"fstape: cannot write /dev/full: {NO_SPACE}"], done.stderr


def test_an_old_result_stays_when_there_is_no_room_for_the_new_one(tape, tiny):
    (tiny / "out.html").write_text("old")
    assert run(FSTAPE, "report", "-o", tiny / "out.html", tape, check=False).returncode == 1
    assert os.listdir(tiny) == ["out.html"] and (tiny / "out.html").read_text() == "old"


def test_no_room_to_sort(tape, tiny):
    sql = "SELECT a.seq, b.path || hex(zeroblob(2000)) FROM ops a, ops b WHERE a.seq < 40 ORDER BY 2 DESC"
    done = run(FSTAPE, "query", tape, sql, check=False, env={**os.environ, "SQLITE_TMPDIR": str(tiny)})
    assert done.returncode == 1 and done.stdout == ""
    assert NO_SPACE in done.stderr and "SQLITE_TMPDIR" in done.stderr, done.stderr


def test_a_reader_that_has_gone_is_no_news(tape):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as out:
        done = subprocess.run([FSTAPE, "export", "--format", "csv", tape], stdout=out, stderr=subprocess.PIPE, text=True,
                              check=False, restore_signals=False)
    assert done.returncode == 1 and done.stderr == ""

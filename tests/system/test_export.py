# SPDX-License-Identifier: MIT
"""fstape export: each format is read back by rules of its own, not by ours, and holds what the recording holds."""
import collections
import csv
import io
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import story
from harness import FSTAPE, Database, run
from tape import Tape

pytestmark = pytest.mark.without_mounts

US, MS = 1000, 1000_000
ODD = b"a;b \n\t\\\xff\"<x>"


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "story.db"
    story.tell(path)
    return path


@pytest.fixture
def odd(tmp_path):
    """Names that separate fields, lines and frames; requests of one thread that overlap; a trace2 that contradicts itself."""
    tape = Tape(tmp_path / "odd.db")
    tape.begin("odd")
    git = tape.process("gi;t", 100, cmdline="git;\nclone\xe9")
    helper = tape.process("sh", 100, tid=105)
    later = tape.process("ssh", 100, tid=105)  # the same thread after exec
    name = ODD + b"/" + ODD
    tape.op("mkdir", ODD, git, 10 * US)
    for number in range(3):
        tape.op("create", name + b"%d" % number, git, 10 * US)
    for number in range(3):
        tape.op("write", name + b"%d" % number, helper, 10 * US, result=100, length=100, offset=0, at=tape.now - 4 * US)
    for number in range(3):
        tape.op("release", name + b"%d" % number, later, 50 * US, at=tape.now - 40 * US)
    tape.op("create", b"l" * 200 + b"/" + b"m" * 100, git, US)
    tape.op("lookup", "gone", git, 0, shim=0)
    tape.end()
    tape.db.executemany("INSERT INTO git_command (run, id, sid, pid, name, argv, start_ns, end_ns) VALUES (1, ?, ?, ?, ?, ?, ?, ?)", [
        (1, "s1", 100, "clone", "git clone \xe9\n\"x\"", 0, 400 * US), (2, "s2", 999, "upload-pack", "git upload-pack", 50 * US, 90 * US)])
    regions = [(1, "main", 100, 300), (1, "main", 100, 300), (1, "main", 150, 900), (1, "main", 200, 250), (1, "main", 250, 260),
               (1, "main", 255, 280), (1, "th01", 10, 20), (1, "th01", 15, 30), (2, "main", 40, 95), (1, "main", -50, 20),
               (1, "main", 200, 100)]
    tape.db.executemany("INSERT INTO git_region VALUES (1, ?, ?, NULL, NULL, ?, 1, 'c', 'l', 'mess\nage', ?, ?, 'c/l')", [
        (number, command, thread, start * US, end * US) for number, (command, thread, start, end) in enumerate(regions, 1)])
    tape.close()
    return tmp_path / "odd.db"


def export(db, form, *words, **kwargs):
    return subprocess.run([FSTAPE, "export", db, "--format", form, *words], check=True, capture_output=True, **kwargs).stdout


def rows_of(db, run_number):
    return Database(db).rows("SELECT * FROM ops WHERE run = ? ORDER BY seq", run_number)


@pytest.mark.parametrize("form", ["csv", "json", "ndjson"])
@pytest.mark.parametrize("which", ["db", "odd"])
def test_rows(request, form, which):
    """Every operation with every column of the view."""
    path = request.getfixturevalue(which)
    number = 2 if which == "db" else 1
    text = export(path, form, "--run", str(number))
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(os.fsdecode(text), newline="")))
    elif form == "json":
        rows = json.loads(text)
    else:
        assert text.endswith(b"\n")
        rows = [json.loads(line) for line in text.splitlines()]
    wanted = rows_of(path, number)
    assert len(rows) == len(wanted) > 10
    for row, want in zip(rows, wanted):
        assert set(want) <= set(row) and {"command", "region", "phase"} <= set(row)
        for key, value in want.items():
            if form == "csv":
                assert row[key] == ("" if value is None else str(value)), key
            elif isinstance(value, str):
                assert row[key] == os.fsencode(value).decode(errors="replace") or "\ufffd" in row[key]
            else:
                assert row[key] == value, key


def test_no_rows(db):
    assert json.loads(export(db, "json", "--run", "empty")) == []
    assert export(db, "ndjson", "--run", "empty") == b"" == export(db, "folded", "--run", "empty")
    assert export(db, "csv", "--run", "empty").count(b"\n") == 1
    assert json.loads(export(db, "perfetto", "--run", "empty"))["traceEvents"] == []
    assert export(db, "fio", "--run", "empty") == b"fio version 3 iolog\n"


def test_several_runs(db):
    rows = json.loads(export(db, "json", "--run", "story", "--run", "single"))
    assert {row["run"] for row in rows} == {2, 3}
    check_trace(json.loads(export(db, "perfetto", "--run", "story", "--run", "single", "--run", "story")))


def check_trace(trace):
    """
    The rules of the trace event format, and that a viewer can stack the slices of a track: they are disjoint or nested
    also when microseconds are read as doubles and cut to nanoseconds. Returns {track: slices}.
    """
    slices, threads, processes, owners = collections.defaultdict(list), {}, {}, {}
    for event in trace["traceEvents"]:
        assert event["ph"] in "XMC" and isinstance(event["pid"], int) and isinstance(event["name"], str)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            if event["name"] == "thread_name":
                threads[event["pid"], event["tid"]] = event["args"]["name"]
            else:
                processes[event["pid"]] = event["args"]["name"]
        elif event["ph"] == "C":
            assert event["ts"] >= 0 and all(isinstance(value, (int, float)) for value in event["args"].values())
        else:
            assert event["ts"] >= 0 and event["dur"] >= 0 and isinstance(event["args"], dict) and isinstance(event["cat"], str)
            slices[event["pid"], event["tid"]].append(event)
    for (pid, tid), events in slices.items():
        assert (pid, tid) in threads and pid in processes
        assert owners.setdefault((pid, tid), pid) == pid
        for ticks in (lambda us: int(us * 1000.0), lambda us: round(us * 1000)):
            ends = []
            for start, end in sorted(((ticks(e["ts"]), ticks(e["ts"]) + ticks(e["dur"])) for e in events),
                                     key=lambda span: (span[0], -span[1])):
                while ends and ends[-1] <= start:
                    ends.pop()
                assert not ends or end <= ends[-1], f"track {pid}/{tid}: {start}-{end} leaves its parent, which ends at {ends[-1]}"
                ends.append(end)
    return slices


@pytest.mark.parametrize("which", ["db", "odd"])
def test_perfetto(request, which):
    path = request.getfixturevalue(which)
    number = 2 if which == "db" else 1
    slices = check_trace(json.loads(export(path, "perfetto", "--run", str(number))))
    wanted = rows_of(path, number)
    found = sorted((event for events in slices.values() for event in events if event["cat"] not in ("command", "region")),
                   key=lambda event: event["ts"])
    assert len(found) == len(wanted)
    assert collections.Counter(event["name"] for event in found) == collections.Counter(row["op"] for row in wanted)
    for event, row in zip(found, sorted(wanted, key=lambda row: row["start_ns"])):
        assert round(event["ts"] * 1000) == row["start_ns"] and round(event["dur"] * 1000) == row["dur_ns"]
        assert event["args"]["fs_ns"] == row["fs_ns"]


def test_perfetto_tracks(odd):
    """Overlaps have lanes of their own; regions nest, however contradictory, and none has more time than its command."""
    trace = json.loads(export(odd, "perfetto"))
    slices = check_trace(trace)
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    story_tracks = [key for key, name in names.items() if name.startswith("git's story")]
    assert sorted(names[key] for key in story_tracks) == ["git's story: main", "git's story: main", "git's story: th01"]
    assert (100, 105) in names and any("overlapping" in name for name in names.values())
    assert max(event["tid"] for events in slices.values() for event in events) >= 1 << 23
    main = [event for key in story_tracks for event in slices[key] if key[0] == 100 and names[key].endswith("main")]
    assert max(event["ts"] + event["dur"] for event in main) <= 400
    assert {event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"} >= {"git upload-pack"}


@pytest.mark.parametrize("weight,column", [("fs", "sum(fs_ns)"), ("dur", "sum(dur_ns)"), ("count", "count(*)")])
@pytest.mark.parametrize("which", ["db", "odd"])
def test_folded(request, which, weight, column):
    path = request.getfixturevalue(which)
    number = 2 if which == "db" else 1
    sums = collections.Counter()
    for line in export(path, "folded", "--run", str(number), "--weight", weight).splitlines():
        assert re.fullmatch(rb"[^;\n]+;[^;\n]+;[a-z_]+;[^;\n]+ [1-9][0-9]*", line), line
        assert not re.search(rb"[\0-\x1f\x7f]", line)
        sums[line.split(b";")[2].decode()] += int(line.rsplit(b" ", 1)[1])
    wanted = dict(sqlite3.connect(path).execute(f"SELECT op, {column} AS n FROM ops WHERE run = ? GROUP BY op HAVING n > 0", (number,)))
    assert sums == wanted


def fio_lines(text):
    head, *lines = text.decode(errors="surrogateescape").splitlines()
    assert head == "fio version 3 iolog"
    return [line.split(" ") for line in lines]


@pytest.mark.parametrize("which", ["db", "odd"])
def test_fio(request, which):
    """Added, then opened once, then used, then closed; in order of time."""
    path = request.getfixturevalue(which)
    number = 2 if which == "db" else 1
    lines = fio_lines(export(path, "fio", "--run", str(number)))
    added, opened, last, counts = set(), set(), 0, collections.Counter()
    for at, name, action, *numbers in lines:
        assert len(name) <= 255 and int(at) >= last
        last = int(at)
        counts[action] += 1
        if action == "add":
            assert name not in added
            added.add(name)
        elif action == "open":
            assert name in added and name not in opened
            opened.add(name)
        elif action == "close":
            opened.remove(name)
        else:
            assert name in opened and len(numbers) == 2
    wanted = dict(sqlite3.connect(path).execute("SELECT op, count(*) FROM ops WHERE run = ? AND op IN ('read', 'write', 'fsync')"
                                                " AND result + (op = 'fsync') > 0 GROUP BY op", (number,)))
    assert (counts["read"], counts["write"], counts["sync"]) == tuple(wanted.get(op, 0) for op in ("read", "write", "fsync"))


def test_fio_replays_it(db, tmp_path):
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    log = tmp_path / "log"
    run(FSTAPE, "export", db, "-f", "fio", "--run", "story", "-o", log)
    lines = fio_lines(log.read_bytes())
    for _, name, action, *numbers in lines:
        file = tmp_path / "tree" / os.fsdecode(os.fsencode(name))
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab") as out:
            if action in ("read", "write"):
                out.truncate(max(out.tell(), sum(map(int, numbers))))
    done = run("fio", "--name=x", f"--read_iolog={log}", "--replay_no_stall=1", "--ioengine=psync", "--output-format=json",
               cwd=tmp_path / "tree")
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    counts = collections.Counter(action for _, _, action, *_ in lines)
    assert job["error"] == 0
    assert (job["read"]["total_ios"], job["write"]["total_ios"]) == (counts["read"], counts["write"])


def test_long_names_are_told(odd):
    done = run(FSTAPE, "export", odd, "--format", "fio")
    assert "left out: 2 lines" in done.stderr, done.stderr


def test_output(db, tmp_path):
    """A file appears whole or not at all, and never over the recording."""
    out = tmp_path / "out.json"
    run(FSTAPE, "export", db, "-f", "json", "-o", out)
    before = out.read_bytes()
    assert json.loads(before)
    done = run(FSTAPE, "export", db, "-f", "csv", "-o", db, check=False)
    assert done.returncode == 1 and "database itself" in done.stderr
    done = run(FSTAPE, "export", db, "-f", "csv", "-o", tmp_path / "no" / "such", check=False)
    assert done.returncode == 1 and "No such file" in done.stderr
    done = run(FSTAPE, "export", db, "-f", "csv", "-o", tmp_path, check=False)
    assert done.returncode == 1 and "directory" in done.stderr
    for form in ("csv", "json", "ndjson", "perfetto", "folded"):
        done = run(FSTAPE, "export", db, "-f", form, "--run", "story", "-o", "/dev/full", check=False)
        assert done.returncode == 1 and "No space left" in done.stderr, (form, done)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([FSTAPE, "export", db, "-f", "json", "--run", "story"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1 and done.stderr == b"fstape: cannot write to standard output, /dev/full: No space left on device\n"
    assert out.read_bytes() == before and os.listdir(tmp_path) == ["out.json"]


@pytest.mark.parametrize("words", [(), ("--format", "xml"), ("--format", "csv", "--weight", "x")])
def test_wrong_use(db, words):
    done = run(FSTAPE, "export", db, *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """100,000 operations."""
    path = tmp_path_factory.mktemp("big") / "big.db"
    tape = Tape(path)
    tape.begin("big")
    process = tape.process("git", 1)
    for number in range(25_000):
        name = f"d{number // 100}/f{number}"
        tape.op("create", name, process, 10 * US)
        tape.op("write", name, process, 5 * US, result=10, length=10, offset=0)
        tape.op("release", name, process, US)
        tape.op("lookup", name, process, US)
    tape.end()
    tape.close()
    return path


def peak(command):
    """Bytes that the command took at most."""
    # AddressSanitizer keeps back what has been freed, up to 256 MB
    env = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")
    child = os.fork()
    if child == 0:
        status = subprocess.run(command, stdout=subprocess.DEVNULL, env=env).returncode
        usage = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os._exit(min(255, usage >> 10) if status == 0 else 255)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) << 20


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "perfetto", "folded", "fio"])
def test_memory_does_not_grow(db, big, form):
    small = peak([FSTAPE, "export", db, "--format", form, "--run", "story"])
    large = peak([FSTAPE, "export", big, "--format", form])
    assert large < 200 << 20 and large - small <= 24 << 20, (small, large)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(big, tmp_path, number):
    """Nothing is left of a file that was not finished."""
    out = tmp_path / "out"
    child = subprocess.Popen([FSTAPE, "export", big, "--format", "json", *["--run", "1"] * 50, "-o", out], stderr=subprocess.PIPE)
    while not os.listdir(tmp_path):
        time.sleep(0.001)
    child.send_signal(number)
    _, message = child.communicate(timeout=60)
    assert child.returncode == 1 and b"interrupted" in message
    assert os.listdir(tmp_path) == []


def test_a_link_to_what_has_no_path(db, tmp_path):
    """As /dev/stdout is one: it is written to, and stays what it is."""
    link = tmp_path / "link"
    link.symlink_to("/proc/self/fd/1")
    done = run(FSTAPE, "export", db, "--format", "csv", "-o", link)
    assert done.stdout == run(FSTAPE, "export", db, "--format", "csv").stdout != ""
    assert os.readlink(link) == "/proc/self/fd/1"


def test_a_link_to_nothing(db, tmp_path):
    (tmp_path / "link").symlink_to("target")
    run(FSTAPE, "export", db, "--format", "csv", "-o", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_text().startswith("run,")


def test_a_run_that_is_named_twice(db):
    once, twice = (run(FSTAPE, "export", db, "--format", "csv", *["--run", "1"] * n).stdout for n in (1, 2))
    assert once == twice

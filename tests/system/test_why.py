# SPDX-License-Identifier: MIT
"""What compare says a difference consists of, on recordings made up so that every part is known beforehand."""
import json

import pytest

from harness import FSTAPE, run
from tape import Tape

pytestmark = pytest.mark.without_mounts

US = 1000


def add_run(tape, target, number, ops, **columns):
    """ops: (operation, fs_ns, dur_ns, gap before it); the rest of real_ns is a gap at the end."""
    columns = {"requests": len(ops), "recorded": len(ops), "user_ns": 0, "sys_ns": 0, "daemon_user_ns": 5, "daemon_sys_ns": 6,
               **columns}
    tape.begin(workload="w", target=target, round=number, caches="warm", setup=json.dumps({"order": "ab".index(target)}),
               **columns)
    who = tape.process("git", 7)
    at = 0
    for op, fs_ns, dur_ns, gap in ops:
        at += gap
        tape.db.execute("INSERT INTO op (run, seq, start_ns, dur_ns, fs_ns, op, process, result) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
                        (tape.run, tape.seq + 1, at, dur_ns, fs_ns, tape.codes[op], who))
        tape.seq += 1
        at = min(at + dur_ns, 2 ** 63 - 1)


@pytest.fixture
def tape(tmp_path):
    made = Tape(tmp_path / "t.db")
    made.file = tmp_path / "t.db"
    return made


def compare(tape, *options):
    tape.close()
    return json.loads(run(FSTAPE, "compare", tape.file, "--format", "json", *options).stdout)


def parts(rows, kind):
    return {row["part"]: row for row in rows if row["kind"] == kind}


def test_parts_add_up(tape):
    """b has twice the creates, each of them slower, and waits longer; reads are the same."""
    for number in (1, 2):
        creates = [("create", 10 * US, 12 * US, US)] * 4
        add_run(tape, "a", number, creates + [("read", 5 * US, 6 * US, 0)], real_ns=100 * US, user_ns=20 * US)
        creates = [("create", 30 * US, 33 * US, US)] * 8
        add_run(tape, "b", number, creates + [("read", 5 * US, 6 * US, 0)], real_ns=500 * US, user_ns=50 * US)
    rows = compare(tape, "--why")
    assert {row["target"] for row in rows} == {"b"}
    times, counts = parts(rows, "time"), parts(rows, "count")
    assert sum(row["delta_ns"] for row in times.values()) == 400 * US
    assert sum(row["share"] for row in times.values()) == pytest.approx(1)
    create = times["create"]
    assert (create["base_ns"], create["ns"], create["delta_ns"]) == (40 * US, 240 * US, 200 * US)
    assert create["by_count_ns"] == 4 * 20 * US and create["by_latency_ns"] == 20 * 6 * US
    assert create["by_count_ns"] + create["by_latency_ns"] == create["delta_ns"]
    assert times["read"]["delta_ns"] == 0
    assert times["requests outside the filesystem"]["delta_ns"] == (8 * 3 - 4 * 2) * US
    assert times["overlap of requests"]["delta_ns"] == 0
    assert times["user time of the programs"]["delta_ns"] == 30 * US
    idle = times["kernel, wake-ups and idle"]
    assert (idle["base_ns"], idle["ns"]) == ((100 - 54 - 20) * US, (500 - 270 - 50) * US)
    assert counts == {"create": counts["create"]} and (counts["create"]["base_count"], counts["create"]["count"]) == (4, 8)
    order = [abs(row["delta_ns"]) for row in rows if row["kind"] == "time"]
    assert order == sorted(order, reverse=True)
    assert [row["kind"] for row in rows][0] == "count"


def test_overlap(tape):
    """Two requests at once cover the time of one: parts add up all the same."""
    add_run(tape, "a", 1, [("read", 10, 10, 0), ("read", 10, 10, 0)], real_ns=20)
    add_run(tape, "b", 1, [("read", 10, 10, 0), ("read", 10, 10, -10)], real_ns=10)
    times = parts(compare(tape, "--why"), "time")
    assert times["overlap of requests"]["delta_ns"] == -10 == sum(row["delta_ns"] for row in times.values())


def test_counts_that_vary_are_no_difference(tape):
    for number, (few, many) in enumerate([(2, 3), (3, 2)]):
        add_run(tape, "a", number, [("read", 1, 1, 0)] * few + [("open", 1, 1, 0)], real_ns=9)
        add_run(tape, "b", number, [("read", 1, 1, 0)] * many + [("flush", 1, 1, 0)], real_ns=9)
    counts = parts(compare(tape, "--why"), "count")
    assert {name: (row["base_count"], row["count"]) for name, row in counts.items()} == {"open": (1, 0), "flush": (0, 1)}


@pytest.mark.parametrize("a, b", [([100] * 2, [100, 101]), ([100, 110, 90], [101, 108, 92]),
                                  ([100, 100, 100, 100], [102, 103, 102, 5])])
def test_where_there_is_no_difference_nothing_is_explained(tape, a, b):
    """Parts that cancel out have no share of next to nothing, nor of a mean that one round has moved the other way."""
    for target, times, fs in (("a", a, 10), ("b", b, 60)):
        for number, real in enumerate(times):
            add_run(tape, target, number, [("create", fs, fs, 0)], real_ns=real * US, user_ns=1)
    rows = compare(tape, "--why")
    assert {row["differs"] for row in rows} == {False} and {row["share"] for row in rows} == {None}
    none = parts(rows, "none")["no difference to be explained"]
    assert none["delta_ns"] == none["ns"] - none["base_ns"] and none["ns"] == round(sum(b) / len(b) * US)
    assert parts(rows, "time")["create"]["delta_ns"] == 50
    for options in ((), ("--why",)):
        text = run(FSTAPE, "compare", tape.file, *options).stdout
        assert "no difference to be explained" in text and "%" not in text.split("share")[1]
    page = tape.file.with_suffix(".html")
    run(FSTAPE, "report", "--run", "1", "-o", page, tape.file)
    assert "no difference to be explained" in page.read_text()


@pytest.mark.parametrize("a, b", [([100], [101]), ([100] * 3, [104, 105, 106]), ([100] * 4, [90, 91, 92, 93])])
def test_where_there_is_one_it_is_explained(tape, a, b):
    for target, times in (("a", a), ("b", b)):
        for number, real in enumerate(times):
            add_run(tape, target, number, [("create", 10, 10, 0)], real_ns=real * US, user_ns=1)
    rows = compare(tape, "--why")
    assert {row["differs"] for row in rows} == {True} and not parts(rows, "none")
    assert sum(row["share"] for row in parts(rows, "time").values()) == pytest.approx(1)


def test_phases_and_devices(tape):
    for target, factor in (("a", 1), ("b", 3)):
        add_run(tape, target, 1, [("read", 1, 1, 0)], real_ns=1000 * factor)
        tape.db.executemany("INSERT INTO git_span (run, start_ns, end_ns, phase) VALUES (?, ?, ?, ?)",
                            [(tape.run, 0, 100, 10), (tape.run, 100, 1000 * factor, 13)])
        tape.db.executemany("INSERT INTO run_counter VALUES (?, ?, ?)",
                            [(tape.run, "device.flushes", 2 * factor), (tape.run, "device.flush_ns", 50 * factor)])
    rows = compare(tape, "--why")
    phases, devices = parts(rows, "phase"), parts(rows, "device")
    assert phases["checkout"]["delta_ns"] == 0 and phases["write index"]["delta_ns"] == 2000
    assert (devices["device.flushes"]["base_count"], devices["device.flushes"]["count"]) == (2, 6)
    assert (devices["device.flush_ns"]["base_ns"], devices["device.flush_ns"]["ns"]) == (50, 150)


def test_native_runs(tape):
    for target, factor in (("a", 1), ("b", 2)):
        add_run(tape, target, 1, [], real_ns=100 * factor, user_ns=30, sys_ns=20 * factor, state="native", requests=None)
    times = parts(compare(tape, "--why"), "time")
    assert {name: row["delta_ns"] for name, row in times.items()} == {"user time": 0, "sys time": 20, "waiting": 80}


def test_numbers_that_are_none(tape):
    """A database from strangers may say anything: large, negative, missing."""
    huge = 2 ** 63 - 1
    for target in "ab":
        add_run(tape, target, 1, [("read", huge, huge, 0), ("read", -huge, huge, 0), ("read", huge, -huge, 0)], real_ns=huge)
        add_run(tape, target, 2, [("read", 1, 1, 0)], real_ns=None, user_ns=None, sys_ns=None)
        tape.db.execute("INSERT INTO run_counter VALUES (?, 'x_ns', ?)", (tape.run, -huge))
    tape.close()
    for options in ((), ("--why",), ("--rounds",), ("--operations",), ("--format", "json"), ("--why", "--format", "json")):
        done = run(FSTAPE, "compare", tape.file, *options)
        assert done.stdout and "runtime error" not in done.stderr


def test_summary_under_the_table(tape):
    """For people: the largest parts, none that is negligible."""
    for target, factor in (("a", 1), ("b", 10)):
        add_run(tape, target, 1, [("create", 1000 * factor, 1000 * factor, 0), ("read", 1, 1, 0)], real_ns=1100 * factor)
    tape.close()
    text = run(FSTAPE, "compare", tape.file).stdout
    assert "\nWhy: " in text
    below = text.split("\nWhy: ")[1]
    assert "create" in below and "read" not in below
    assert "Why" not in run(FSTAPE, "compare", tape.file, "--quiet").stdout

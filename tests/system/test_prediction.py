# SPDX-License-Identifier: MIT
"""Replays at the recorded speed: what a program did between its requests, told from what the recorder added to it."""
import contextlib
import json
import os
import pathlib
import sqlite3
import sys

import pytest

from harness import BUILD, FSTAPE, TOP, Database, run
from test_replay import empty, record

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts in place, as root")

# Files are made, so that there are requests of one system call to measure the recorder's part by. Between two of them the
# program is busy for 200 ms of processor time, and between two others it sleeps for 300 ms.
PROGRAM = """
import os, sys, time
def make(name):
    for i in range(200):
        os.close(os.open(f'{sys.argv[1]}/{name}{i}', os.O_CREAT | os.O_WRONLY))
make('a')
until = time.process_time() + 0.2
while time.process_time() < until:
    pass
make('b')
time.sleep(0.3)
make('c')
"""


@pytest.fixture(name="recorded")
def fixture_recorded(box):
    record(box, "program", sys.executable, "-c", PROGRAM, box.src)
    return box


def values(*args):
    return {row["name"]: row["value"] for row in json.loads(run(FSTAPE, "replay", "--format", "json", *args).stdout)}


def write(db, sql):
    with contextlib.closing(sqlite3.connect(db)) as connection:
        connection.executescript(sql)


def reads_processor_time():
    try:
        return pathlib.Path("/proc/self/schedstat").read_text(encoding="ascii").split()[0] != "0"
    except OSError:
        return False


def test_processor_time_of_clients_is_read_now_and_then(recorded):
    if not reads_processor_time():
        pytest.skip("the kernel tells no processor time of threads")
    db = Database(recorded.db)
    rows = db.rows("SELECT c.seq, o.process, o.start_ns, c.cpu_ns, c.delay_ns FROM client_cpu AS c"
                   " JOIN op AS o USING (run, seq) WHERE process = (SELECT max(process) FROM op) ORDER BY seq")
    assert 20 < len(rows) < db.value("SELECT count(*) FROM op")
    for before, after in zip(rows, rows[1:]):
        used = after["cpu_ns"] - before["cpu_ns"]
        assert 0 <= used <= (after["start_ns"] - before["start_ns"]) * 1.1 + 1e6
        assert after["delay_ns"] >= before["delay_ns"]
    assert rows[-1]["cpu_ns"] - rows[0]["cpu_ns"] > 190e6


def test_plan_tells_work_from_waiting(box):
    if not reads_processor_time():
        pytest.skip("the kernel tells no processor time of threads")
    for attempt in range(8):  # others interrupt the program: then too few readings are good, or its waits are longer
        record(box, "program", sys.executable, "-c", PROGRAM, empty(box.src))
        plan = values("--dry-run", box.db)
        blocked, busy = plan["plan_blocked_ns"], plan["idle_ns"] - plan["plan_blocked_ns"]
        if plan["read_percent"] and 295e6 < blocked < 400e6 and 190e6 < busy < 400e6:
            return
    assert (plan["read_percent"], blocked / 1e6, busy / 1e6) == (100, 300, 200), attempt


def test_prediction_has_its_parts_and_its_end(recorded):
    target = recorded.top / "t"
    target.mkdir()
    said = values("--speed", "recorded", "--show", "summary", recorded.db, target)
    assert said["predicted_ns"] == said["wall_ns"] + said["tail_ns"]
    assert said["wall_ns"] >= said["blocked_ns"] + said["think_ns"] - said["twice_ns"] - said["own_ns"] - 20e6
    text = run(FSTAPE, "replay", "--speed", "recorded", recorded.db, empty(target)).stdout
    assert "The command would take " in text
    half = values("--speed", "2", "--show", "summary", recorded.db, empty(target))
    assert "predicted_ns" not in half
    # Half of what the plan has: nothing at all, where others kept the program so busy that no reading of it is good.
    assert half["blocked_ns"] <= values("--dry-run", recorded.db)["plan_blocked_ns"] * 0.51 + 1


def test_a_directory_with_the_name_of_a_former_one(box):
    """Directories are opened before the clock starts; one that is made later is not the one whose name it has."""
    (box.src / "d" / "in").mkdir(parents=True)
    record(box, "again", "sh", "-c", "ls d/in; rmdir d/in d; mkdir d d/in; echo x >d/in/f")
    target = box.top / "t"
    target.mkdir()
    said = values("--speed", "recorded", "--show", "summary", box.db, target)
    assert said["match_rate"] == 1 and (target / "d/in/f").exists()


def test_without_readings_or_end_it_does_with_the_clock(recorded):
    write(recorded.db, "DELETE FROM client_cpu; UPDATE run SET command_ns = NULL, real_ns = NULL")
    plan = values("--dry-run", recorded.db)
    assert plan["read_percent"] == 0 and plan["plan_blocked_ns"] == 0 and plan["idle_ns"] > 490e6
    target = recorded.top / "t"
    target.mkdir()
    said = values("--speed", "recorded", "--show", "summary", recorded.db, target)
    assert "predicted_ns" not in said and said["wall_ns"] > 490e6


def test_made_up_readings_do_no_harm(recorded):
    most = 2**63 - 1
    for sql in (f"UPDATE client_cpu SET cpu_ns = {most}, delay_ns = -{most}",
                "UPDATE client_cpu SET cpu_ns = (seq * 7919 % 13) << 50, delay_ns = (seq * 104729 % 17) << 50",
                f"UPDATE run SET command_ns = {most}, real_ns = {most}",
                f"UPDATE op SET start_ns = {most // 4} - seq, dur_ns = {most // 4}"):
        write(recorded.db, sql)
        assert values("--dry-run", recorded.db)["idle_ns"] >= 0


def test_the_measurement_of_it_runs(tmp_path):
    """What it finds is for a quiet machine to say; that it finds something is tested."""
    done = run(TOP / "tests" / "bench" / "prediction", "--rounds", 1, "--files", 60, "--fs", "ext4,xfs", "--dir", tmp_path,
               "--build", BUILD, "--json", tmp_path / "all.json", timeout=300)
    assert "clone on xfs" in done.stdout and "error: mean" in done.stdout
    cells = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))["cells"]
    assert {(c["workload"], c["fs"]) for c in cells} == {(w, f) for w in ("clone", "checkout") for f in ("ext4", "xfs")}
    assert all(c["native"]["wall_s"] > 0 and c["replay"]["predicted_s"] > 0 and c["replay"]["matched"] for c in cells)
    assert [p.name for p in tmp_path.iterdir()] == ["all.json"]

# SPDX-License-Identifier: MIT
"""What must be known of a run's numbers stands beside them: how its requests came, that it goes on, that it ended early."""
import json
import subprocess

import pytest

from harness import FSTAPE, Database, git, make_repository, run, wait_until

SHOWN = {"stats": [], "git": [], "report": ["-o", "/dev/null"], "export": ["--format", "csv", "-o", "/dev/null"],
         "compare": []}


def write_files(mnt):
    for number in range(50):
        (mnt / f"f{number}").write_text("x" * number)


def told(command, db, *runs):
    chosen = [word for name in runs for word in ("--run", name)]
    return run(FSTAPE, command, *chosen, *SHOWN[command], db).stderr


@pytest.mark.parametrize("command", SHOWN)
def test_an_unusual_transport_is_said(uring_on, box, command):
    box.recorded(write_files, label="ring", transport="uring")
    box.recorded(write_files, label="device", transport="dev")
    assert "(ring) got its requests through io_uring" in told(command, box.db, "ring")
    assert "requests" not in told(command, box.db, "device")


def test_compared_runs_say_when_they_came_in_different_ways(box):
    for label, wait in (("a", "sleep"), ("b", "sleep"), ("c", "poll")):
        box.recorded(write_files, label=label, wait=wait, transport="dev")
    chosen = ["--run", "a", "--run", "b", "--run", "c"]
    for shape in ([], ["--rounds"], ["--operations"], ["--why"]):
        shown = run(FSTAPE, "compare", *chosen, *shape, box.db).stdout
        assert "not get their requests in the same way" in shown, shape
        assert "run 1, 2 through /dev/fuse (wait=sleep); run 3 through /dev/fuse (wait=poll)" in shown
        rows = json.loads(run(FSTAPE, "compare", *chosen, *shape, "--format", "json", box.db).stdout)
        assert {row["same_way"] for row in rows} == {False}, shape
    rows = json.loads(run(FSTAPE, "compare", *chosen, "--format", "json", box.db).stdout)
    assert "through /dev/fuse (wait=sleep), cache=" in rows[0]["way"] and "(wait=poll)" in rows[2]["way"]
    same = run(FSTAPE, "compare", "--run", "a", "--run", "b", box.db)
    assert "same way" not in same.stdout and same.stderr == ""
    same = json.loads(run(FSTAPE, "compare", "--run", "a", "--run", "b", "--format", "json", box.db).stdout)
    assert {row["same_way"] for row in same} == {True}
    page = box.store / "page.html"
    run(FSTAPE, "report", "--run", "a", "--run", "c", "-o", page, box.db)
    assert "run 3 through /dev/fuse (wait=poll)" in page.read_text()


def test_compared_runs_say_when_their_caches_differ(box):
    for label, cache in (("a", "always"), ("b", "never")):
        box.recorded(write_files, label=label, cache=cache, wait="sleep", transport="dev")
    shown = run(FSTAPE, "compare", "--run", "a", "--run", "b", box.db).stdout
    assert "run 1 through /dev/fuse (wait=sleep), cache=always; run 2 through /dev/fuse (wait=sleep), cache=never" in shown


def test_the_list_of_runs_has_transport_and_wait(uring_on, box):
    box.recorded(write_files, transport="uring")
    box.recorded(write_files, wait="sleep", transport="dev")
    rows = json.loads(run(FSTAPE, "runs", "--format", "json", box.db).stdout)
    assert [row["transport"] for row in rows] == ["uring", "dev"] and rows[1]["wait"] == "sleep"
    lines = run(FSTAPE, "runs", box.db).stdout.splitlines()
    assert "done, io_uring" in lines[1] and "io_uring" not in lines[2]


@pytest.mark.parametrize("command", SHOWN)
def test_a_run_in_progress_is_shown_as_far_as_it_is(box, command):
    repository = make_repository(box.top / "repository", 300)
    with box.mount(label="now", transport="dev") as made:
        git("clone", "-q", repository, made.mnt / "clone")
        wait_until(lambda: Database(box.db).value("SELECT count(*) FROM op") > 500)
        said = told(command, box.db, "now")
        assert "run 1 (now) is still being recorded, so it is partial" in said and "recover" not in said
        shown = run(FSTAPE, "git", box.db).stdout
        assert "checkout" in shown or "lookup" in shown, shown
        row = json.loads(run(FSTAPE, "runs", "--format", "json", box.db).stdout)[0]
        assert (row["state"], row["complete"]) == ("recording", False)


def test_a_run_whose_recorder_died_is_for_recover(box):
    made = box.mount(label="dead").start()
    write_files(made.mnt)
    made.kill()
    said = told("git", box.db, "dead")
    assert "is partial" in said and "recover" in said and "still being recorded" not in said


@pytest.fixture
def unwatched(box):
    """'fstape record' was killed: its command went on when the mount had gone."""
    script = f"echo x >{box.src}/a; until [ -e {box.top}/go ]; do sleep 0.05; done; echo y >{box.src}/b"
    child = subprocess.Popen([FSTAPE, "record", "-q", "-l", "cut", box.db, box.src, "--", "sh", "-c", script])
    wait_until(lambda: (box.src / "a").exists())
    child.kill()
    child.wait()
    wait_until(lambda: Database(box.db).value("SELECT state FROM run") == "done")
    (box.top / "go").touch()
    wait_until(lambda: (box.src / "b").exists())
    return box.db


def test_a_command_that_went_on_makes_its_run_partial(box, unwatched):
    assert Database(unwatched).condition(1)["clean_end"] == 1, "the mount itself ended well"
    for command in SHOWN:
        said = told(command, unwatched, "cut")
        assert "run 1 (cut) is partial" in said and "if it went on after" in said, (command, said)
    assert ", partial" in run(FSTAPE, "runs", unwatched).stdout
    assert [row["complete"] for row in json.loads(run(FSTAPE, "runs", "--format", "json", unwatched).stdout)] == [False]
    assert {row["complete"] for row in json.loads(run(FSTAPE, "stats", "--format", "json", unwatched).stdout)} == {False}
    compared = json.loads(run(FSTAPE, "compare", "--run", "cut", "--format", "json", unwatched).stdout)
    assert [row["complete"] for row in compared] == [False]
    page = box.store / "page.html"
    run(FSTAPE, "report", "-o", page, unwatched)
    assert "Incomplete" in page.read_text() and "if it went on after" in page.read_text()


def test_a_command_that_went_on_after_unmounting_makes_its_run_partial(box):
    script = f"echo x >a; cd /; umount {box.src}; sleep 1; echo y >{box.src}/b"
    done = run(FSTAPE, "record", "-q", "-l", "early", box.db, box.src, "--", "sh", "-c", script)
    assert (box.src / "b").exists() and "what it does from now on is not recorded" in done.stderr
    assert "run 1 (early) is partial" in done.stderr
    row = Database(box.db).condition(1)
    assert (row["state"], row["clean_end"], row["exit_status"]) == ("done", 0, 0) and row["recorded"] == row["requests"]
    for command in SHOWN:
        assert "unmounted while the command ran" in told(command, box.db, "early"), command
    assert ", partial" in run(FSTAPE, "runs", box.db).stdout
    assert "no fault" in run(FSTAPE, "check", box.db).stdout

# SPDX-License-Identifier: MIT
"""When the loader moves records into the database: in the pauses that programs make, and at last after two seconds."""
import os
import pathlib
import time

import pytest

from harness import USER, check_truths, wait_until


def asked_for(mnt, seconds):
    """Look-ups without a pause, of few names, so that they take little of the spool; their number."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for number in range(10):
            (mnt / f"missing-{number}").exists()
            count += 1
    return count


def loaded(made):
    return made.db().value("SELECT count(*) FROM op WHERE run = ?", made.run)


def test_it_leaves_the_processors_to_programs_at_work(box):
    least = 1
    for _ in range(5):  # on a busy machine we may be made to pause
        with box.mount(cache="never") as made:
            count = asked_for(made.mnt, 0.5)
            least = min(least, loaded(made) / count)
            wait_until(lambda: loaded(made) >= count, what="what has been done, in the database")
        check_truths(made.db())
        if least < 0.3:
            return
    assert least < 0.3


def test_a_reader_need_not_wait_for_a_pause(box):
    with box.mount(cache="never") as made:
        count = asked_for(made.mnt, 5)
        assert loaded(made) > count / 4
    check_truths(made.db())


@pytest.fixture
def ordinary_policy():
    """The daemon keeps a scheduling policy that it is started with."""
    before = os.sched_getscheduler(0)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    yield
    os.sched_setscheduler(0, before, os.sched_param(0))


def policy_of_loader(daemon):
    for task in pathlib.Path(f"/proc/{daemon}/task").iterdir():
        if (task / "comm").read_text() == "loader\n":
            return os.sched_getscheduler(int(task.name))
    return None


@pytest.mark.parametrize(("options", "policy"), [({}, os.SCHED_IDLE), ({"user": USER}, os.SCHED_OTHER)])
def test_it_is_idle_only_where_it_can_come_back(box, ordinary_policy, options, policy):
    """Without CAP_SYS_NICE it could not when workers wait for it."""
    if options:
        for path in (box.src, box.mnt, box.store):
            os.chown(path, USER, USER)
    with box.mount(**options) as made:
        daemon = made.db().condition()["daemon_pid"]
        wait_until(lambda: policy_of_loader(daemon) == policy, seconds=5, what=f"policy {policy} of the loader")

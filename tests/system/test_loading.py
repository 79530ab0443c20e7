# SPDX-License-Identifier: MIT
"""When the loader moves records into the database: in the pauses that programs make, and at last after two seconds."""
import time

from harness import check_truths, wait_until


def asked_for(mnt, seconds):
    """Look-ups without a pause; their number."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for _ in range(10):
            (mnt / f"missing-{count}").exists()
            count += 1
    return count


def loaded(made):
    return made.db().value("SELECT count(*) FROM op WHERE run = ?", made.run)


def test_it_leaves_the_processors_to_programs_at_work(box):
    least = 1
    for _ in range(5):  # on a busy machine we may be made to pause
        with box.mount(cache="never") as made:
            count = asked_for(made.mnt, 1)
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

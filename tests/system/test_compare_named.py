# SPDX-License-Identifier: MIT
"""What compare says of runs that are only named: in which order, and of what is no comparison at all."""
import json

import pytest

from harness import FSTAPE, run
from tape import Tape

pytestmark = pytest.mark.without_mounts


@pytest.fixture
def tape(tmp_path):
    """Two recordings, and a replay of the first: it is none of a command, and had no mount with options."""
    made = Tape(tmp_path / "t.db")
    for label, columns in (("one", {"dir_readahead": 0, "user_ns": 7, "sys_ns": 8}),
                           ("two", {"dir_readahead": 0, "user_ns": 9, "sys_ns": 10}), ("replayed", {})):
        made.begin(label, real_ns=1000 * len(label), **columns)
        made.op("create", "name", made.process("git", 7), 100)
        made.end()
    made.close()
    return tmp_path / "t.db"


def compare(tape, *labels, options=()):
    return run(FSTAPE, "compare", tape, *options, *(word for label in labels for word in ("--run", label)))


def rows(tape, *labels, options=()):
    return json.loads(compare(tape, *labels, options=["--format", "json", *options]).stdout)


@pytest.mark.parametrize("labels", [("one", "two"), ("two", "one")])
def test_the_first_that_is_named_is_the_baseline(tape, labels):
    first, second = rows(tape, *labels)
    assert (first["target"], second["target"]) == labels
    assert first["ratio"] == 1 and first["verdict"] is None and second["verdict"]


def test_what_is_not_compared_has_no_ratio_and_says_so(tape):
    assert {row["target"]: row["ratio"] for row in rows(tape, "one", "replayed")} == {"one": None, "replayed": None}
    said = "Rows without a ratio are not compared"
    assert said in compare(tape, "one", "replayed").stdout and said not in compare(tape, "one", "two").stdout
    assert "ratio: " not in compare(tape, "one", "replayed").stdout and "ratio: " in compare(tape, "one", "two").stdout
    assert [row["ratio"] for row in rows(tape, "one")] == [1], "a row of its own leaves nothing to be said"


def test_a_replay_has_no_user_and_system_time(tape):
    found = {row["target"]: (row["user_ns"], row["sys_ns"]) for row in rows(tape, "one", "replayed")}
    assert found == {"one": (7, 8), "replayed": (None, None)}
    found = {row["target"]: row["user_ns"] for row in rows(tape, "one", "replayed", options=["--rounds"])}
    assert found == {"one": 7, "replayed": None}

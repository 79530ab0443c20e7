# SPDX-License-Identifier: MIT
"""What recording an operation costs, in instructions: they are the same on a busy machine and on a quiet one."""
import json

import pytest

from harness import BUILD, SLOW, TOP, run

# A fifth above what it was when this was last lowered: a compiler may do a little better or worse.
MOST_INSTRUCTIONS = {"mean": 1450, "each": 3000}


@pytest.mark.without_mounts
@pytest.mark.parametrize("how", ["record", "norecord"])
def test_the_requests_are_answered(tmp_path, how):
    (tmp_path / "source").mkdir()
    done = json.loads(run(BUILD / "tests/bench/event_cost", how, tmp_path, 2).stdout)
    assert len(done["steps"]) == 15 and all(step["least_ns"] > 0 for step in done["steps"])
    assert not list((tmp_path / "source" / "clone" / "drivers" / "network").iterdir())
    assert (tmp_path / "t.db").exists() == (how == "record")


@pytest.mark.without_mounts
def test_an_event_costs_no_more_instructions_than_it_did():
    if SLOW != 1:
        return  # sanitizers add their own
    done = json.loads(run(TOP / "tests/bench/event_cost", "--rounds", 1, "--batches", 5, "--counted", 2, "--format", "json",
                          "--build", BUILD).stdout)
    costs = {row["op"]: row["instructions"] for row in done["operations"]}
    assert {"lookup", "create", "write", "getattr", "getxattr", "forget"} <= set(costs)
    assert 200 < min(costs.values()) and max(costs.values()) < MOST_INSTRUCTIONS["each"], costs
    assert done["clone"]["instructions"] < MOST_INSTRUCTIONS["mean"], costs

# SPDX-License-Identifier: MIT
"""tests/bench/run: what it measures is measured, nothing is left behind, and the kernel's requests are the recording's."""
import json
import os
import signal
import subprocess

import pytest

from harness import BUILD, SLOW, TOP, wait_until

RUN = TOP / "tests" / "bench" / "run"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def bench(folder, *args):
    return subprocess.run([RUN, "--dir", folder, "--build", BUILD, "--size", "1", "--files", "200", *args],
                          capture_output=True, text=True, timeout=300)


def left_behind(folder):
    losetup = subprocess.run(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], capture_output=True,
                             text=True, check=True).stdout
    return [*map(str, folder.iterdir()), *[line for line in losetup.splitlines() if str(folder) in line]]


def test_every_request_is_recorded(tmp_path):
    """As counted by the kernel itself, for every workload."""
    result = bench(tmp_path, "--rounds", "1", "--peers", "native,ours", "--workloads",
                   "clone,status,find,status-cold,checkout,checkout-8,untar,rm", "--requests",
                   "--json", tmp_path / "out.json")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    counted, = [c for c in found["requests"] if c["peer"] == "ours"]
    recorded = {name: count for name, count in counted["recorded"].items() if not name.startswith("forget")}
    assert sum(recorded.values()) > 2000
    assert recorded == counted["sent"]
    assert {m["workload"] for m in found["measured"]} >= {"clone", "rm"}
    (tmp_path / "out.json").unlink()
    assert not left_behind(tmp_path)


def test_single_calls_are_timed(tmp_path):
    result = bench(tmp_path, "--rounds", "1", "--peers", "native,ours", "--calls", "50", "--json", tmp_path / "out.json")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    native, ours = (next(c["ns"] for c in found["calls"] if c["peer"] == peer) for peer in ("native", "ours"))
    assert list(native) == list(ours) and None not in ours.values()
    # Every one of them is a request: what takes no longer than natively has been answered by a cache.
    assert all(ours[kind] > 1000 for kind in ours if kind != "read 4 KiB"), ours
    assert "nothing" in result.stdout and "getattr" in result.stdout
    stored = [m for m in found["measured"] if m["workload"] == "all, stored" and m["peer"] == "ours"]
    assert stored[0]["daemon_cpu_s"] > 0
    (tmp_path / "out.json").unlink()
    assert not left_behind(tmp_path)


def test_interrupted_leaves_nothing(tmp_path):
    child = subprocess.Popen([RUN, "--dir", tmp_path, "--build", BUILD, "--size", "1", "--files", "200", "--rounds",
                              "100", "--peers", "ours"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: list(tmp_path.glob("*/bench.db")), 60, "the first recording")
    child.send_signal(signal.SIGTERM)
    assert child.wait(60 * SLOW) == 128 + signal.SIGTERM
    wait_until(lambda: not left_behind(tmp_path), 30, "nothing left behind")


def test_wrong_usage():
    assert subprocess.run([RUN, "--peers", "nobody"], capture_output=True).returncode == 2
    text = subprocess.run([RUN, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(len(line) <= 80 for line in text.splitlines())

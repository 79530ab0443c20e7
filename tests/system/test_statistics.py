# SPDX-License-Identifier: MIT
"""
What compare claims, against SciPy: p values, Holm's correction, intervals; and on simulated rounds with known
differences: how often it claims what is not there, and how often it finds what is.
"""
import json
import math
import random

import pytest

from harness import FSTAPE, run
from tape import Tape

pytestmark = pytest.mark.without_mounts

np = pytest.importorskip("numpy", reason="python3-scipy is not installed: nothing to compare with")
stats = pytest.importorskip("scipy.stats", reason="python3-scipy is not installed: nothing to compare with")

MS = 1_000_000


@pytest.fixture
def bench_of(tmp_path):
    """A database of native runs from {workload: {target: [real times in ns, by round]}}; returns compare's rows."""
    def make(table, *options):
        path = tmp_path / "t.db"
        path.unlink(missing_ok=True)
        tape = Tape(path)
        for workload, targets in table.items():
            for order, (target, times) in enumerate(targets.items()):
                tape.db.executemany(
                    "INSERT INTO run (state, workload, target, round, caches, real_ns, user_ns, sys_ns, setup)"
                    " VALUES ('native', ?, ?, ?, 'warm', ?, 1, 1, ?)",
                    [(workload, target, number + 1, int(ns), f'{{"order":{order}}}') for number, ns in enumerate(times)])
        tape.close()
        return json.loads(run(FSTAPE, "compare", path, "--format", "json", *options).stdout)
    return make


def expected_p(x, y):
    return stats.mannwhitneyu(x, y, alternative="two-sided", method="auto").pvalue


def samples(seed, n, m, ties=False, shift=0.0):
    source = random.Random(seed)
    draw = (lambda: source.randint(1, 6) * MS) if ties else (lambda: int(source.lognormvariate(0, 0.3) * 1e9))
    return [draw() for _ in range(n)], [int(draw() * (1 + shift)) for _ in range(m)]


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def test_p_values(bench_of, ties):
    """Of all sizes from 1 to 12 and some larger ones, apart and not: exact, and by the normal distribution."""
    sizes = [(n, m) for n in range(1, 13) for m in range(1, 13)] + [(8, 30), (30, 8), (25, 40), (9, 9), (60, 60)]
    table = {}
    for index, (n, m) in enumerate(sizes):
        x, y = samples(index, n, m, ties, (index % 3) * 0.3)
        table[f"w{index:03}"] = {"a": x, "b": y}
    rows = [row for row in bench_of(table) if row["target"] == "b"]
    assert len(rows) == len(sizes)
    for row in rows:
        data = table[row["workload"]]
        theirs = expected_p(data["b"], data["a"])
        assert math.isclose(row["p"], 1 if math.isnan(theirs) else theirs, rel_tol=1e-9, abs_tol=1e-12), (data, theirs)


def test_all_equal(bench_of):
    row = bench_of({"w": {"a": [5] * 8, "b": [5] * 8}})[1]
    assert row["p"] == 1 and row["ratio"] == 1 and row["verdict"] == "cannot decide"


def holm(ps):
    order, adjusted, most = np.argsort(ps), np.empty(len(ps)), 0.0
    for position, index in enumerate(order):
        most = max(most, min(1.0, ps[index] * (len(ps) - position)))
        adjusted[index] = most
    return adjusted


def test_correction_over_the_table(bench_of):
    table = {f"w{index}": dict(zip("ab", samples(index, 9, 9, shift=index / 10))) for index in range(12)}
    rows = [row for row in bench_of(table) if row["target"] == "b"]
    ps = [expected_p(table[row["workload"]]["b"], table[row["workload"]]["a"]) for row in rows]
    assert np.allclose([row["p_adjusted"] for row in rows], holm(ps))
    assert min(holm(ps)) < 0.05 < max(holm(ps))
    for row in rows:
        if row["p_adjusted"] >= 0.05:
            assert row["verdict"] == "cannot decide"
        elif not row["ratio_low"] <= 1 <= row["ratio_high"]:
            assert row["verdict"] == ("slower" if row["ratio"] > 1 else "faster")


def test_medians_and_intervals(bench_of):
    """Intervals are of random resamples: ours and SciPy's agree within what two such draws differ by."""
    table = {f"w{n}": dict(zip("ab", samples(n, n, n))) for n in (7, 12, 25, 60)}
    for row in bench_of(table):
        times = np.array(table[row["workload"]][row["target"]], dtype=float)
        assert row["real_ns"] == pytest.approx(np.median(times), abs=1)
        theirs = stats.bootstrap((times,), np.median, vectorized=True, axis=0, n_resamples=5000, method="percentile",
                                 random_state=1).confidence_interval
        spread = times.max() - times.min()
        assert abs(row["low_ns"] - theirs.low) < 0.1 * spread and abs(row["high_ns"] - theirs.high) < 0.1 * spread
        if row["target"] == "b":
            ratios = times / np.array(table[row["workload"]]["a"])
            assert row["ratio"] == pytest.approx(np.median(ratios))
            assert ratios.min() <= row["ratio_low"] <= row["ratio"] <= row["ratio_high"] <= ratios.max()


def test_outliers(bench_of):
    """As SciPy's robust deviation has it; they count like all others."""
    times = [100, 103, 98, 101, 99, 150, 102, 104]
    row = bench_of({"w": {"a": [t * MS for t in times]}})[0]
    far = np.abs(np.array(times) - np.median(times)) > 3.5 * stats.median_abs_deviation(times, scale="normal")
    assert row["outliers"] == far.sum() == 1 and row["n"] == 8
    flags = [r["outlier"] for r in bench_of({"w": {"a": [t * MS for t in times]}}, "--rounds")]
    assert flags == far.tolist()
    assert bench_of({"w": {"a": [t * MS for t in times[-4:]]}})[0]["outliers"] == 0


def rounds(source, n, difference, noise, drift):
    """Two targets measured in `n` rounds: noise of each measurement, and of the round, which both share."""
    shared = [source.lognormvariate(0, drift) for _ in range(n)]
    return {name: [int(1e9 * factor * s * source.lognormvariate(0, noise)) for s in shared]
            for name, factor in (("a", 1), ("b", 1 + difference))}


def claimed(bench_of, benches, n, difference, noise=0.05, drift=0.1):
    """Share of benches, each a table of its own, that claim a difference: their p values need no correction."""
    source = random.Random(benches + n)
    table = {f"w{index}": rounds(source, n, difference, noise, drift) for index in range(benches)}
    rows = [row for row in bench_of(table) if row["target"] == "b"]
    alone = [row["p"] < 0.05 and not row["ratio_low"] <= 1 <= row["ratio_high"] for row in rows]
    return sum(alone) / benches, sum(row["p"] < 0.05 for row in rows) / benches, rows


@pytest.mark.parametrize("n, drift", [(6, 0.0), (6, 0.1), (12, 0.0)])
def test_false_positives(bench_of, n, drift):
    """No difference: the test alone rejects in about 5 of 100 (exact: 4.1% for n = 6), never more; claims are rarer."""
    claims, rejected, rows = claimed(bench_of, 2000, n, 0.0, drift=drift)
    assert rejected < 0.065 and claims < 0.055
    if not drift:
        assert rejected > 0.03
    assert not [row for row in rows if row["verdict"] in ("faster", "slower")], "2000 rows are one table: corrected"


def test_too_few_rounds_claim_nothing(bench_of):
    rows = bench_of({"w": {"a": [100, 101, 102, 103, 104], "b": [500, 501, 502, 503, 504]}})
    assert rows[1]["verdict"] == "n too small"


@pytest.mark.parametrize("n, difference, least", [(6, 0.3, 0.98), (6, 0.2, 0.9), (6, 0.15, 0.7), (12, 0.15, 0.95),
                                                  (12, 0.1, 0.75), (20, 0.1, 0.93)])
def test_power(bench_of, n, difference, least):
    """How often a difference is found that is there, with noise of 5% in each measurement and of 5% in each round."""
    claims, _, rows = claimed(bench_of, 500, n, difference, noise=0.05, drift=0.05)
    assert claims >= least, claims
    assert all(row["ratio"] > 1 for row in rows if row["verdict"] == "slower")

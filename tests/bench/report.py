# SPDX-License-Identifier: MIT
"""Measurements, and what is said of them: medians, and ratios round by round with their spread."""
import os
import platform
import statistics
import sys

SESSION = "all, stored"  # the workloads of a round and the end of the daemon; its CPU time of all its life
BARE = "nothing"  # the kind of call that is a request that nothing is done for
BASELINES = ("native", "passthrough_ll")


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


class Results:
    def __init__(self):
        self.measured = []  # a dict for each run of a workload
        self.requests = []  # a dict for each counted session
        self.calls = []  # a dict for each peer and round

    def add(self, fs, peer, workload, number, values):
        self.measured.append({"fs": fs, "peer": peer, "workload": workload, "round": number + 1, **values})

    def add_requests(self, fs, peer, sent, recorded):
        self.requests.append({"fs": fs, "peer": peer, "sent": sent, "recorded": recorded})

    def add_calls(self, fs, peer, number, ns):
        self.calls.append({"fs": fs, "peer": peer, "round": number + 1, "ns": ns})

    def call_us(self, fs, peer, kind):
        """Median; None when this peer does not have it."""
        values = [c["ns"][kind] for c in self.calls if (c["fs"], c["peer"]) == (fs, peer)]
        return None if not values or None in values else statistics.median(values) / 1000

    def values(self, fs, peer, workload, key="wall_s"):
        """By round."""
        return [m[key] for m in self.measured if (m["fs"], m["peer"], m["workload"]) == (fs, peer, workload)]

    def filesystems(self):
        return list(dict.fromkeys(m["fs"] for m in self.measured))

    def as_json(self, args):
        return {"kernel": platform.release(), "cpus": os.cpu_count(), "arguments": vars(args),
                "measured": self.measured, "calls": self.calls, "requests": self.requests}


def ratio(values, baseline):
    """Median of the ratios of rounds, with quartiles: 'a [b-c]'."""
    ratios = [a / b for a, b in zip(values, baseline)]
    if not ratios:
        return "-"
    if len(ratios) < 3:
        return f"{statistics.median(ratios):.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return f"{middle:.2f} [{low:.2f}-{high:.2f}]"


def print_table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
    print()


def print_tables(results, peers, workloads):
    for fs in results.filesystems():
        for workload in workloads:
            rows = [[f"{fs}: {workload}", "median s", "least s", "daemon CPU s", *(f"/ {b}" for b in BASELINES)]]
            for peer in peers:
                wall = results.values(fs, peer, workload)
                cpu = results.values(fs, peer, workload, "daemon_cpu_s")
                rows.append([peer, f"{statistics.median(wall):.3f}", f"{min(wall):.3f}",
                             f"{statistics.median(cpu):.3f}",
                             *(ratio(wall, results.values(fs, b, workload)) if b in peers and b != peer else ""
                               for b in BASELINES)])
            print_table(rows)
        if results.calls:
            print_calls(results, fs, peers)
    for counted in results.requests:
        print_requests(counted)


def print_calls(results, fs, peers):
    """us per call, and in brackets what is above the bare round trip of that peer."""
    rows = [[f"{fs}: us per call (above '{BARE}')", *peers]]
    bare = {peer: results.call_us(fs, peer, BARE) for peer in peers if peer != "native"}
    for kind in results.calls[0]["ns"]:
        row = [kind]
        for peer in peers:
            us = results.call_us(fs, peer, kind)
            above = f" ({us - bare[peer]:.1f})" if us is not None and bare.get(peer) is not None and kind != BARE else ""
            row.append("-" if us is None else f"{us:.1f}{above}")
        rows.append(row)
    print_table(rows)


def print_requests(counted):
    names = sorted({*counted["sent"], *counted["recorded"]} - {"forget", "forget_multi"},
                   key=lambda name: -counted["sent"].get(name, 0))
    rows = [[f"{counted['fs']}: {counted['peer']}", "sent", "recorded"]]
    for name in names:
        recorded = str(counted["recorded"].get(name, 0)) if counted["recorded"] else ""
        rows.append([name, str(counted["sent"].get(name, 0)), recorded])
    rows.append(["all", str(sum(counted["sent"].values())),
                 str(sum(counted["recorded"].get(n, 0) for n in names)) if counted["recorded"] else ""])
    print_table(rows)

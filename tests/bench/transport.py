# SPDX-License-Identifier: MIT
"""Counts the requests that the kernel sends to FUSE daemons, by its own trace points, while nobody measures time."""
import collections
import os
import pathlib
import re
import subprocess

TRACING = pathlib.Path("/sys/kernel/tracing")
BUFFER_KB = 65536
MARK = "fstape-bench: mounted"
# Not operations of anybody, or not counted by this trace point.
LEFT_OUT = {"init", "destroy", "interrupt"}
NAMES = {"rename2": "rename", "setlkw": "setlk"}


class Counter:
    """Of one mount, which is made after start() and still there at stop()."""

    def __init__(self):
        if not (TRACING / "instances").exists():
            subprocess.run(["mount", "-t", "tracefs", "none", TRACING], check=True)
        self.instance = TRACING / "instances" / f"fstape-bench-{os.getpid()}"

    def start(self):
        self.instance.mkdir(exist_ok=True)
        (self.instance / "buffer_size_kb").write_text(str(BUFFER_KB))
        (self.instance / "trace").write_text("")
        (self.instance / "events/fuse/fuse_request_send/enable").write_text("1")

    def mounted(self):
        """The mount is there: of those that have its number one after the other, it is the one at this moment."""
        (self.instance / "trace_marker").write_text(MARK)

    @staticmethod
    def connection_of(mountpoint):
        """As the kernel prints it: a device without a driver, so its number is the minor one."""
        return str(os.minor(os.stat(mountpoint).st_dev))

    def stop(self, connection):
        """Requests by name. Without FORGETs, which the kernel queues elsewhere."""
        (self.instance / "events/fuse/fuse_request_send/enable").write_text("0")
        counts = collections.Counter()
        lost, marked = 0, False
        for stats in self.instance.glob("per_cpu/cpu*/stats"):
            lost += int(re.search(r"overrun: (\d+)", stats.read_text()).group(1))
        with open(self.instance / "trace", encoding="utf-8", errors="replace") as trace:
            for line in trace:
                found = re.search(r"connection (\d+) req \d+ opcode \d+ \(FUSE_(\w+)\)", line)
                marked |= MARK in line
                if not found or found.group(1) != connection:
                    continue
                name = found.group(2).lower()
                if name == "init" and marked:
                    break
                if name == "init":
                    counts.clear()
                if name not in LEFT_OUT:
                    counts[NAMES.get(name, name)] += 1
        self.instance.rmdir()
        if lost:
            raise SystemExit(f"tests/bench/run: the trace buffer was too small by {lost} requests")
        return counts

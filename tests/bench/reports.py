#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Times every report and export of a recording against one scan of its operations: reports.py FSTAPE DB [NAME...].

The scan is "SELECT op, count(*) FROM ops GROUP BY op" in the sqlite3 shell, run again before each report, so that what
else the machine does meets both. Ratios are of CPU time; the time that passed, and the memory, stand beside them.
big_recording.py makes recordings to measure.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

SCAN = "SELECT op, count(*) FROM ops GROUP BY op"
EXPORTS = ("csv", "json", "ndjson", "perfetto", "folded", "fio")


def measure(*command):
    """(CPU seconds, seconds, MiB at most) of a command."""
    with tempfile.TemporaryFile() as output:
        start = time.monotonic()
        child = subprocess.Popen(command, stdout=output)
        _, status, usage = os.wait4(child.pid, 0)
        passed = time.monotonic() - start
    if status:
        sys.exit(f"{command}: failed")
    return usage.ru_utime + usage.ru_stime, passed, usage.ru_maxrss / 1024


def main(fstape, db, *names):
    listed = json.loads(subprocess.run([fstape, "query", "--list", "--format", "json"], check=True, capture_output=True).stdout)
    tasks = {row["report"]: (fstape, "query", "-q", db, "--report", row["report"]) for row in listed}
    tasks |= {f"export {form}": (fstape, "export", "-q", db, "--format", form) for form in EXPORTS}
    measure("sqlite3", db, SCAN)
    print(f"{'':18} {'CPU s':>7} {'scan':>6} {'ratio':>6} {'passed s':>9} {'MiB':>5}")
    for name, command in tasks.items():
        if names and name not in names:
            continue
        scan, _, _ = measure("sqlite3", db, SCAN)
        cpu, passed, memory = measure(*command)
        print(f"{name:18} {cpu:7.2f} {scan:6.2f} {cpu / scan:6.2f} {passed:9.2f} {memory:5.0f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])

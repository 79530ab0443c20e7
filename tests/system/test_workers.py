# SPDX-License-Identifier: MIT
"""The daemon's workers: a lone client is served by one of them, and nobody has to wait for that one."""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest

from harness import SLOW, wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")

# Alone for long enough to get a worker to itself, then writes when it is told to.
LONE_CLIENT = """
import os, sys
for _ in range(500):
    os.lstat(sys.argv[1])
fd = os.open(sys.argv[1], os.O_WRONLY)
for _ in range(100):
    os.fstat(fd)
print("ready", flush=True)
sys.stdin.readline()
os.write(fd, b"y")
print("written", flush=True)
"""


# Alone for a while, then next to busy programs for 3 s: prints the longest that one request took.
AMONG_BUSY = """
import os, subprocess, sys, time
def longest(seconds):
    most, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        start = time.monotonic()
        os.lstat(sys.argv[1])
        most = max(most, time.monotonic() - start)
    return most
longest(0.5)
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
try:
    print(longest(3))
finally:
    for one in busy:
        one.kill()
        one.wait()
"""


def lone_client(path):
    client = subprocess.Popen([sys.executable, "-c", LONE_CLIENT, path], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "ready\n"
    return client


@contextlib.contextmanager
def frozen(box):
    """The file system below: who writes to it waits."""
    subprocess.run(["fsfreeze", "--freeze", box.src.parent.parent], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", box.src.parent.parent], check=True)


def cpu_seconds(pid):
    return sum(int(open(f"/proc/{pid}/task/{tid}/schedstat").read().split()[0])
               for tid in os.listdir(f"/proc/{pid}/task")) / 1e9


def used_in_a_second(pid):
    before = cpu_seconds(pid)
    time.sleep(1)
    return cpu_seconds(pid) - before


@pytest.mark.parametrize("wait", ["auto", "pool", "sleep", "poll", "follow"])
def test_leader_held_up(box, wait):
    """The worker that serves a lone client waits for the file system below; others are served all the same."""
    def action(mnt):
        path = os.path.join(mnt, "file")
        open(path, "w").close()
        client = lone_client(path)
        with frozen(box):
            client.stdin.write("\n")
            client.stdin.flush()
            time.sleep(0.3)
            # Not by the test itself: it has to thaw the file system whatever happens.
            other = subprocess.Popen([sys.executable, "-c", "import os, sys\nfor _ in range(20): os.lstat(sys.argv[1])",
                                      path])
            try:
                assert other.wait(10 * SLOW) == 0
            finally:
                other.kill()
        assert client.stdout.readline() == "written\n"
        assert client.wait(10 * SLOW) == 0
    box.recorded(action, cache="never", allow_other=True, wait=wait)


def threads_of(pid, *names):
    """{tid: (policy, processors)} of the threads with one of these names, of all if none is given."""
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if not names or (task / "comm").read_text().strip() in names:
            found[int(task.name)] = os.sched_getscheduler(int(task.name)), os.sched_getaffinity(int(task.name))
    return found


# Asks slowly: a request is hardly ever there when the guard looks.
SLOW_ASKER = """
import os, sys, time
while True:
    os.lstat(sys.argv[1])
    time.sleep(0.01)
"""


def woken_in_a_second(pid, *names):
    """How often the threads of these names went to sleep."""
    def sleeps():
        return sum(int(line.split()[1]) for tid in threads_of(pid, *names)
                   for line in open(f"/proc/{pid}/task/{tid}/status") if line.startswith("voluntary_ctxt"))
    before = sleeps()
    time.sleep(1)
    return sleeps() - before


def idle_after_a_lone_client(box, **options):
    """However a worker waits for a lone client's next request: when none comes, it sleeps, and who looks after it, too."""
    def action(mnt):
        path = os.path.join(mnt, "file")
        open(path, "w").close()
        client = lone_client(path)
        pid = box.mounts[0].pid
        wait_until(lambda: used_in_a_second(pid) < 0.05 * SLOW, what="the daemon asleep, the loader too")
        wait_until(lambda: woken_in_a_second(pid, "guard", "canary") < 10, what="nobody to be looked after")
        client.communicate("\n")
    box.recorded(action, cache="never", allow_other=True, **options)


def test_idle_after_a_lone_client(box):
    idle_after_a_lone_client(box)


def runs_and_waits(task):
    """Whether a thread wants a processor, and how long it has had one, ns."""
    return (task / "stat").read_text().rsplit(")", 1)[1].split()[0] == "R", (task / "schedstat").read_text().split()[0]


def test_a_lost_lead_leaves_nothing(box):
    """The guard has taken the lead from a worker that was held up: it waits as others do then, and not as it did for its client."""
    def action(mnt):
        path = os.path.join(mnt, "file")
        open(path, "w").close()
        pid = box.mounts[0].pid
        client = lone_client(path)
        with frozen(box):
            client.stdin.write("\n")
            client.stdin.flush()
            time.sleep(0.3)
            asker = box.client(sys.executable, "-c", SLOW_ASKER, path)
            time.sleep(1)  # it is served by another worker that leads now
        assert client.stdout.readline() == "written\n"
        asker.kill()
        assert client.wait(10 * SLOW) == 0
        wait_until(lambda: woken_in_a_second(pid, "guard") < 10, what="nobody to be looked after")
    box.recorded(action, cache="never", allow_other=True, wait="follow")


def longest_without_processor(task, client):
    """While the client runs: for how long the thread wanted a processor and was not given one, s."""
    most, since, before = 0, None, None
    while client.poll() is None:
        wants, used = runs_and_waits(task)
        now = time.monotonic()
        since = since if wants and since and used == before else now
        before, most = used, max(most, now - since)
        time.sleep(0.02)
    return most


def among_busy_programs(box, **options):
    """Who serves a lone client, and who stores what it does, are of idle priority; somebody sees to it that they get on."""
    def action(mnt):
        path = os.path.join(mnt, "file")
        open(path, "w").close()
        pid = box.mounts[0].pid
        tid, = wait_until(lambda: threads_of(pid, "loader"), what="the loader's beginning")
        loader = pathlib.Path(f"/proc/{pid}/task/{tid}")
        client = subprocess.Popen([sys.executable, "-c", AMONG_BUSY, path], stdout=subprocess.PIPE, text=True)
        assert longest_without_processor(loader, client) < 1 * SLOW
        assert float(client.communicate()[0]) < 3 * SLOW
    box.recorded(action, cache="never", allow_other=True, **options)


@pytest.mark.parametrize("wait", ["auto", "pool", "follow"])
def test_among_busy_programs(box, wait):
    among_busy_programs(box, wait=wait)

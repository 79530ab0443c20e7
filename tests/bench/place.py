# SPDX-License-Identifier: MIT
"""Where workloads run: a fresh file system in an image, with a peer's daemon in front of it."""
import os
import pathlib
import sqlite3
import subprocess
import time

import transport

MKFS = {
    # No lazy initialisation: it would write in the background while we measure.
    "ext3": ["mkfs.ext3", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "btrfs": ["mkfs.btrfs", "-q", "-f"],
}
START_S = 15
END_S = 60


def is_mountpoint(path):
    return any(line.split()[4] == str(path) for line in open("/proc/self/mountinfo", encoding="utf-8"))


def unmount_below(folder):
    points = [line.split()[4] for line in open("/proc/self/mountinfo", encoding="utf-8")]
    for point in reversed([p for p in points if p.startswith(f"{folder}/")]):
        subprocess.run(["umount", "-l", point], check=False, stderr=subprocess.DEVNULL)


def wait_for_children(seconds):
    """Daemons whose mounts are gone end by themselves, and write until they do."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.05)
    except ChildProcessError:
        pass


class Place:
    def __init__(self, work, fs, size, peer, tools, count=False):
        self.work, self.fs, self.size, self.peer, self.tools = work, fs, size, peer, tools
        self.source, self.mountpoint = work / "source", work / "mnt"
        self.image, self.database = work / "image", work / "bench.db"
        self.daemon = None
        self.counter = transport.Counter() if count and peer.command else None
        self.requests, self.recorded = {}, {}
        self.life_cpu_s, self.end_s = 0, 0  # of the daemons: their CPU time, and how long they went on after umount

    @property
    def dir(self):
        """What workloads see."""
        if not self.peer.command or self.peer.within == "self":
            return self.source
        return self.mountpoint / str(self.source).lstrip("/") if self.peer.within else self.mountpoint

    def __enter__(self):
        for folder in (self.source, self.mountpoint):
            folder.mkdir(exist_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(self.size << 30)
        subprocess.run([*MKFS[self.fs], self.image], check=True, stdin=subprocess.DEVNULL)
        self.mount()
        return self

    def __exit__(self, *_):
        self.unmount()
        self.image.unlink()
        for file in self.work.glob(f"{self.database.name}*"):
            file.unlink()

    def mount(self):
        subprocess.run(["mount", "-o", "loop,noatime", self.image, self.source], check=True)
        if not self.peer.command:
            return
        target = self.source if self.peer.within == "self" else self.mountpoint
        argv = self.peer.command(self.tools, self.source, target, self.database)
        before = len(open("/proc/self/mountinfo", encoding="utf-8").readlines())
        if self.counter:
            self.counter.start()
        self.daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            self.wait_for_mount(before)
        except BaseException:  # a signal, among others: it would mount after we have gone
            self.daemon.terminate()
            self.daemon.wait(END_S)
            raise
        if self.counter:
            self.counter.mounted()

    def wait_for_mount(self, before):
        until = time.monotonic() + START_S
        while len(open("/proc/self/mountinfo", encoding="utf-8").readlines()) == before:
            if self.daemon.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"tests/bench/run: {self.peer.name} does not start: {self.daemon.args}")
            time.sleep(0.01)
        time.sleep(0.1)

    def unmount(self):
        if self.daemon:
            target = self.source if self.peer.within == "self" else self.mountpoint
            connection = self.counter and self.counter.connection_of(target)
            if subprocess.run(["umount", target], stderr=subprocess.DEVNULL, check=False).returncode:
                subprocess.run(["umount", "-l", target], check=False)  # after a signal, git's children are still there
            self.wait_for_end()
            self.daemon = None
            if self.counter:
                self.add_counts(connection)
        for _ in range(50):  # a moment later it is not busy any more
            if not is_mountpoint(self.source) or \
                    subprocess.run(["umount", self.source], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                return
            time.sleep(0.1)
        subprocess.run(["umount", "-l", self.source], check=True)

    def wait_for_end(self):
        """Of the daemon, which may have things to store; what it has used in all its life is added up."""
        start = time.monotonic()
        while True:
            pid, status, usage = os.wait4(self.daemon.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() - start > END_S:
                self.daemon.kill()
            time.sleep(0.002)
        self.daemon.returncode = os.waitstatus_to_exitcode(status)
        self.end_s += time.monotonic() - start
        self.life_cpu_s += usage.ru_utime + usage.ru_stime

    def add_counts(self, connection):
        for name, count in self.counter.stop(connection).items():
            self.requests[name] = self.requests.get(name, 0) + count
        if self.peer.records:
            with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as db:
                run, = db.execute("SELECT max(id) FROM run").fetchone()
                for name, count in db.execute("SELECT op, count(*) FROM ops WHERE run = ? GROUP BY op", (run,)):
                    self.recorded[name] = self.recorded.get(name, 0) + count

    def remount(self):
        """All caches are empty afterwards."""
        self.unmount()
        subprocess.run(["sync"], check=True)
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        self.mount()

    def daemon_cpu_s(self):
        """CPU time of the daemon so far: its clock, by the number that clock_getcpuclockid(3) has for a process."""
        return time.clock_gettime(~self.daemon.pid << 3 | 2) if self.daemon else 0

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Makes a big recording, to measure reports on: big_recording.py DB [OPERATIONS]; 2,000,000 by default, in half a minute.

It is what a clone with four checkout workers and a status look like: a pack written in pieces, 12 directories of
hundreds of files in each of many, files of one or more writes, look-ups that fail, locks, fsyncs. Times are drawn from
heavy-tailed distributions by a fixed seed, so that two recordings of one size are the same.
"""
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system"))
from tape import Tape  # noqa: E402

ENOENT, ENODATA = 2, 61


class Writer:
    def __init__(self, tape, rng):
        self.tape, self.rng = tape, rng

    def time(self, median):
        return int(median * self.rng.lognormvariate(0, 0.8))

    def op(self, op, name, process, median, **more):
        self.tape.op(op, name, process, self.time(median), shim=800 + self.rng.randrange(600), wait=self.time(9000), **more)

    def pack(self, process, chunks):
        name = "git/.git/objects/pack/tmp_pack_Ab12Cd"
        self.op("lookup", name, process, 2000, error=ENOENT)
        self.op("create", name, process, 50000, mode=0o100444)
        for number in range(chunks):
            self.op("write", name, process, 3000, length=4096, result=4096, offset=4096 * number)
            if number % 10 == 0:
                self.op("read", name, process, 1500, length=4096, result=4096, offset=4096 * number)
        self.op("fsync", name, process, 9_000_000)
        self.op("release", name, process, 600)
        self.op("link", "git/.git/objects/pack/pack-1.pack", process, 30000, to=name)
        self.op("unlink", name, process, 12000)

    def lock(self, name, process, writes):
        self.op("lookup", f"{name}.lock", process, 2000, error=ENOENT)
        self.op("create", f"{name}.lock", process, 40000, mode=0o100644)
        for number in range(writes):
            self.op("write", f"{name}.lock", process, 8000, length=131072, result=131072, offset=131072 * number)
        self.op("release", f"{name}.lock", process, 600)
        self.op("rename", f"{name}.lock", process, 60000, to=name)

    def file(self, name, process):
        """What a checked-out file consists of; overlaps with those of the other workers now and then."""
        at = self.tape.now - self.time(20000) if self.rng.random() < 0.3 else None
        self.tape.op("lookup", name, process, self.time(1500), error=ENOENT, at=max(0, at) if at is not None else None)
        self.op("lookup", name, process, 700, error=ENOENT)
        self.op("create", name, process, 25000, mode=0o100644, flags=0o100301)
        self.op("getxattr", name, process, 2500, error=ENODATA, length=0)
        for number in range(1 + (self.rng.random() < 0.1)):
            size = int(min(65536, self.rng.lognormvariate(7.5, 1.5))) + 1
            self.op("write", name, process, 4000, length=size, result=size, offset=65536 * number)
        self.op("getattr", name, process, 450)
        self.op("flush", name, process, 200)
        self.op("release", name, process, 550)


def git_tells(tape):
    """A clone with its index-pack and workers, and a status: every operation belongs to one of them, most to a region."""
    tape.flush()
    tape.db.executemany("INSERT INTO git_command (run, id, parent, sid, pid, name, argv, start_ns, end_ns) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)", [
        (1, None, "s1", 100, "clone", "git clone file:///srv/big git", 0, tape.now),
        (2, 1, "s1/s2", 101, "index-pack", "git index-pack --stdin", 0, tape.now), (3, None, "s3", 200, "status", "git status", 0, tape.now)])
    tape.db.executemany("INSERT INTO git_region VALUES (1, ?, ?, NULL, ?, 'main', 1, ?, ?, NULL, 0, ?, ?)", [
        (1, 1, 10, "unpack_trees", "unpack_trees", tape.now, "unpack_trees/unpack_trees"),
        (2, 3, 12, "index", "refresh", tape.now, "index/refresh")])
    tape.db.execute("INSERT INTO git_range SELECT run, id, 1, CASE WHEN id = 2 THEN 2 WHEN id > 6 THEN 3 ELSE 1 END,"
                    " CASE WHEN id > 6 THEN 2 WHEN id > 2 THEN 1 END,"
                    " CASE WHEN id = 1 THEN 5 WHEN id = 2 THEN 8 WHEN id > 6 THEN 12 ELSE 10 END FROM process")
    tape.db.execute("INSERT INTO git_span VALUES (1, 0, ?, 1, 1, 10)", (tape.now,))


def main(path, operations=2_000_000):
    rng = random.Random(1)
    tape = Tape(path)
    writer = Writer(tape, rng)
    tape.begin("big")
    git = tape.process("git", 100, cmdline="git clone file:///srv/big git")
    pack = tape.process("git", 101, cmdline="git index-pack --stdin")
    workers = [tape.process("git", 110 + number, cmdline="git checkout--worker") for number in range(4)]
    status = [tape.process("git", 200, tid=200 + number, cmdline="git status") for number in range(8)]
    tape.op("mkdir", "git", git, 80000)
    tape.op("mkdir", "git/.git", git, 80000)
    for name in ("HEAD", "config", "packed-refs"):
        writer.lock(f"git/.git/{name}", git, 1)
    writer.pack(pack, operations // 40)
    files = []
    while tape.seq < operations * 0.93:
        directory = f"git/dir{len(files) // 4800 % 12}/sub{len(files) // 120}"
        if len(files) % 120 == 0:
            for name in (directory.rsplit("/", 1)[0], directory):
                if name.encode() not in tape.nodes:
                    writer.op("mkdir", name, git, 70000)
        files.append(f"{directory}/file_{len(files)}.c")
        writer.file(files[-1], workers[rng.randrange(4)])
    writer.lock("git/.git/index", git, 200)
    while tape.seq < operations - 250:
        writer.op("lookup", files[rng.randrange(len(files))], status[rng.randrange(8)], 1200)
        if rng.random() < 0.05:
            name, process = files[rng.randrange(len(files))], status[0]
            writer.op("open", name, process, 1500)
            writer.op("read", name, process, 6000, length=4096, result=2000, offset=0)
            writer.op("release", name, process, 500)
    writer.lock("git/.git/index", git, 200)
    git_tells(tape)
    tape.end()
    tape.close()


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or pathlib.Path(sys.argv[1]).exists():
        sys.exit(f"{__doc__.strip()}\nDB must not exist yet.")
    main(sys.argv[1], *map(int, sys.argv[2:]))

# SPDX-License-Identifier: MIT
"""A small recording in which every report finds something, with numbers that a person can add up."""
from tape import Tape

ENOENT, EEXIST, ENODATA = 2, 17, 61
US, MS = 1000, 1000_000
SECOND = 1000 * MS


def lock(tape, process, name, held, fate="rename"):
    tape.op("lookup", f"{name}.lock", process, 2 * US, error=ENOENT)
    tape.op("create", f"{name}.lock", process, 20 * US, mode=0o100644)
    tape.op("write", f"{name}.lock", process, 5 * US, length=100, result=100, offset=0)
    tape.op("release", f"{name}.lock", process, 1 * US)
    if fate == "rename":
        tape.op("rename", f"{name}.lock", process, 30 * US, to=name, wait=held)
    elif fate == "unlink":
        tape.op("unlink", f"{name}.lock", process, 10 * US, wait=held)


def check_out(tape, process, name, size, create=20 * US):
    for time in (2 * US, 1 * US):
        tape.op("lookup", name, process, time, error=ENOENT)
    tape.op("create", name, process, create, mode=0o100644, wait=10 * US)
    tape.op("getxattr", name, process, 2 * US, error=ENODATA, length=0)
    tape.op("write", name, process, 4 * US, length=size, result=size, offset=0)
    tape.op("getattr", name, process, 500)
    tape.op("flush", name, process, 200)
    tape.op("release", name, process, 600)


def receive(tape, process):
    pack = "w/.git/objects/pack/tmp_pack_A1"
    tape.op("create", pack, process, 40 * US, mode=0o100444)
    for number in range(3):
        tape.op("write", pack, process, 3 * US, length=4096, result=4096, offset=4096 * number)
    tape.op("read", pack, process, 2 * US, length=4096, result=4096, offset=0)
    tape.op("fsync", pack, process, 6 * MS, wait=1 * MS)
    tape.op("release", pack, process, 1 * US)
    tape.op("link", "w/.git/objects/pack/pack-1.pack", process, 25 * US, to=pack)
    tape.op("unlink", pack, process, 15 * US)


def clone(tape):
    git = tape.process("git", 100, cmdline="git clone /srv/x w")
    pack = tape.process("git", 101, cmdline="git index-pack --stdin")
    tape.op("mkdir", "w", git, 50 * US)
    tape.op("mkdir", "w/.git", git, 50 * US)
    for name in ("w/.git/HEAD", "w/.git/config", "w/.git/config"):
        lock(tape, git, name, held=200 * US)
    tape.op("lookup", "w/.git/commondir", git, 2 * US, error=ENOENT)
    receive(tape, pack)
    tape.op("create", "w/.git/index.lock", git, 20 * US, mode=0o100644)
    tape.op("mkdir", "w/src", git, 60 * US)
    for number in range(6):
        check_out(tape, git, f"w/src/f{number}", 1000 << number, create=(20 + 10 * number) * US)
    check_out(tape, git, "w/README", 10)
    tape.op("write", "w/.git/index.lock", git, 50 * US, length=70000, result=70000, offset=0)
    tape.op("release", "w/.git/index.lock", git, 1 * US)
    tape.op("rename", "w/.git/index.lock", git, 40 * US, to="w/.git/index")


def status(tape):
    """
    Of v, which was there before. Two threads that overlap; f0 is as young as v's index, f1 younger, f2 older. Then locks
    in w, where the index is of the run itself.
    """
    main = tape.process("git", 200, cmdline="git status")
    other = tape.process("git", 200, tid=201, cmdline="git status")
    now = tape.now + 1 * MS
    for number in range(6):
        tape.initial(f"v/src/f{number}", size=1000 << number, mtime_ns=(1000, 1001, 900)[number % 3] * SECOND + number)
        tape.op("lookup", f"v/src/f{number}", (main, other)[number % 2], 20 * US, at=now + 10 * US * number)
    tape.op("lookup", "v/.git/HEAD", main, 3 * US, wait=100 * US)
    tape.op("lookup", "v/.git/info/grafts", main, 3 * US, error=ENOENT)
    for _ in range(3):
        tape.op("lookup", "w/.git/commondir", main, 2 * US, error=ENOENT)
    tape.initial("v/.git/index", size=70000, mtime_ns=1000 * SECOND + 500)
    for name, size in (("v/.git/index", 70000), ("v/src/f0", 1000), ("v/src/f1", 2000), ("v/src/f2", 32000), ("w/README", 10)):
        tape.op("open", name, main, 3 * US, flags=0)
        tape.op("read", name, main, 8 * US, length=max(4096, size), result=size, offset=0)
        tape.op("release", name, main, 1 * US)
    lock(tape, main, "w/.git/index", held=300 * US)
    lock(tape, main, "w/.git/refs/heads/x", held=50 * US, fate="unlink")
    tape.op("create", "w/.git/refs/heads/x.lock", main, 9 * US, error=EEXIST)
    lock(tape, main, "w/.git/gc.pid", held=0, fate="stays")


def others(tape):
    """A build, and names that nothing may choke on."""
    make = tape.process("make", 300, cmdline="make all")
    tape.op("lookup", "w/src/f0", make, 1 * US)
    tape.op("getattr", "w/src/f0", make, 1 * US)
    tape.op("create", b"w/\xff,\"\n<script>.o", make, 20 * US, mode=0o100644)
    tape.op("write", b"w/\xff,\"\n<script>.o", make, 90 * US, length=512, result=512, offset=0)
    tape.op("fsync", b"w/\xff,\"\n<script>.o", make, 2 * MS)
    tape.op("release", b"w/\xff,\"\n<script>.o", make, 1 * US)
    tape.op("mkdir", "w/src", make, 5 * US, error=EEXIST)
    tape.op("symlink", "w/latest", make, 8 * US, to="src/f0")
    tape.op("lookup", "elsewhere", make, 2 * US, error=ENOENT)


def git_tells(tape):
    """
    The clone (process 1) with its index-pack (2) and the status (3, 4), as git would trace them: in the foreground are
    the clone's own work until the pack comes, the pack, the checkout, the status, and the build.
    """
    run = tape.run
    tape.flush()
    tape.db.executemany("INSERT INTO git_command (run, id, parent, sid, pid, name, argv, start_ns, end_ns, exit_code)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", [
        (run, 1, None, "s1", 100, "clone", "git clone /srv/x w", 0, 8663 * US),
        (run, 2, 1, "s1/s2", 101, "index-pack", "git index-pack --stdin", 880 * US, 8000 * US),
        (run, 3, None, "s3", 200, "status", "git status", 9600 * US, 10420 * US)])
    tape.db.executemany("INSERT INTO git_region VALUES (?, ?, ?, ?, ?, 'main', ?, ?, ?, NULL, ?, ?, ?)", [
        (run, 1, 1, None, 10, 1, "unpack_trees", "unpack_trees", 8010 * US, 8600 * US, "unpack_trees/unpack_trees"),
        (run, 2, 1, 1, 11, 2, "index", "read", 8020 * US, 8030 * US, "unpack_trees/unpack_trees > index/read"),
        (run, 3, 3, None, 12, 1, "index", "refresh", 9650 * US, 9750 * US, "index/refresh"),
        (run, 4, 3, None, 12, 1, "index", "refresh", 9760 * US, 9780 * US, "index/refresh")])
    tape.db.executemany("INSERT INTO git_span VALUES (?, ?, ?, ?, ?, ?)", [
        (run, 0, 880 * US, 1, None, 5), (run, 880 * US, 8000 * US, 2, None, 8), (run, 8000 * US, 8663 * US, 1, 1, 10),
        (run, 8663 * US, 9600 * US, None, None, 1), (run, 9600 * US, 10420 * US, 3, 3, 12), (run, 10420 * US, tape.now, None, None, 1)])
    tape.db.execute("INSERT INTO git_range SELECT run, process, seq,"
                    " CASE process WHEN 1 THEN 1 WHEN 2 THEN 2 WHEN 5 THEN NULL ELSE 3 END,"
                    " CASE WHEN process = 1 AND start_ns >= 8010000 THEN 1 WHEN process IN (3, 4) AND start_ns < 9780000 THEN 3 END,"
                    " CASE process WHEN 1 THEN CASE WHEN start_ns >= 8010000 THEN 10 ELSE 5 END WHEN 2 THEN 8 WHEN 5 THEN 1 ELSE 12 END"
                    " FROM op WHERE run = ?", (run,))


def machine_counts(tape):
    """Samples at -1, 1, 8 and 11 ms; the disk's flushes change in the first and the last interval between them."""
    tape.db.executemany("INSERT INTO host_counter VALUES (?, ?, ?, ?, 'counter', ?)", [
        (tape.run, 1, "cpu", "user", "ns"), (tape.run, 2, "disk:vda", "flushes", "count"), (tape.run, 3, "disk:vda", "flush_time", "ns"),
        (tape.run, 4, "disk:loop0", "flushes", "count")])
    tape.db.executemany("INSERT INTO host_value VALUES (?, ?, ?, ?)", [
        (tape.run, counter, at * MS, value) for counter, at, value in [
            (1, -1, 5), (1, 1, 6), (1, 8, 7), (1, 11, 8), (2, -1, 100), (2, 8, 103), (2, 11, 104), (3, -1, 0), (3, 8, 5 * MS),
            (3, 11, 7 * MS), (4, -1, 10), (4, 11, 11)]])


def tell(path):
    """Run 1 is an empty one, run 2 the story, run 3 one operation."""
    tape = Tape(path)
    tape.begin("empty")
    tape.end()
    tape.begin("story")
    clone(tape)
    status(tape)
    others(tape)
    git_tells(tape)
    machine_counts(tape)
    tape.end()
    tape.begin("single")
    tape.op("getattr", "", tape.process("ls", 400), 7 * US)
    tape.end()
    tape.close()

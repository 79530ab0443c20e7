# SPDX-License-Identifier: MIT
"""One case per operation of schema/ops.def: it is performed through a mount, and its row says what was done."""
import errno
import fcntl
import mmap
import os
import stat
import struct
import time

import pytest

from harness import as_user, check_truths, libc_call, operations, run

CASES = {}


def case(name):
    def enter(function):
        assert name not in CASES, f"two cases for {name}"
        CASES[name] = function
        return function
    return enter


def put(path, data=b"", mode=0o644):
    path.write_bytes(data)
    path.chmod(mode)


@case("lookup")
def lookup(box):
    put(box.src / "there")

    def action(mnt):
        assert (mnt / "there").exists()
        assert not (mnt / "missing").exists()
    db = box.recorded(action, cache="never")
    found = db.expect("lookup", path="there", error=None, result=0)
    assert found["node"] and found["parent"] and found["class"] == "lookup"
    db.expect("lookup", path="missing", error="ENOENT", node=None)


@case("forget")
def forget(box):
    put(box.src / "f")

    def action(mnt):
        (mnt / "f").stat()
        (mnt / "f").unlink()
        time.sleep(1)  # nobody is told when it comes
    db = box.recorded(action, cache="never")
    node = db.expect("lookup", path="f", error=None)["node"]
    row = db.expect("forget", path="f", node=node, error=None)
    assert row["length"] >= 1 and row["class"] == "forget"


@case("forget_multi")
def forget_multi(box):
    for number in range(3000):
        put(box.src / f"f{number}")

    def action(mnt):
        for _ in range(20):
            for number in range(3000):
                (mnt / f"f{number}").stat()
            with open("/proc/sys/vm/drop_caches", "w") as file:
                file.write("2")
            time.sleep(0.1)
    db = box.recorded(action, cache="always")
    assert db.expect("forget_multi", error=None)["length"] >= 1


@case("getattr")
def getattr_(box):
    put(box.src / "f", b"12345")

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDONLY)
        assert os.fstat(file).st_size == 5
        os.close(file)
    db = box.recorded(action, cache="never")
    row = db.expect("getattr", path="f", error=None, result=0)
    assert row["node"] == db.expect("lookup", path="f", error=None)["node"]


@case("setattr")
def setattr_(box):
    put(box.src / "f", b"12345")

    def action(mnt):
        (mnt / "f").chmod(0o600)
        os.truncate(mnt / "f", 2)
        os.utime(mnt / "f", ns=(1_000_000_001, 2_000_000_002))
        os.chown(mnt / "f", 12, 34)
        with open(mnt / "f", "r+b") as file:
            file.truncate(3)
    db = box.recorded(action, cache="never")
    rows = db.ops(op="setattr", path="f", error=None)
    assert len(rows) == 5 and all(row["args"] for row in rows)
    assert db.expect("setattr", fh=db.expect("open", path="f")["fh"])
    st = (box.src / "f").stat()
    assert (st.st_size, st.st_uid, st.st_gid) == (3, 12, 34) and stat.S_IMODE(st.st_mode) == 0o600


@case("readlink")
def readlink(box):
    (box.src / "l").symlink_to("t" * 4000)
    db = box.recorded(lambda mnt: os.readlink(mnt / "l") == "t" * 4000 or pytest.fail("wrong target"))
    db.expect("readlink", path="l", error=None)


@case("symlink")
def symlink(box):
    db = box.recorded(lambda mnt: (mnt / "l").symlink_to("some/target"))
    row = db.expect("symlink", path="l", path2="some/target", error=None)
    assert row["parent"] and row["node"]
    assert os.readlink(box.src / "l") == "some/target"


@case("mknod")
def mknod(box):
    def action(mnt):
        os.mkfifo(mnt / "fifo", 0o640)
        os.mknod(mnt / "null", 0o020600, os.makedev(1, 3))
        os.mknod(mnt / "plain", 0o100600)
    db = box.recorded(action)
    row = db.expect("mknod", path="fifo", error=None)
    assert stat.S_ISFIFO(row["mode"]) and row["node"] and row["parent"]
    db.expect("mknod", path="null", error=None)
    db.expect("mknod", path="plain", error=None)
    assert (box.src / "null").stat().st_rdev == os.makedev(1, 3)


@case("mkdir")
def mkdir(box):
    def action(mnt):
        (mnt / "d").mkdir(0o750)
        (mnt / "d" / "e").mkdir()
        with pytest.raises(FileExistsError):
            libc_call("mkdir", os.fsencode(mnt / "d"), 0o755)
    db = box.recorded(action, cache="never")
    parent = db.expect("mkdir", path="d", error=None)
    child = db.expect("mkdir", path="d/e", error=None)
    assert child["parent"] == parent["node"] and parent["mode"] & 0o777 == 0o750


@case("unlink")
def unlink(box):
    put(box.src / "f")
    (box.src / "d").mkdir()

    def action(mnt):
        (mnt / "f").unlink()
        with pytest.raises(OSError):
            (mnt / "d").unlink()
    db = box.recorded(action, cache="never")
    row = db.expect("unlink", path="f", error=None)
    assert row["parent"] and row["node"] == db.expect("lookup", path="f", error=None)["node"]


@case("rmdir")
def rmdir(box):
    (box.src / "d").mkdir()
    (box.src / "full" / "x").mkdir(parents=True)

    def action(mnt):
        (mnt / "d").rmdir()
        with pytest.raises(OSError, match="not empty"):
            (mnt / "full").rmdir()
    db = box.recorded(action, cache="never")
    db.expect("rmdir", path="d", error=None)
    db.expect("rmdir", path="full", error="ENOTEMPTY", result=0)


@case("rename")
def rename(box):
    put(box.src / "a")
    put(box.src / "d2")
    (box.src / "dir").mkdir()

    def action(mnt):
        os.rename(mnt / "a", mnt / "dir" / "b")
        libc_call("renameat2", -100, os.fsencode(mnt / "d2"), -100, os.fsencode(mnt / "dir" / "b"), 2)
        with pytest.raises(FileExistsError):
            libc_call("renameat2", -100, os.fsencode(mnt / "d2"), -100, os.fsencode(mnt / "dir" / "b"), 1)
    db = box.recorded(action, cache="never")
    row = db.expect("rename", path="a", path2="dir/b", error=None, flags=0)
    assert row["node"] == db.expect("lookup", path="a", error=None)["node"] and row["parent"]
    db.expect("rename", path="d2", path2="dir/b", error=None, flags=2)


@case("link")
def link(box):
    put(box.src / "a")

    def action(mnt):
        os.link(mnt / "a", mnt / "b")
        assert (mnt / "a").stat().st_nlink == 2
    db = box.recorded(action, cache="never")
    row = db.expect("link", path="b", path2="a", error=None)
    assert row["node"] == db.expect("lookup", path="a", error=None)["node"]


@case("open")
def open_(box):
    put(box.src / "f", b"x")

    def action(mnt):
        os.close(os.open(mnt / "f", os.O_RDWR | os.O_APPEND))
    db = box.recorded(action)
    row = db.expect("open", path="f", error=None, result=0)
    assert row["fh"] and row["flags"] & os.O_ACCMODE == os.O_RDWR and row["flags"] & os.O_APPEND


@case("read")
def read(box):
    put(box.src / "f", bytes(range(256)) * 100)

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDONLY)
        assert len(os.pread(file, 4096, 20000)) == 4096
        assert len(os.pread(file, 50000, 0)) == 25600
        os.close(file)
    db = box.recorded(action)
    rows = db.ops(op="read", path="f", error=None)
    assert rows and {row["fh"] for row in rows} == {db.expect("open", path="f")["fh"]}
    assert all(0 <= row["result"] <= row["length"] for row in rows)
    assert max(row["offset"] + row["result"] for row in rows) == 25600


@case("write")
def write(box):
    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR | os.O_CREAT)
        assert os.pwrite(file, b"x" * 1000, 500) == 1000
        os.close(file)
    db = box.recorded(action)
    row = db.expect("write", path="f", offset=500, length=1000, result=1000, error=None)
    assert row["fh"] == db.expect("create", path="f")["fh"]
    assert (box.src / "f").read_bytes() == b"\0" * 500 + b"x" * 1000


@case("statfs")
def statfs(box):
    def action(mnt):
        ours, below = os.statvfs(mnt), os.statvfs(box.src)
        assert (ours.f_blocks, ours.f_bsize, ours.f_namemax) == (below.f_blocks, below.f_bsize, below.f_namemax)
    box.recorded(action).expect("statfs", path="", error=None)


@case("release")
def release(box):
    put(box.src / "f")

    def action(mnt):
        os.close(os.open(mnt / "f", os.O_RDONLY))
    db = box.recorded(action)
    opened = db.expect("open", path="f")
    row = db.expect("release", count=1, path="f", fh=opened["fh"], error=None)
    assert (row["pid"], row["comm"]) == (os.getpid(), opened["comm"]), "a release belongs to whoever opened"


@case("fsync")
def fsync(box):
    def action(mnt):
        file = os.open(mnt / "f", os.O_WRONLY | os.O_CREAT)
        os.write(file, b"x")
        os.fsync(file)
        os.fdatasync(file)
        os.close(file)
    db = box.recorded(action)
    rows = db.ops(op="fsync", path="f", error=None)
    assert len(rows) == 2 and rows[0]["flags"] != rows[1]["flags"], "fdatasync is told from fsync"


@case("setxattr")
def setxattr(box):
    put(box.src / "f")

    def action(mnt):
        os.setxattr(mnt / "f", "user.k", b"value", os.XATTR_CREATE)
        with pytest.raises(FileExistsError):
            os.setxattr(mnt / "f", "user.k", b"other", os.XATTR_CREATE)
    db = box.recorded(action)
    row = db.expect("setxattr", path="f", error=None, length=5, flags=os.XATTR_CREATE)
    assert "user.k" in row["args"]
    db.expect("setxattr", path="f", error="EEXIST")
    assert os.getxattr(box.src / "f", "user.k") == b"value"


@case("getxattr")
def getxattr(box):
    put(box.src / "f")
    os.setxattr(box.src / "f", "user.k", b"value")

    def action(mnt):
        assert os.getxattr(mnt / "f", "user.k") == b"value"
        with pytest.raises(OSError):
            os.getxattr(mnt / "f", "user.none")
    db = box.recorded(action)
    rows = db.ops(op="getxattr", path="f", error=None, result=5)
    assert rows and all("user.k" in row["args"] for row in rows)
    db.expect("getxattr", path="f", error="ENODATA")


@case("listxattr")
def listxattr(box):
    put(box.src / "f")
    os.setxattr(box.src / "f", "user.one", b"1")

    def action(mnt):
        assert os.listxattr(mnt / "f") == ["user.one"]
    box.recorded(action).expect("listxattr", path="f", error=None, result=len("user.one") + 1)


@case("removexattr")
def removexattr(box):
    put(box.src / "f")
    os.setxattr(box.src / "f", "user.k", b"1")
    db = box.recorded(lambda mnt: os.removexattr(mnt / "f", "user.k"))
    assert "user.k" in db.expect("removexattr", path="f", error=None)["args"]
    assert os.listxattr(box.src / "f") == []


@case("flush")
def flush(box):
    put(box.src / "f")

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDONLY)
        os.close(os.dup(file))
        os.close(file)
    db = box.recorded(action)
    fh = db.expect("open", path="f")["fh"]
    db.expect("flush", count=2, path="f", fh=fh, error=None)


@case("opendir")
def opendir(box):
    (box.src / "d").mkdir()
    db = box.recorded(lambda mnt: os.listdir(mnt / "d"))
    assert db.expect("opendir", path="d", error=None)["fh"]


def list_many(box):
    """Long enough for several answers: the kernel asks for names with attributes first, later for names alone."""
    (box.src / "d").mkdir()
    for number in range(2000):
        put(box.src / "d" / f"file-with-a-long-name-{number}")

    def action(mnt):
        assert len(os.listdir(mnt / "d")) == 2000
    return box.recorded(action, cache="always")


@case("readdir")
def readdir(box):
    db = list_many(box)
    row = db.expect("readdir", path="d", error=None)
    assert row["fh"] == db.expect("opendir", path="d")["fh"] and 0 <= row["result"] <= row["length"]


@case("readdirplus")
def readdirplus(box):
    db = list_many(box)
    row = db.expect("readdirplus", path="d", error=None, offset=0)
    assert row["fh"] == db.expect("opendir", path="d")["fh"] and 0 < row["result"] <= row["length"]


@case("releasedir")
def releasedir(box):
    db = box.recorded(lambda mnt: os.listdir(mnt))
    opened = db.expect("opendir", path="")
    assert db.expect("releasedir", path="", fh=opened["fh"], error=None)["pid"] == os.getpid()


@case("fsyncdir")
def fsyncdir(box):
    def action(mnt):
        file = os.open(mnt, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(file)
        os.close(file)
    db = box.recorded(action)
    assert db.expect("fsyncdir", path="", error=None)["fh"] == db.expect("opendir", path="")["fh"]


@case("getlk")
def getlk(box):
    put(box.src / "f", b"x" * 100)

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR)
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 10, 20, 0)
        assert struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, query))[0] == fcntl.F_UNLCK
        os.close(file)
    row = box.recorded(action).expect("getlk", path="f", error=None, offset=10, length=20)
    assert row["args"]


@case("setlk")
def setlk(box):
    put(box.src / "f", b"x" * 100)

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 20, 10)
        fcntl.lockf(file, fcntl.LOCK_UN, 20, 10)
        os.close(file)
    db = box.recorded(action)
    rows = db.ops(op="setlk", path="f", error=None, offset=10, length=20)
    assert len(rows) >= 2 and rows[0]["args"] != rows[1]["args"], "locking is told from unlocking"


@case("flock")
def flock(box):
    put(box.src / "f")

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = os.open(mnt / "f", os.O_RDWR)
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)
        os.close(other)
    db = box.recorded(action)
    assert len(db.ops(op="flock", path="f", error=None)) >= 2
    db.expect("flock", path="f", error="EAGAIN")


@case("access")
def access(box):
    """With default_permissions the kernel decides alone: ACCESS is only sent on an ordinary user's mount."""
    uid = 1000
    put(box.src / "f", mode=0o400)
    for path in (box.src / "f", box.src, box.mnt, box.store):
        os.chown(path, uid, uid)
    box.store.chmod(0o755)
    with box.mount(user=uid, default_permissions=None) as made:
        assert as_user(lambda: os.access(made.mnt / "f", os.R_OK), uid)
        assert not as_user(lambda: os.access(made.mnt / "f", os.X_OK), uid)
    db = made.db()
    check_truths(db)
    db.expect("access", path="f", error=None, mode=os.R_OK)
    db.expect("access", path="f", error="EACCES", mode=os.X_OK)


@case("create")
def create(box):
    def action(mnt):
        os.close(os.open(mnt / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640))
    db = box.recorded(action)
    row = db.expect("create", path="f", error=None, result=0)
    assert row["fh"] and row["node"] and row["parent"]
    assert row["flags"] & os.O_EXCL and row["mode"] & 0o7777 == 0o640
    assert stat.S_IMODE((box.src / "f").stat().st_mode) == 0o640


@case("ioctl")
def ioctl(box):
    put(box.src / "f")
    get_flags = 0x80086601  # FS_IOC_GETFLAGS

    def flags_of(path):
        file = os.open(path, os.O_RDONLY)
        try:
            return struct.unpack("i4x", fcntl.ioctl(file, get_flags, bytes(8)))[0]
        finally:
            os.close(file)

    def action(mnt):
        assert flags_of(mnt / "f") == flags_of(box.src / "f") != 0
    row = box.recorded(action).expect("ioctl", path="f", error=None)
    assert row["flags"] is not None


@case("fallocate")
def fallocate(box):
    put(box.src / "f", b"x" * 10000)

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR)
        os.posix_fallocate(file, 0, 50000)
        libc_fallocate(file, 3, 0, 4096)  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
        os.close(file)
    db = box.recorded(action)
    db.expect("fallocate", path="f", error=None, offset=0, length=50000)
    db.expect("fallocate", path="f", error=None, offset=0, length=4096, mode=3)
    data = (box.src / "f").read_bytes()
    assert len(data) == 50000 and data[:4096] == bytes(4096) and data[4096:10000] == b"x" * 5904


def libc_fallocate(file, mode, offset, length):
    import ctypes
    libc_call("fallocate64", file, mode, ctypes.c_long(offset), ctypes.c_long(length))


@case("lseek")
def lseek(box):
    file = os.open(box.src / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"x", 1 << 20)
    os.close(file)

    def action(mnt):
        opened = os.open(mnt / "f", os.O_RDONLY)
        assert os.lseek(opened, 0, os.SEEK_DATA) == 1 << 20
        assert os.lseek(opened, 0, os.SEEK_HOLE) == 0
        os.close(opened)
    db = box.recorded(action)
    db.expect("lseek", path="f", error=None, offset=0, result=1 << 20)
    db.expect("lseek", path="f", error=None, offset=0, result=0)


@case("copy_file_range")
def copy_file_range(box):
    put(box.src / "from", b"abc" * 10000)

    def action(mnt):
        source, target = os.open(mnt / "from", os.O_RDONLY), os.open(mnt / "to", os.O_WRONLY | os.O_CREAT)
        assert os.copy_file_range(source, target, 30000, 0, 100) == 30000
        os.close(source)
        os.close(target)
    db = box.recorded(action)
    db.expect("copy_file_range", path="from", path2="to", error=None, length=30000, result=30000, offset=0)
    assert (box.src / "to").read_bytes() == bytes(100) + b"abc" * 10000


@pytest.mark.parametrize("name", operations())
def test_operation(name, box):
    assert name in CASES, f"ops.def has {name}: write a case for it here"
    CASES[name](box)


def test_no_case_without_an_operation():
    assert set(CASES) <= set(operations())


def test_mapped_files_are_read_and_written(box):
    """A page fault is a READ, a dirty page a WRITE with nobody behind it: it still has a process and a path."""
    put(box.src / "f", b"x" * 8192)

    def action(mnt):
        with open(mnt / "f", "r+b") as file, mmap.mmap(file.fileno(), 8192) as area:
            assert area[4096:4100] == b"xxxx"
            area[0:5] = b"hello"
            area.flush()
    db = box.recorded(action)
    db.expect("read", path="f", error=None)
    db.expect("write", path="f", error=None, offset=0)
    assert (box.src / "f").read_bytes()[:6] == b"hellox"


@pytest.mark.parametrize("cache", ["never", "always"])
def test_exec_with_an_open_file(box, cache):
    """
    The kernel closes close-on-exec files within exec: it sends a FLUSH and waits, with the process's credentials locked.
    Whoever answers must not ask /proc for what needs that lock.
    """
    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR | os.O_CREAT)
        for _ in range(30):
            child = os.fork()
            if child == 0:
                os.execv("/bin/true", ["true"])
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        os.close(file)
    db = box.recorded(action, cache=cache, patience=20)
    assert db.value("SELECT count(DISTINCT pid) FROM ops WHERE op = 'flush'") == 31


def test_errors_have_names(box):
    def action(mnt):
        for name in ("missing", "x" * 256):
            with pytest.raises(OSError) as caught:
                os.stat(mnt / name)
            assert caught.value.errno == (errno.ENOENT if name == "missing" else errno.ENAMETOOLONG)
    db = box.recorded(action, cache="never")
    db.expect("lookup", path="missing", error="ENOENT", result=0)


def test_a_process_is_described(box):
    """Another program: its own pid, name, program file and arguments, for every request of it."""
    put(box.src / "f", b"x" * 100)
    db = box.recorded(lambda mnt: run("cat", mnt / "f"), cache="never")
    row = db.expect("read", path="f", error=None)
    assert row["comm"] == "cat" and row["pid"] == row["tid"] != os.getpid()
    process = db.rows("SELECT * FROM process WHERE run = ? AND id = ?", db.run, row["process"])[0]
    assert process["cmdline"] == f"cat {box.mnt}/f" and os.path.basename(process["exe"]) == "cat"
    assert process["ppid"] == os.getpid() and process["uid"] == 0 and process["start_ticks"] > 0
    for op in ("open", "release", "flush"):
        assert db.expect(op, path="f")["comm"] == "cat"

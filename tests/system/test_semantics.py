# SPDX-License-Identifier: MIT
"""
Twins: the same script runs on the file system itself and through a mount of it. What it returns, what it raises and
the tree it leaves must be the same. Scripts assert too, so that two equal failures do not pass.
"""
import ctypes
import errno
import fcntl
import mmap
import os
import stat
import struct
import time

import pytest

from harness import libc_call, snapshot

TWINS = []
NOREPLACE, EXCHANGE = 1, 2


def twin(function):
    TWINS.append(function)
    return function


def rename2(old, new, flags):
    libc_call("renameat2", -100, os.fsencode(old), -100, os.fsencode(new), flags)


def fails(code, function, *args):
    with pytest.raises(OSError) as caught:
        function(*args)
    assert caught.value.errno == code, f"{errno.errorcode[caught.value.errno]}, wanted {errno.errorcode[code]}"


def soon(function, *args):
    """Locks of an open file go with the last close. A FUSE mount learns of that a moment after close(2) has returned."""
    for _ in range(200):
        try:
            return function(*args)
        except BlockingIOError:
            time.sleep(0.01)
    return function(*args)


@twin
def hard_links(top):
    (top / "a").write_text("one")
    os.link(top / "a", top / "b")
    os.link(top / "b", top / "c")
    counts = [(top / name).stat().st_nlink for name in "abc"]
    assert len({(top / name).stat().st_ino for name in "abc"}) == 1
    (top / "b").write_text("two")
    assert (top / "a").read_text() == "two"
    (top / "a").unlink()
    counts += [(top / name).stat().st_nlink for name in "bc"]
    fails(errno.EEXIST, os.link, top / "b", top / "c")
    (top / "d").mkdir()
    fails(errno.EPERM, os.link, top / "d", top / "e")
    return counts


@twin
def rename_plain(top):
    (top / "a").write_text("a")
    (top / "b").write_text("b")
    file = os.open(top / "b", os.O_RDONLY)
    os.rename(top / "a", top / "b")
    assert os.pread(file, 10, 0) == b"b", "the replaced file lives on while it is open"
    assert os.fstat(file).st_nlink == 0
    os.close(file)
    assert (top / "b").read_text() == "a"
    (top / "d" / "e").mkdir(parents=True)
    (top / "d" / "e" / "f").write_text("deep")
    os.rename(top / "d", top / "x")
    assert (top / "x" / "e" / "f").read_text() == "deep"
    fails(errno.ENOENT, os.stat, top / "d")
    fails(errno.EINVAL, os.rename, top / "x", top / "x" / "e" / "inside")
    fails(errno.ENOTDIR, os.rename, top / "x", top / "b")
    fails(errno.EISDIR, os.rename, top / "b", top / "x")
    (top / "y").mkdir()
    os.rename(top / "x", top / "y")
    (top / "full").mkdir()
    (top / "full" / "f").touch()
    fails(errno.ENOTEMPTY, os.rename, top / "y", top / "full")


@twin
def rename_flags(top):
    (top / "a").write_text("a")
    (top / "d").mkdir()
    (top / "d" / "in").write_text("in")
    rename2(top / "a", top / "d" / "b", NOREPLACE)
    (top / "c").write_text("c")
    fails(errno.EEXIST, rename2, top / "c", top / "d" / "b", NOREPLACE)
    rename2(top / "c", top / "d", EXCHANGE)
    assert (top / "d").read_text() == "c" and (top / "c" / "in").read_text() == "in"
    fails(errno.ENOENT, rename2, top / "c", top / "nothing", EXCHANGE)
    fails(errno.EINVAL, rename2, top / "c", top / "d", NOREPLACE | EXCHANGE)


@twin
def unlinked_but_open(top):
    file = os.open(top / "f", os.O_RDWR | os.O_CREAT)
    os.unlink(top / "f")
    os.write(file, b"still here")
    os.ftruncate(file, 5)
    os.fchmod(file, 0o600)
    st = os.fstat(file)
    assert os.pread(file, 100, 0) == b"still"
    fails(errno.ENOENT, os.stat, top / "f")
    (top / "f").write_text("another")
    assert os.pread(file, 100, 0) == b"still"
    os.close(file)
    return st.st_nlink, st.st_size, stat.S_IMODE(st.st_mode)


@twin
def append(top):
    first, second = (os.open(top / "f", os.O_RDWR | os.O_CREAT | os.O_APPEND) for _ in range(2))
    for number in range(50):
        os.write(first, b"%d a\n" % number)
        os.write(second, b"%d b\n" % number)
    fcntl.fcntl(first, fcntl.F_SETFL, 0)
    os.pwrite(first, b"X", 0)
    os.close(first)
    os.close(second)
    data = (top / "f").read_bytes()
    assert data.count(b"\n") == 100
    return data


@twin
def truncation(top):
    (top / "f").write_bytes(b"0123456789")
    os.close(os.open(top / "f", os.O_WRONLY | os.O_TRUNC))
    sizes = [(top / "f").stat().st_size]
    os.truncate(top / "f", 5000)
    sizes.append((top / "f").stat().st_size)
    with open(top / "f", "r+b") as file:
        file.truncate(3)
        sizes.append(os.fstat(file.fileno()).st_size)
    assert sizes == [0, 5000, 3] and (top / "f").read_bytes() == bytes(3)
    fails(errno.EISDIR, os.truncate, top, 0)
    fails(errno.EINVAL, os.truncate, top / "f", -1)


@twin
def mapped(top):
    (top / "f").write_bytes(bytes(3 * 4096))
    with open(top / "f", "r+b") as file, mmap.mmap(file.fileno(), 0) as area:
        area[5000:5005] = b"hello"
        area.flush()
        assert os.pread(file.fileno(), 5, 5000) == b"hello"
        os.pwrite(file.fileno(), b"there", 100)
        assert area[100:105] == b"there"
    return (top / "f").read_bytes()


@twin
def sparse(top):
    file = os.open(top / "f", os.O_RDWR | os.O_CREAT)
    os.pwrite(file, b"x" * 4096, 1 << 22)
    os.ftruncate(file, 1 << 24)
    os.fsync(file)
    seen = [os.lseek(file, at, how) for at, how in (
        (0, os.SEEK_DATA), (0, os.SEEK_HOLE), (1 << 22, os.SEEK_HOLE), (5, os.SEEK_HOLE), (0, os.SEEK_END))]
    fails(errno.ENXIO, os.lseek, file, 1 << 23, os.SEEK_DATA)
    fails(errno.ENXIO, os.lseek, file, 1 << 30, os.SEEK_HOLE)
    blocks = os.fstat(file).st_blocks
    assert blocks < 100
    os.close(file)
    return seen, blocks


def with_extended_attributes(top):
    (top / "d").mkdir()
    for name in ("user.a", "user.b", "user.\u00e4", "trusted.t"):
        os.setxattr(top / "f", name, name.encode() * 3)
    os.setxattr(top / "f", "user.empty", b"")
    os.setxattr(top / "d", "user.big", b"v" * 3000)
    fails(errno.EEXIST, os.setxattr, top / "f", "user.a", b"x", os.XATTR_CREATE)
    fails(errno.ENODATA, os.setxattr, top / "f", "user.new", b"x", os.XATTR_REPLACE)
    fails(errno.ENODATA, os.getxattr, top / "f", "user.none")
    fails(errno.ENODATA, os.removexattr, top / "f", "user.none")
    fails(errno.EOPNOTSUPP, os.setxattr, top / "f", "nonsense.x", b"x")
    buffer = ctypes.create_string_buffer(4)
    fails(errno.ERANGE, libc_call, "getxattr", os.fsencode(top / "f"), b"user.a", buffer, 4)
    os.removexattr(top / "f", "user.b")
    return sorted((name, os.getxattr(top / "f", name)) for name in os.listxattr(top / "f"))


@twin
def extended_attributes(top):
    (top / "f").touch()
    return with_extended_attributes(top)


@twin
def extended_attributes_while_open(top):
    """By the descriptor that is there then, though it is of who only writes, or of a file without a name."""
    with open(top / "f", "wb"):
        attributes = with_extended_attributes(top)
        os.remove(top / "f")
    with open(top / "f", "wb") as file:
        os.remove(top / "f")
        os.setxattr(file.fileno(), "user.nameless", b"x")
        os.setxattr(file.fileno(), "user.gone", b"x")
        os.removexattr(file.fileno(), "user.gone")
        return attributes, os.listxattr(file.fileno()), os.getxattr(file.fileno(), "user.nameless")


@twin
def symlinks(top):
    (top / "f").write_text("x")
    targets = ["f", "no/such", "/absolute/one", "t" * 4095, "new\nline", os.fsdecode(b"\xff\xfe"), "."]
    for number, target in enumerate(targets):
        os.symlink(target, top / f"l{number}")
        assert os.readlink(top / f"l{number}") == target
    fails(errno.ENOENT, os.symlink, "", top / "nothing")
    fails(errno.ENAMETOOLONG, os.symlink, "t" * 4096, top / "long")
    os.symlink("loop", top / "loop")
    fails(errno.ELOOP, os.stat, top / "loop")
    fails(errno.ELOOP, os.open, top / "l0", os.O_RDONLY | os.O_NOFOLLOW)
    os.lchown(top / "l0", 5, 6)
    os.utime(top / "l0", ns=(1, 2), follow_symlinks=False)
    st = os.lstat(top / "l0")
    return [os.lstat(top / f"l{number}").st_size for number in range(len(targets))], st.st_uid, st.st_mtime_ns


@twin
def fifos_sockets_and_devices(top):
    import socket
    os.mkfifo(top / "fifo", 0o620)
    reader = os.open(top / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(top / "fifo", os.O_WRONLY)
    os.write(writer, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    os.close(writer)
    os.mknod(top / "zero", 0o020666, os.makedev(1, 5))
    with socket.socket(socket.AF_UNIX) as server:
        where = os.open(top, os.O_PATH)
        server.bind(f"/proc/self/fd/{where}/sock")
        os.close(where)
    return [stat.filemode((top / name).stat().st_mode) for name in ("fifo", "zero", "sock")]


@twin
def record_locks(top):
    (top / "f").write_bytes(bytes(100))
    file = os.open(top / "f", os.O_RDWR)
    fcntl.lockf(file, fcntl.LOCK_EX, 10, 20)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        other = os.open(top / "f", os.O_RDWR)
        answers = []
        for how, length, start in ((fcntl.LOCK_EX, 10, 20), (fcntl.LOCK_SH, 1, 29), (fcntl.LOCK_EX, 10, 30)):
            try:
                fcntl.lockf(other, how | fcntl.LOCK_NB, length, start)
                answers.append("got")
            except OSError as err:
                answers.append(errno.errorcode[err.errno])
        query = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, start, length, _ = struct.unpack("hhqqi4x", fcntl.fcntl(other, fcntl.F_GETLK, query))
        os.write(write, repr((answers, kind, start, length)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.close(file)
    assert answer.startswith("(['EAGAIN', 'EAGAIN', 'got']"), answer
    return answer


@twin
def whole_file_locks(top):
    (top / "f").touch()
    first, second = (os.open(top / "f", os.O_RDWR) for _ in range(2))
    fcntl.flock(first, fcntl.LOCK_SH)
    fcntl.flock(second, fcntl.LOCK_SH | fcntl.LOCK_NB)
    fails(errno.EAGAIN, fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(first)
    soon(fcntl.flock, second, fcntl.LOCK_EX | fcntl.LOCK_NB)
    third = os.open(top / "f", os.O_RDWR)
    fails(errno.EAGAIN, fcntl.flock, third, fcntl.LOCK_SH | fcntl.LOCK_NB)
    os.close(second)
    soon(fcntl.flock, third, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(third)


@twin
def open_file_description_locks(top):
    (top / "f").write_bytes(bytes(100))
    f_ofd_setlk = 37
    whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    first, second = (os.open(top / "f", os.O_RDWR) for _ in range(2))
    fcntl.fcntl(first, f_ofd_setlk, whole)
    fails(errno.EAGAIN, fcntl.fcntl, second, f_ofd_setlk, whole)
    os.close(first)
    soon(fcntl.fcntl, second, f_ofd_setlk, whole)
    os.close(second)


@twin
def odd_names(top):
    names = [b"n" * 255, b"new\nline", b"tab\t", b"quote'\"", b"back\\slash", b"comma,", b"\xff\xfe\x80", b" ", b"-rf",
             "\u00fcml\u00e4ut \U0001f600".encode(), b"%s%n", b"\x01\x7f", b"a" * 200 + b"\xff", b"...", b"*?[", b"$(x)`"]
    where = os.fsencode(top)
    for name in names:
        path = os.path.join(where, name)
        with open(path, "wb") as file:
            file.write(name)
        os.mkdir(os.path.join(where, b"d" + name[:254]))
        os.rename(path, path[:-1] + b"~") if len(name) > 1 else None
    fails(errno.ENAMETOOLONG, os.mkdir, os.path.join(where, b"n" * 256))
    listed = sorted(os.listdir(where))
    assert len(listed) == 2 * len(names)
    return listed


@twin
def deeper_than_any_path(top):
    """By relative steps, as tools do it: the whole path is longer than PATH_MAX."""
    name = "d" * 200
    here = os.open(top, os.O_RDONLY)
    for level in range(40):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        file = os.open("f", os.O_WRONLY | os.O_CREAT, dir_fd=below)
        os.write(file, b"%d" % level)
        os.close(file)
        os.close(here)
        here = below
    os.rename("f", "g", src_dir_fd=here, dst_dir_fd=here)
    size = os.stat("g", dir_fd=here).st_size
    seen = os.listdir(here)
    os.close(here)
    import shutil
    shutil.rmtree(top / name)
    return size, seen


@twin
def times(top):
    (top / "f").write_text("x")
    os.utime(top / "f", ns=(1234567890_123456789, 987654321_987654321))
    st = (top / "f").stat()
    seen = [st.st_atime_ns, st.st_mtime_ns]
    libc_call("utimensat", -100, os.fsencode(top / "f"), (ctypes.c_long * 4)(5, 7, 0, 0x3ffffffe), 0)  # mtime: omit
    st = (top / "f").stat()
    seen += [st.st_atime_ns, st.st_mtime_ns]
    libc_call("utimensat", -100, os.fsencode(top / "f"), (ctypes.c_long * 4)(0, 0x3ffffffe, 0, 0x3fffffff), 0)  # now
    st = (top / "f").stat()
    assert st.st_mtime > 1.6e9
    before = st.st_mtime_ns
    with open(top / "f", "ab") as file:
        file.write(b"more")
    assert (top / "f").stat().st_mtime_ns >= before
    assert (top / "f").stat().st_ctime > 1.6e9
    return seen + [st.st_atime_ns]


@twin
def modes_and_owners(top):
    old = os.umask(0o027)
    try:
        os.close(os.open(top / "f", os.O_WRONLY | os.O_CREAT, 0o666))
        os.mkdir(top / "d", 0o777)
        os.mknod(top / "n", 0o100666)
        os.mkfifo(top / "p", 0o666)
        os.umask(0)
        os.close(os.open(top / "open", os.O_WRONLY | os.O_CREAT, 0o7777))
        os.mkdir(top / "sticky", 0o1777)
    finally:
        os.umask(old)
    os.close(os.open(top / "readonly", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444))
    os.chmod(top / "f", 0o4755)
    os.chown(top / "d", 1000, 1001)
    os.chown(top / "n", -1, 77)
    fails(errno.ENOENT, os.chmod, top / "none", 0)
    return [(name, oct((top / name).stat().st_mode), (top / name).stat().st_uid, (top / name).stat().st_gid)
            for name in sorted(os.listdir(top))]


@twin
def setgid_directories(top):
    os.mkdir(top / "d")
    os.chown(top / "d", 0, 4242)
    os.chmod(top / "d", 0o2775)
    (top / "d" / "f").touch()
    os.mkdir(top / "d" / "e")
    os.symlink("x", top / "d" / "l")
    assert (top / "d" / "f").stat().st_gid == 4242
    return oct((top / "d" / "e").stat().st_mode), os.lstat(top / "d" / "l").st_gid


@twin
def listings(top):
    names = {f"file-{number}-{'x' * (number % 100)}" for number in range(3000)}
    for name in names:
        (top / name).touch()
    assert set(os.listdir(top)) == names
    kinds = {entry.name: entry.is_file(follow_symlinks=False) for entry in os.scandir(top)}
    assert kinds == dict.fromkeys(names, True)
    inodes = {entry.name: entry.inode() for entry in os.scandir(top)}
    assert all((top / name).stat().st_ino == inode for name, inode in list(inodes.items())[:100])
    with os.scandir(top) as listing:  # removing while listing, as rm -r does
        for entry in listing:
            os.unlink(entry.path)
    assert os.listdir(top) == []
    where = os.open(top, os.O_RDONLY)
    (top / "later").touch()
    assert os.listdir(where) == ["later"]
    os.close(where)


@twin
def large_reads_and_writes(top):
    data = os.urandom(3_000_000 - 7)
    (top / "f").write_bytes(data)
    assert (top / "f").read_bytes() == data
    file = os.open(top / "f", os.O_RDONLY)
    assert os.pread(file, 1 << 20, 1_999_999) == data[1_999_999:1_999_999 + (1 << 20)]
    assert os.pread(file, 100, 3_000_000) == b""
    fails(errno.EBADF, os.write, file, b"x")
    os.close(file)
    file = os.open(top / "f", os.O_WRONLY)
    fails(errno.EBADF, os.read, file, 1)
    os.close(file)
    return (top / "f").stat().st_size


@twin
def exclusive_creation(top):
    os.close(os.open(top / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    fails(errno.EEXIST, os.open, top / "f", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    fails(errno.ENOENT, os.open, top / "g", os.O_WRONLY)
    fails(errno.ENOTDIR, os.open, top / "f" / "x", os.O_WRONLY | os.O_CREAT)
    fails(errno.EISDIR, os.open, top, os.O_WRONLY)
    os.symlink("f", top / "l")
    fails(errno.EEXIST, os.open, top / "l", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    fails(errno.ENOTDIR, os.rmdir, top / "f")
    fails(errno.EISDIR, os.unlink, top)


@twin
def direct_and_synchronous(top):
    buffer = mmap.mmap(-1, 8192)
    buffer[:] = b"d" * 8192
    file = os.open(top / "f", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    assert os.pwritev(file, [buffer], 0) == 8192
    assert os.preadv(file, [buffer], 4096) == 4096
    os.close(file)
    file = os.open(top / "g", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    os.write(file, b"synced")
    os.close(file)
    os.sync()


@twin
def an_unnamed_file(top):
    """O_TMPFILE may be refused (older FUSE cannot pass it on); programs then fall back on a named one."""
    try:
        file = os.open(top, os.O_RDWR | os.O_TMPFILE, 0o600)
    except OSError as err:
        assert err.errno in (errno.EOPNOTSUPP, errno.EISDIR)
    else:
        os.write(file, b"x")
        os.close(file)
    assert os.listdir(top) == []


@pytest.mark.parametrize("cache", ["never", "auto", "always"])
@pytest.mark.parametrize("script", TWINS, ids=lambda function: function.__name__)
def test_twin(script, cache, box):
    native = box.top / "native"
    native.mkdir()
    expected = script(native)
    seen = []
    box.recorded(lambda mnt: seen.append((script(mnt), snapshot(mnt))), cache=cache)
    assert seen[0][0] == expected
    wanted = snapshot(native)
    if script is not large_reads_and_writes:  # random contents
        assert seen[0][1] == wanted, "through the mount"
        assert snapshot(box.src) == wanted, "below"


def test_git_s_way_of_writing_objects(box):
    """Mode 0444, written through the descriptor that made it, linked and unlinked; then read by all."""
    def action(mnt):
        file = os.open(mnt / "tmp_obj_1", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444)
        os.write(file, b"object")
        os.fchmod(file, 0o444)
        os.close(file)
        os.link(mnt / "tmp_obj_1", mnt / "object")
        os.unlink(mnt / "tmp_obj_1")
        assert (mnt / "object").stat().st_nlink == 1
        assert (mnt / "object").read_bytes() == b"object"
    box.recorded(action)

# SPDX-License-Identifier: MIT
"""What depends on how the filesystem below is mounted, how big things in it are, and on ways in that are not names."""
import ctypes
import errno
import os
import shutil

import pytest

from harness import libc_call, run

AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000


class FileHandle(ctypes.Structure):
    """struct file_handle of name_to_handle_at(2)."""
    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128)]


def handle_of(path):
    handle, mount = FileHandle(128, 0), ctypes.c_int()
    libc_call("name_to_handle_at", AT_FDCWD, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0)
    return handle


def open_handle(top, handle, flags):
    where = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return libc_call("open_by_handle_at", where, ctypes.byref(handle), flags)
    finally:
        os.close(where)


def code_of(call, *args):
    try:
        call(*args)
    except OSError as err:
        return errno.errorcode[err.errno]
    return None


@pytest.fixture
def source_mounted(box):
    """source_mounted(OPTIONS): the box's source, mounted once more with them."""
    made = []

    def mount(options):
        where = box.top / f"mounted-{len(made)}"
        where.mkdir()
        run("mount", "--bind", box.src, where)
        made.append(where)
        run("mount", "-o", f"remount,bind,{options}", where)
        return where
    yield mount
    for where in made:
        run("umount", "-l", where, check=False)


def writes(top):
    """The errors of everything that changes something."""
    return [code_of(call, *args) for call, args in (
        (os.open, (top / "f", os.O_RDWR)), (os.open, (top / "new", os.O_CREAT | os.O_WRONLY)), (os.mkdir, (top / "d",)),
        (os.unlink, (top / "f",)), (os.rename, (top / "f", top / "g")), (os.link, (top / "f", top / "g")),
        (os.symlink, ("x", top / "l")), (os.chmod, (top / "f", 0o600)), (os.chown, (top / "f", 1, 1)),
        (os.truncate, (top / "f", 0)), (os.utime, (top / "f", (1, 1))), (os.setxattr, (top / "f", "user.a", b"x")))]


def test_read_only_below(box, source_mounted):
    (box.src / "f").write_text("text")
    below = source_mounted("ro")
    native = writes(below)
    with box.mount(source=below) as mount:
        assert (mount.mnt / "f").read_text() == "text"
        assert writes(mount.mnt) == native == ["EROFS"] * len(native)
        assert os.statvfs(mount.mnt).f_flag & os.ST_RDONLY
        assert not os.access(mount.mnt / "f", os.W_OK) and not os.access(below / "f", os.W_OK)
    assert (box.src / "f").read_text() == "text"


def test_no_execution_below(box, source_mounted):
    shutil.copy("/bin/true", box.src / "true")
    below = source_mounted("noexec")
    with box.mount(source=below) as mount:
        for top in (below, mount.mnt):
            with pytest.raises(PermissionError):
                run(top / "true")
    with box.mount() as mount:
        run(mount.mnt / "true")


@pytest.mark.parametrize("options", ["noatime", "strictatime"])
def test_access_times_below(box, source_mounted, options):
    file = box.src / "f"
    file.write_text("text")
    below = source_mounted(options)
    os.utime(file, (1, 1))
    with box.mount(source=below, cache="never") as mount:
        (mount.mnt / "f").read_text()
        seen = os.stat(mount.mnt / "f").st_atime
    assert seen == os.stat(file).st_atime
    assert (seen == 1) == (options == "noatime")


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs"])
def test_handles_through_the_mount(kind, box_on):
    """A file by its handle instead of its name, as NFS servers have them."""
    box = box_on(kind)
    (box.src / "d").mkdir()
    (box.src / "d" / "f").write_text("text")
    with box.mount() as mount:
        file, folder = handle_of(mount.mnt / "d" / "f"), handle_of(mount.mnt / "d")
        opened = open_handle(mount.mnt, file, os.O_RDONLY)
        assert os.read(opened, 10) == b"text"
        assert os.fstat(opened).st_ino == os.stat(box.src / "d" / "f").st_ino
        os.close(opened)
        opened = open_handle(mount.mnt, folder, os.O_RDONLY | os.O_DIRECTORY)
        assert os.listdir(opened) == ["f"]
        os.close(opened)
        os.unlink(mount.mnt / "d" / "f")
        (mount.mnt / "d" / "f").write_text("another")
        assert code_of(open_handle, mount.mnt, file, os.O_RDONLY) == "ESTALE"


def test_no_way_out(box):
    """Neither `..` nor a link nor a foreign handle shows what is above the source."""
    (box.top / "secret").write_text("above")
    (box.src / "up").symlink_to("../secret")
    (box.src / "d").mkdir()
    foreign = handle_of(box.top / "secret")
    with box.mount() as mount:
        assert os.path.samefile(mount.mnt / "..", mount.mnt.parent)
        assert os.path.samefile(mount.mnt / "d" / ".." / "..", mount.mnt.parent)
        assert code_of(os.stat, mount.mnt / "up") == "ENOENT"  # there is no such name beside the mount point
        assert code_of(open_handle, mount.mnt, foreign, os.O_RDONLY) == "ESTALE"


def test_beyond_four_gigabytes(any_box):
    sizes = [(5 << 30) + 1] + ([] if any_box.fs_type == "ext3" else [(1 << 42) + 5])

    def action(mnt):
        for at in sizes:
            with open(mnt / "big", "r+b" if (mnt / "big").exists() else "w+b", buffering=0) as file:
                file.seek(at)
                file.write(b"end")
                assert os.fstat(file.fileno()).st_size == at + 3
                assert os.pread(file.fileno(), 10, at - 2) == b"\0\0end"
                assert os.lseek(file.fileno(), at - (1 << 20), os.SEEK_DATA) <= at
    db = any_box.recorded(action)
    for at in sizes:
        db.expect("write", path="big", offset=at, length=3, result=3, error=None)
    assert (any_box.src / "big").stat().st_size == sizes[-1] + 3

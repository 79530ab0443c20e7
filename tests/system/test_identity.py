# SPDX-License-Identifier: MIT
"""
Whose doing it is, where only the file system below can judge: set-id bits, groups, hidden attributes. And what is still
to be seen of files that have been removed. Each case was found by the twin test; here they are by name.
"""
import array
import errno
import fcntl
import os
import stat
import struct

import pytest

from harness import FILESYSTEMS, as_user, libc_call, wait_until

CASES = []
WHITEOUT = 4


def case(function):
    CASES.append(function)
    return function


def mode_of(path):
    return oct(stat.S_IMODE(os.lstat(path).st_mode))


def written_by(top, mode, gid, *, uid=1000, groups=()):
    """Its mode after that user has written to a file of `gid`, which it may do by its mode for others."""
    path = top / f"f-{mode:o}-{gid}-{uid}"
    path.touch()
    os.chown(path, 0, gid)
    path.chmod(mode)

    def write():
        file = os.open(path, os.O_WRONLY)
        os.write(file, b"x")
        os.close(file)
    as_user(write, uid=uid, groups=groups)
    return mode_of(path)


@case
def writes_clear_setid_bits(top):
    seen = [written_by(top, mode, gid, groups=[2000])
            for mode in (0o6777, 0o2777, 0o2767, 0o4767) for gid in (0, 1000, 2000, 3000)]
    assert seen[:4] == ["0o777"] * 4
    # without the group's right to execute, being in the group counts
    assert seen[8:12] == ["0o767", "0o2767", "0o2767", "0o767"]
    return seen


@case
def truncation_and_preallocation_clear_setid_bits(top):
    seen = []
    for number, change in enumerate((
            lambda path: os.truncate(path, 1), lambda path: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)),
            lambda path: os.posix_fallocate(os.open(path, os.O_WRONLY), 0, 10))):
        for gid in (0, 2000):
            path = top / f"f{number}-{gid}"
            path.write_text("text")
            os.chown(path, 0, gid)
            path.chmod(0o6766)
            as_user(lambda: change(path), groups=[2000])
            seen.append(mode_of(path))
    return seen


@case
def chown_clears_setid_bits(top):
    seen = []
    for mode in (0o6777, 0o2767, 0o6766):
        for owner in ((-1, -1), (0, -1), (-1, 5), (1000, 1000)):
            path = top / f"f-{mode:o}-{owner}"
            path.touch()
            path.chmod(mode)
            os.chown(path, *owner)
            seen.append(mode_of(path))
    mine = top / "mine"
    mine.touch()
    os.chown(mine, 1000, 3000)
    mine.chmod(0o6767)
    as_user(lambda: os.chown(mine, -1, 2000), groups=[2000])
    seen.append(mode_of(mine))
    assert seen[0] == "0o777"
    return seen


@case
def an_access_list_clears_the_setgid_bit(top):
    entries = ((1, 7, -1), (2, 6, 1001), (4, 6, -1), (0x10, 7, -1), (0x20, 4, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    seen = []
    for gid in (1000, 2000, 3000):
        path = top / f"d{gid}"
        path.mkdir()
        os.chown(path, 1000, gid)
        path.chmod(0o2770)
        as_user(lambda: os.setxattr(path, "system.posix_acl_access", acl), groups=[2000])
        seen.append(mode_of(path))
    assert seen == ["0o2774", "0o2774", "0o774"]
    return seen


@case
def whiteouts_belong_to_the_caller(top):
    (top / "d").mkdir()
    os.chown(top / "d", 1000, 1000)
    (top / "d" / "a").touch()
    as_user(lambda: libc_call("renameat2", -100, os.fsencode(top / "d" / "a"), -100, os.fsencode(top / "d" / "b"),
                              WHITEOUT))
    st = os.lstat(top / "d" / "a")
    assert stat.S_ISCHR(st.st_mode) and st.st_rdev == 0
    assert (st.st_uid, st.st_gid) == (1000, 1000)


@case
def hidden_attributes_stay_hidden(top):
    path = top / "f"
    path.touch()
    os.setxattr(path, "trusted.hidden", b"x")
    os.setxattr(path, "user.seen", b"x")
    assert sorted(os.listxattr(path)) == ["trusted.hidden", "user.seen"]
    return sorted(as_user(lambda: os.listxattr(path)))  # btrfs shows both


@case
def a_removed_fifo_that_is_open(top):
    os.mkfifo(top / "f")
    file = os.open(top / "f", os.O_RDWR | os.O_NONBLOCK)
    os.unlink(top / "f")
    os.fchmod(file, 0o640)
    os.fchown(file, 5, 6)
    os.write(file, b"through")
    assert os.read(file, 10) == b"through"
    st = os.fstat(file)
    os.close(file)
    return oct(st.st_mode), st.st_uid, st.st_gid, st.st_nlink


@case
def a_removed_file_that_was_changed_and_closed(top):
    """Seen by a descriptor that does not keep it open."""
    file = os.open(top / "f", os.O_RDWR | os.O_CREAT, 0o644)
    seen_by = os.open(top / "f", os.O_PATH)
    os.unlink(top / "f")
    os.fchmod(file, 0o600)
    os.fchown(file, 5, 6)
    os.write(file, b"12345")
    os.close(file)
    st = os.fstat(seen_by)
    os.close(seen_by)
    assert (stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid, st.st_size, st.st_nlink) == (0o600, 5, 6, 5, 0)


@case
def a_rewound_directory_shows_what_has_come(top):
    where = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    (top / "later").touch()
    os.lseek(where, 0, os.SEEK_SET)
    assert os.listdir(where) == ["later"]
    (top / "last").touch()
    os.lseek(where, 0, os.SEEK_SET)
    assert sorted(os.listdir(where)) == ["last", "later"]
    os.close(where)
    assert sorted(os.listdir(top)) == ["last", "later"]


@case
def chattr_changes_the_change_time(top):
    path = top / "f"
    path.touch()
    file = os.open(path, os.O_RDONLY)
    before = os.fstat(file).st_ctime_ns
    flags = array.array("l", [0])
    fcntl.ioctl(file, 0x80086601, flags)  # FS_IOC_GETFLAGS
    flags[0] |= 0x40  # nodump

    def changed():  # a clock's tick may be some milliseconds
        fcntl.ioctl(file, 0x40086602, flags)
        return os.fstat(file).st_ctime_ns != before
    wait_until(changed, 5, "another ctime")
    os.close(file)


@case
def a_refused_chown(top):
    (top / "f").touch()
    (top / "f").chmod(0o4755)
    for owner in ((1000, -1), (-1, 1000)):
        with pytest.raises(OSError) as caught:
            as_user(lambda: os.chown(top / "f", *owner))
        assert caught.value.errno == errno.EPERM
    return mode_of(top / "f")


@pytest.mark.parametrize("kind", FILESYSTEMS)
@pytest.mark.parametrize("script", CASES, ids=lambda function: function.__name__)
def test_identity(script, kind, box_on):
    box = box_on(kind)
    native = box.top / "native"
    native.mkdir()
    expected = script(native)
    seen = []
    box.recorded(lambda mnt: seen.append(script(mnt)), cache="always", allow_other=True)
    assert seen[0] == expected


def test_names_of_many_groups(box):
    """The caller's supplementary groups decide, however many there are."""
    groups = list(range(5000, 5060)) + [2000]
    box.recorded(lambda mnt: written_by_all(mnt, groups), allow_other=True)


def written_by_all(mnt, groups):
    assert written_by(mnt, 0o2767, 2000, groups=groups) == "0o2767"
    assert written_by(mnt, 0o2767, 2000, uid=1001, groups=groups[:-1]) == "0o767"

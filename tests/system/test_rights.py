# SPDX-License-Identifier: MIT
"""Other users: on root's mount their identity decides, as it does natively; on their own there is no privilege at all."""
import errno
import os

import pytest

from harness import as_user, check_truths, snapshot


def user_twin(box, script, *, umask=0o022, groups=()):
    """script(top) as user 1000 on a directory of its own, natively and through a mount with allow_other."""
    native = box.top / "native"
    for top in (native, box.src):
        top.mkdir(exist_ok=True)
        os.chown(top, 1000, 1000)
        (top / "root-only").write_text("secret")
        (top / "root-only").chmod(0o600)
        (top / "shared").mkdir()
        os.chown(top / "shared", 0, 2000)
        (top / "shared").chmod(0o2770)
        (top / "sticky").mkdir()
        (top / "sticky").chmod(0o1777)
        (top / "sticky" / "root-s").touch()
    expected = as_user(lambda: script(native), groups=groups, umask=umask)
    seen = []
    box.recorded(lambda mnt: seen.append(as_user(lambda: script(mnt), groups=groups, umask=umask)), allow_other=True)
    assert seen == [expected]
    assert snapshot(box.src) == snapshot(native)


def code_of(function, *args):
    try:
        function(*args)
        return "ok"
    except OSError as err:
        return errno.errorcode[err.errno]


def ordinary_work(top):
    (top / "f").write_text("mine")
    (top / "d").mkdir()
    os.symlink("f", top / "l")
    os.mkfifo(top / "p")
    os.link(top / "f", top / "f2")
    os.close(os.open(top / "ro", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o444))
    answers = [code_of(lambda: (top / "root-only").read_text()), code_of((top / "root-only").write_text, "x"),
               code_of(os.chmod, top / "root-only", 0o777), code_of(os.chown, top / "f", 0, 0),
               code_of(os.unlink, top / "sticky" / "root-s"), code_of(os.listdir, top / "shared"),
               code_of((top / "shared" / "x").touch), code_of(os.open, top / "ro", os.O_WRONLY),
               code_of(os.mknod, top / "dev", 0o020666, os.makedev(1, 3)), code_of(os.chmod, top / "f", 0o2755),
               code_of(os.rename, top / "root-only", top / "moved"), code_of(os.link, top / "moved", top / "hard"),
               code_of(os.utime, top / "f"), code_of(os.access, top / "root-only", os.R_OK),
               code_of(os.setxattr, top / "f", "user.x", b"x"), code_of(os.setxattr, top / "f", "trusted.x", b"x")]
    assert answers[0] == "EACCES" and answers[3] == "EPERM" and answers[5] == "EACCES"
    return answers


def test_an_ordinary_user_on_root_s_mount(box):
    user_twin(box, ordinary_work)


def test_the_umask_of_the_caller(box):
    user_twin(box, ordinary_work, umask=0o077)


def test_supplementary_groups(box):
    def script(top):
        (top / "own").touch()
        (top / "shared" / "x").write_text("in the group")
        (top / "shared" / "d").mkdir()
        st = (top / "shared" / "d").stat()
        return [oct(st.st_mode), st.st_gid, (top / "shared" / "x").stat().st_gid, sorted(os.listdir(top / "shared")),
                code_of(os.chown, top / "own", -1, 2000), code_of(os.chown, top / "own", -1, 4000)]
    user_twin(box, script, groups=[2000, 3000])


def test_writing_takes_privileges_away(box):
    """A set-user-ID program that its owner's enemy writes to, or that root hands over, must not keep its bits."""
    def make(top):
        for name in ("written", "truncated", "chowned", "allocated"):
            (top / name).write_text("program")
            (top / name).chmod(0o6777)

    def by_user(top):
        with open(top / "written", "ab") as file:
            file.write(b"x")
        os.truncate(top / "truncated", 1)
        file = os.open(top / "allocated", os.O_RDWR)
        os.posix_fallocate(file, 0, 20000)
        os.close(file)

    native = box.top / "native"
    native.mkdir()
    for top in (native, box.src):
        top.chmod(0o755)
        make(top)
    as_user(lambda: by_user(native))
    os.chown(native / "chowned", 7, 7)

    def action(mnt):
        as_user(lambda: by_user(mnt))
        os.chown(mnt / "chowned", 7, 7)
    box.recorded(action, allow_other=True)
    modes = [{name: oct((top / name).stat().st_mode) for name in os.listdir(top)} for top in (native, box.src)]
    assert modes[0] == modes[1]
    assert modes[0]["written"] == oct(0o100777)


def test_another_user_is_refused_without_allow_other(box):
    (box.src / "f").touch()

    def action(mnt):
        with pytest.raises(PermissionError):
            as_user(lambda: os.listdir(mnt))
    box.recorded(action)


def test_an_ordinary_user_s_own_mount(box):
    """No privilege at all: mounted by fusermount3, handles through parent and name."""
    uid = 1000
    for path in (box.src, box.mnt, box.store):
        os.chown(path, uid, uid)

    def work(mnt):
        for number in range(300):
            (mnt / f"f{number}").write_text(str(number))
        (mnt / "d").mkdir()
        os.rename(mnt / "f0", mnt / "d" / "f0")
        os.symlink("d", mnt / "l")
        return sorted(os.listdir(mnt / "l"))
    with box.mount(user=uid) as made:
        assert as_user(lambda: work(made.mnt), uid) == ["f0"]
    db = made.db()
    check_truths(db)
    assert db.condition()["privileged"] == 0
    assert len(db.ops(op="create", error=None)) == 300
    assert (box.src / "d" / "f0").stat().st_uid == uid

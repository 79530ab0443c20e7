# SPDX-License-Identifier: MIT
"""data_passthrough: files are what they are below although the kernel reads and writes them by itself, unrecorded."""
import concurrent.futures
import mmap
import os
import subprocess

import pytest

from harness import FSTAPEFS, USER, StartFailed, check_truths, git, make_repository, run, snapshot

MODES = ("never", "auto", "always")


def data_rows(db):
    return db.value("SELECT count(*) FROM ops WHERE run = ? AND op IN ('read', 'write')", db.run)


@pytest.fixture(params=MODES)
def passed_on(request, box):
    with box.mount(data_passthrough=True, cache=request.param, allow_other=True) as mount:
        yield mount
    db = mount.db()
    check_truths(db)
    assert db.condition()["modes"] == "data_passthrough" and "PASSTHROUGH" in db.condition()["capabilities_taken"].split()
    assert data_rows(db) == 0
    assert db.value("SELECT count(*) FROM ops WHERE run = ? AND op = 'release'", db.run) == db.value(
        "SELECT count(*) FROM ops WHERE run = ? AND op IN ('open', 'create') AND error IS NULL", db.run)


def test_handles_of_one_file_share_it(box, passed_on):
    path, below = passed_on.mnt / "file", box.src / "file"
    with open(path, "wb", buffering=0) as writer, open(path, "rb", buffering=0) as reader:
        writer.write(b"0123456789")
        assert reader.read() == b"0123456789" == below.read_bytes()
        with open(path, "ab", buffering=0) as appender:
            appender.write(b"ab")
        assert reader.read() == b"ab"
        writer.truncate(4)
        os.fsync(writer.fileno())
        assert os.fstat(reader.fileno()).st_size == path.stat().st_size == below.stat().st_size == 4
        path.unlink()
        writer.write(b"!")
        reader.seek(0)
        assert reader.read() == b"0123" + bytes(6) + b"!"
    path.write_bytes(b"another")
    assert path.read_bytes() == below.read_bytes() == b"another"


def test_mappings_are_the_file_below(box, passed_on):
    path, below = passed_on.mnt / "file", box.src / "file"
    path.write_bytes(bytes(100000))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[5000:5003] = b"abc"
        view.flush()
        assert below.read_bytes()[5000:5003] == b"abc"
        os.pwrite(file.fileno(), b"xyz", 70000)
        assert view[70000:70003] == b"xyz"


def test_many_open_one_file_at_once(passed_on):
    """Whoever comes first makes it known to the kernel, once."""
    path = passed_on.mnt / "file"
    path.write_bytes(b"x" * 5000)

    def use(number):
        for turn in range(200):
            with open(path, "r+b", buffering=0) as file:
                assert len(file.read()) == 5000
                os.pwrite(file.fileno(), b"y", number)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for result in [pool.submit(use, number) for number in range(8)]:
            result.result()
    assert path.read_bytes() == b"y" * 8 + b"x" * 4992


def test_clone(box, passed_on):
    """git maps its packs, locks its index, and compares times."""
    repo = make_repository(box.top / "repo", 300)
    git("clone", "-q", repo, passed_on.mnt / "w")
    assert git("status", "--porcelain", cwd=passed_on.mnt / "w").stdout == ""
    git("fsck", "--strict", cwd=passed_on.mnt / "w")
    git("clone", "-q", repo, box.top / "plain")
    plain, through = snapshot(box.top / "plain"), snapshot(box.src / "w")
    assert {p: v for p, v in plain.items() if not p.startswith(b".git")} == {
        p: v for p, v in through.items() if not p.startswith(b".git")}


def test_setid_bits_go_when_others_write(passed_on):
    path = passed_on.mnt / "tool"
    path.write_bytes(b"x")
    path.chmod(0o6777)
    passed_on.mnt.chmod(0o777)
    subprocess.run(["sh", "-c", f"echo more >>{path}"], check=True, user=USER, group=USER, extra_groups=[])
    assert path.stat().st_mode & 0o7777 == 0o777


@pytest.mark.parametrize("other", ["data=full", "writeback"])
def test_what_does_not_go_with_it(box, other):
    done = run(FSTAPEFS, "-o", f"db={box.db},cache=always,data_passthrough,{other}", box.src, box.mnt, check=False)
    assert done.returncode == 2 and "option data_passthrough: " in done.stderr
    assert not box.db.exists()


def test_users_are_refused(box):
    for path in (box.src, box.mnt, box.store):
        path.chmod(0o777)
    with pytest.raises(StartFailed) as failed:
        box.mount(data_passthrough=True, user=USER).start()
    assert failed.value.returncode == 1 and "CAP_SYS_ADMIN" in failed.value.stderr
    assert "fuse" not in run("findmnt", "-n", "-o", "FSTYPE", "-T", box.mnt).stdout

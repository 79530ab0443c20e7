# SPDX-License-Identifier: MIT
"""Filesystems mounted inside the source: each keeps a device number of its own, and is recorded with the rest."""
import errno
import os

import pytest

from harness import FSTAPE, check_truths, run


@pytest.fixture
def nested(box):
    """A source with a tmpfs in it, and another in that."""
    inner = box.src / "in"
    deep = inner / "deep"
    mounted = []
    try:
        for place in (inner, deep):
            place.mkdir()
            run("mount", "-t", "tmpfs", "-o", "size=4m", "fstape-test", place)
            mounted.append(place)
            (place / "file").write_text(place.name)
        yield box
    finally:
        for place in reversed(mounted):
            run("umount", "-l", place, check=False)


def devices(top):
    return [os.stat(top / path).st_dev for path in (".", "in", "in/deep")]


def test_device_numbers(nested):
    """As many as there are filesystems, with rename and link refused between them."""
    with nested.mount(allow_other=True) as mount:
        seen = devices(mount.mnt)
        assert len(set(seen)) == 3
        assert os.stat(mount.mnt / "in" / "file").st_dev == seen[1]
        assert (mount.mnt / "in" / "deep" / "file").read_text() == "deep"
        assert os.path.ismount(mount.mnt / "in")
        (mount.mnt / "top").write_text("x")
        for call in (os.rename, os.link):
            with pytest.raises(OSError) as failed:
                call(mount.mnt / "top", mount.mnt / "in" / "top")
            assert failed.value.errno == errno.EXDEV
        for place in ("in/deep", "in"):
            run("umount", mount.mnt / place)
    db = mount.db()
    check_truths(db)
    db.expect("open", path="in/deep/file")


def test_inode_numbers_of_one_filesystem_stay(nested):
    with nested.mount() as mount:
        for path in ("in/file", "in/deep/file"):
            assert os.stat(mount.mnt / path).st_ino == os.stat(nested.src / path).st_ino
        for place in ("in/deep", "in"):
            run("umount", mount.mnt / place)


@pytest.mark.parametrize("where", ([], ["--public"]))
def test_record_unmounts_them_too(nested, where):
    done = run(FSTAPE, "record", "--quiet", *where, nested.db, nested.src, "--", "sh", "-c",
               "echo new >in/new && cat in/deep/file && stat -c %D . in in/deep | sort -u | wc -l")
    assert done.stdout == "deep3\n"
    assert (nested.src / "in" / "new").read_text() == "new\n"


def test_the_kernel_s_own_inside(box):
    """They get no mount of ours: we read /proc ourselves while requests wait."""
    proc = box.src / "proc"
    proc.mkdir()
    run("mount", "-t", "proc", "fstape-test", proc)
    try:
        with box.mount() as mount:
            assert not os.path.ismount(mount.mnt / "proc")
            assert "version" in os.listdir(mount.mnt / "proc")
    finally:
        run("umount", "-l", proc)

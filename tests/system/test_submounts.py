# SPDX-License-Identifier: MIT
"""Filesystems mounted inside the source: each keeps a device number of its own, and is recorded with the rest."""
import errno
import os

import pytest

from harness import FSTAPE, Database, check_truths, run


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


@pytest.fixture
def subvolumes(filesystems):
    """A directory of btrfs with two subvolumes in it, one inside the other; each begins with inode 256."""
    top = filesystems["btrfs"] / "subvolumes"
    made = [top, top / "a", top / "a" / "b"]
    for place in made:
        run("btrfs", "-q", "subvolume", "create", place)
        (place / "file").write_text(place.name)
    yield top
    for place in reversed(made):
        run("btrfs", "-q", "subvolume", "delete", place, check=False)


@pytest.mark.parametrize("cache", ["always", "never"])
def test_files_of_subvolumes_are_told_apart(subvolumes, tmp_path_factory, cache):
    """They share a device number in the mount: what has the same number below must not have it there."""
    db = tmp_path_factory.mktemp("subvolumes") / "t.db"
    paths = [".", "file", "a", "a/b", "a/file", "a/b/file"]
    below = [os.stat(subvolumes / path) for path in paths]
    assert len({st.st_ino for st in below}) == 2
    stats = f"import os\nfor p in {paths}: print(os.stat(p).st_dev, os.stat(p).st_ino)"
    seen = run(FSTAPE, "record", "-q", "--cache", cache, db, subvolumes, "python3", "-c", stats).stdout.splitlines()
    assert len(set(seen)) == len(paths), seen
    numbers = [int(line.split()[1]) for line in seen]
    assert numbers[0] == below[0].st_ino and numbers[1] == below[1].st_ino
    assert [number % 2**32 for number in numbers] == [st.st_ino for st in below]  # what git's index keeps of them
    script = ("set -e; find . | wc -l; ls -R | wc -l; cp a/file a/b/file; cat a/b/file; mv a/b/file file; cat file;"
              " test \"$(find a -maxdepth 1 -inum $(stat -c %i a/file))\" = a/file; ls -i a | grep -q $(stat -c %i a/file)")
    done = run(FSTAPE, "record", "-q", "--cache", cache, db, subvolumes, "sh", "-c", script)
    assert done.stdout.split() == ["6", "10", "aa"] and not done.stderr, done
    check_truths(Database(db, 2))


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

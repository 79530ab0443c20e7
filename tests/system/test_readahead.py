# SPDX-License-Identifier: MIT
"""dir_readahead: it reads ahead, is not seen in the recording, changes nothing, and ends with the mount."""
import os
import pathlib
import time

import pytest

from harness import StartFailed, run, wait_until

MANY = 2000


def make_tree(top):
    for number in range(40):
        folder = top / f"d{number:02}" / "below"
        folder.mkdir(parents=True)
        for name in range(5):
            (folder / f"f{name}").write_text("x" * name)
            (folder.parent / f"g{name}").write_text("y")
    os.symlink("d00", top / "link")
    os.mkfifo(top / "fifo")


def walk(mnt):
    run("find", mnt, "-ls")


def requests(db):
    return db.rows("SELECT op, path, error FROM ops WHERE run = ? AND op NOT IN ('forget', 'forget_multi') ORDER BY op, path,"
                   " error", db.run)


def test_recording_is_the_same(box):
    """What the threads do is not an operation of anybody's."""
    make_tree(box.src)
    seen = {}
    for threads in ("off", 1, 8):
        db = box.recorded(walk, dir_readahead=threads)
        seen[threads] = requests(db)
        assert db.value("SELECT dir_readahead FROM run WHERE id = ?", db.run) == (0 if threads == "off" else threads)
    assert len(seen["off"]) > 300
    assert seen["off"] == seen[1] == seen[8]


def sectors_read(where):
    number = os.stat(where).st_dev
    return int(pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}/stat").read_text().split()[2])


def test_opening_a_directory_reads_its_inodes(box, filesystems):
    """On a disk that nobody has read: without readahead opening reads hardly anything."""
    home = filesystems["ext4"]
    folder = home / f"{box.top.name}-readahead"
    folder.mkdir()
    try:
        for number in range(MANY):
            (folder / f"{number:05}").touch()
        for threads in ("off", 8):
            os.sync()
            pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
            with box.mount(folder, dir_readahead=threads) as mount:
                before = sectors_read(home)
                fd = os.open(mount.mnt, os.O_RDONLY | os.O_DIRECTORY)
                if threads == "off":
                    time.sleep(1)
                    read = sectors_read(home) - before
                else:  # inodes have 256 bytes
                    wait_until(lambda: sectors_read(home) - before > read + MANY * 256 / 512 / 2, what="the inodes' blocks")
                os.close(fd)
    finally:
        run("rm", "-rf", folder)


def test_nothing_changes(box):
    """Access times of directories above all: whoever listed them in vain would be seen by backups and find -atime."""
    make_tree(box.src)
    old = 10 ** 18
    folders = [box.src / f"d{number:02}" for number in range(40)]
    folders += [folder / "below" for folder in folders]
    for folder in folders:
        os.utime(folder, ns=(old, 2 * 10 ** 18))
    with box.mount(dir_readahead=8) as mount:
        fd = os.open(mount.mnt, os.O_RDONLY | os.O_DIRECTORY)
        time.sleep(0.5)
        os.close(fd)
    assert {folder.stat().st_atime_ns for folder in folders} == {old}


def test_ends_with_the_mount(box):
    """Unmounted in the middle of a walk over more directories than wait in the queue, and while they vanish."""
    for number in range(300):
        (box.src / f"{number:03}" / "sub").mkdir(parents=True)
    for _ in range(3):
        with box.mount(dir_readahead=8) as mount:
            for folder in box.src.iterdir():
                os.listdir(mount.mnt / folder.name)
            run("rm", "-rf", *[mount.mnt / f"{number:03}" for number in range(0, 300, 2)])
        for number in range(0, 300, 2):
            (box.src / f"{number:03}" / "sub").mkdir(parents=True)


@pytest.mark.parametrize("value", ["0", "-1", "65", "x", ""])
def test_bad_value(box, value):
    with pytest.raises(StartFailed) as failed:
        box.mount(dir_readahead=value).start()
    assert failed.value.returncode == 2 and "dir_readahead" in failed.value.stderr

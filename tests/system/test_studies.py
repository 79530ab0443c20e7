# SPDX-License-Identifier: MIT
"""docs/studies/run does a study from beginning to end, goes on when it was killed, and says what the database says."""
import os
import re
import shutil
import sqlite3
import subprocess

import pytest

from harness import BUILD, TOP, SLOW, Database, mountpoints, run, wait_until

FEW = ("--files", "30", "--rounds", "1")


@pytest.fixture
def where(base):
    made = base / "study"
    yield made
    for mountpoint in [point for point in mountpoints() if point.startswith(f"{made}/")]:
        run("umount", "-l", mountpoint, check=False)
    shutil.rmtree(made, ignore_errors=True)


def study(name, where, *options, **kwargs):
    env = dict(os.environ, FSTAPE_BUILD=str(BUILD))
    return run(TOP / "docs" / "studies" / "run", name, where, *FEW, *options, env=env, timeout=240, **kwargs)


def left(where):
    images = run("losetup", "-n", "-O", "BACK-FILE").stdout
    return [point for point in mountpoints() if point.startswith(f"{where}/")] or str(where) in images


def test_clone(where):
    study("clone", where, "--flush-ms", "1")
    assert not left(where)
    text = (where / "git-clone-by-filesystem.md").read_text()
    assert str(where) not in text and "30 files" in text
    db = sqlite3.connect(where / "clone.db")
    native = db.execute("SELECT target, real_ns, json_extract(setup, '$.device') FROM run WHERE state = 'native'").fetchall()
    assert {target for target, _, _ in native} == {"ext3", "ext4", "xfs", "btrfs"}
    assert len({device for _, _, device in native}) == 2
    for target, real_ns, device in native:
        letter = re.search(r"disk-[ab]", device)[0]
        assert f"| 1 | {letter} | {target} | 0m{real_ns / 1e9:06.3f}s |" in text
    assert text.count("| n too small |") >= 6 and "can be claimed to be slower" in text
    assert "wsync" in text and "Measured by\n\n    fstape bench clone.db --fs ext3,ext4,xfs,btrfs" in text


def test_readahead_goes_on_when_killed(where):
    env = dict(os.environ, FSTAPE_BUILD=str(BUILD))
    child = subprocess.Popen([TOP / "docs" / "studies" / "run", "readahead", where, *FEW], env=env, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def measured():
        try:
            return Database(where / "readahead.db").value("SELECT count(*) FROM run")
        except sqlite3.Error:
            return 0

    try:
        wait_until(lambda: measured() >= 5 or child.poll() is not None, 60, "five measurements")
        assert child.poll() is None, child.stderr.read()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, 9)
        child.communicate()
    wait_until(lambda: not left(where), 20, "nothing left")
    assert not (where / "directory-readahead.md").exists()
    study("readahead", where)
    text = (where / "directory-readahead.md").read_text()
    rows = sqlite3.connect(where / "readahead.db").execute(
        "SELECT target, caches, dir_readahead, real_ns FROM run WHERE workload IS NOT NULL").fetchall()
    assert len(rows) == 4 * 2 * 3
    for target, caches, threads, real_ns in rows:
        how = {None: "native", 0: "off", 8: "8 threads"}[threads]
        assert f"| {target} | {caches} | {how} | {real_ns / 1e9:.3f} s |" in text


def test_slow_disk(where):
    """A flush takes its time, other requests do not; the contents are the file's."""
    where.mkdir()
    image, mnt = where / "image", where / "mnt"
    image.write_bytes(b"x" * 8192)
    mnt.mkdir()
    disk = subprocess.Popen([BUILD / "tests" / "bench" / "slow_disk", "--flush-ms", "300", image, mnt])
    try:
        wait_until(lambda: (mnt / "disk").exists(), 10, "the disk")
        done = run("python3", "-c", "import os,sys,time\n"
                   f"fd = os.open('{mnt}/disk', os.O_RDWR); start = time.monotonic()\n"
                   "os.pwrite(fd, b'y' * 4096, 0); middle = time.monotonic(); os.fsync(fd); end = time.monotonic()\n"
                   "print(middle - start, end - middle)")
        write, flush = map(float, done.stdout.split())
        assert flush >= 0.3 and write < flush
        assert image.read_bytes() == b"y" * 4096 + b"x" * 4096
    finally:
        disk.terminate()
        disk.wait(20 * SLOW)
    wrong = run(BUILD / "tests" / "bench" / "slow_disk", "--flush-ms", "x", image, mnt, check=False)
    assert wrong.returncode == 2 and "--flush-ms" in wrong.stderr

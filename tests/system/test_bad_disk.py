# SPDX-License-Identifier: MIT
"""A disk that cannot be read is not a damaged database: who reads the message looks after the disk, or restores a file."""
import os
import re
import shutil

import pytest

from harness import FSTAPE, run

COMMANDS = [["stats"], ["git"], ["compare", "--run", "1"], ["export", "--format", "csv"], ["check"],
           ["query", "--report", "slowest"], ["report", "-o", "PAGE"]]


@pytest.fixture
def broken(box):
    """broken(PART): a database on a disk that cannot be read from that part of the file on."""
    run(FSTAPE, "record", "-q", box.db, box.src, "--", "sh", "-c", "for i in $(seq 1500); do echo $i >f$i; done")
    image, where = box.top / "disk.img", box.top / "disk"
    image.touch()
    os.truncate(image, 32 << 20)
    run("mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", image)
    where.mkdir()
    device = run("losetup", "-f", "--show", image).stdout.strip()
    mounted = []

    def make(part):
        run("mount", device, where)
        shutil.copy(box.db, where / "t.db")
        os.sync()
        extents = re.findall(r"^ +\d+: +(\d+)\.\. +(\d+): +(\d+)\.\.", run("filefrag", "-v", where / "t.db").stdout, re.M)
        pages = [int(physical) + number for first, last, physical in extents for number in range(int(last) - int(first) + 1)]
        run("umount", where)
        os.truncate(image, pages[int(part * (len(pages) - 1))] * 4096)  # reading what lies behind is EIO
        run("sh", "-c", "echo 3 >/proc/sys/vm/drop_caches")
        run("mount", "-o", "ro", device, where)
        mounted.append(where)
        return where / "t.db"

    yield make
    for made in mounted:
        run("umount", made)
    run("losetup", "-d", device)


@pytest.mark.parametrize("part", [0, 0.02, 0.5])
def test_what_cannot_be_read_is_not_called_damaged(broken, box, part):
    db = broken(part)
    with pytest.raises(OSError, match="Input/output error"):
        db.read_bytes()
    for words in COMMANDS:
        done = run(FSTAPE, *[box.store / "page.html" if word == "PAGE" else word for word in words], db, check=False)
        said = done.stderr + (done.stdout if words == ["check"] else "")
        if done.returncode == 0:  # it had no need for what cannot be read
            continue
        assert done.returncode == 1 and "Input/output error" in said, (words, said)
        assert not re.search("malformed|damaged|not a database|faults", said), (words, said)
        assert not (box.store / "page.html").exists()
    assert "Input/output error" in run(FSTAPE, "check", db, check=False).stderr


def test_what_is_damaged_is_not_blamed_on_the_disk(box):
    run(FSTAPE, "record", "-q", box.db, box.src, "--", "sh", "-c", "for i in $(seq 1500); do echo $i >f$i; done")
    data = bytearray(box.db.read_bytes())
    data[8192:] = b"\xaa" * (len(data) - 8192)
    box.db.write_bytes(data)
    done = run(FSTAPE, "stats", box.db, check=False)
    assert done.returncode == 1 and "malformed" in done.stderr and "Input/output" not in done.stderr

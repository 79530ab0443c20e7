# SPDX-License-Identifier: MIT
"""The start state of a recording, as replay builds it: the same tree anywhere, within limits, and nothing else touched."""
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import time

import pytest

import trees
from harness import FILESYSTEMS, FSTAPE, run, wait_until
from test_initial import EVERYTHING, make_tree

NEVER_NS = 1 << 62


def record(box, script, *options):
    run(FSTAPE, "record", "--quiet", "--data", "full", *options, box.db, box.src, "--", "sh", "-ec", script)


def replay(box, target, *options, check=True):
    return run(FSTAPE, "replay", *options, box.db, target, check=check, timeout=120)


def target_in(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_the_tree_of_the_start_is_made_again(box, filesystems, kind):
    """A run that does nothing leaves nothing but its start."""
    make_tree(box.src)
    os.setxattr(box.src / "u/v/un", "user.k", b"\0value")
    (box.src / "big").write_bytes(os.urandom(300_000) + bytes(200_000))
    wanted = trees.survey(box.src)
    record(box, "true")
    target = target_in(filesystems[kind] / f"target-{box.top.name}")
    replay(box, target, "--owners", "--allow-setid")
    # everything but times of devices' own making: there are none, so all times are those of the start
    assert trees.differences(wanted, trees.survey(target), times_before_ns=NEVER_NS, owners=True) == []
    assert os.getxattr(target / "u/v/un", "user.k") == b"\0value"
    assert os.stat(target / "u/hole").st_blocks < 1000, "holes stay holes"
    shutil.rmtree(target)


@pytest.mark.parametrize("kind", FILESYSTEMS)
def test_a_tree_that_is_turned_over_ends_equal(box, filesystems, kind):
    make_tree(box.src)
    start_ns = time.time_ns()
    time.sleep(0.05)
    record(box, EVERYTHING)
    target = target_in(filesystems[kind] / f"target-{box.top.name}")
    replay(box, target, "--owners", "--allow-setid")
    assert trees.differences(trees.survey(box.src), trees.survey(target), times_before_ns=start_ns, owners=True) == []
    shutil.rmtree(target)


def test_what_was_copied_from_files_that_are_gone(box):
    """Their contents are known from the copying alone."""
    (box.src / "old").write_bytes(os.urandom(200_000))
    (box.src / "short").write_text("short one")
    record(box, "cp --reflink=never old new; cat short > kept; rm old; echo changed > short")
    target = target_in(box.top / "target")
    replay(box, target)
    assert trees.differences(trees.survey(box.src), trees.survey(target)) == []


def test_contents_that_were_not_recorded_are_made_up(box):
    (box.src / "f").write_bytes(b"secret" * 100_000)
    run(FSTAPE, "record", "--quiet", box.db, box.src, "--", "true")
    made = {}
    for name, options in {"half": (), "again": (), "seed": ("--seed", "2"), "dense": ("--compressible", "0")}.items():
        target = target_in(box.top / name)
        replay(box, target, *options)
        made[name] = (target / "f").read_bytes()
        assert len(made[name]) == 600_000 and b"secret" not in made[name]
    assert made["half"] == made["again"] != made["seed"]
    packed = {name: len(subprocess.run(["gzip"], input=data, stdout=subprocess.PIPE, check=True).stdout)
              for name, data in made.items()}
    assert 0.4 < packed["half"] / 600_000 < 0.6 and packed["dense"] > 590_000


def test_set_ids_and_attributes_that_are_rights_are_left_out(box):
    (box.src / "f").write_text("#!/bin/sh\n")
    os.chmod(box.src / "f", 0o6755)
    os.setxattr(box.src / "f", "trusted.t", b"x")
    record(box, "true")
    target = target_in(box.top / "target")
    replay(box, target)
    assert os.stat(target / "f").st_mode & 0o7777 == 0o755 and os.listxattr(target / "f") == []


# --- limits and ends ---------------------------------------------------------------------------------------------------


def test_a_disk_too_small_is_not_begun(box, base):
    (box.src / "big").write_bytes(os.urandom(3 << 20))
    record(box, "true")
    small = base / "small"
    small.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=4m", "small", small)
    try:
        done = replay(box, small, check=False)
        assert done.returncode == 1 and "half of what is free" in done.stderr, done.stderr
        assert os.listdir(small) == []
        assert replay(box, small, "--max-bytes", "3500K").returncode == 0
    finally:
        run("umount", small)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_building(box, number):
    for folder in range(60):
        (box.src / f"d{folder}").mkdir()
        for name in range(200):
            (box.src / f"d{folder}" / f"f{name}").write_bytes(b"x" * 5000)
    record(box, "true")
    target = target_in(box.top / "target")
    process = subprocess.Popen([FSTAPE, "replay", box.db, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: os.listdir(target), what="the beginning")
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode in (0, 1, 128 + number, -number), (out, err)  # it may have been faster
    assert process.returncode == 0 or len(os.listdir(target)) <= 60


# --- strangers ---------------------------------------------------------------------------------------------------------

HOSTILE = {
    "a bomb": "UPDATE content SET packed = 1, length = 65536, bytes = x'28b52ffda0000040005c00000800000100ffff39100245000008000100ffff39'",
    "contents of another": "UPDATE content SET bytes = zeroblob(length), packed = 0",
    "contents are gone": "DELETE FROM content",
    "pieces far away": "UPDATE initial_data SET offset = offset + (1 << 60)",
    "pieces before": "UPDATE initial_data SET offset = -65536",
    "pieces of no length": "UPDATE initial_data SET length = 0",
    "operations' pieces far away": "UPDATE data SET offset = (1 << 62) + seq",
    "huge": "UPDATE initial SET size = 1 << 62 WHERE mode & 61440 = 32768",
    "much": "UPDATE initial SET size = 1 << 45, blocks = 1 << 40 WHERE mode & 61440 = 32768",
    "negative": "UPDATE initial SET size = -1",
    "no kind": "UPDATE initial SET mode = 7",
    "everything is one inode": "UPDATE initial SET dev = 1, ino = 1",
    "directories are files": "UPDATE initial SET mode = 33188",
    "files are directories": "UPDATE initial SET mode = 16877",
    "all are links": "UPDATE initial SET mode = 41471, target = '../outside'",
    "all are devices": "UPDATE initial SET mode = 24960, rdev = 2049",
    "up": "UPDATE path SET path = '../outside/x' || id",
    "to the root": "UPDATE path SET path = '/' || path",
    "deep": "UPDATE path SET path = replace(hex(zeroblob(500000)), '00', 'a/') || 'f'",
    "one path": "UPDATE path SET path = 'same'",
    "time": "UPDATE initial SET mtime_ns = -9223372036854775808",
    "attributes": "UPDATE initial_xattr SET name = replace(hex(zeroblob(1000)), '00', 'x'), value = zeroblob(1000000)",
    "aliases in a circle": "INSERT OR IGNORE INTO node_alias SELECT run, node, 1 + max(node, 1) % 5, dev, ino FROM initial WHERE node IS NOT NULL",
}
MUTABLE = {"initial": ("path", "node", "dev", "ino", "mode", "size", "mtime_ns", "nlink", "uid", "rdev", "blocks", "target"),
           "path": ("id", "parent", "path"), "data": ("seq", "offset", "length", "hash"), "initial_data": ("path", "offset", "length"),
           "content": ("length", "packed", "bytes"), "initial_xattr": ("path", "name", "value"),
           "op": ("op", "result", "offset", "length", "node", "parent", "fh", "path", "extra"),
           "op_extra": ("id", "path2", "flags", "mode", "args")}


def hostile_box(box):
    """A recording to be doctored, and a target whose surroundings must stay as they are."""
    make_tree(box.src)
    os.setxattr(box.src / "ap", "user.k", b"v")
    record(box, "cat a/b/f2; echo x >> ap; cp del copy; rm del; mkdir n; mv a n; setfattr -n user.j -v 1 ap 2>/dev/null || :")
    (box.top / "outside").mkdir()
    (box.top / "outside" / "file").write_text("not to be touched")
    target_in(box.top / "target")
    return trees.survey(box.top / "outside")


def check_harmless(box, before, done):
    assert done.returncode in (0, 1), (done.returncode, done.stdout[-500:], done.stderr[-500:])
    assert done.returncode == 0 or done.stderr.startswith("fstape: ") or "mismatch" in done.stdout, done.stderr
    assert trees.survey(box.top / "outside") == before
    for where, _, files in os.walk(box.top / "target"):
        for name in files:
            mode = os.lstat(os.path.join(where, name)).st_mode
            assert not mode & 0o6000 and mode >> 12 not in (2, 6), "rights or a device that nobody allowed"


@pytest.mark.parametrize("name", HOSTILE)
def test_strangers_start_states(box, name):
    before = hostile_box(box)
    with sqlite3.connect(box.db) as db:
        db.execute(HOSTILE[name].replace("UPDATE", "UPDATE OR IGNORE", 1))
    done = replay(box, box.top / "target", "--allow-mismatch", "--owners", "--max-bytes", "50M", check=False)
    check_harmless(box, before, done)


def mutate(db, dice):
    """A few values of rows become others: of the same column, of no sense, or of another type where the table takes it."""
    for _ in range(dice.randrange(1, 5)):
        table = dice.choice(list(MUTABLE))
        column = dice.choice(MUTABLE[table])
        value = dice.choice([0, 1, -1, 1 << 31, 1 << 32, 1 << 62, -(1 << 63), (1 << 63) - 1, dice.randrange(200),
                             "", ".", "..", "../outside/file", "/", "x" * 300, b"", b"\xff" * 16, b"\0", None, "column"])
        keys = [row[0] for row in db.execute(f"SELECT {column} FROM {table}")]
        key = dice.choice(keys) if keys else None
        try:
            db.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {column} IS ?",
                       (dice.choice(keys) if value == "column" and keys else value, key))
        except sqlite3.Error:  # the table does not take it
            pass


def test_random_damage(box):
    """Some way or other it ends, in time, and outside of the target nothing has happened."""
    before = hostile_box(box)
    good = box.db.read_bytes()
    seed = int(os.environ.get("FSTAPE_TEST_SEED", "1"))
    for number in range(int(os.environ.get("FSTAPE_TEST_DAMAGES", "40"))):
        box.db.write_bytes(good)
        db = sqlite3.connect(box.db)
        mutate(db, random.Random(seed * 100_000 + number))
        db.commit()
        db.close()
        target_in(box.top / "target")
        done = replay(box, box.top / "target", "--allow-mismatch", "--max-bytes", "50M", check=False)
        try:
            check_harmless(box, before, done)
        except AssertionError as err:
            raise AssertionError(f"FSTAPE_TEST_SEED={seed}, damage {number}: {err}") from err

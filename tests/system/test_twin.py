# SPDX-License-Identifier: MIT
"""
The same random steps on a file system and through a mount of it: every answer, attribute and content must be the same.
tests/twin does them; here are the mounts, and bugs on purpose that it has to find.

FSTAPE_TWIN=full runs 200,000 steps for each of 20 seeds instead of 20,000 for 2 (an hour).
"""
import os
import re

import pytest

from harness import BUILD, check_truths, run

TWIN = BUILD / "tests" / "twin" / "twin"
LIAR = BUILD / "tests" / "twin" / "libliar.so"
FULL = os.environ.get("FSTAPE_TWIN") == "full"
STEPS, SEEDS = (200_000, 20) if FULL else (20_000, 2)
MOUNTS = [("ext4", "always"), ("ext4", "never"), ("xfs", "always"), ("xfs", "auto"), ("btrfs", "always"), ("ext4", "writeback")]


def twin(*args, check=True, **kwargs):
    return run(TWIN, *args, check=check, timeout=5400 if FULL else 400, **kwargs)


@pytest.mark.parametrize(("kind", "cache"), MOUNTS, ids=lambda value: value)
def test_random_steps(kind, cache, base, box_on):
    box = box_on(kind)
    native = box.top / "native"
    native.mkdir()
    for top in (native, box.src):
        top.chmod(0o755)
    # dev: a mount made by root refuses devices otherwise, which the file system itself does not
    options = {"cache": "always" if cache == "writeback" else cache, "writeback": cache == "writeback", "allow_other": True, "dev": True, "suid": True, "patience": 5400 if FULL else 400}

    def action(mnt):
        below = () if cache == "writeback" else ("--below", box.src)  # not everything is there yet
        done = twin("--ops", STEPS, "--seeds", SEEDS, *below, native, mnt, check=False)
        print(done.stdout)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count("no difference") == SEEDS
    db = box.recorded(action, truths=not FULL, **options)
    if not FULL:
        check_truths(db)
    assert os.listdir(native) == os.listdir(box.src) == []


@pytest.fixture
def two_tmpfs(base):
    tops = []
    for name in ("planted-a", "planted-b"):
        top = base / name
        top.mkdir()
        run("mount", "-t", "tmpfs", "tmpfs", top)
        tops.append(top)
    yield tops
    for top in tops:
        run("umount", "-l", top, check=False)
        top.rmdir()


def test_twins_are_twins(two_tmpfs):
    """Nothing is found where there is nothing to be found: two file systems of one kind, no mount of ours."""
    assert "no difference" in twin("--ops", 20000, *two_tmpfs).stdout


@pytest.mark.parametrize("bug", ["nlink", "rename", "data"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_planted_bug_is_found_and_shrunk(bug, seed, two_tmpfs):
    """One of the two lies. It is caught, and at most ten steps say how."""
    env = dict(os.environ, LD_PRELOAD=str(LIAR), LIAR_BUG=bug, LIAR_DEVICE=str(os.stat(two_tmpfs[1]).st_dev))
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"  # it wants to be the first library
    done = twin("--seed", seed, *two_tmpfs, check=False, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    enough = re.search(r"^(\d+) steps are enough", done.stdout, re.M)
    assert enough and int(enough[1]) <= 10, done.stdout
    first, second = re.findall(r"^  (?:first|second): +(.*)$", done.stdout, re.M)[-2:]
    assert first != second
    if bug == "nlink":
        assert "nlink=2" in first and "nlink=1" in second, done.stdout
    if bug == "rename":
        assert re.search(r"^ +\d+  rename ", done.stdout, re.M), done.stdout


def test_wrong_usage():
    assert twin(check=False).returncode == 2
    assert twin("--ops", "-5", "/tmp", "/tmp", check=False).returncode == 2
    assert twin("--help").stdout.startswith("Usage: twin")

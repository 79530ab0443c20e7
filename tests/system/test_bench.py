# SPDX-License-Identifier: MIT
"""bench, compare and quickstart: right results, and nothing left behind however they end."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import FILESYSTEMS, FSTAPE, SLOW, TOP, Database, check_truths, mountpoints, run, wait_until

WORKLOADS = ("git-clone", "git-checkout", "git-status")


def bench(db, *args, **kwargs):
    return run(FSTAPE, "bench", db, "--files", "200", *args, **kwargs)


def left_in(work):
    """Mounts, loop devices and files: an image without a name is shown as one deleted in its folder."""
    images = run("losetup", "-n", "-l", "-O", "BACK-FILE").stdout.splitlines()
    return ([point for point in mountpoints() if point.startswith(f"{work}/")]
            + [image for image in images if str(work) in image] + list(work.iterdir()))


@pytest.fixture
def leaves_nothing(base):
    """The folder for images and work files; all that a benchmark makes there has to be gone in the end."""
    work = base / "bench-work"
    work.mkdir()
    yield work
    try:
        wait_until(lambda: not left_in(work), 20, "nothing left")
    finally:
        shutil.rmtree(work, ignore_errors=True)


def test_what_would_be_left_is_seen(base):
    work = base / "seen"
    work.mkdir()
    image = os.open(work, os.O_TMPFILE | os.O_RDWR)
    os.truncate(image, 1 << 20)
    device = run("losetup", "-f", "--show", f"/proc/{os.getpid()}/fd/{image}").stdout.strip()
    try:
        assert len(left_in(work)) == 1
    finally:
        run("losetup", "-d", device)
        os.close(image)
    wait_until(lambda: not left_in(work), 20, "detached")
    work.rmdir()


def test_root_without_sbin_in_its_path(base, leaves_nothing, filesystems):
    """As su(1) has it: mkfs is found all the same."""
    db = base / "path.db"
    bench(db, "--fs", "ext4", "--workload", "find", "--rounds", "1", "--dir", leaves_nothing,
          env={**os.environ, "PATH": "/usr/bin:/bin"})
    assert Database(db).value("SELECT count(*) FROM run WHERE state = 'done'") == 1


def test_the_unknown_one_of_several_is_named(tmp_path):
    for spec, wrong in (("ext4,zfs,xfs", "zfs"), ("zfs,ext4", "zfs"), ("zfs", "zfs")):
        done = bench(tmp_path / "x.db", "--fs", spec, check=False)
        assert done.returncode == 2, done
        assert f"'{wrong}'" in done.stderr, done


def rows(db):
    return Database(db).rows("SELECT * FROM run ORDER BY id")


def test_every_filesystem_and_round(box, leaves_nothing):
    out = bench(box.db, "--fs", ",".join(FILESYSTEMS), "--rounds", "2", "--through", "native", "--dir", leaves_nothing)
    runs = rows(box.db)
    assert {(r["target"], r["workload"], r["round"]) for r in runs} == {
        (fs, workload, number) for fs in FILESYSTEMS for workload in WORKLOADS for number in (1, 2)}
    assert len(runs) == 24
    for row in runs:
        setup = json.loads(row["setup"])
        assert row["state"] == "native" and row["requests"] is None
        assert 0 < row["real_ns"] < 20e9 * SLOW and row["exit_status"] == 0
        assert row["fs_type"] == row["target"]
        assert setup["mkfs"].startswith(f"mkfs.{row['target']} ")
        assert setup["files"] == 200 and setup["git"]
    order = [[r["target"] for r in runs if r["round"] == number and r["workload"] == "git-clone"] for number in (1, 2)]
    assert order[0] != order[1]
    for fs in FILESYSTEMS:
        assert len(re.findall(rf"^git-\w+ +{fs} +2 ", out.stdout, re.M)) == 3, out.stdout
    assert "no claim" in out.stdout


def test_recorded_and_native(box, leaves_nothing):
    out = bench(box.db, "--fs", "ext4,xfs:mount=noatime", "--rounds", "1", "--through", "both", "--dir", leaves_nothing,
                "--format", "json")
    table = json.loads(out.stdout)
    assert [(r["target"], r["through"]) for r in table if r["workload"] == "git-clone"] == [
        ("ext4", "shim"), ("xfs:mount=noatime", "shim"), ("ext4", "native"), ("xfs:mount=noatime", "native")]
    recorded = [r for r in rows(box.db) if r["state"] != "native"]
    assert len(recorded) == 6
    for row in recorded:
        db = Database(box.db, row["id"])
        check_truths(db)
        assert row["label"] == f"{row['workload']}/{row['target']}/1"
        if "noatime" in row["target"]:
            assert "noatime" in row["fs_options"]
        shown = next(r for r in table if (r["workload"], r["target"], r["through"]) == (row["workload"], row["target"], "shim"))
        assert shown["requests"] == row["requests"] == db.value("SELECT count(*) FROM op WHERE run = ?", row["id"])
        assert shown["fs_ns"] == db.value("SELECT sum(fs_ns) FROM op WHERE run = ?", row["id"])
        assert shown["real_ns"] == row["real_ns"]
        if row["workload"] == "git-clone":  # two of 200 files are symlinks
            assert db.value("SELECT count(*) FROM ops WHERE run = ? AND op IN ('create', 'symlink') AND error IS NULL"
                            " AND path NOT GLOB 'clone/.git/*'", row["id"]) == 200


def test_rounds_add_up(box, leaves_nothing):
    for _ in range(3):
        bench(box.db, "--fs", "ext4", "--workload", "git-clone", "--rounds", "1", "--through", "native",
              "--dir", leaves_nothing)
    assert [r["round"] for r in rows(box.db)] == [1, 2, 3]
    table = json.loads(run(FSTAPE, "compare", box.db, "--format", "json").stdout)
    times = sorted(r["real_ns"] for r in rows(box.db))
    assert len(table) == 1 and table[0]["n"] == 3
    assert table[0]["real_ns"] == times[1] and table[0]["min_real_ns"] == times[0]
    assert (table[0]["low_ns"], table[0]["high_ns"]) == (times[0], times[2])


def test_generated_repository_is_the_same_everywhere(box, leaves_nothing):
    heads = []
    for seed in (5, 5, 6):
        bench(box.db, "--fs", "ext4", "--workload", "git-status", "--rounds", "1", "--through", "native", "--seed", seed,
              "--dir", leaves_nothing)
        heads.append(json.loads(rows(box.db)[-1]["setup"])["head"])
    assert heads[0] == heads[1] != heads[2]


def test_repository_of_the_user(box, leaves_nothing):
    source = box.top / "repo"
    source.mkdir()
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        run("git", "-C", source, "-c", "user.name=A", "-c", "user.email=a@example.org", *words)
    done = bench(box.db, "--fs", "ext4", "--repo", source, "--through", "native", "--dir", leaves_nothing, check=False)
    assert done.returncode == 1 and "two commits" in done.stderr
    os.chown(source, 12345, 12345)  # somebody else's, as under sudo
    bench(box.db, "--fs", "ext4", "--repo", source, "--workload", "git-clone", "--rounds", "1", "--through", "native",
          "--dir", leaves_nothing)


def measured(db):
    try:
        return Database(db).value("SELECT count(*) FROM run WHERE workload IS NOT NULL")
    except Exception:  # not there yet
        return 0


@pytest.fixture
def endless_bench():
    """Starts benchmarks that do not end by themselves; none outlives the test, whatever fails."""
    started = []

    def start(db, *args):
        child = subprocess.Popen([FSTAPE, "bench", db, "--rounds", "1000", *args], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.parametrize("through", ["native", "shim"])
def test_stopped(box, leaves_nothing, endless_bench, number, through):
    child = endless_bench(box.db, "--fs", "ext4,btrfs", "--files", "1000", "--through", through,
                          "--dir", leaves_nothing)

    wait_until(lambda: measured(box.db) >= 2 or child.poll() is not None, 60, "two measurements")
    time.sleep(0.5)  # into the next
    child.send_signal(number)
    out, err = child.communicate(timeout=60 * SLOW)
    assert child.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1), err
    run(FSTAPE, "recover", box.db)
    if number != signal.SIGKILL:
        assert "stopped" in err
        assert "git-clone" in out  # what there is by then
    db = Database(box.db)
    assert db.value("SELECT count(*) FROM run WHERE workload IS NOT NULL") >= 2
    assert db.value("SELECT count(*) FROM run WHERE state IN ('recording', 'finishing')") == 0
    assert db.value("PRAGMA integrity_check") == "ok"


def test_killed_worker(box, leaves_nothing, endless_bench):
    """The process that does the work, not the one that waits for it."""
    child = endless_bench(box.db, "--fs", "ext4", "--dir", leaves_nothing)
    children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children")
    worker = wait_until(lambda: children.read_text().split(), 20, "worker")
    time.sleep(3)
    os.kill(int(worker[0]), signal.SIGKILL)
    _, err = child.communicate(timeout=60 * SLOW)
    assert child.returncode == 1 and "killed by signal 9" in err


def test_ordinary_user(box, leaves_nothing):
    for path in (box.store, leaves_nothing):
        os.chown(path, 1000, 1000)
    place = box.top / "place"
    place.mkdir()
    os.chown(place, 1000, 1000)
    user = {"user": 1000, "group": 1000, "extra_groups": []}
    bench(box.db, "--fs", f"dir={place}", "--rounds", "1", "--through", "both", "--dir", leaves_nothing, **user)
    assert [r["state"] for r in rows(box.db)].count("native") == 3
    assert len(rows(box.db)) == 6
    assert list(place.iterdir()) == []
    refused = bench(box.db, "--fs", "ext4", "--dir", leaves_nothing, check=False, **user)
    assert refused.returncode == 1 and "root" in refused.stderr


def test_resume(box, leaves_nothing):
    """Killed in the middle: --resume measures what is missing, once, with the options of then."""
    options = ("--fs", "ext4,xfs", "--workload", "git-clone,find", "--cache", "both", "--rounds", "2", "--through", "both",
               "--files", "200", "--dir", str(leaves_nothing))
    child = subprocess.Popen([FSTAPE, "bench", box.db, *options], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        wait_until(lambda: measured(box.db) >= 9 or child.poll() is not None, 120, "nine measurements")
    finally:
        child.kill()
        child.communicate()
    before = measured(box.db)
    assert 9 <= before < 32
    wait_until(lambda: not left_in(leaves_nothing), 20, "nothing left")
    other = run(FSTAPE, "bench", box.db, "--resume", "--fs", "ext3", check=False)
    assert other.returncode == 2 and "begun with" in other.stderr
    run(FSTAPE, "bench", box.db, "--resume", timeout=300)
    keys = [(r["workload"], r["target"], r["caches"], r["round"], r["state"] == "native")
            for r in rows(box.db) if r["workload"]]
    assert len(keys) == len(set(keys)) == 32
    again = run(FSTAPE, "bench", box.db, "--resume", *options, check=False)
    assert again.returncode == 1 and "complete" in again.stderr


def test_resume_does_no_harm_because_a_database_says_so(box, leaves_nothing, tmp_path):
    """A stranger's database may name commands and devices: they want to be given again."""
    mark = tmp_path / "mark"
    options = ("--fs", "ext4", "--workload", f"cmd=touch {mark}; exit 1", "--through", "native", "--dir", leaves_nothing)
    bench(box.db, *options, check=False)
    assert mark.exists()
    mark.unlink()
    refused = run(FSTAPE, "bench", box.db, "--resume", check=False)
    assert refused.returncode == 2 and "touch" in refused.stderr and not mark.exists()
    again = bench(box.db, *options, "--resume", check=False)
    assert again.returncode == 1 and mark.exists()


def test_nothing_to_resume(box):
    done = run(FSTAPE, "bench", box.db, "--resume", check=False)
    assert done.returncode == 1
    assert not box.db.exists()


def test_every_workload(box, leaves_nothing):
    workloads = ("git-clone,git-clone-local,git-checkout,git-checkout:3,git-status,git-add,git-commit,git-gc,git-log-walk,"
                 "find,ls-lR,rm-rf,untar")
    bench(box.db, "--fs", "ext4", "--workload", workloads, "--workload", "cmd=test -d .git && git log -1, --oneline | cat",
          "--rounds", "1", "--dir", leaves_nothing, timeout=240)
    runs = {r["workload"]: r for r in rows(box.db)}
    assert len(runs) == 14
    assert all(r["exit_status"] == 0 and r["requests"] > 0 for r in runs.values())
    count = lambda workload, op: Database(box.db).value(
        "SELECT count(*) FROM ops WHERE run = ? AND op = ? AND error IS NULL", runs[workload]["id"], op)
    assert count("rm-rf", "unlink") >= 200
    assert count("git-clone-local", "link") >= 2
    assert count("git-add", "create") >= 198
    assert count("untar", "create") == 198 and count("untar", "symlink") == 2
    assert count("find", "create") == 0 < count("find", "readdirplus")


def test_wrong_result_is_noticed(box, leaves_nothing):
    done = bench(box.db, "--fs", "ext4", "--workload", "cmd=exit 3", "--rounds", "1", "--dir", leaves_nothing, check=False)
    assert done.returncode == 1 and "exit status 3" in done.stderr
    assert not [r for r in rows(box.db) if r["workload"]]


def test_cold_and_warm(box, leaves_nothing):
    """Cold reads come from the device, warm ones do not; a compared factor has rows of its own."""
    bench(box.db, "--fs", "ext4,xfs", "--workload", "find", "--cache", "both", "--through", "native", "--rounds", "2",
          "--dir", leaves_nothing)
    reads = {(r["target"], r["caches"]): Database(box.db).value(
        "SELECT sum(value) FROM run_counter JOIN run ON run.id = run WHERE name = 'device.reads' AND target = ? AND caches = ?",
        r["target"], r["caches"]) for r in rows(box.db)}
    assert len(reads) == 4
    for fs in ("ext4", "xfs"):
        assert reads[fs, "cold"] > 0 == reads[fs, "warm"], reads
    table = json.loads(run(FSTAPE, "compare", box.db, "--by", "cache", "--baseline", "warm", "--format", "json").stdout)
    assert [(r["target"], r["cache"]) for r in table] == [
        ("ext4", "cold"), ("ext4", "warm"), ("xfs", "cold"), ("xfs", "warm")]
    assert all((r["ratio"] == 1) == (r["cache"] == "warm") for r in table)
    assert all(r["verdict"] == ("n too small" if r["cache"] == "cold" else None) for r in table)
    wrong = run(FSTAPE, "compare", box.db, "--by", "cache", "--baseline", "hot", check=False)
    assert wrong.returncode == 1 and "hot" in wrong.stderr


def test_unusual_targets(box, leaves_nothing):
    bench(box.db, "--fs", "btrfs:raid1,tmpfs,overlay,ext4:label=a,ext4:label=b", "--workload", "find", "--cache", "both",
          "--rounds", "1", "--dir", leaves_nothing)
    runs = rows(box.db)
    assert [len([r for r in runs if r["target"] == name])
            for name in ("btrfs:raid1", "tmpfs", "overlay", "a", "b")] == [2] * 5
    assert {r["fs_type"] for r in runs} == {"btrfs", "tmpfs", "overlay", "ext4"}
    assert "-d raid1 -m raid1" in next(json.loads(r["setup"])["mkfs"] for r in runs if r["target"] == "btrfs:raid1")


@pytest.fixture
def images(base):
    made = [base / "device-a.img", base / "device-b.img"]
    for image in made:
        image.touch()
        os.truncate(image, 512 << 20)
    yield made
    for image in made:
        for line in run("losetup", "-n", "-O", "NAME", "-j", image).stdout.split():
            run("umount", "-l", line, check=False)
            run("losetup", "-d", line, check=False)
        image.unlink()


def test_devices_cross_over(box, leaves_nothing, images):
    bench(box.db, "--fs", "ext4,xfs", "--workload", "git-clone", "--through", "native", "--rounds", "4", "--device",
          ",".join(map(str, images)), "--dir", leaves_nothing)
    seen = sorted((r["target"], json.loads(r["setup"])["device"]) for r in rows(box.db))
    assert seen == sorted([(fs, str(image)) for fs in ("ext4", "xfs") for image in images] * 2)
    for number in (1, 2, 3, 4):
        assert len({json.loads(r["setup"])["device"] for r in rows(box.db) if r["round"] == number}) == 2
    table = json.loads(run(FSTAPE, "compare", box.db, "--by", "device", "--format", "json").stdout)
    assert [(r["target"], r["n"]) for r in table] == [("ext4", 2), ("ext4", 2), ("xfs", 2), ("xfs", 2)]


def test_devices_are_not_destroyed(box, leaves_nothing, images):
    """What is in use or holds data stays as it is; what we leave ourselves does not count as data."""
    once = ("--fs", "ext4", "--workload", "git-clone", "--through", "native", "--rounds", "1", "--dir", leaves_nothing)
    image = images[0]
    run("mkfs.ext4", "-q", "-F", "-L", "precious", image)
    kept = image.read_bytes()
    refused = bench(box.db, *once, "--device", image, check=False)
    assert refused.returncode == 1 and "ext4" in refused.stderr and "--destroy-data" in refused.stderr
    loop = run("losetup", "-f", "--show", image).stdout.strip()
    for device in (image, loop):
        refused = bench(box.db, *once, "--device", device, check=False)
        assert refused.returncode == 1, device
    where = box.top / "mounted"
    where.mkdir()
    run("mount", "-o", "ro,noload", loop, where)
    for device in (image, loop):
        refused = bench(box.db, *once, "--destroy-data", "--device", device, check=False)
        assert refused.returncode == 1 and "in use" in refused.stderr, device
    run("umount", where)
    assert image.read_bytes() == kept
    bench(box.db, *once, "--destroy-data", "--device", loop)
    run("losetup", "-d", loop)
    assert image.read_bytes() != kept
    bench(box.db, *once, "--device", image)
    missing = bench(box.db, *once, "--device", "/no/such", check=False)
    assert missing.returncode == 2 and "/no/such" in missing.stderr


@pytest.mark.parametrize("args, status, words", [
    ((), 2, "--fs"),
    (("--fs", "ext5"), 2, "ext3, ext4, xfs, btrfs"),
    (("--fs", "ext4", "--workload", "git-foo"), 2, "git-clone"),
    (("--fs", "ext4", "--rounds", "0"), 2, "rounds"),
    (("--fs", "xfs", "--size", "10M"), 1, "--size"),
    (("--fs", "ext4", "--cache", "hot"), 2, "cold|warm|both"),
    (("--fs", "ext4", "--dir-readahead", "0"), 2, "--dir-readahead"),
    (("--fs", "ext4", "--dir-readahead", "8,8"), 2, "twice"),
    (("--fs", "ext4", "--dir-readahead", "8", "--through", "native"), 2, "native"),
    (("--fs", "btrfs:raid1", "--device", "/dev/null"), 2, "/dev/null"),
    (("--fs", "ext4", "--repo", "/no/such"), 1, "/no/such"),
    (("--fs", "ext4:mkfs=-Ono_such_feature"), 1, "mkfs.ext4"),
    (("--fs", "ext4:mount=no_such_option"), 1, "mount"),
])
def test_bad_input(box, leaves_nothing, args, status, words):
    done = run(FSTAPE, "bench", box.db, "--files", "20", "--dir", leaves_nothing, *args, check=False)
    assert done.returncode == status, done.stderr
    assert words in done.stderr


def test_a_filesystem_that_the_kernel_lacks(box, leaves_nothing):
    if "\tf2fs\n" in pathlib.Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has f2fs")
    done = bench(box.db, "--fs", "f2fs", "--dir", leaves_nothing, check=False)
    assert done.returncode == 1 and "kernel does not support f2fs" in done.stderr


def test_full_image(box, leaves_nothing):
    done = bench(box.db, "--fs", "ext4", "--mean-size", "1M", "--size", "64M", "--dir", leaves_nothing, check=False)
    assert done.returncode == 1
    assert "--size" in done.stderr


def test_nothing_to_compare(box, leaves_nothing):
    bench(box.db, "--fs", "ext4", "--workload", "git-clone", "--rounds", "1", "--through", "native", "--dir", leaves_nothing)
    wrong = run(FSTAPE, "compare", box.db, "--baseline", "xfs", check=False)
    assert wrong.returncode == 1 and "xfs" in wrong.stderr
    named = run(FSTAPE, "compare", box.db, "--run", "git-clone/ext4/1", "--format", "csv").stdout.splitlines()
    assert len(named) == 2 and named[1].startswith("git-clone,ext4,warm,,,native,1,")


def test_quickstart(box, leaves_nothing):
    where = box.store
    env = dict(os.environ, TMPDIR=str(leaves_nothing))
    done = run(TOP / "quickstart", cwd=where, env=env, timeout=240)
    assert {path.name for path in where.iterdir()} == {"fstape-quickstart.db", "fstape-quickstart.html"}
    page = (where / "fstape-quickstart.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    assert all(kind in page for kind in ("ext3", "ext4", "xfs", "btrfs"))
    for fs in FILESYSTEMS:
        assert len(re.findall(rf"^git-\w+ +{fs} ", done.stdout, re.M)) == 3, done.stdout
    commands = re.findall(r'^sqlite3 .*?"$', done.stdout, re.M | re.S)
    assert len(commands) == 2
    for command in commands:
        assert "│" in run("bash", "-c", command, cwd=where).stdout
    for line in done.stdout.splitlines():
        assert len(line) <= 120, line

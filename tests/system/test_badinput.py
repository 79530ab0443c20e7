# SPDX-License-Identifier: MIT
"""fstapefs started wrongly: a message for the person at the terminal, exit status 1 or 2, nothing left behind."""
import os
import sqlite3
import stat

import pytest

from harness import FSTAPE, FSTAPEFS, NOBODY, Database, StartFailed, as_user, check_truths, mountpoints, run, wait_until


def refused(made, status, *words):
    """Starting fails with that status and a message that has these words; nothing is mounted."""
    before = mountpoints()
    with pytest.raises(StartFailed) as caught:
        made.start()
    error = caught.value
    assert error.returncode == status, error.stderr
    assert error.stderr.startswith("fstapefs: "), error.stderr
    assert all(word in error.stderr for word in words), error.stderr
    assert len(error.stderr.splitlines()) <= 4, error.stderr
    assert mountpoints() == before
    return error.stderr


@pytest.mark.without_mounts
@pytest.mark.parametrize("flag", ["-h", "--help", "-V", "--version"])
def test_help_and_version(flag):
    done = run(FSTAPEFS, flag)
    assert done.stderr == "" and done.stdout
    assert max(len(line.expandtabs()) for line in done.stdout.splitlines()) <= 80
    if flag in ("-h", "--help"):
        for option in ("db=", "cache=", "overflow=", "load=", "label=", "spool=", "threads="):
            assert option in done.stdout
    else:
        assert "fstape" in done.stdout and any(char.isdigit() for char in done.stdout)


@pytest.mark.without_mounts
@pytest.mark.parametrize("words", [(), ("/tmp",), ("a", "b", "c"), ("-x", "a", "b"), ("--nonsense",), ("-o",)])
def test_wrong_usage(words):
    done = run(FSTAPEFS, *words, check=False)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("fstapefs: "), done
    assert "-h" in done.stderr or words == ("-o",), "says where help is"


@pytest.mark.parametrize("options, word", [
    ({"nonsense": "1"}, "unknown option(s): `-o nonsense=1'"), ({"cache": "sometimes"}, "sometimes"), ({"overflow": "explode"}, "explode"),
    ({"load": "never"}, "never"), ({"spool": "lots"}, "lots"), ({"threads": "0"}, "threads"), ({"threads": "x"}, "x"),
    ({"entry_timeout": "soon"}, "soon"), ({"spool": "-1"}, "-1"), ({"data": "some"}, "some"), ({"wait": "long"}, "long"),
])
def test_unknown_options_and_values(box, options, word):
    refused(box.mount(**options), 2, word)
    assert not box.db.exists()


def test_no_database_given(box):
    done = run(FSTAPEFS, "-f", box.src, box.mnt, check=False)
    assert done.returncode == 2 and done.stderr.startswith("fstapefs: ") and "db=" in done.stderr
    assert str(box.mnt) not in mountpoints()


def test_source_missing(box):
    refused(box.mount(source=box.top / "none"), 1, f"{box.top}/none", "No such file")


def test_source_is_a_file(box):
    (box.top / "file").touch()
    refused(box.mount(source=box.top / "file"), 1, f"{box.top}/file", "ot a directory")


def test_mountpoint_missing(box):
    refused(box.mount(mountpoint=box.top / "none"), 1, f"{box.top}/none", "No such file")


def test_mountpoint_is_a_file(box):
    (box.top / "file").touch()
    refused(box.mount(mountpoint=box.top / "file"), 1, f"{box.top}/file", "ot a directory")


def test_mountpoint_is_a_dead_mount(box):
    made = box.mount().start()
    made.kill()
    refused(box.mount(db=box.store / "other.db"), 1, str(box.mnt))


def test_mounted_over_a_mount_of_ours(box):
    """Busy: a second recorder over the first would record the first one's work."""
    with box.mount() as made:
        try:
            second = box.mount(db=box.store / "other.db").start()
        except StartFailed as failed:
            assert failed.returncode == 1 and str(made.mnt) in failed.stderr
        else:
            (second.mnt / "f").touch()
            check_truths(second.finish())


@pytest.mark.parametrize("where", ["t.db", "sub/deeper/t.db"])
def test_database_inside_the_tree(box, where):
    path = box.src / where
    path.parent.mkdir(parents=True, exist_ok=True)
    refused(box.mount(db=path), 1, str(path), "inside")
    assert not path.exists()


def test_database_inside_the_tree_by_another_name(box):
    """Through a symlink, a relative step, a bind mount of it, and as the mount point seen from outside."""
    (box.top / "link").symlink_to(box.src)
    refused(box.mount(db=box.top / "link" / "t.db"), 1, "inside")
    (box.src / "sub").mkdir()
    refused(box.mount(db=f"{box.src}/sub/../t.db"), 1, "inside")
    refused(box.mount(db=box.mnt / "t.db"), 1, "inside")
    bound = box.top / "bound"
    bound.mkdir()
    run("mount", "--bind", box.src, bound)
    try:
        refused(box.mount(db=bound / "t.db"), 1, "inside")
    finally:
        run("umount", bound)
    assert not (box.src / "t.db").exists()


def test_database_beside_the_tree_is_fine(box):
    """A name that only begins like the source's."""
    check_truths(box.recorded(lambda mnt: (mnt / "f").touch(), db=f"{box.src}.db"))


def test_database_directory_missing(box):
    refused(box.mount(db=box.top / "none" / "t.db"), 1, "none/t.db", "No such file")


def test_database_is_a_directory(box):
    refused(box.mount(db=box.top), 1, str(box.top))


def test_database_is_no_database(box):
    box.db.write_text("something else\n" * 1000)
    refused(box.mount(), 1, str(box.db), "not a database")
    assert box.db.read_text().startswith("something else")


def test_database_of_somebody_else(box):
    with sqlite3.connect(box.db) as other:
        other.execute("CREATE TABLE bookmarks (url)")
    other.close()
    refused(box.mount(), 1, str(box.db), "not a recording")


def test_database_of_a_newer_version(box):
    box.recorded(lambda mnt: None)
    with sqlite3.connect(box.db) as other:
        other.execute("PRAGMA user_version = 4711")
    other.close()
    refused(box.mount(), 1, str(box.db), "4711", "version")


def test_database_that_may_not_be_written(box):
    """For root only a file system can say no."""
    where = box.top / "ro"
    where.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=1m", "none", where)
    try:
        run("mount", "-o", "remount,ro", where)
        refused(box.mount(db=where / "t.db"), 1, str(where / "t.db"), "Read-only")
    finally:
        run("umount", where)


def test_database_that_a_user_may_not_write(box):
    box.store.chmod(0o755)
    for path in (box.src, box.mnt):
        os.chown(path, 1000, 1000)
    refused(box.mount(user=1000), 1, str(box.db), "Permission denied")


def test_no_room_for_a_database(box):
    where = box.top / "full"
    where.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=64k", "none", where)
    try:
        refused(box.mount(db=where / "t.db"), 1, str(where))
    finally:
        run("umount", where)


def test_the_disk_of_the_database_fills_up(box):
    """The user's files go on; recording stops at a marked point, is counted, and one message says so."""
    where = box.top / "full"
    where.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=12m", "none", where)
    made = box.mount(db=where / "t.db", spool="4M")
    try:
        made.start()
        ballast = where / "ballast"
        file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError, match="No space"):
            while True:
                os.write(file, bytes(4096))
        os.close(file)
        for number in range(20000):
            os.access(made.mnt / f"missing-{number}-{'x' * 60}", os.F_OK)
            if number % 1000 == 0:
                (made.mnt / f"f{number}").write_text("works")
        assert len(list(box.src.glob("f*"))) == 20
        ballast.unlink()
        made.unmount()
        status = made.wait()
        assert status in (0, 3), made.stderr
        if status == 3:
            assert "recover" in made.stderr
            run("umount", "-l", made.mnt, check=False)
        assert "No space" in made.stderr or "full" in made.stderr
        assert len(made.stderr.splitlines()) <= 6, made.stderr
        row = made.db().condition()
        assert row["clean_end"] == 0 and row["dropped"] > 0 and row["note"]
        assert row["requests"] == row["recorded"] + row["dropped"]
    finally:
        made.close()
        run("umount", "-l", where)


def in_namespace(script, *args):
    return run("unshare", "-m", "--propagation", "private", "bash", "-c", script, "bash", *args, check=False)


def test_no_dev_fuse(box):
    done = in_namespace('mount --bind /dev/null /dev/fuse && mount -t tmpfs none /sys && exec "$1" -f -o "db=$2" "$3" "$4"',
                        FSTAPEFS, box.db, box.src, box.mnt)
    assert done.returncode == 1 and "/dev/fuse" in done.stderr, done
    done = in_namespace('mkdir -p "$5/dev" && mount -t tmpfs none "$5/dev" && mknod -m 666 "$5/dev/null" c 1 3 &&'
                        ' mount --move "$5/dev" /dev && exec "$1" -f -o "db=$2" "$3" "$4"',
                        FSTAPEFS, box.db, box.src, box.mnt, box.top)
    assert done.returncode == 1 and "/dev/fuse" in done.stderr and "modprobe" in done.stderr, done


def test_no_fusermount3_for_an_ordinary_user(box):
    for path in (box.src, box.mnt, box.store):
        os.chown(path, NOBODY, NOBODY)
    done = in_namespace('for f in /bin/fusermount3 /usr/bin/fusermount3; do [ -e $f ] && mount --bind /dev/null $f; done;'
                        ' exec setpriv --reuid 65534 --regid 65534 --clear-groups "$1" -f -o "db=$2" "$3" "$4"',
                        FSTAPEFS, box.db, box.src, box.mnt)
    assert done.returncode == 1 and "fusermount3" in done.stderr, done
    assert "not mounted" in Database(box.db).value("SELECT note FROM run")


def test_in_the_background(box):
    """Without -f it returns once the mount serves; its recording ends some time after the unmount."""
    run(FSTAPEFS, "-o", f"db={box.db}", box.src, box.mnt)
    assert str(box.mnt) in mountpoints()
    (box.mnt / "f").touch()
    run("umount", box.mnt)
    wait_until(lambda: Database(box.db).rows("SELECT 1 FROM run WHERE state = 'done'"), what="the end of the run")
    wait_until(lambda: not os.path.exists(f"{box.db}-spool"), what="the end of the spool, which comes after that")
    db = Database(box.db, 1)
    check_truths(db)
    db.expect("create", path="f", error=None)


def test_by_mount(box):
    """As from fstab: mount -t fuse.fstapefs finds the program by its name."""
    link = "/usr/local/bin/fstapefs"
    if os.path.lexists(link):
        pytest.skip(f"{link} is there already")
    os.symlink(FSTAPEFS, link)
    try:
        run("mount", "-t", "fuse.fstapefs", "-o", f"db={box.db},allow_other,nosuid", box.src, box.mnt)
        (box.mnt / "f").touch()
        line = [line for line in open("/proc/self/mounts") if f" {box.mnt} " in line][0]
        assert line.split()[2] == "fuse.fstapefs" and "nosuid" in line and not line.startswith("/dev/fuse")
        assert as_user(lambda: os.listdir(box.mnt)) == ["f"]
    finally:
        os.unlink(link)
        run("umount", box.mnt, check=False)
    wait_until(lambda: Database(box.db).rows("SELECT 1 FROM run WHERE state = 'done'"), what="the end of the run")


def test_database_files_are_private(box):
    old = os.umask(0)
    try:
        box.recorded(lambda mnt: None)
    finally:
        os.umask(old)
    assert stat.S_IMODE(box.db.stat().st_mode) == 0o600


@pytest.mark.parametrize("source", ["/proc", "/sys"])
def test_the_kernel_s_own_filesystems(box, source):
    """We read /proc while requests wait: through ourselves that would never end."""
    done = run(FSTAPE, "record", box.db, source, "true", check=False, timeout=20)
    assert done.returncode == 125 and "kernel's own" in done.stderr


def test_no_room_for_the_spool(box):
    """A run that could not begin has not been."""
    run("mount", "-t", "tmpfs", "-o", "size=700k", "fstape-test", box.store)
    try:
        done = run(FSTAPE, "record", box.db, box.src, "true", check=False)
        assert done.returncode == 125 and "spool" in done.stderr and "No space" in done.stderr
        assert Database(box.db).value("SELECT count(*) FROM run") == 0
        assert not os.path.exists(f"{box.db}-spool/run-1")
    finally:
        run("umount", "-l", box.store)

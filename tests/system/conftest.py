# SPDX-License-Identifier: MIT
"""Fixtures: small real file systems, a box per test with a source, a mount point and a database; what to skip and why."""
import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

import pytest

from harness import BUILD, FILESYSTEMS, FSTAPE, FSTAPEFS, USER, Mount, check_truths, libc, mountpoints, run

IMAGE_SIZE = 1 << 30  # bytes, sparse
MKFS = {
    "ext3": ("mkfs.ext3", "-q", "-F"),
    "ext4": ("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"),
    "xfs": ("mkfs.xfs", "-q", "-f"),
    "btrfs": ("mkfs.btrfs", "-q", "-f"),
}


def why_no_mounts():
    if os.geteuid() != 0:
        return "needs root, to make file systems and mount them"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as err:
        return f"needs /dev/fuse: {err.strerror}"
    return None


def pytest_collection_modifyitems(items):
    missing = [str(program) for program in (FSTAPEFS, FSTAPE) if not program.exists()]
    if missing:
        raise pytest.UsageError(f"not built: {', '.join(missing)}; run tests/run, or set FSTAPE_BUILD")
    reason = why_no_mounts()
    for item in items if reason else ():
        if "without_mounts" not in item.keywords:
            item.add_marker(pytest.mark.skip(reason=reason))


def private_mounts():
    """Mounts of the tests are seen by them alone, and go with them however they end."""
    clone_newns, ms_rec, ms_private = 0x20000, 0x4000, 1 << 18
    if os.geteuid() == 0 and libc.unshare(clone_newns) == 0:
        libc.mount(None, b"/", None, ms_rec | ms_private, None)


def told_to_end(*_):
    """Like Ctrl-C: what the tests have made is taken away before we go."""
    raise KeyboardInterrupt


def pytest_configure(config):
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, told_to_end)
    # A background job starts with these ignored, and programs that are to be interrupted would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    private_mounts()
    config.addinivalue_line("markers", "without_mounts: runs without root and without /dev/fuse")


def pytest_sessionfinish(session, exitstatus):
    """A machine of the kind that CI has can run every test: there a skip hides something."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") == "true" and exitstatus == 0 and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def base():
    """A folder that every user may pass through, emptied and removed at the end."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="fstape-tests-"))
    path.chmod(0o755)
    yield path
    for mountpoint in reversed([point for point in mountpoints() if point.startswith(f"{path}/")]):
        subprocess.run(["umount", "-l", mountpoint], check=False)
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def filesystems(base):
    """{type: where it is mounted}; each made when it is asked for. Loop devices go with their mounts."""

    class Made(dict):
        def __missing__(self, kind):
            image, where = base / f"{kind}.img", base / kind
            image.touch()
            os.truncate(image, IMAGE_SIZE)
            run(*MKFS[kind], image)
            where.mkdir()
            run("mount", "-o", "loop", image, where)
            self[kind] = where
            return where

    made = Made()
    yield made
    for where in made.values():
        run("umount", "-l", where, check=False)


@pytest.fixture(scope="session", autouse=True)
def mtab_for_users():
    """fusermount3 reads /etc/mtab, which a system has from its first start on; one that was never started has none."""
    if os.geteuid() != 0 or os.path.lexists("/etc/mtab"):
        yield
        return
    os.symlink("../proc/self/mounts", "/etc/mtab")
    yield
    os.unlink("/etc/mtab")


@pytest.fixture(scope="session", autouse=True)
def name_for_users(base):
    """fusermount3 wants a name for who calls it; a new system has no users, so a file with one lies over its own."""
    if why_no_mounts() or USER in [entry.pw_uid for entry in pwd.getpwall()]:
        yield
        return
    passwd = base / "passwd"
    passwd.write_text(pathlib.Path("/etc/passwd").read_text() + f"fstape-tester:x:{USER}:{USER}::/:/bin/sh\n")
    run("mount", "--bind", passwd, "/etc/passwd")
    yield
    run("umount", "-l", "/etc/passwd")


@pytest.fixture(scope="session", autouse=True)
def device_for_users(base):
    """Distributions ship /dev/fuse open to all; for where it is not, a node of our own lies over it meanwhile."""
    if why_no_mounts():
        yield
        return
    node = base / "fuse"
    os.mknod(node, 0o020666, os.stat("/dev/fuse").st_rdev)
    node.chmod(0o666)
    run("mount", "--bind", node, "/dev/fuse")
    yield
    run("umount", "-l", "/dev/fuse")  # a daemon that a failed test left behind may still have it open


@contextlib.contextmanager
def uring_switched(value):
    """The kernel's switch for requests through io_uring, put back afterwards; nothing where the kernel has none."""
    switch = pathlib.Path("/sys/module/fuse/parameters/enable_uring")
    before = switch.read_text() if switch.exists() else None
    if before:
        switch.write_text(value)
    try:
        yield before
    finally:
        if before:
            switch.write_text(before)


@pytest.fixture(scope="session", autouse=True)
def through_io_uring():
    """FSTAPE_TEST_URING=1: all tests with requests through io_uring (harness.py), which the kernel must have on."""
    with uring_switched("Y") if os.environ.get("FSTAPE_TEST_URING") else contextlib.nullcontext():
        yield


@pytest.fixture
def uring_on():
    with uring_switched("Y") as known:
        if not known:
            pytest.skip("this kernel has no io_uring for FUSE")
        yield


@pytest.fixture
def uring_off():
    with uring_switched("N") as known:
        if not known:
            pytest.skip("this kernel has no io_uring for FUSE")
        yield


class Box:
    """A source on a real file system, a mount point, a database beside them."""

    def __init__(self, base, top, name):
        self.top = top / name
        self.top.mkdir()
        self.src, self.mnt = self.top / "src", base / f"mnt-{name}"
        self.src.mkdir()
        self.mnt.mkdir()
        self.store = base / f"db-{name}"
        self.store.mkdir()
        self.db = self.store / "t.db"
        self.mounts = []
        self.clients = []

    def client(self, *command, **kwargs):
        """A program that runs beside the test; killed at its end when it still does."""
        words = [str(word) for word in command]
        self.clients.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **kwargs))
        return self.clients[-1]

    def mount(self, source=None, mountpoint=None, db=None, **options):
        """A mount that is not started yet: for `with`, or start() and finish()."""
        made = Mount(source or self.src, mountpoint or self.mnt, db or self.db, **options)
        self.mounts.append(made)
        return made

    def recorded(self, action, *, truths=True, **options):
        """Calls action(mountpoint) through a mount; returns the database of the recording, after checking it."""
        with self.mount(**options) as made:
            action(made.mnt)
        db = made.db()
        if truths:
            check_truths(db)
        return db

    def close(self):
        for client in self.clients:
            client.kill()
            client.wait(30)
        for made in self.mounts:
            made.close()
        shutil.rmtree(self.top, ignore_errors=True)
        shutil.rmtree(self.store, ignore_errors=True)
        try:
            self.mnt.rmdir()
        except OSError:
            shutil.rmtree(self.mnt, ignore_errors=True)


_numbers = iter(range(1, 1 << 30))


@pytest.fixture
def box(base, filesystems):
    """A box on ext4."""
    made = Box(base, filesystems["ext4"], f"b{next(_numbers)}")
    yield made
    made.close()


@pytest.fixture(params=FILESYSTEMS)
def any_box(request, base, filesystems):
    """A box on each of the file systems."""
    made = Box(base, filesystems[request.param], f"b{next(_numbers)}")
    made.fs_type = request.param
    yield made
    made.close()


@pytest.fixture
def box_on(base, filesystems):
    """box_on(TYPE): a box on that file system."""
    made = []

    def make(kind):
        made.append(Box(base, filesystems[kind], f"b{next(_numbers)}"))
        return made[-1]

    yield make
    for box in made:
        box.close()


def pytest_report_header():
    return f"programs: {BUILD}"

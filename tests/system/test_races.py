# SPDX-License-Identifier: MIT
"""
Many at once: names that are looked up, made, moved and removed by 16 processes, git's own parallelism, ends under load.
What must hold: no answer that the file system below could not have given, no hang, and at the end the mount shows what is
there. Under --tsan and --asan the daemon's own memory is watched too.
"""
import errno
import os
import pathlib
import signal
import stat
import subprocess
import sys
import time

import pytest

from harness import SLOW, as_user, check_truths, git, make_repository, mountpoints, run, wait_until

PROCESSES = 16
SECONDS = 3

# Works on few names in few directories until told to stop. A file's text says who made it, twice, so that half a file or
# a mixture is noticed. Exit status 0; 9 with a message when an answer was wrong; 7 when the mount has gone away.
WORKER = r"""
import errno, os, random, sys, time
top, seed, seconds, mode = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
random.seed(seed)
os.chdir(top)
dirs = [".", "d0", "d1", "d0/e", "d1/e"]
usual = {errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EINVAL, errno.EBUSY, errno.ELOOP,
         errno.EPERM}  # the last for links to directories
gone = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO}
count = 0

def wrong(text):
    sys.stderr.write(f"{seed}: {text}\n")
    sys.stderr.flush()
    os._exit(9)

def name():
    return random.choice(dirs) + "/" + random.choice("abcdef")

def read(path):
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        st = os.fstat(file)
        data = os.read(file, 1000)
        again = os.fstat(file)
    finally:
        os.close(file)
    if (st.st_ino, st.st_dev) != (again.st_ino, again.st_dev):
        wrong(f"{path}: another inode behind one descriptor")
    half = data[:len(data) // 2]
    if data and half + half != data:
        wrong(f"{path}: {data!r}")

def create(path):
    global count
    count += 1
    temporary = f"t{seed}-{count}"
    file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    text = f"<{seed}-{count}>".encode() * 2
    try:
        if os.write(file, text) != len(text) or os.pread(file, 1000, 0) != text:
            wrong(f"{temporary}: not what was written")
        os.rename(temporary, path)
        if os.fstat(file).st_nlink > 6 * len(dirs):  # others link it to any name that there is
            wrong(f"{path}: {os.fstat(file).st_nlink} links")
    except OSError:
        try:
            os.unlink(temporary)
        except OSError as err:
            if err.errno not in gone:
                wrong(f"{temporary}, which nobody else knows: {err}")
        raise
    finally:
        try:
            os.close(file)
        except OSError:
            pass

def link(path):
    os.link(path, name())

def listing(path):
    names = os.listdir(random.choice(dirs))
    if len(names) != len(set(names)):
        wrong(f"a name twice in {sorted(names)}")

def step(path):
    kind = random.randrange(100)
    if kind < 25: os.lstat(path)
    elif kind < 40: read(path)
    elif kind < 55: create(path)
    elif kind < 70: os.unlink(path)
    elif kind < 82: os.rename(path, name())
    elif kind < 88: link(path)
    elif kind < 91: os.mkdir(path)
    elif kind < 94: os.rmdir(path)
    elif kind < 97: listing(path)
    else: os.rename(random.choice(dirs[1:]), random.choice(dirs[1:]))

end = time.monotonic() + seconds
steps = 0
while time.monotonic() < end:
    for path in dirs[1:]:
        try:
            os.mkdir(path)
        except OSError as err:
            if err.errno in gone and mode == "ending":
                sys.exit(7)
    for _ in range(30):
        steps += 1
        try:
            step(name())
        except OSError as err:
            if err.errno in gone and mode == "ending":
                sys.exit(7)
            if err.errno not in usual:
                wrong(f"{err}")
print(steps)
"""


def start_workers(box, top, seconds=SECONDS, mode="lasting", processes=PROCESSES):
    made = []
    for seed in range(processes):
        made.append(subprocess.Popen([sys.executable, "-c", WORKER, str(top), str(seed), str(seconds), mode],
                                     stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    box.clients += made
    return made


def finish_workers(workers, allowed=(0,), seconds=60):
    steps = 0
    end = time.monotonic() + seconds * SLOW
    for worker in workers:
        out, err = worker.communicate(timeout=max(1, end - time.monotonic()))
        assert worker.returncode in allowed, f"exit status {worker.returncode}: {err}"
        steps += int(out or 0)
    return steps


def facts(top):
    """{path: what is comparable between a mount and what is below it}."""
    tree = {}
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(where, name)
            st = os.lstat(path)
            text = pathlib.Path(path).read_bytes() if stat.S_ISREG(st.st_mode) else None
            tree[os.path.relpath(path, top)] = (st.st_ino, st.st_mode, st.st_nlink, st.st_size, st.st_mtime_ns,
                                                st.st_ctime_ns, text)
    return tree


@pytest.mark.parametrize(("kind", "cache"), [("ext4", "always"), ("ext4", "never"), ("xfs", "auto")])
def test_sixteen_on_few_names(kind, cache, box_on):
    box = box_on(kind)

    def action(mnt):
        steps = finish_workers(start_workers(box, mnt))
        assert steps > 100 * PROCESSES / SLOW, "hardly anything was done"
        shown = facts(mnt)
        assert shown == facts(box.src)
    box.recorded(action, cache=cache, allow_other=True)


def test_sixteen_with_few_descriptors(box):
    """Nodes lose and regain their descriptors all the time."""
    import resource

    def action(mnt):
        finish_workers(start_workers(box, mnt, processes=8))
        assert facts(mnt) == facts(box.src)
    box.recorded(action, limits=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150)), allow_other=True)


def test_callers_do_not_mix(box):
    """Two users make files at the same time, through the same workers: each file is its maker's."""
    box.src.chmod(0o1777)

    def make(uid):
        for number in range(300):
            name = os.path.join(box.mnt, f"{uid}-{number}")
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            os.mkdir(name + "d")
            os.symlink("x", name + "l")

    def action(mnt):
        children = []
        for uid in (1000, 1001, 1002, 0):
            child = os.fork()
            if child == 0:
                try:
                    as_user(lambda: make(uid), uid=uid, groups=[uid + 10], umask=0o007 if uid % 2 else 0o022)
                    os._exit(0)
                except BaseException as err:
                    sys.stderr.write(f"{err!r}\n")
                    os._exit(1)
            children.append(child)
        assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        for entry in os.scandir(mnt):
            st = entry.stat(follow_symlinks=False)
            uid = int(entry.name.split("-")[0])
            assert (st.st_uid, st.st_gid) == (uid, uid), entry.name
            if entry.is_file(follow_symlinks=False):
                assert stat.S_IMODE(st.st_mode) == (0o660 if uid % 2 else 0o644), entry.name
    box.recorded(action, allow_other=True)


@pytest.mark.parametrize("cache", ["always", "auto", "never"])
def test_directories_change_places_behind_our_back(box, cache):
    """Each was below the other once; what was known of them must not become a circle without an end."""
    (box.src / "a" / "b").mkdir(parents=True)

    def action(mnt):
        for outer, inner in (("a", "b"), ("b", "a")) * 3:
            file = os.open(mnt / outer / inner, os.O_RDONLY | os.O_DIRECTORY)
            os.rename(box.src / outer / inner, box.src / inner)
            os.rename(box.src / outer, box.src / inner / outer)
            for name in (outer, f"{outer}/new", "new"):  # outer is met below inner, which has not been met anew
                (mnt / "here").mkdir()
                os.rename(mnt / "here", mnt / "there")  # has every directory's path made up anew
                (mnt / "there").rmdir()
                try:
                    os.mkdir(name, dir_fd=file)
                    os.rmdir(name, dir_fd=file)
                except OSError as err:
                    assert err.errno in (errno.EEXIST, errno.ELOOP, errno.ESTALE), err
            os.close(file)
            if cache == "always":  # shows no changes but its own
                return
            wait_until(lambda: os.path.isdir(mnt / inner / outer), 5, "the directories' new places")
    box.recorded(action, cache=cache, patience=60)


@pytest.fixture(scope="session")
def origin(base):
    return make_repository(base / "races-origin", 3000)


def test_parallel_checkout(box, origin):
    parallel = ("-c", "checkout.workers=8", "-c", "checkout.thresholdForParallelism=1")

    def action(mnt):
        git(*parallel, "clone", "-q", "--no-hardlinks", origin, mnt / "clone")
        assert git("status", "--porcelain", cwd=mnt / "clone").stdout == ""
        run("bash", "-c", f"rm -r '{mnt}'/clone/d*")
        git(*parallel, "checkout", "-q", "--", ".", cwd=mnt / "clone")
        assert git("status", "--porcelain", cwd=mnt / "clone").stdout == ""
        run("diff", "-r", "--no-dereference", "--exclude=.git", origin, mnt / "clone")
    box.recorded(action, cache="always")


def test_clone_gc_and_status_at_once(box, origin):
    def action(mnt):
        first = mnt / "first"
        git("clone", "-q", "--no-hardlinks", origin, first)
        env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null")
        together = [
            subprocess.Popen(["git", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, env=env)
            for words in (
                ["-C", first, "gc", "-q", "--prune=now"], ["clone", "-q", "--no-hardlinks", first, mnt / "second"],
                ["-C", first, "status", "--porcelain"], ["-C", first, "repack", "-q", "-a", "-d"],
                ["-C", first, "log", "--stat"], ["-C", first, "--no-optional-locks", "status", "--porcelain"])]
        box.clients += together
        for number, process in enumerate(together):
            out, err = process.communicate(timeout=120 * SLOW)
            if number != 1:  # a pack may vanish under a clone's hands, anywhere: git says so, and is right
                assert process.returncode == 0, f"{process.args}: {err}"
            if "status" in process.args:
                assert out == ""
        git("fsck", "--strict", cwd=first)
        assert git("status", "--porcelain", cwd=first).stdout == ""
    box.recorded(action, cache="always")


@pytest.mark.parametrize("cache", ["always", "never"])
@pytest.mark.parametrize("how", ["unlink", "rename"])
def test_removed_between_look_up_and_open(box, cache, how):
    """Who has looked a file up will find it, even when another has taken its name away in between."""
    (box.src / "a").write_text("text")
    (box.src / "b").write_text("other")
    looker = (f"import os, sys; file = os.open('{box.mnt}/a', os.O_PATH); print('looked', flush=True); input();"
              "print(os.read(os.open(f'/proc/self/fd/{file}', os.O_RDONLY), 9))")

    def action(mnt):
        child = subprocess.Popen([sys.executable, "-c", looker], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        box.clients.append(child)
        assert child.stdout.readline() == "looked\n"
        if how == "unlink":
            os.unlink(mnt / "a")
        else:
            os.rename(mnt / "b", mnt / "a")
        out, err = child.communicate("\n", timeout=30)
        assert (child.returncode, out) == (0, "b'text'\n"), err
    box.recorded(action, cache=cache)


def end_under_load(box, end):
    made = box.mount(allow_other=True).start()
    workers = start_workers(box, made.mnt, seconds=60, mode="ending")
    time.sleep(1.5)
    early = [worker for worker in workers if worker.poll() is not None]
    assert not early, [(worker.returncode, worker.communicate()) for worker in early]
    end(made)
    return made, workers


def test_told_to_end_under_load(box):
    made, workers = end_under_load(box, lambda mount: os.kill(mount.pid, signal.SIGTERM))
    assert made.wait(60) == 0, made.stderr
    finish_workers(workers, allowed=(7,), seconds=60)
    assert str(made.mnt) not in mountpoints()
    row = made.db().condition()
    assert (row["state"], row["dropped"]) == ("done", 0)
    # every request that was answered is there; those in the air at the end have no answer and no row
    assert row["recorded"] == made.db().value("SELECT count(*) FROM op WHERE run = ?", made.run) > 100


def test_lazily_unmounted_under_load(box):
    """The processes go on in what they have; when they have gone the daemon ends, and has recorded all of it."""
    made, workers = end_under_load(box, lambda mount: run("umount", "-l", mount.mnt))
    time.sleep(0.5)
    assert made.daemon.poll() is None
    ended = [worker for worker in workers if worker.poll() is not None]
    assert not ended, [(worker.returncode, worker.communicate()) for worker in ended]
    for worker in workers:
        worker.send_signal(signal.SIGKILL)
    for worker in workers:
        worker.wait(30 * SLOW)
    assert made.wait(60) == 0, made.stderr
    check_truths(made.db())


def test_aborted_under_load(box):
    """The connection is cut (as by a killed kernel thread or /sys/fs/fuse): clients get errors, nobody hangs."""
    def abort(mount):
        device = os.stat(mount.mnt).st_dev
        control = pathlib.Path("/sys/fs/fuse/connections") / str(os.minor(device)) / "abort"
        if not control.exists():
            run("mount", "-t", "fusectl", "none", "/sys/fs/fuse/connections")
        control.write_text("1")
    made, workers = end_under_load(box, abort)
    assert made.wait(60) == 0, made.stderr
    finish_workers(workers, allowed=(7,))
    run("umount", "-l", made.mnt, check=False)
    assert made.db().condition()["state"] == "done"


def test_workers_killed_at_any_moment(box):
    """Interrupted requests, replies that nobody takes: node counts come out right all the same."""
    def action(mnt):
        for _ in range(3):
            workers = start_workers(box, mnt, seconds=60)
            time.sleep(0.7)
            for worker in workers:
                worker.kill()
            for worker in workers:
                worker.wait(30 * SLOW)
        assert facts(mnt) == facts(box.src)
    box.recorded(action, allow_other=True)

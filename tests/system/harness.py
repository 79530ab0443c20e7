# SPDX-License-Identifier: MIT
"""What system tests are written with: mounts of fstapefs, databases, twins, other users. Fixtures are in conftest.py."""
import atexit
import ctypes
import json
import os
import pathlib
import select
import shutil
import sqlite3
import stat
import subprocess
import tempfile
import threading
import time
import urllib.parse

PROGRAMS = ("fusefs/fstapefs", "analyzer/fstape")


def for_everybody(build):
    """A folder of the programs that other users can get at. Into a checkout below /root they can't: then it is a copy."""
    build = build.resolve()
    if (all(path.stat().st_mode & 0o001 for path in (build, *build.parents) if path.exists())
            or not all((build / program).exists() for program in PROGRAMS)):
        return build
    copy = pathlib.Path(tempfile.mkdtemp(prefix="fstape-programs-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    for program in PROGRAMS:
        (copy / program).parent.mkdir()
        shutil.copy(build / program, copy / program)
    for path in (copy, *copy.rglob("*")):
        path.chmod(0o755)
    return copy


TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FSTAPE_BUILD", TOP / "build-tests"))
FSTAPEFS, FSTAPE = map(for_everybody(BUILD).joinpath, PROGRAMS)
SLOW = float(os.environ.get("FSTAPE_TEST_SLOW", "1"))  # how much slower than usual the programs are
FILESYSTEMS = ("ext3", "ext4", "xfs", "btrfs")
NOBODY = 65534
USER = 1000  # who plays the ordinary user

libc = ctypes.CDLL(None, use_errno=True)


def operations():
    """Names of the operations of schema/ops.def."""
    lines = (TOP / "schema" / "ops.def").read_text().splitlines()
    return [line.split(",")[1].strip() for line in lines if line.startswith("OP(")]


def libc_call(name, *args):
    """A libc function that Python lacks; raises OSError as Python's own would."""
    result = getattr(libc, name)(*args)
    if result < 0:
        err = ctypes.get_errno()
        raise OSError(err, os.strerror(err))
    return result


def escape(value):
    return str(value).replace("\\", "\\\\").replace(",", "\\,")


def run(*command, check=True, timeout=120, **kwargs):
    """A finished command with its output as text; bytes that are not UTF-8 are kept as surrogates."""
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, errors="surrogateescape",
        timeout=timeout * SLOW, **kwargs)
    no_reports(done.stderr)
    if check and done.returncode != 0:
        raise AssertionError(f"{command}: exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done


def no_reports(text):
    """UBSan beside ASan reports on standard error whatever its log_path says."""
    assert "runtime error:" not in text and "Sanitizer" not in text, text


def git(*args, cwd=None, **kwargs):
    """git that no configuration of the machine disturbs."""
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_TERMINAL_PROMPT="0",
               GIT_AUTHOR_NAME="A", GIT_AUTHOR_EMAIL="a@example.org", GIT_COMMITTER_NAME="A",
               GIT_COMMITTER_EMAIL="a@example.org", LC_ALL="C")
    return run("git", *args, cwd=cwd, env=env, timeout=300, **kwargs)


def wait_until(condition, seconds=20, what="condition"):
    end = time.monotonic() + seconds * SLOW
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.01)
    return result


def mountpoints():
    """Where file systems are mounted, innermost last."""
    lines = pathlib.Path("/proc/self/mounts").read_bytes().splitlines()
    return [line.split(b" ")[1].decode("unicode_escape") for line in lines]


class StartFailed(Exception):
    """fstapefs ended instead of mounting."""

    def __init__(self, returncode, stderr):
        super().__init__(f"exit status {returncode}: {stderr}")
        self.returncode = returncode
        self.stderr = stderr


class Mount:
    """
    fstapefs -f over a directory. As a context manager it unmounts and demands a complete recording.

    A hanging daemon is killed after `patience` seconds, so that the test, whose own calls hang with it, fails
    instead of waiting for ever.
    """

    def __init__(self, source, mountpoint, db, *, user=None, program=None, limits=None, patience=120, **options):
        self.source, self.mnt, self.db_path = pathlib.Path(source), pathlib.Path(mountpoint), pathlib.Path(db)
        self.user, self.program, self.limits = user, program or FSTAPEFS, limits
        self.options = {"db": db, **options}
        if os.environ.get("FSTAPE_TEST_URING"):
            self.options.setdefault("transport", "auto")
        self.patience = patience
        self.daemon = self.run = None
        self.stderr = ""
        self.hung = False

    def command(self, ready_fd):
        words = [f"{key}={escape(value)}" if value is not True else key
                 for key, value in self.options.items() if value is not None and value is not False]
        words.append(f"ready_fd={ready_fd}")
        return [str(self.program), "-f", "-o", ",".join(words), str(self.source), str(self.mnt)]

    def start(self):
        ready, theirs = os.pipe()
        self.log = tempfile.TemporaryFile()
        extra = {}
        if self.user is not None:
            extra = {"user": self.user, "group": self.user, "extra_groups": []}
        if self.limits:
            extra["preexec_fn"] = self.limits
        self.daemon = subprocess.Popen(self.command(theirs), pass_fds=[theirs], stdin=subprocess.DEVNULL,
                                       stdout=self.log, stderr=self.log, cwd="/", **extra)
        os.close(theirs)
        self.watchdog = threading.Timer(self.patience * SLOW, self.give_up)
        self.watchdog.daemon = True
        self.watchdog.start()
        text = self.read_ready(ready)
        os.close(ready)
        if not text:
            self.stop_watchdog()
            returncode = self.daemon.wait(20 * SLOW)
            raise StartFailed(returncode, self.read_log())
        self.run = int(text)
        return self

    def read_ready(self, ready):
        text = b""
        while not text.endswith(b"\n"):
            if not select.select([ready], [], [], 30 * SLOW)[0]:
                self.kill()
                raise AssertionError(f"fstapefs did not say that it is ready: {self.read_log()}")
            chunk = os.read(ready, 100)
            if not chunk:
                return ""
            text += chunk
        return text.decode()

    def read_log(self):
        """What it has said so far. Without a seek: the daemon writes where the file stands."""
        self.stderr = os.pread(self.log.fileno(), 1 << 24, 0).decode(errors="surrogateescape")
        no_reports(self.stderr)
        return self.stderr

    def wait_said(self, *words, seconds=60):
        """Waits until the daemon has said these."""
        wait_until(lambda: all(word in self.read_log() for word in words), seconds, f"{words} from the daemon")

    def give_up(self):
        self.hung = True
        self.daemon.kill()

    def stop_watchdog(self):
        self.watchdog.cancel()

    @property
    def pid(self):
        return self.daemon.pid

    def unmount(self, *flags):
        """Unmounts; a mount that is busy for a moment (a RELEASE still under way) is tried again."""
        tool = ["umount"] if self.user is None else ["fusermount3", "-u"]
        user = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        for attempt in range(50):
            done = run(*tool, *flags, self.mnt, check=False, **user)
            if done.returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"{self.mnt}: {done.stderr}")

    def wait(self, seconds=60):
        """The daemon's exit status."""
        returncode = self.daemon.wait(seconds * SLOW)
        self.stop_watchdog()
        self.read_log()
        return returncode

    def finish(self):
        """Unmounts and checks that everything was recorded. Returns the database."""
        self.unmount()
        returncode = self.wait()
        assert not self.hung, f"fstapefs hung and was killed\n{self.stderr}"
        assert returncode == 0, f"fstapefs: exit status {returncode}\n{self.stderr}"
        return self.db()

    def db(self):
        return Database(self.db_path, self.run)

    def kill(self):
        self.daemon.kill()
        self.daemon.wait(20 * SLOW)

    def close(self):
        """Leaves nothing, whatever has happened; for the end of a test."""
        if self.daemon is None:
            return
        self.stop_watchdog()
        if str(self.mnt) in mountpoints():
            run("umount", "-l", self.mnt, check=False)
        if self.daemon.poll() is None:
            try:
                self.daemon.wait(10 * SLOW)
            except subprocess.TimeoutExpired:
                self.kill()
        self.log.close()

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()


class Database:
    """A recording, through plain SQLite; texts that are not UTF-8 come as os.fsdecode() gives them."""

    def __init__(self, path, run=None):
        self.path = path
        self.connection = sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro", uri=True)
        self.connection.text_factory = os.fsdecode
        self.connection.row_factory = sqlite3.Row
        self.run = run

    def rows(self, sql, *params):
        return self.rows_of(sql, params)

    def value(self, sql, *params):
        return self.connection.execute(sql, params).fetchone()[0]

    def condition(self, run=None):
        """The run's row."""
        return self.rows("SELECT * FROM run WHERE id = ?", run or self.run)[0]

    def ops(self, **wanted):
        """Rows of the view `ops` of this run that have these columns. Texts may be any bytes, as os.fsdecode() has them."""
        where, params = "", {"run": self.run}
        for column, value in wanted.items():
            text = isinstance(value, str)
            where += f" AND {column} IS " + (f"CAST(:{column} AS TEXT)" if text else f":{column}")
            params[column] = os.fsencode(value) if text else value
        return self.rows_of(f"SELECT * FROM ops WHERE run = :run{where} ORDER BY seq", params)

    def ops_where(self, condition):
        """The first few rows of the run that meet an SQL condition, in words."""
        sql = f"SELECT * FROM ops WHERE run = :run AND ({condition}) LIMIT 5"
        return [describe(row) for row in self.rows_of(sql, {"run": self.run})]

    def rows_of(self, sql, params):
        return [dict(row) for row in self.connection.execute(sql, params)]

    def expect(self, op, count=None, **columns):
        """At least one such row (or exactly `count`); returns the first."""
        found = self.ops(op=op, **columns)
        if (count is None and not found) or (count is not None and len(found) != count):
            near = "\n".join(describe(row) for row in self.ops(op=op)[:40]) or "none"
            raise AssertionError(f"{len(found)} rows of {op} with {columns}, wanted {count or 'some'}; it has\n{near}")
        return found[0] if found else None


def describe(row):
    return " ".join(f"{key}={value!r}" for key, value in row.items()
                    if value is not None and key not in ("run", "class", "start_ns", "dur_ns", "fs_ns"))


def check_truths(db):
    """What holds for every recording that ended well."""
    row = db.condition()
    assert row["state"] == "done", row["note"]
    assert row["clean_end"] == 1, row["note"]
    assert (row["dropped"], row["damaged"], row["dropped_by_op"]) == (0, 0, None)
    assert row["requests"] == row["recorded"] == db.value("SELECT count(*) FROM op WHERE run = ?", db.run)
    first, last, count = db.connection.execute(
        "SELECT min(seq), max(seq), count(DISTINCT seq) FROM op WHERE run = ?", (db.run,)).fetchone()
    assert count == 0 or (first, last) == (1, count), "seq has gaps"
    for wrong in (
            "fs_ns < 0 OR fs_ns > dur_ns OR start_ns < 0", "path IS NULL OR op IS NULL OR class IS NULL",
            "pid IS NULL OR tid IS NULL OR pid <= 0 OR tid <= 0 OR comm IS NULL OR comm = ''",
            "args IS NOT NULL AND NOT json_valid(args)",
            "path LIKE '/%' OR (op != 'symlink' AND path2 LIKE '/%')"):  # relative to the mount's root
        found = db.ops_where(wrong)
        assert not found, f"rows with {wrong}:\n" + "\n".join(found)
    assert db.value("SELECT count(*) FROM spool_mark WHERE run = ?", db.run) == 0
    assert not os.path.exists(f"{db.path}-spool/run-{db.run}"), "the spool is still there"
    checked = run(FSTAPE, "check", db.path, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def snapshot(top, times=False):
    """A tree as {relative path: what matters of it}, to compare two of them."""
    tree = {}
    top = os.fsencode(top)
    for where, dirs, files in os.walk(top):
        for name in dirs + files + [b"."]:
            path = os.path.join(where, name)
            st = os.lstat(path)
            entry = [stat.filemode(st.st_mode), st.st_uid, st.st_gid]
            if not stat.S_ISDIR(st.st_mode):
                entry += [st.st_size, st.st_nlink]
            if stat.S_ISLNK(st.st_mode):
                entry.append(os.readlink(path))
            elif stat.S_ISREG(st.st_mode):
                with open(path, "rb") as file:
                    entry.append(hash(file.read()))
            if not stat.S_ISLNK(st.st_mode):
                entry.append(sorted((name, os.getxattr(path, name)) for name in os.listxattr(path)
                                    if name.startswith("user.")))
            if times:
                entry.append(st.st_mtime_ns)
            tree[os.path.relpath(path, top)] = entry
    return tree


def make_repository(path, files=5000):
    """A git repository with `files` files of all kinds of names and modes, in one commit."""
    path.mkdir()
    for number in range(files):
        where = path / f"d{number % 40}" / f"s{number % 7}"
        where.mkdir(parents=True, exist_ok=True)
        file = where / f"f{number}.txt"
        file.write_bytes(b"%d\n" % number * (number % 300 + 1))
        if number % 50 == 0:
            file.chmod(0o755)
    (path / "with space").write_text("x")
    (path / "new\nline").write_text("x")
    (path / "quote\"'").write_text("x")
    (path / "empty").write_text("")
    (path / "link").symlink_to("d0/s0/f0.txt")
    (path / "dangling").symlink_to("no/such")
    git("init", "-q", "-b", "main", cwd=path)
    git("add", "-A", cwd=path)
    git("commit", "-q", "-m", "all", cwd=path)
    git("gc", "-q", cwd=path)
    return path


def as_user(function, uid=1000, groups=(), umask=None):
    """Runs function() in a child of that user; its exception is raised here. Returns what it returns (JSON)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        try:
            os.setgroups(groups)
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            if umask is not None:
                os.umask(umask)
            answer = {"result": function()}
        except OSError as err:
            answer = {"errno": err.errno, "text": repr(err)}
        except BaseException as err:  # the child must not run on as a second test session
            answer = {"error": repr(err)}
        os.write(write, json.dumps(answer).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = json.loads(pipe.read() or b'{"error": "died"}')
    os.waitpid(child, 0)
    if "errno" in answer:
        raise OSError(answer["errno"], answer["text"])
    if "error" in answer:
        raise AssertionError(answer["error"])
    return answer["result"]

# SPDX-License-Identifier: MIT
"""The main job: git on each file system, recorded whole, with the same result as without us."""
import os
import resource
import subprocess

import pytest

from harness import check_truths, git, make_repository, run


@pytest.fixture(scope="session")
def repository(base):
    return make_repository(base / "origin", 5000)


def same_tree(a, b):
    """diff -r with symlinks as such, then modes, which diff does not look at."""
    run("diff", "-r", "--no-dereference", "--exclude=.git", a, b)
    modes = [run("find", ".", "-path", "./.git", "-prune", "-o", "-printf", "%P %m %y %l\\0", cwd=top).stdout
             for top in (a, b)]
    assert sorted(modes[0].split("\0")) == sorted(modes[1].split("\0"))


def clean(clone):
    assert git("status", "--porcelain", cwd=clone).stdout == ""
    git("fsck", "--strict", cwd=clone)


def work_tree_creates(db, top="clone"):
    """Files made in the work tree: names without git's own."""
    return db.value(
        "SELECT count(*) FROM ops WHERE run = ? AND op = 'create' AND error IS NULL"
        " AND path GLOB ? AND path NOT GLOB ?", db.run, f"{top}/*", f"{top}/.git/*")


def files_in_index(clone):
    """Of ls-files, those that are made by create: symlinks are not."""
    stages = git("ls-files", "-s", "-z", cwd=clone).stdout.split("\0")[:-1]
    return sum(not line.startswith("120000") for line in stages)


@pytest.mark.parametrize("cache", ["always", "never"])
def test_clone(any_box, repository, cache):
    box = any_box
    native = box.top / "native"
    git("clone", "-q", "--no-hardlinks", repository, native)
    with box.mount(cache=cache) as made:
        git("clone", "-q", "--no-hardlinks", repository, made.mnt / "clone")
        clean(made.mnt / "clone")
        same_tree(native, made.mnt / "clone")
    db = made.db()
    check_truths(db)
    clone = box.src / "clone"
    same_tree(native, clone)
    clean(clone)
    count = files_in_index(clone)
    assert work_tree_creates(db) == count > 5000
    assert db.value("SELECT count(*) FROM ops WHERE run = ? AND op = 'symlink' AND error IS NULL"
                    " AND path GLOB 'clone/*' AND path NOT GLOB 'clone/.git/*'", db.run) == 2
    row = db.condition()
    assert (row["fs_type"], row["cache"], row["source"]) == (box.fs_type, cache, str(box.src))
    assert db.value("SELECT count(DISTINCT pid) FROM ops WHERE run = ? AND comm = 'git'", db.run) >= 3
    names = {name for (name,) in db.connection.execute("SELECT DISTINCT comm FROM ops WHERE run = ?", (db.run,))}
    assert names <= {"git", "find", "diff", "umount", "pytest", "pytest-3", "python3"} and "git" in names, names


def test_checkout_between_branches(box, repository):
    native = box.top / "native"

    def work(where):
        git("clone", "-q", "--no-hardlinks", repository, where)
        git("checkout", "-q", "-b", "other", cwd=where)
        for number in range(0, 5000, 10):
            (where / f"d{number % 40}" / f"s{number % 7}" / f"f{number}.txt").write_text("changed")
        git("rm", "-rq", "d1", "d2", cwd=where)
        git("mv", "d3", "renamed", cwd=where)
        git("commit", "-qam", "other", cwd=where)
        git("checkout", "-q", "main", cwd=where)
        git("checkout", "-q", "other", cwd=where)
        git("gc", "-q", cwd=where)
        git("stash", "list", cwd=where)
        git("clean", "-qfdx", cwd=where)
    work(native)
    db = box.recorded(lambda mnt: work(mnt / "clone"), cache="always")
    same_tree(native, box.src / "clone")
    clean(box.src / "clone")
    assert db.ops(op="rename", path="clone/.git/index.lock", path2="clone/.git/index", error=None)
    assert db.ops(op="rename", path="clone/d3", path2="clone/renamed", error=None)


def test_a_native_clone_seen_through_a_later_mount_is_clean(box, repository):
    """Inode numbers and times must be the real ones, or git takes every file for changed and reads it again."""
    git("clone", "-q", "--no-hardlinks", repository, box.src / "clone")
    git("status", cwd=box.src / "clone")
    run("sleep", "1.1")
    git("update-index", "-q", "--really-refresh", cwd=box.src / "clone")

    def status(mnt):
        assert git("status", "--porcelain", cwd=mnt / "clone").stdout == ""
    db = box.recorded(status)
    reads = [row for row in db.ops(op="open", error=None) if "/.git" not in row["path"]]
    assert reads == [], f"{len(reads)} work tree files were read again"
    git("clone", "-q", "--local", box.src / "clone", box.top / "local")


# --- more objects than descriptors ------------------------------------------------------------------------------

def few_descriptors(count):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))


@pytest.mark.parametrize("user", [None, 1000], ids=["root", "user"])
def test_many_files_with_few_descriptors(box, user):
    for path in (box.src, box.mnt, box.store):
        os.chown(path, user or 0, user or 0)

    def ordinary(*command):
        extra = {"user": user, "group": user, "extra_groups": []} if user else {}
        return run(*command, **extra)
    with box.mount(limits=few_descriptors(256), user=user, cache="always") as made:
        ordinary("bash", "-c", f"cd '{made.mnt}' && for d in {{1..60}}; do mkdir d$d && for f in {{1..100}};"
                 " do : >d$d/file$f; done; done")
        assert len(ordinary("find", made.mnt, "-type", "f", "-size", "-1").stdout.splitlines()) == 6000
        ordinary("bash", "-c", f"cd '{made.mnt}' && stat -c %i */* >/dev/null && cat */* && mv d7 moved &&"
                 " stat moved/* >/dev/null && chmod 600 moved/*")
        fds = len(os.listdir(f"/proc/{made.pid}/fd"))
        assert fds <= 256
        ordinary("bash", "-c", f"rm -r '{made.mnt}'/*")
    db = made.db()
    check_truths(db)
    assert len(db.ops(op="create", error=None)) == 6000
    assert len(db.ops(op="unlink", error=None)) == 6000
    assert db.ops_where("error IN ('EMFILE', 'ENFILE', 'ESTALE')") == []
    assert os.listdir(box.src) == []


def test_files_held_open_up_to_the_limit(box):
    """When every descriptor is a client's open file there is an error, not a broken mount; and it passes."""
    with box.mount(limits=few_descriptors(256)) as made:
        files, failed = [], 0
        for number in range(400):
            try:
                files.append(os.open(made.mnt / f"f{number}", os.O_RDWR | os.O_CREAT))
            except OSError:
                failed += 1
        assert failed > 100 and len(files) > 80
        for file in files:
            os.write(file, b"x")
            os.close(file)
        (made.mnt / "after").write_text("works again")
        assert (made.mnt / "after").read_text() == "works again"
    check_truths(made.db())


def test_several_programs_at_once(box, repository):
    """Clones, listings, renames and removals beside each other: nothing hangs, nothing is lost."""
    with box.mount(cache="always") as made:
        programs = [subprocess.Popen(
            ["bash", "-ec", script], cwd=made.mnt, stdin=subprocess.DEVNULL,
            env=dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null")) for script in (
                f"git clone -q --no-hardlinks '{repository}' one; git -C one fsck --no-progress; rm -rf one",
                f"git clone -q --no-hardlinks '{repository}' two; mv two three; git -C three status >/dev/null",
                "for i in {1..60}; do mkdir -p r/a/b; touch r/a/b/{1..20}; mv r s; find . -maxdepth 4 >/dev/null || true;"
                " rm -r s; done",
                "for i in {1..400}; do echo $i >f.tmp; ln -f f.tmp g; mv f.tmp f; cat f g >/dev/null; done",
            )]
        codes = [program.wait(300) for program in programs]
        assert codes == [0, 0, 0, 0]
    db = made.db()
    check_truths(db)
    clean(box.src / "three")

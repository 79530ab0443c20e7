# SPDX-License-Identifier: MIT
"""What reports count is what strace, which watches the same programs from the other side, has counted."""
import collections
import json
import os
import re
import shutil

import pytest

from harness import FSTAPE, git, make_repository, run

LINE = re.compile(rb'^\d+ +(\w+)\((.*)\) += (-?\d+)(?:<.*>)?(?: .*)?$')
RESUMED = re.compile(rb"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
UNFINISHED = re.compile(rb"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
CALLS = {"rename": "rename", "renameat": "rename", "renameat2": "rename", "mkdir": "mkdir", "mkdirat": "mkdir", "link": "link",
         "linkat": "link", "symlink": "symlink", "symlinkat": "symlink", "unlink": "unlink", "unlinkat": "unlink",
         "rmdir": "rmdir"}


def whole_lines(text):
    """strace's lines, those that it had to interrupt put together again."""
    begun = {}
    for line in text.splitlines():
        if match := UNFINISHED.match(line):
            begun[match[1], match[2]] = match[3]
        elif match := RESUMED.match(line):
            yield match[1] + b" " + match[2] + b"(" + begun.pop((match[1], match[2])) + match[3]
        else:
            yield line


def strace_counts(text, where):
    """
    Successful calls by name, on names in `where`: relative ones are, as the programs go nowhere else. A file is created
    by O_CREAT with O_EXCL, or without it when no call has made the name before and none was there.
    """
    counts, excl = collections.Counter(), 0
    for line in whole_lines(text):
        match = LINE.match(line)
        if not match or match[3].startswith(b"-"):
            continue
        call, args = match[1].decode(), match[2]
        names = re.findall(rb'"((?:[^"\\]|\\.)*)"', args)
        if not names or any(name.startswith(b"/") and not name.startswith(os.fsencode(where)) for name in names[-1:]):
            continue
        if call in ("open", "openat", "creat"):
            excl += b"O_CREAT" in args and b"O_EXCL" in args
        elif call in CALLS:
            counts["rmdir" if b"AT_REMOVEDIR" in args else CALLS[call]] += 1
    return counts, excl


def report(db, name):
    return json.loads(run(FSTAPE, "query", db, "--report", name, "--format", "json").stdout)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
@pytest.mark.parametrize("files", [300])
def test_counts_are_those_of_strace(box_on, kind, files):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    box = box_on(kind)
    origin = make_repository(box.top / "origin", files)
    git("checkout", "-q", "-b", "old", cwd=origin)
    git("rm", "-q", "-r", "d1", cwd=origin)
    for number in range(0, files, 7):
        (origin / f"d{number % 40}" / f"s{number % 7}").mkdir(parents=True, exist_ok=True)
        (origin / f"d{number % 40}" / f"s{number % 7}" / f"f{number}.txt").write_text("other\n")
    git("add", "-A", cwd=origin)
    git("commit", "-q", "-m", "two", cwd=origin)
    git("checkout", "-q", "main", cwd=origin)
    script = ("git clone -q file://$1 w; cd w; git -c checkout.workers=4 -c checkout.thresholdForParallelism=0 checkout -q old;"
              " git -c checkout.workers=4 -c checkout.thresholdForParallelism=0 checkout -q main; echo x >new; git add new;"
              " git commit -q -m new; git mv new newer; git tag t; git branch b; git branch -d b; git gc -q")
    log = box.store / "strace"
    env = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", LC_ALL="C", GIT_AUTHOR_NAME="A",
               GIT_AUTHOR_EMAIL="a@example.org", GIT_COMMITTER_NAME="A", GIT_COMMITTER_EMAIL="a@example.org")
    run(FSTAPE, "record", "-q", box.db, box.src, "--", "strace", "-f", "-o", log, "-s", "8192", "-e", "trace=%file,%process",
        "-e", "signal=none", "sh", "-e", "-c", script, "sh", origin, timeout=300, env=env)
    counts, excl = strace_counts(log.read_bytes(), box.src)
    operations = {row["op"]: row["count"] - row["errors"] for row in report(box.db, "operations")}
    assert counts["rename"] > 20 and counts["unlink"] > 20 and counts["mkdir"] > 40 and counts["symlink"] >= 2 and excl > files
    for op in ("rename", "mkdir", "link", "symlink", "unlink", "rmdir"):
        assert operations.get(op, 0) == counts[op], (op, operations, counts)
    exclusive = json.loads(run(FSTAPE, "query", "--format", "json", box.db, "SELECT count(*) AS n FROM ops WHERE op = 'create' AND"
                               f" error IS NULL AND flags & {os.O_EXCL}").stdout)[0]["n"]
    assert exclusive == excl
    renames = collections.Counter()
    for row in report(box.db, "renames"):
        renames[row["op"]] += row["count"] - row["errors"]
    assert renames == {op: counts[op] for op in ("rename", "link", "symlink") if counts[op]}
    classes = report(box.db, "classes")
    assert sum(row["created"] for row in classes) == operations["create"]
    locks = {row["path"]: row for row in report(box.db, "locks")}
    assert locks["w/.git/index.lock"]["locks"] == len(re.findall(rb'openat\([^"]*"[^"]*\.git/index\.lock", [^)]*O_EXCL[^)]*\) += \d',
                                                                 b"\n".join(whole_lines(log.read_bytes()))))

# SPDX-License-Identifier: MIT
"""`initial`: what there was when a run began, whatever the run did to it, and what it never touched; contents with data=full."""
import os
import signal
import stat
import subprocess
import time

import pytest

from harness import FSTAPE, Database, run, wait_until


def survey(top):
    """{path: what `initial` should say of it}; the root is ''."""
    found, groups = {}, {}
    for here, dirs, files in os.walk(os.fsencode(top)):
        for name in [b"", *files, *[d for d in dirs if os.path.islink(os.path.join(here, d))]]:
            path = os.path.join(here, name) if name else here
            st = os.lstat(path)
            text = os.fsdecode(os.path.relpath(path, os.fsencode(top)))
            found["" if text == "." else text] = {
                "mode": st.st_mode, "mtime_ns": st.st_mtime_ns, "uid": st.st_uid, "gid": st.st_gid,
                "size": st.st_size if stat.S_ISREG(st.st_mode) else None,
                "target": os.fsdecode(os.readlink(path)) if stat.S_ISLNK(st.st_mode) else None}
            groups.setdefault((st.st_dev, st.st_ino), set()).add("" if text == "." else text)
    return found, {frozenset(names) for names in groups.values()}


def initial(db):
    found, groups = {}, {}
    for row in db.rows("SELECT p.path AS text, i.* FROM initial AS i JOIN path AS p ON p.run = i.run AND p.id = i.path"
                       " WHERE i.run = ?", db.run):
        assert row["text"] not in found, f"{row['text']} twice"
        found[row["text"]] = {
            **{key: row[key] for key in ("mode", "mtime_ns", "uid", "gid", "target")},
            "size": row["size"] if stat.S_ISREG(row["mode"]) else None}
        groups.setdefault((row["dev"], row["ino"]), set()).add(row["text"])
    return found, {frozenset(names) for names in groups.values()}


def record(box, script, *options, db=None, check=True):
    done = run(FSTAPE, "record", *options, db or box.db, box.src, "--", "sh", "-ec", script, check=check)
    return done


def last(box):
    db = Database(box.db)
    db.run = db.value("SELECT max(id) FROM run")
    return db


def make_tree(top):
    for name in ("a/b/c", "u/v/w", "gone/deep", "empty"):
        (top / name).mkdir(parents=True)
    for name in ("a/f1", "a/b/f2", "a/b/c/f3", "u/v/un", "u/v/w/x", "gone/f", "gone/deep/g", "del", "ap", "over"):
        (top / name).write_text(f"contents of {name}\n" * 50)
        os.utime(top / name, ns=(10**18, 10**18 + 7))
    os.link(top / "a/f1", top / "u/l1")
    os.link(top / "u/v/un", top / "u/un2")
    os.link(top / "del", top / "u/del2")
    (top / "u/sym").symlink_to("no/where")
    os.mkfifo(top / "u/pipe", 0o640)
    (top / "u/\n\x01").write_text("")
    os.chmod(top / "u/v/un", 0o4751)
    os.chown(top / "u/v/w", 12, 34)
    with open(top / "u/hole", "wb") as file:
        file.truncate(10 << 20)
        os.pwrite(file.fileno(), b"x", 5 << 20)
    time.sleep(0.02)  # filesystems stamp by a clock that counts in ticks


EVERYTHING = """
    mv a moved; cat moved/b/f2; echo new > moved/b/new; mkdir moved/b/nd
    rm del; echo more >> ap; ln moved/f1 another; mkdir nd; mv u nd/u; cat nd/u/l1 another
    rm -r gone; mkdir gone; echo 2 > gone/f; mv over nd/u/v/un; mv nd/u/v moved/b/nd/v
    mv moved a; mv a/b/c c; chmod 600 c/f3; mv ap ap2; mv ap2 ap; rmdir empty
"""


@pytest.mark.parametrize("script", [
    "true", "cat a/b/f2; ls u", "find . -type f -print0 | xargs -0 cat", EVERYTHING,
    EVERYTHING + "sync; echo 2 > /proc/sys/vm/drop_caches; find . -print0 | xargs -0 stat",
    "cat a/b/f2 u/v/w/x; for i in 1 2 3; do sync; echo 2 > /proc/sys/vm/drop_caches; sleep 0.1; done; cat a/f1 a/b/c/f3; ls u/v",
], ids=["nothing touched", "little", "all read", "all turned over", "and forgotten", "forgotten before more is read"])
@pytest.mark.parametrize("cache", ["always", "never"])
def test_the_tree_of_the_start_is_found_again(box, script, cache):
    make_tree(box.src)
    wanted, groups = survey(box.src)
    record(box, script, "--cache", cache)
    found, found_groups = initial(last(box))
    assert found == wanted
    assert found_groups == groups
    assert last(box).condition()["scan"] == "done"


def test_nodes_that_were_forgotten_are_known_by_their_first(box):
    make_tree(box.src)
    record(box, "cat a/b/f2; for i in 1 2 3; do sync; echo 2 > /proc/sys/vm/drop_caches; sleep 0.1; done; cat a/b/f2")
    db = last(box)
    nodes = [row["node"] for row in db.ops(op="lookup", path="a/b/f2", error=None)]
    if len(set(nodes)) == 1:
        pytest.skip("the kernel has not forgotten anything")
    first = db.value("SELECT node FROM initial AS i JOIN path AS p ON p.id = i.path WHERE p.path = 'a/b/f2'")
    assert first == nodes[0]
    assert {row["node"]: row["first"] for row in db.rows("SELECT * FROM node_alias")}[nodes[-1]] == first


def test_no_scan_leaves_out_what_was_not_met(box):
    make_tree(box.src)
    record(box, "mv a b; cat b/f1", "--no-scan")
    found, _ = initial(last(box))
    assert {"", "a", "a/f1"} <= set(found) and not {"b", "b/f1", "u/v/un", "a/b/c/f3"} & set(found)
    assert (last(box).condition()["scan"], last(box).condition()["scanned"]) == ("off", None)


def test_the_walk_is_not_recorded(box):
    make_tree(box.src)
    record(box, "true")
    assert not last(box).ops(op="lookup", path="u/v/un")
    assert last(box).condition()["scanned"] == len(survey(box.src)[0]) - 1  # the root is met


def test_a_fresh_tree_has_only_its_root(box):
    record(box, "mkdir -p d/e; echo 1 > d/e/f; ln d/e/f g; mv d h")
    assert set(initial(last(box))[0]) == {""}


def test_extended_attributes(box):
    make_tree(box.src)
    for name in ("a/f1", "a/b/f2", "u/v/un", "ap"):
        os.setxattr(box.src / name, "user.k", b"\0\xff" + name.encode())
    record(box, "cat a/b/f2; setfattr -n user.k -v other ap" if os.path.exists("/usr/bin/setfattr") else
           "python3 -c 'import os; os.setxattr(\"ap\", \"user.k\", b\"other\")'; cat a/b/f2")
    rows = {(row["path"], row["name"]): row["value"] for row in last(box).rows(
        "SELECT p.path, x.name, x.value FROM initial_xattr AS x JOIN path AS p ON p.run = x.run AND p.id = x.path")}
    # a/f1 and u/l1 are one inode: it has them under one of its names
    one = [path for path, _ in rows if path in ("a/f1", "u/l1")]
    assert len(one) == 1 and rows[one[0], "user.k"] == b"\0\xffa/f1"
    assert rows["a/b/f2", "user.k"] == b"\0\xffa/b/f2"
    assert ("ap", "user.k") not in rows, "the run has changed it"


def contents_of(db, table, key, value):
    """{offset: bytes} of a run's contents; zstd frames through the program of that name."""
    found = {}
    for row in db.rows(f"SELECT d.offset, d.length, c.packed, c.bytes, c.length AS whole FROM {table} AS d"
                       f" JOIN content AS c ON c.hash = d.hash WHERE d.run = ? AND d.{key} = ?", db.run, value):
        data = row["bytes"]
        if row["packed"]:
            data = subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
        assert len(data) == row["length"] == row["whole"] <= 65536
        found[row["offset"]] = data
    return found


def test_contents(box):
    make_tree(box.src)
    big = b"".join(b"%07d\n" % number for number in range(100_000))
    (box.top / "big").write_bytes(big)
    noise = os.urandom(200_000)
    (box.top / "noise").write_bytes(noise)
    record(box, f"cat {box.top}/big > big; cat {box.top}/noise > noise; echo more >> ap; cp a/b/f2 copy; cat del; rm del",
           "--data", "full")
    db = last(box)
    assert db.condition()["data"] == "full" and db.condition()["data_lost"] == 0
    for name, data in (("big", big), ("noise", noise)):
        whole = bytearray(len(data))
        for op in db.ops(op="write", path=name):
            for offset, piece in contents_of(db, "data", "seq", op["seq"]).items():
                whole[offset:offset + len(piece)] = piece
        assert whole == data
    append = db.expect("write", path="ap")
    assert append["offset"] == len("contents of ap\n") * 50
    assert contents_of(db, "data", "seq", append["seq"]) == {append["offset"]: b"more\n"}
    read = db.expect("read", path="del")
    assert contents_of(db, "data", "seq", read["seq"]) == {0: b"contents of del\n" * 50}
    for path, name in ((row["id"], row["path"]) for row in db.rows("SELECT id, path FROM path")):
        if name == "u/hole" and contents_of(db, "initial_data", "path", path):
            assert contents_of(db, "initial_data", "path", path) == {5 << 20: b"x" + bytes(65535)}
            break
    else:
        raise AssertionError("the file with holes has no contents")
    size = db.value("SELECT sum(length(bytes)) FROM content WHERE packed = 1")
    assert size < db.value("SELECT sum(length) FROM content WHERE packed = 1") / 2


def test_contents_are_stored_once(box):
    data = os.urandom(1 << 20)
    (box.top / "data").write_bytes(data)
    for number in range(2):
        record(box, f"cat {box.top}/data > one{number}; cat {box.top}/data > two{number}", "--data", "full")
    assert last(box).value("SELECT sum(length) FROM content") == len(data)


def test_contents_are_not_recorded_unasked(box):
    make_tree(box.src)
    record(box, "cat ap; echo new > new")
    db = last(box)
    assert [db.value(f"SELECT count(*) FROM {table}") for table in ("content", "data", "initial_data")] == [0, 0, 0]
    assert db.condition()["data"] == "none"


def test_contents_survive_the_recorder(box):
    """Killed with everything still in the spool: recover brings events and contents in."""
    process = subprocess.Popen(
        [FSTAPE, "record", "--quiet", "--load", "end", "--data", "full", box.db, box.src, "--", "sh", "-c",
         "echo precious > kept; echo written > ../ready; exec sleep 60"], stderr=subprocess.DEVNULL)
    wait_until((box.top / "ready").exists, what="the command")
    daemon = Database(box.db).value("SELECT daemon_pid FROM run")
    os.kill(daemon, signal.SIGKILL)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    run(FSTAPE, "recover", box.db, check=False)
    db = last(box)
    assert db.condition()["state"] == "recovered"
    write = db.expect("write", path="kept")
    assert contents_of(db, "data", "seq", write["seq"]) == {0: b"precious\n"}


def test_the_walk_can_be_interrupted(box):
    """One Ctrl-C, and the recording is kept without what the walk would have found."""
    for number in range(40):
        (box.src / f"d{number}").mkdir()
        for file in range(100):
            (box.src / f"d{number}" / f"f{file}").write_bytes(b"x")
    process = subprocess.Popen([FSTAPE, "record", box.db, box.src, "--", "true"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: box.db.exists() and state_of(box.db) == "done", what="the end of the recording")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert last(box).condition()["scan"] in ("partial", "done")  # it may have been faster
    # too early, it was fstapefs that was not waited for, and there was no walk
    assert ("interrupted" in err or "in the background" in err) == (last(box).condition()["scan"] == "partial")


def state_of(path):
    try:
        return Database(path).value("SELECT max(state) FROM run")
    except Exception:  # being made
        return None


def test_what_cannot_be_walked_is_said(box):
    """Deeper than any path that the analyzer takes."""
    (box.src / "f").write_text("x")
    here = os.open(box.src, os.O_RDONLY)
    for _ in range(2100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    done = record(box, "true")
    run("rm", "-r", box.src / "d")
    assert "could not be read" in done.stderr
    assert last(box).condition()["scan"] == "partial"
    assert "f" in initial(last(box))[0]

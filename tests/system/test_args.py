# SPDX-License-Identifier: MIT
"""What a replay needs to know of operations beyond their columns: the JSON objects in `args`, and real offsets."""
import ctypes
import fcntl
import json
import mmap
import os
import struct


def args(row):
    return json.loads(row["args"])


def test_appends_have_the_offset_they_were_written_at(box):
    (box.src / "f").write_bytes(b"12345")

    def action(mnt):
        one, two = (os.open(mnt / "f", os.O_WRONLY | os.O_APPEND) for _ in range(2))
        os.write(one, b"abc")
        with open(box.src / "f", "ab") as behind:  # where the kernel cannot know of it
            behind.write(b"behind")
        os.write(two, b"de")
        os.close(one), os.close(two)
    db = box.recorded(action)
    assert [row["offset"] for row in db.ops(op="write", path="f")] == [5, 14]
    assert (box.src / "f").read_bytes() == b"12345abcbehindde"


def test_mapped_pages_are_told_from_writes(box):
    (box.src / "f").write_bytes(b"x" * 8192)

    def action(mnt):
        with open(mnt / "f", "r+b") as file, mmap.mmap(file.fileno(), 8192) as pages:
            pages[5000] = 65
            pages.flush()
    row = box.recorded(action).expect("write", path="f")
    assert args(row) == {"writepage": 1} and (row["offset"], row["length"]) == (4096, 4096)


def test_rename_tells_both_directories_and_who_lost_the_name(box):
    for name in ("a", "b"):
        (box.src / name).mkdir()
        (box.src / name / "f").write_text(name)

    def action(mnt):
        (mnt / "b" / "f").stat()
        os.rename(mnt / "a" / "f", mnt / "b" / "f")
        os.rename(mnt / "b" / "f", mnt / "b" / "g")
    db = box.recorded(action)
    row = db.expect("rename", path="a/f", path2="b/f")
    assert args(row) == {"parent2": db.expect("lookup", path="b")["node"],
                         "victim": db.ops(op="lookup", path="b/f", error=None)[0]["node"]}
    assert db.expect("rename", path="b/f", path2="b/g")["args"] is None


def test_modes_that_umask_does_not_explain(box):
    box.src.chmod(0o2777)
    (box.src / "acl").mkdir()
    # a default ACL of user::rwx,group::rwx,other::--- (linux/posix_acl_xattr.h)
    os.setxattr(box.src / "acl", "system.posix_acl_default", struct.pack(
        "<I" + "HHI" * 3, 2, 1, 7, 0xffffffff, 4, 7, 0xffffffff, 0x20, 0, 0xffffffff))

    def action(mnt):
        os.umask(0o022)
        os.mkdir(mnt / "d")
        os.close(os.open(mnt / "f", os.O_CREAT | os.O_WRONLY, 0o666))
        os.close(os.open(mnt / "acl" / "f", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkfifo(mnt / "acl" / "p", 0o640)
    db = box.recorded(action)
    assert args(db.expect("mkdir", path="d")) == {"umask": 0o022, "made": 0o2755}
    assert db.expect("create", path="f")["args"] is None and db.expect("create", path="f")["mode"] & 0o7777 == 0o644
    assert args(db.expect("create", path="acl/f")) == {"umask": 0o022, "made": 0o660}
    assert db.expect("mknod", path="acl/p")["args"] is None


def test_values_of_attributes(box):
    (box.src / "f").write_text("")
    value = bytes(range(256))
    db = box.recorded(lambda mnt: os.setxattr(mnt / "f", "user.k", value))
    assert args(db.expect("setxattr", path="f")) == {"name": "user.k", "value": value.hex()}


def test_a_copy_names_its_target(box):
    (box.src / "f").write_text("x" * 5000)

    def action(mnt):
        with open(mnt / "f", "rb") as source, open(mnt / "g", "wb") as target:
            os.copy_file_range(source.fileno(), target.fileno(), 1000, 7, 100)
    db = box.recorded(action)
    made = db.expect("create", path="g")
    assert args(db.expect("copy_file_range", path="f")) == {"fh_out": made["fh"], "node_out": made["node"], "offset_out": 100}


def test_ioctl_structures(box):
    (box.src / "f").write_text("x")
    get, put = 0x801c581f, 0x401c5820  # FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR

    def action(mnt):
        file = os.open(mnt / "f", os.O_RDWR)
        fsx = bytearray(28)
        fcntl.ioctl(file, get, fsx)
        fcntl.ioctl(file, put, fsx)
        os.close(file)
    row = box.recorded(action).expect("ioctl", path="f", flags=put)
    assert len(bytes.fromhex(args(row)["in"])) == 28


def test_a_flush_that_ends_locks_names_their_owner(box):
    (box.src / "f").write_text("x")

    def action(mnt):
        for lock in (False, True):
            with open(mnt / "f", "r+") as file:
                if lock:
                    fcntl.lockf(file, fcntl.LOCK_EX)
    db = box.recorded(action)
    assert [row["args"] and args(row) for row in db.ops(op="flush", path="f")] == \
        [None, {"owner": args(db.expect("setlk", path="f"))["owner"]}]


def names_sum(names):
    """Computed by the library itself."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    return f"{sum(library.XXH3_64bits(name, len(name)) for name in names) % 2**64:016x}"


def test_a_listing_is_known_by_the_sum_of_its_names(box):
    names = [b"\xff\n%d" % number for number in range(700)]
    for name in names:
        open(os.path.join(os.fsencode(box.src), name), "w").close()
    db = box.recorded(lambda mnt: os.listdir(mnt))
    rows = [row for row in db.ops() if row["op"] in ("readdir", "readdirplus")]
    assert len({row["fh"] for row in rows}) == 1 and len(rows) > 2
    assert sum(args(row)["entries"] for row in rows) == 702
    total = sum(int(args(row)["names"], 16) for row in rows) % 2**64
    assert f"{total:016x}" == names_sum(names + [b".", b".."])

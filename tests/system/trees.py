# SPDX-License-Identifier: MIT
"""Two trees compared: what a replay must make equal to what was recorded."""
import collections
import hashlib
import os
import stat


class Object(collections.namedtuple("Object", "mode size target mtime_ns digest link_of uid gid")):
    """What matters of a name. `link_of`: the first name of its inode; sizes of directories are nobody's affair."""


def digest_of(path):
    digest = hashlib.blake2b(digest_size=16)
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def survey(top, contents=True):
    """{path in bytes: Object} of everything below `top`, which is b'' itself. Nothing is followed."""
    found, firsts = {}, {}
    top = os.fsencode(top)
    todo = [b""]
    while todo:
        where = todo.pop()
        path = os.path.join(top, where) if where else top
        st = os.lstat(path)
        if stat.S_ISDIR(st.st_mode):
            todo += sorted((os.path.join(where, name) for name in os.listdir(path)), reverse=True)
        first = firsts.setdefault((st.st_dev, st.st_ino), where)
        found[where] = Object(
            mode=st.st_mode, mtime_ns=st.st_mtime_ns, uid=st.st_uid, gid=st.st_gid, link_of=first,
            size=None if stat.S_ISDIR(st.st_mode) else st.st_size,
            target=os.readlink(path) if stat.S_ISLNK(st.st_mode) else None,
            digest=digest_of(path) if contents and stat.S_ISREG(st.st_mode) else None)
    groups = collections.defaultdict(list)
    for path, item in found.items():
        groups[item.link_of].append(path)
    # whatever order the two trees were walked in
    return {path: item._replace(link_of=min(groups[item.link_of])) for path, item in found.items()}


def differences(one, other, *, times_before_ns=None, owners=False, contents=True):
    """
    What distinguishes two surveys, a line each. Times of modification are compared where the first tree's lies before
    `times_before_ns`: they were set, or are the start's. Later ones are of the moment in which something was written.
    """
    lines = [f"{path!r} is only in one of them" for path in sorted(one.keys() ^ other.keys())]
    fields = ["mode", "size", "target", "link_of"]
    fields += ["uid", "gid"] if owners else []
    fields += ["digest"] if contents else []
    for path in sorted(one.keys() & other.keys()):
        mine, theirs = one[path], other[path]
        compared = fields + (["mtime_ns"] if times_before_ns and mine.mtime_ns < times_before_ns else [])
        for field in compared:
            if getattr(mine, field) != getattr(theirs, field):
                lines.append(f"{path!r}: {field}: {getattr(mine, field)!r} and {getattr(theirs, field)!r}")
    return lines

# SPDX-License-Identifier: MIT
"""Recordings made up row by row, for tests whose every number is known beforehand, and for measuring on big ones."""
import os
import pathlib
import re
import sqlite3

TOP = pathlib.Path(__file__).resolve().parents[2]
APPLICATION_ID = 0x66737470
ROOT = b""


def operation_table():
    """(code, name, class, replay) of each row of schema/ops.def."""
    text = (TOP / "schema" / "ops.def").read_text()
    rows = re.findall(r"^OP\( *(\d+), *(\w+), *(\w+),.*?(true|false)\)$", text, re.M)
    return [(int(code), name, kind.lower(), replay == "true") for code, name, kind, replay in rows]


class Tape:
    """
    A database with runs, to which operations are added one after another: each begins when the one before has ended,
    unless `at` says when. Objects get their numbers when they are first met, as a recorder gives them.
    """

    def __init__(self, path):
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        for name in ("schema.sql", "views.sql"):
            self.db.executescript((TOP / "schema" / name).read_text())
        self.db.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 1; BEGIN")
        self.db.execute("INSERT INTO meta VALUES ('uuid', '00000000-0000-4000-8000-000000000000')")
        table = operation_table()
        self.db.executemany("INSERT INTO op_type VALUES (?, ?, ?, ?)", table)
        self.db.executemany("INSERT INTO errno VALUES (?, ?)", [(2, "ENOENT"), (17, "EEXIST"), (61, "ENODATA")])
        self.codes = {name: code for code, name, _, _ in table}
        self.run = 0

    def begin(self, label=None, **columns):
        """A new run, to which all that follows belongs."""
        columns = {"label": label, "state": "done", "clean_end": 1, "dropped": 0, "damaged": 0, "cache": "always",
                   "start_real_ns": 1_700_000_000_000_000_000, **columns}
        self.run = self.db.execute(f"INSERT INTO run ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                                   list(columns.values())).lastrowid
        self.now = self.seq = self.last_node = self.last_fh = self.last_process = 0
        self.paths, self.nodes, self.handles, self.extras = {}, {}, {}, {}
        self.rows = []
        self.node(ROOT)
        self.path(ROOT)

    def process(self, comm, pid, tid=None, cmdline=None):
        """A thread; its number is what op() takes."""
        self.last_process += 1
        self.db.execute("INSERT INTO process VALUES (?, ?, ?, ?, 1, 0, 0, 0, ?, ?, ?, ?)",
                        (self.run, self.last_process, tid or pid, pid, self.now, comm, f"/usr/bin/{comm}", cmdline or comm))
        return self.last_process

    def path(self, name):
        name = os.fsencode(name)
        if name not in self.paths:
            parent = 0 if name == ROOT else self.path(os.path.dirname(name))
            self.paths[name] = len(self.paths) + 1
            self.db.execute("INSERT INTO path VALUES (?, ?, ?, CAST(? AS TEXT))",
                            (self.run, self.paths[name], parent, name))
        return self.paths[name]

    def node(self, name):
        name = os.fsencode(name)
        if name not in self.nodes:
            self.last_node += 1
            self.nodes[name] = self.last_node
        return self.nodes[name]

    def initial(self, name, mode=0o100644, size=0, mtime_ns=0):
        """An object that was there before the run."""
        self.db.execute("INSERT INTO initial (run, path, seq, node, dev, ino, mode, size, mtime_ns, nlink, uid, gid)"
                        " VALUES (?, ?, 0, ?, 1, ?, ?, ?, ?, 1, 0, 0)",
                        (self.run, self.path(name), self.node(name), self.node(name), mode, size, mtime_ns))

    def op(self, op, name, process, fs, *, at=None, shim=1000, to=None, error=0, result=0, length=None, offset=None,
           mode=None, flags=None, fh=None, wait=0):
        """One operation of `fs` ns inside the filesystem, `shim` ns around that, `wait` ns after the one before."""
        name = os.fsencode(name)
        start = self.now + wait if at is None else at
        self.now = max(self.now, start + fs + shim)
        self.seq += 1
        node = parent = None
        if op in ("lookup", "create", "mkdir", "unlink", "rmdir", "rename", "symlink", "link", "mknod"):
            parent = self.node(os.path.dirname(name))
        if op in ("create", "mkdir", "symlink", "mknod") and not error:
            self.nodes.pop(name, None)
        if not error:
            node = self.node(name)
        if op == "rename" and not error:
            self.nodes[os.fsencode(to)] = self.nodes.pop(name)
        if op in ("create", "open", "opendir") and not error:
            self.last_fh += 1
            self.handles[name] = fh = self.last_fh
        elif op in ("write", "read", "release", "flush", "fsync", "releasedir", "readdir", "readdirplus"):
            fh = fh or self.handles.get(name)
        extra = None if to is None else self.path(to), flags, mode
        self.rows.append((self.run, self.seq, start, fs + shim, fs, self.codes[op], process, self.path(name), node, parent,
                          fh, offset, length, -error or result,
                          None if extra == (None,) * 3 else self.extras.setdefault(extra, len(self.extras) + 1)))
        if len(self.rows) >= 10000:
            self.flush()

    def flush(self):
        self.db.executemany("INSERT INTO op (run, seq, start_ns, dur_ns, fs_ns, op, process, path, node, parent, fh, offset,"
                            " length, result, extra) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", self.rows)
        self.rows.clear()

    def flush_extras(self):
        self.db.executemany("INSERT INTO op_extra (run, id, path2, flags, mode) VALUES (?, ?, ?, ?, ?)",
                            [(self.run, number, *extra) for extra, number in self.extras.items()])

    def end(self):
        """The run is whole."""
        self.flush()
        self.flush_extras()
        self.db.execute("UPDATE run SET requests = ?, recorded = ?, end_ns = ?, real_ns = ? WHERE id = ?",
                        (self.seq, self.seq, self.now, self.now, self.run))

    def close(self):
        self.db.execute("COMMIT")
        self.db.close()

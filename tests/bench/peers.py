# SPDX-License-Identifier: MIT
"""The ways into a file system that are compared. A peer is a row of ALL: how its daemon is started on a source folder."""
import dataclasses
import pathlib
import shutil
import subprocess
import typing

EXAMPLES = "/usr/share/doc/libfuse3-dev/examples"
URING = pathlib.Path("/sys/module/fuse/parameters/enable_uring")
FLAGS = ["-O2", "-D_FILE_OFFSET_BITS=64", "-DHAVE_UTIMENSAT", "-DHAVE_POSIX_FALLOCATE", "-DHAVE_SETXATTR",
         "-DHAVE_COPY_FILE_RANGE", "-DHAVE_SYS_XATTR_H", "-w"]


class Tools:
    """Programs that peers need; what has to be compiled is compiled once."""

    def __init__(self, build, work, options, examples=EXAMPLES):
        self.fstapefs = build / "fusefs" / "fstapefs"
        self.work = work
        self.options = options
        self.examples = pathlib.Path(examples)

    def example(self, name):
        program = self.work / pathlib.Path(name).stem
        source = self.examples / name
        if not program.exists():
            compiler = ["c++", "-std=c++20", "-DHAVE_STRUCT_STAT_ST_ATIM=1"] if source.suffix == ".cc" else ["cc"]
            flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True,
                                   check=True).stdout.split()
            subprocess.run([*compiler, *FLAGS, "-o", program, source, *flags], check=True,
                           stdin=subprocess.DEVNULL)
        return program


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    summary: str
    command: typing.Optional[typing.Callable] = None  # (tools, source, mountpoint, database) -> argv; None: no daemon
    needs: str = ""  # a program, or an example of libfuse
    records: bool = False
    within: str = ""  # below the mountpoint, where the source is
    uring: bool = False  # uses io_uring
    libfuse: str = ""  # the least version of it

    def missing(self, tools):
        if self.uring and not uring_is_on():
            return f"io_uring is off in the kernel: echo Y >{URING}"
        if self.libfuse and subprocess.run(["pkg-config", f"--atleast-version={self.libfuse}", "fuse3"],
                                           check=False).returncode:
            return f"it takes libfuse {self.libfuse}"
        if self.needs.endswith((".c", ".cc")):
            if not (tools.examples / self.needs).exists():
                return f"{tools.examples}/{self.needs} is not there (package libfuse3-dev; or --examples)"
            program = tools.example(self.needs)
            if self.uring and "liburing" not in subprocess.run(["ldd", program], capture_output=True, text=True,
                                                               check=True).stdout:
                return "this libfuse has been built without io_uring"
        elif self.needs and not shutil.which(self.needs):
            return f"{self.needs} is not installed"
        return None


def ours(*options):
    def command(tools, source, mountpoint, database):
        given = [f"db={database}" if option == "db" else option for option in options]
        given += tools.options.split(",") if tools.options else []
        return [tools.fstapefs, "-f", "-o", ",".join(given), source, mountpoint]
    return command


def uring_is_on():
    return URING.exists() and URING.read_text().strip() == "Y"


def passthrough_ll(*options):
    def command(tools, source, mountpoint, _):
        given = ",".join([f"source={source},cache=always,allow_other", *options])
        return [tools.example("passthrough_ll.c"), "-f", "-o", given, mountpoint]
    return command


def passthrough_hp(*words):
    def command(tools, source, mountpoint, _):
        return [tools.example("passthrough_hp.cc"), "--foreground", *words, source, mountpoint]
    return command


def passthrough_hl(tools, _source, mountpoint, _):
    # Without a source: it shows the whole of /.
    return [tools.example("passthrough.c"), "-f", "-o", "allow_other,kernel_cache", mountpoint]


def bindfs(_tools, source, mountpoint, _):
    return ["bindfs", "-f", source, mountpoint]


def loggedfs(tools, _source, mountpoint, database):
    # It mounts over the folder itself.
    config = tools.work / "loggedfs.xml"
    config.write_text('<?xml version="1.0" encoding="UTF-8"?>\n<loggedFS logEnabled="true" printProcessName="true">\n'
                      '<includes><include extension=".*" uid="*" action=".*" retname=".*"/></includes>\n'
                      '<excludes></excludes>\n</loggedFS>\n')
    return ["loggedfs", "-f", "-p", "-c", config, "-l", f"{database}.log", mountpoint]


ALL = [
    Peer("native", "the file system itself"),
    Peer("ours", "fstapefs, cache=always, everything recorded", ours("db", "cache=always", "allow_other"), records=True),
    Peer("norecord", "fstapefs, cache=always, nothing recorded", ours("norecord", "cache=always", "allow_other")),
    Peer("noflush", "fstapefs, recording, not asked at a close", ours("db", "cache=always", "allow_other", "noflush"),
         records=True),
    Peer("writeback", "fstapefs, recording the kernel's writes", ours("db", "cache=always", "allow_other", "writeback"),
         records=True),
    Peer("data_passthrough", "fstapefs, recording all but reads and writes",
         ours("db", "cache=always", "allow_other", "data_passthrough"), records=True),
    Peer("uring", "fstapefs, everything recorded, through io_uring",
         ours("db", "cache=always", "allow_other", "transport=uring"), records=True, uring=True),
    Peer("passthrough_ll", "libfuse's example, cache=always", passthrough_ll(), "passthrough_ll.c"),
    Peer("passthrough_ll_uring", "the same through io_uring", passthrough_ll("io_uring"), "passthrough_ll.c", uring=True,
         libfuse="3.18"),
    Peer("passthrough_hp", "libfuse's example in C++, cached", passthrough_hp("--nopassthrough"), "passthrough_hp.cc",
         libfuse="3.17"),
    Peer("passthrough_hp_data", "the same, data passed on by the kernel", passthrough_hp(), "passthrough_hp.cc",
         libfuse="3.17"),
    Peer("passthrough_hp_uring", "the cached one through io_uring",
         passthrough_hp("--nopassthrough", "-o", "io_uring"), "passthrough_hp.cc", uring=True, libfuse="3.18"),
    Peer("passthrough", "libfuse's high-level example", passthrough_hl, "passthrough.c", within="source"),
    Peer("bindfs", "bindfs", bindfs, "bindfs"),
    Peer("loggedfs", "loggedfs, everything logged", loggedfs, "loggedfs", within="self"),
]

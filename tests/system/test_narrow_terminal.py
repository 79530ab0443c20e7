# SPDX-License-Identifier: MIT
"""Tables at a terminal: what is long is cut so that rows can be told apart, and nothing else is cut."""
import fcntl
import os
import pty
import struct
import subprocess
import termios

import pytest

from harness import FSTAPE
from tape import Tape

pytestmark = pytest.mark.without_mounts

DEEP = "a-directory-at-the-top/of/several/others"
# Alike at both ends: these differ where the middle is.
ALIKE = [f"{DEEP}/{'x' * 40}{number}{'y' * 40}/and-a-long-end-of-the-name" for number in range(3)]
ENDS = [f"{DEEP}/{'z' * 60}/the-end-of-the-name-{number}" for number in range(3)]


@pytest.fixture
def db(tmp_path):
    tape = Tape(tmp_path / "t.db")
    tape.begin(label="run")
    tape.process("git", 7)
    for name in ALIKE + ENDS:
        tape.path(name)
    tape.close()
    return tmp_path / "t.db"


def at_terminal(width, *command, locale="C.UTF-8"):
    """What a terminal of that width gets, line by line."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    with subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=slave,
                          env={**os.environ, "LC_ALL": locale}) as child:
        os.close(slave)
        got = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:  # nobody has the other end any more
                break
            if not part:
                break
            got += part
    os.close(master)
    assert child.returncode == 0
    return got.decode().replace("\r", "").splitlines()


def query(db, paths, width, **options):
    rows = " UNION ALL ".join(f"SELECT 'copy_file_range' AS op, '{path}' AS path, 123456789 AS number" for path in paths)
    return at_terminal(width, FSTAPE, "query", "--no-color", db, rows, **options)


@pytest.mark.parametrize("width", [50, 60, 80])
@pytest.mark.parametrize("locale, mark", [("C.UTF-8", "…"), ("C", "...")])
def test_paths_are_cut_in_the_middle(db, width, locale, mark):
    lines = query(db, ENDS, width, locale=locale)
    assert len(lines) == 4 and max(map(len, lines)) <= width
    for number, line in enumerate(lines[1:]):
        assert line.startswith("copy_file_range a-") and line.endswith(f"-{number} 123456789"), line
        assert mark in line


def test_what_would_look_the_same_is_wrapped(db):
    lines = query(db, ALIKE, 60)
    assert max(map(len, lines)) <= 60 and "…" not in "".join(lines)
    assert "".join(line[16:50].strip() for line in lines[1:]) == "".join(ALIKE)
    assert sum("copy_file_range" in line for line in lines) == sum("123456789" in line for line in lines) == 3


def test_a_newline_in_a_name_is_no_new_line(db):
    lines = query(db, [name.replace("of", "o\nf") for name in ALIKE], 60)
    assert "".join(line[16:50].strip() for line in lines[1:]).count("o\\nf/several") == 3


def test_operations_and_numbers_stay_whole_where_nothing_fits(db):
    lines = query(db, ENDS, 20)
    assert all("copy_file_range" in line and "123456789" in line for line in lines[1:])


def test_what_fits_is_left_alone(db):
    lines = query(db, ENDS, 300)
    assert all(path in line for path, line in zip(ENDS, lines[1:]))


def test_wide_and_broken_characters(db):
    wide = [f"{'漢' * 40}{number}" for number in range(2)]
    lines = query(db, wide, 60)
    assert all(len(line) + line.count("漢") <= 60 and "…" in line for line in lines[1:])
    broken = ["CAST(x'" + "ff" * 40 + f"3{number}' AS TEXT)" for number in range(2)]
    rows = " UNION ALL ".join(f"SELECT 'copy_file_range' AS op, {text} AS path, 123456789 AS number" for text in broken)
    lines = at_terminal(60, FSTAPE, "query", "--no-color", db, rows)
    assert all(len(line) <= 60 and "\\xff" in line and line.endswith(" 123456789") for line in lines[1:]), lines

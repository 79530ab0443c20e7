# SPDX-License-Identifier: MIT
"""Tables on a terminal: as wide as it is, and with what a terminal can show; elsewhere nothing is cut off."""
import fcntl
import os
import pty
import re
import struct
import termios

import pytest

from harness import FSTAPE, run
from tape import Tape

pytestmark = pytest.mark.without_mounts

NAMES = [f"{i}{'d' * 30}/{i}/{'f' * 30}" for i in range(3)]


@pytest.fixture
def tape(tmp_path):
    made = Tape(tmp_path / "t.db")
    made.begin("a label")
    who = made.process("git", 7)
    made.op("lookup", "name", who, 1000)
    made.close()
    return tmp_path / "t.db"


def on_terminal(columns, *words):
    """The lines that a terminal of this width shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.environ.update(TERM="xterm")
        os.execv(FSTAPE, [str(FSTAPE), *map(str, words)])
    text = b""
    try:
        while more := os.read(terminal, 65536):
            text += more
    except OSError:  # EIO: it has ended
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, text
    return text.decode().splitlines()


def sql():
    return " UNION ALL ".join(f"SELECT 'ext4' AS fs, '{name}' AS path, 12345678 AS number, '{name}' AS path2" for name in NAMES)


@pytest.mark.parametrize("columns", [60, 80, 100])
def test_long_texts_are_cut_to_the_width_and_nothing_else(tape, columns):
    head, *rows = on_terminal(columns, "query", "--no-color", tape, sql())
    assert head.split() == ["fs", "path", "number", "path2"] and len(rows) == 3
    for row in rows:
        assert columns - 4 < len(row) <= columns
        fs, path, number, path2 = row.split()
        assert fs == "ext4" and number == "12345678" and len(path) >= 15 and len(path2) >= 15


def test_numbers_and_short_names_are_whole_on_a_narrow_terminal(tape):
    for row in on_terminal(20, "query", "--no-color", tape, sql())[1:]:
        fs, path, number, path2 = row.split()
        assert fs == "ext4" and number == "12345678" and len(path) >= 15 and len(path2) >= 15


def test_headings_are_bold_unless_colours_are_off(tape, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\033[1m" in on_terminal(80, "runs", tape)[0]
    assert "\033" not in on_terminal(80, "runs", "--no-color", tape)[0]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\033" not in on_terminal(80, "runs", tape)[0]


def test_nothing_is_cut_off_elsewhere(tape):
    text = run(FSTAPE, "query", tape, sql()).stdout
    assert re.findall(r"\dd+/\d/f+", text) == [name for name in NAMES for _ in range(2)] and "\033" not in text

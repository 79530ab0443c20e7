# SPDX-License-Identifier: MIT
"""A database that another program has locked as a whole: who reads it is told what to wait for."""
import sqlite3

import pytest

from harness import FSTAPE, run
from tape import Tape

pytestmark = pytest.mark.without_mounts


def test_a_locked_database_says_what_to_wait_for(tmp_path):
    made = Tape(tmp_path / "t.db")
    made.begin("a label")
    made.close()
    other = sqlite3.connect(tmp_path / "t.db")
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    done = run(FSTAPE, "runs", tmp_path / "t.db", check=False)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == f"fstape: {tmp_path / 't.db'}: another program has the database locked; try again when it is through\n"
    other.rollback()
    other.close()
    assert "a label" in run(FSTAPE, "runs", tmp_path / "t.db").stdout

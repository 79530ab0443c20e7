# SPDX-License-Identifier: MIT
"""What a signal to `fstape record` does to its command and what that has started: as much as one from a terminal does."""
import resource
import signal
import subprocess
import sys
import time

import pytest

from harness import FSTAPE, SLOW, Database, check_truths, mountpoints, wait_until

LONG = 600  # seconds that those sleep who are to be ended by a signal: far more than any test waits

# Starts one child after another until it is interrupted, and waits for all of them then. Each of them that was there before
# the signal has to have got it; of the last one that cannot be told.
STARTER = """
import os, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
children = []
while not signal.sigpending():
    children.append(os.fork())
    if not children[-1]:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        signal.pause()
    if signal.sigpending():
        os.kill(children[-1], signal.SIGINT)
    if len(children) == 20:
        open("f", "w").close()
    time.sleep(0.001 if len(children) < 1000 else 0.1)
sys.exit(7 if {os.waitpid(child, 0)[1] for child in children} == {signal.SIGINT} else 1)
"""

# What it starts when it is told to end is a stray: started after the signal, and its parent is gone.
LEAVER = f"""
import os, signal, time
def leave(*_):
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep({LONG})
signal.signal(signal.SIGTERM, leave)
open("f", "w").close()
time.sleep({LONG})
"""


def recorder_of(box, *command, options=("--public",)):
    """A recorder whose command has made the file f, by which it says that it may be told to end."""
    recorder = subprocess.Popen([FSTAPE, "record", *options, box.db, box.src, "--", *command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    box.clients.append(recorder)
    wait_until((box.src / "f").exists, what="the command's file")
    return recorder


def tell(box, recorder, number):
    """The recorder's exit status after that signal. Nothing is left of it then, and the recording is whole."""
    recorder.send_signal(number)
    _, message = recorder.communicate(timeout=60 * SLOW)
    assert str(box.src) not in mountpoints(), message
    check_truths(Database(box.db, 1))
    return recorder.returncode


@pytest.mark.parametrize("options", [(), ("--public",)], ids=["private", "public"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_shell_that_waits(box, number, options):
    """
    The child says that it is there: Debian's dash loses a signal that comes just between the start of a child and the
    child's exec, and waits on, on a terminal as well.
    """
    recorder = recorder_of(box, "sh", "-c", f"sh -c 'echo x >f; exec sleep {LONG}'; true", options=options)
    assert tell(box, recorder, number) == 128 + number


def test_a_child_that_is_elsewhere(box):
    """It does not stand in the mount and has nothing open there, but its shell waits for it."""
    recorder = recorder_of(box, "sh", "-c", f"sh -c 'cd /; echo x >{box.src}/f; exec sleep {LONG}'; true")
    time.sleep(0.3)  # let it get there; earlier it is easier
    assert tell(box, recorder, signal.SIGINT) == 128 + signal.SIGINT


@pytest.mark.parametrize("options", [(), ("--public",)], ids=["private", "public"])
def test_children_that_are_just_started(box, options):
    """Finding out who is there takes a while, in which a program goes on: nobody is overlooked."""
    recorder = recorder_of(box, sys.executable, "-c", STARTER, options=options)
    assert tell(box, recorder, signal.SIGINT) == 7


@pytest.mark.parametrize("options", [(), ("--public",)], ids=["private", "public"])
def test_what_a_trap_starts_is_not_hit(box, options):
    trap = "sleep 0.7 && echo x >cleaned; exit 7"
    recorder = recorder_of(box, "bash", "-c", f"trap '{trap}' INT; echo x >f; while :; do sleep 0.1; done", options=options)
    assert tell(box, recorder, signal.SIGINT) == 7
    assert (box.src / "cleaned").exists()


def test_what_is_left_behind_is_told_too(box):
    """Also what is started after that, when nobody is left who could have started it for a reason."""
    recorder = recorder_of(box, "sh", "-c", f"{sys.executable} -c '{LEAVER}' & exec sleep {LONG}")
    assert tell(box, recorder, signal.SIGTERM) == 128 + signal.SIGTERM


def test_waiting_costs_nothing(box):
    """For a program that the command left behind."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([FSTAPE, "record", "-q", box.db, box.src, "--", "sh", "-c", "sleep 4 >left 2>&1 &"], check=True,
                   stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.2 * (time.monotonic() - start), used

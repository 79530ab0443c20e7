# SPDX-License-Identifier: MIT
"""Fresh file systems in images, for programs that mount them in a mount namespace of their own."""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

import place

PROGRAM = pathlib.Path(sys.argv[0])
TOP = pathlib.Path(__file__).resolve().parent.parent.parent


def own_namespace():
    """Mounts made here are nobody else's, and go when we do."""
    if os.environ.get("FSTAPE_BENCH_INSIDE") == str(os.getppid()):
        return
    if os.geteuid() != 0:
        sys.exit(f"{PROGRAM}: needs root: it makes file systems and mounts them")
    os.environ["FSTAPE_BENCH_INSIDE"] = str(os.getpid())
    child = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "slave", sys.executable, "-B", *sys.argv],
        preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: child.send_signal(received))
    sys.exit(child.wait())


def find_build(given):
    for build in [pathlib.Path(given)] if given else [TOP / "build", TOP / "build-tests"]:
        if (build / "analyzer" / "fstape").exists():
            return build.resolve()
    sys.exit(f"{PROGRAM}: fstape is not built: meson setup build && ninja -C build, or --build DIR")


class Image:
    """A fresh file system, mounted as long as it is used."""

    def __init__(self, work, name, fs, gigabytes):
        self.file, self.dir = work / f"{name}.img", work / name
        self.dir.mkdir(exist_ok=True)
        with open(self.file, "wb") as image:
            image.truncate(gigabytes << 30)
        made = subprocess.run([*place.MKFS[fs], self.file], check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:  # else what it says is of no interest
            sys.exit(f"{PROGRAM}: {' '.join(place.MKFS[fs])}: {made.stderr.strip()}")

    def __enter__(self):
        subprocess.run(["mount", "-o", "loop,noatime", self.file, self.dir], check=True)
        return self.dir

    def __exit__(self, *_):
        for _ in range(50):  # a moment later it is not busy any more
            if subprocess.run(["umount", self.dir], check=False, stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        self.file.unlink()

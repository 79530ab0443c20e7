# SPDX-License-Identifier: MIT
"""What is timed. A workload is a row of ALL; each finds what those before it have left, so their order matters."""
import dataclasses
import os
import random
import subprocess
import time
import typing

BIG = 512 << 20  # bytes of the big file
BLOCK = 1 << 20
RANDOM_BLOCK = 4096
RANDOM_COUNT = 20000
SEED = 8
ENVIRONMENT = {
    **os.environ, "LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "bench", "GIT_AUTHOR_EMAIL": "bench@localhost",
    "GIT_COMMITTER_NAME": "bench", "GIT_COMMITTER_EMAIL": "bench@localhost",
}


def run(*argv, cwd=None, **kwargs):
    return subprocess.run([str(arg) for arg in argv], cwd=cwd, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL,
                          **kwargs)


class Repository:
    """A repository of two commits, the second with a fifth of the files rewritten; and a tar file of its tree."""

    def __init__(self, work, files):
        self.dir, self.tar = work / "repo.git", work / "tree.tar"
        self.url = f"file://{self.dir}"
        run("git", "init", "-q", "--bare", "-b", "main", self.dir)
        subprocess.run(["git", "-C", self.dir, "fast-import", "--quiet"], input=self.stream(files), env=ENVIRONMENT,
                       check=True)
        run("git", "-C", self.dir, "repack", "-adq")
        run("git", "-C", self.dir, "archive", "-o", self.tar, "main")

    @staticmethod
    def stream(files):
        dice = random.Random(SEED)
        names = [f"d{dice.randrange(12):02}/s{dice.randrange(20):02}/file-{i}.c" for i in range(files)]
        out = []
        for number, changed in enumerate((names, dice.sample(names, files // 5)), 1):
            out.append(b"commit refs/heads/main\ncommitter bench <bench@localhost> %d +0000\ndata 1\n%d\n"
                       % (1.7e9 + number, number))
            for name in changed:
                # Hexadecimal digits pack to half their size, about like text.
                text = dice.randbytes(int(dice.expovariate(1 / 3000)) + 20).hex("\n", 32).encode() + b"\n"
                out.append(b"M 100644 inline %s\ndata %d\n%s\n" % (name.encode(), len(text), text))
        return b"".join(out)


def timed(site, body):
    cpu = site.daemon_cpu_s()
    start = time.perf_counter()
    body()
    wall = time.perf_counter() - start
    return {"wall_s": wall, "daemon_cpu_s": site.daemon_cpu_s() - cpu}


def clone(site, repo):
    return timed(site, lambda: run("git", "clone", "-q", repo.url, site.dir / "clone"))


def settle(site):
    """Git reads again what is as young as its index; after this it does not have to."""
    time.sleep(1.1 - time.time() % 1)
    run("git", "status", "--porcelain", cwd=site.dir / "clone", stdout=subprocess.DEVNULL)


def status(site, _):
    return timed(site, lambda: run("git", "status", "--porcelain", cwd=site.dir / "clone", stdout=subprocess.DEVNULL))


def status_warm(site, repo):
    """The third: in the second FUSE asks for the attributes of each directory that the first has read, for its atime."""
    settle(site)
    status(site, repo)
    return status(site, repo)


def find(site, _):
    return timed(site, lambda: run("find", site.dir / "clone", "-size", "+1000000c",
                                   stdout=subprocess.DEVNULL))


def find_warm(site, repo):
    find(site, repo)
    return find(site, repo)


def cold(body):
    def after_remount(site, repo):
        site.remount()
        return body(site, repo)
    return after_remount


def checkout(origin, commit, *options):
    """From one commit to the other; to the first one outside the clock, when that is not where we are."""
    def body(site, _):
        run("git", "checkout", "-q", origin, cwd=site.dir / "clone")
        settle(site)
        return timed(site, lambda: run("git", *options, "checkout", "-q", commit, cwd=site.dir / "clone"))
    return body


def untar(site, repo):
    return timed(site, lambda: run("tar", "-xf", repo.tar, "-C", site.dir, "--one-top-level=tree"))


def remove(site, _):
    return timed(site, lambda: run("rm", "-rf", site.dir / "clone", site.dir / "tree", site.dir / "big"))


def sequential_write(site, _):
    return timed(site, lambda: run("dd", "if=/dev/zero", f"of={site.dir / 'big'}", f"bs={BLOCK}",
                                   f"count={BIG // BLOCK}", stderr=subprocess.DEVNULL))


def sequential_read(site, repo):
    if not (site.dir / "big").exists():
        sequential_write(site, repo)
        site.remount()
    return timed(site, lambda: run("dd", f"if={site.dir / 'big'}", "of=/dev/null", f"bs={BLOCK}",
                                   stderr=subprocess.DEVNULL))


def random_io(flags, body):
    def work(site, repo):
        if not (site.dir / "big").exists():
            sequential_write(site, repo)
        fd = os.open(site.dir / "big", flags)
        dice = random.Random(SEED)
        places = [dice.randrange(BIG // RANDOM_BLOCK) * RANDOM_BLOCK for _ in range(RANDOM_COUNT)]
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        try:
            return timed(site, lambda: body(fd, places))
        finally:
            os.close(fd)
    return work


def random_read(fd, places):
    for place in places:
        os.pread(fd, RANDOM_BLOCK, place)


def random_write(fd, places):
    block = b"x" * RANDOM_BLOCK
    for place in places:
        os.pwrite(fd, block, place)


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    summary: str
    run: typing.Callable  # (place, repository) -> measurements


ALL = [
    Workload("clone", "git clone of a repository elsewhere", clone),
    Workload("status", "git status, warm", status_warm),
    Workload("find", "find -size, warm", find_warm),
    Workload("status-cold", "git status after mounting anew", cold(status)),
    Workload("find-cold", "find -size after mounting anew", cold(find)),
    Workload("checkout", "git checkout of the commit before", checkout("main", "main~")),
    Workload("checkout-8", "git checkout back, with 8 workers",
             checkout("main~", "main", "-c", "checkout.workers=8", "-c", "checkout.thresholdForParallelism=1")),
    Workload("untar", "tar -x", untar),
    Workload("write", "512 MiB written in blocks of 1 MiB", sequential_write),
    Workload("read", "512 MiB read after mounting anew", cold(sequential_read)),
    Workload("random-read", "20,000 blocks of 4 KiB after mounting anew",
             cold(random_io(os.O_RDONLY, random_read))),
    Workload("random-write", "20,000 blocks of 4 KiB", random_io(os.O_WRONLY, random_write)),
    Workload("rm", "rm -rf of all that", remove),
]

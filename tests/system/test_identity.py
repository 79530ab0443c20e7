# SPDX-License-Identifier: MIT
"""Who owns what comes out when users with different rights create at the same time: workers take on identities."""
import os

from harness import NOBODY, check_truths

EACH = 40


def create(top, uid, number):
    """A child that makes files as that user; its exit status says whether all went well."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        for i in range(EACH):
            os.close(os.open(top / f"{uid}-{number}-{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
            os.mkdir(top / f"{uid}-{number}-{i}.d")
        status = 0
    finally:
        os._exit(status)


def test_owners_of_parallel_creations(box):
    """A worker is started by one that acts for a caller at that moment, and must not go on as that caller."""
    box.src.chmod(0o777)
    for round_number in range(6):
        with box.mount(allow_other=True) as mount:  # anew each time: workers are started by the first who are many
            children = [create(mount.mnt, uid, number) for number in range(6) for uid in (NOBODY, 0, 1000)]
            assert all(os.waitpid(child, 0)[1] == 0 for child in children)
            for entry in os.scandir(mount.mnt):
                info = entry.stat()
                assert (info.st_uid, info.st_gid) == (int(entry.name.split("-")[0]),) * 2, entry.name
            for entry in list(os.scandir(mount.mnt)):
                (os.rmdir if entry.is_dir() else os.unlink)(entry.path)
        check_truths(mount.db())

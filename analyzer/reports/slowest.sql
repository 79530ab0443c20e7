-- SPDX-License-Identifier: MIT
-- title: The slowest single operations
-- about: The operations that took longest in the filesystem. 'at' is the time since the run's start, 'dur' the whole
--    request, 'fs' the part of it inside the filesystem.
-- param limit=20: how many rows
SELECT start_ns AS at_ns, op, fs_ns, dur_ns, comm, error, path
  FROM ops
 WHERE (run, seq) IN (SELECT run, seq FROM op WHERE run = :run ORDER BY fs_ns DESC, seq LIMIT :limit)
 ORDER BY fs_ns DESC, seq;

-- SPDX-License-Identifier: MIT
-- title: Programs and commands that made the requests
-- about: Requests by command line, with the number of its processes: number, errors, bytes read and written, time and its
--    share. Children of a git command have command lines, and so rows, of their own.
-- param limit=30: how many rows
WITH by_process AS (
    SELECT process, count(*) AS n, sum(result < 0) AS errors,
           sum(CASE WHEN result > 0 AND op = (SELECT code FROM op_type WHERE name = 'read') THEN result ELSE 0 END) AS read,
           sum(CASE WHEN result > 0 AND op = (SELECT code FROM op_type WHERE name = 'write') THEN result ELSE 0 END) AS written,
           sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns, min(start_ns) AS at_ns
      FROM op WHERE run = :run GROUP BY process)
SELECT w.comm, count(DISTINCT w.pid) AS processes, min(b.at_ns) AS at_ns, sum(n) AS requests, sum(errors) AS errors,
       sum(read) AS bytes_read, sum(written) AS bytes_written, sum(fs_ns) AS fs_ns,
       1.0 * sum(fs_ns) / nullif(sum(sum(fs_ns)) OVER (), 0) AS share, sum(dur_ns) AS dur_ns, w.cmdline AS command
  FROM by_process AS b JOIN process AS w ON w.run = :run AND w.id = b.process
 GROUP BY w.comm, w.cmdline
 ORDER BY fs_ns DESC, command
 LIMIT :limit;

-- SPDX-License-Identifier: MIT
-- title: Time between requests: a program's own, and time in requests
-- about: Per process, from its first request to the end of its last: how much of that it waited for at least one request
--    ('waited', overlaps of its threads counted once), and the rest ('own': its own CPU time, waiting for other programs,
--    and what the kernel answered from its caches). 'fs' is the sum of times in the filesystem, overlaps not taken out.
--    Release and forget do not count: nobody waits for them.
-- param limit=30: how many rows
WITH waited_for AS (SELECT code FROM op_type WHERE class <> 'forget' AND name NOT IN ('release', 'releasedir')),
by_process AS MATERIALIZED (
    SELECT process, count(*) AS n, min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns, sum(dur_ns) AS dur_ns,
           sum(fs_ns) AS fs_ns
      FROM op WHERE run = :run AND op IN (SELECT code FROM waited_for) GROUP BY process),
spans AS MATERIALIZED (
    SELECT pid, min(start_ns) AS at_ns, max(end_ns) - min(start_ns) AS span_ns, sum(n) AS requests, sum(dur_ns) AS dur_ns,
           sum(fs_ns) AS fs_ns, count(DISTINCT tid) AS threads
      FROM by_process AS b JOIN process AS w ON w.run = :run AND w.id = b.process GROUP BY pid),
-- What a thread waits for comes one after another: only threads beside each other count time twice.
twice AS (
    SELECT pid, sum(min(end_ns, done_ns) - start_ns) AS ns
      FROM (SELECT pid, start_ns, end_ns, max(end_ns) OVER (
                        PARTITION BY pid ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS done_ns
              FROM (SELECT (SELECT pid FROM process AS w WHERE w.run = :run AND w.id = op.process) AS pid,
                           start_ns, start_ns + dur_ns AS end_ns
                      FROM op
                     WHERE run = :run AND op IN (SELECT code FROM waited_for)
                       AND process IN (SELECT id FROM process
                                        WHERE run = :run AND pid IN (SELECT pid FROM spans WHERE threads > 1))))
     WHERE done_ns > start_ns
     GROUP BY pid),
waited AS (SELECT s.*, dur_ns - coalesce(t.ns, 0) AS waited_ns FROM spans AS s LEFT JOIN twice AS t ON t.pid = s.pid)
SELECT pid, (SELECT w.comm FROM process AS w WHERE w.run = :run AND w.pid = s.pid ORDER BY w.id DESC LIMIT 1) AS comm,
       threads, at_ns, span_ns, requests, waited_ns, fs_ns, span_ns - waited_ns AS own_ns,
       1.0 * (span_ns - waited_ns) / nullif(span_ns, 0) AS own_share,
       (SELECT w.cmdline FROM process AS w WHERE w.run = :run AND w.pid = s.pid ORDER BY w.id DESC LIMIT 1) AS command
  FROM waited AS s
 ORDER BY span_ns DESC, pid
 LIMIT :limit;

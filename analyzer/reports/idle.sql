-- SPDX-License-Identifier: MIT
-- title: Time between requests: a program's own, and time in requests
-- about: Per process, from its first request to the end of its last: how much of that at least one request of it was
--    under way ('busy', overlaps counted once), and the rest ('idle': its own CPU time, waiting for other programs, and
--    what the kernel answered from its caches). 'fs' is the sum of times in the filesystem, overlaps not taken out.
-- param limit=30: how many rows
WITH asked AS (
    SELECT (SELECT pid FROM process AS w WHERE w.run = :run AND w.id = op.process) AS pid,
           start_ns, start_ns + dur_ns AS end_ns, fs_ns
      FROM op WHERE run = :run AND op NOT IN (SELECT code FROM op_type WHERE class = 'forget')),
gaps AS (
    SELECT pid, start_ns, end_ns, fs_ns, start_ns - max(end_ns) OVER (
                PARTITION BY pid ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS gap
      FROM asked),
spans AS (
    SELECT pid, min(start_ns) AS at_ns, max(end_ns) - min(start_ns) AS span_ns, count(*) AS requests, sum(fs_ns) AS fs_ns,
           coalesce(sum(gap) FILTER (WHERE gap > 0), 0) AS idle_ns, count(*) FILTER (WHERE gap >= 1000000) AS gaps_of_1ms,
           max(0, coalesce(max(gap), 0)) AS longest_gap_ns
      FROM gaps GROUP BY pid)
SELECT pid, (SELECT w.comm FROM process AS w WHERE w.run = :run AND w.pid = s.pid ORDER BY w.id DESC LIMIT 1) AS comm,
       at_ns, span_ns, requests, span_ns - idle_ns AS busy_ns, fs_ns, idle_ns, 1.0 * idle_ns / nullif(span_ns, 0) AS idle_share,
       gaps_of_1ms, longest_gap_ns,
       (SELECT w.cmdline FROM process AS w WHERE w.run = :run AND w.pid = s.pid ORDER BY w.id DESC LIMIT 1) AS command
  FROM spans AS s
 ORDER BY span_ns DESC, pid
 LIMIT :limit;

-- SPDX-License-Identifier: MIT
-- title: Storms of look-ups and stats
-- about: Stretches in which a thread asks for nothing but names and attributes (lookup, getattr, access, readlink),
--    'min' times or more in a row: when, for how long, how many requests for how many different paths, how many were
--    in vain, and the directory in which it began.
-- param min=100: shortest stretch, in requests
-- param limit=20: how many rows
WITH stretches AS (
    SELECT process, seq, asks, sum(NOT asks) OVER (PARTITION BY process ORDER BY seq ROWS UNBOUNDED PRECEDING) AS stretch
      FROM (SELECT process, seq, op IN (SELECT code FROM op_type WHERE name IN ('lookup', 'getattr', 'access', 'readlink')) AS asks
              FROM op WHERE run = :run AND op NOT IN (SELECT code FROM op_type WHERE class = 'forget'))),
longest AS MATERIALIZED (
    SELECT process, min(seq) AS first, max(seq) AS last
      FROM stretches WHERE asks GROUP BY process, stretch HAVING count(*) >= :min
     ORDER BY count(*) DESC, first LIMIT :limit),
-- CROSS JOIN: one pass over the operations, however the stretches of threads overlap.
storms AS (
    SELECT l.process, l.first, min(start_ns) AS at_ns, max(start_ns + dur_ns) - min(start_ns) AS lasted_ns,
           count(*) AS requests, count(DISTINCT path) AS paths, sum(result < 0) AS errors,
           sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op CROSS JOIN longest AS l
     WHERE op.run = :run AND l.process = op.process AND op.seq BETWEEN l.first AND l.last
       AND op.op NOT IN (SELECT code FROM op_type WHERE class = 'forget')
     GROUP BY l.process, l.first)
SELECT at_ns, lasted_ns, w.comm, w.pid, w.tid, requests, paths, errors, fs_ns, dur_ns,
       (SELECT d.path FROM op AS o JOIN path AS p ON p.run = o.run AND p.id = o.path
          JOIN path AS d ON d.run = p.run AND d.id = p.parent WHERE o.run = :run AND o.seq = s.first) AS directory,
       w.cmdline AS command
  FROM storms AS s JOIN process AS w ON w.run = :run AND w.id = s.process
 ORDER BY requests DESC, s.first;

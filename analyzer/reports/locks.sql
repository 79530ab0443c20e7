-- SPDX-License-Identifier: MIT
-- title: Git's lock files, and how long each was held
-- about: Files called X.lock in a .git. Held is from the moment that creating it returned until it was renamed to X ('committed')
--    or removed ('dropped'); 'left' were still there at the end. 'refused' are attempts that found it taken.
-- param limit=40: how many rows
WITH touched AS (
    SELECT o.seq, p.path, o.start_ns, o.dur_ns, o.fs_ns, o.result, o.process,
           (SELECT name FROM op_type WHERE code = o.op) AS op
      FROM op AS o JOIN path AS p ON p.run = :run AND p.id = o.path
     WHERE o.run = :run AND p.path GLOB '*.git/*.lock'
       AND o.op IN (SELECT code FROM op_type WHERE name IN ('create', 'rename', 'unlink', 'link'))),
refused AS (SELECT path, count(*) AS n FROM touched WHERE op IN ('create', 'link') AND result < 0 GROUP BY path),
held AS (
    SELECT path, op, process, fs_ns, start_ns + dur_ns AS from_ns,
           lead(op) OVER w AS fate, lead(start_ns + dur_ns) OVER w AS to_ns
      FROM touched WHERE result >= 0
    WINDOW w AS (PARTITION BY path ORDER BY seq)),
locks AS (
    SELECT path, min(process) AS process, count(*) AS locks, count(*) FILTER (WHERE fate = 'rename') AS committed,
           count(*) FILTER (WHERE fate = 'unlink') AS dropped, count(*) FILTER (WHERE to_ns IS NULL) AS "left",
           sum(to_ns - from_ns) AS held_ns, max(to_ns - from_ns) AS longest_ns, min(from_ns) AS first_at_ns,
           sum(fs_ns) AS create_fs_ns
      FROM held WHERE op IN ('create', 'link') GROUP BY path)
SELECT l.path, w.comm, locks, committed, dropped, "left", coalesce(r.n, 0) AS refused, held_ns, longest_ns, first_at_ns, create_fs_ns
  FROM locks AS l LEFT JOIN refused AS r ON r.path = l.path
  LEFT JOIN process AS w ON w.run = :run AND w.id = l.process
 ORDER BY held_ns DESC NULLS LAST, l.path
 LIMIT :limit;

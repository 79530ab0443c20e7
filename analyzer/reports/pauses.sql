-- SPDX-License-Identifier: MIT
-- title: Pauses in which nobody asked for anything
-- about: Times without any request under way, the longest first: when, how long, and what was asked before and after.
--    In these programs compute, wait for something else, or find what they need in the kernel's caches. Release and
--    forget do not count as requests.
-- param min_us=1000: shortest pause, in microseconds
-- param limit=20: how many rows
WITH asked AS (
    SELECT seq, start_ns, max(start_ns + dur_ns) OVER (
                ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS done_ns
      FROM op
     WHERE run = :run AND op NOT IN (SELECT code FROM op_type WHERE class = 'forget' OR name IN ('release', 'releasedir'))),
pauses AS MATERIALIZED (
    SELECT seq, done_ns AS at_ns, start_ns - done_ns AS lasted_ns FROM asked
     WHERE start_ns - done_ns >= :min_us * 1000 ORDER BY lasted_ns DESC, seq LIMIT :limit)
SELECT p.at_ns, p.lasted_ns, b.op AS before_op, b.comm AS before_comm, b.path AS before_path, a.op AS after_op,
       a.comm AS after_comm, a.path AS after_path
  FROM pauses AS p
  JOIN ops AS a ON a.run = :run AND a.seq = p.seq
  LEFT JOIN ops AS b ON b.run = :run AND b.seq = (SELECT max(o.seq) FROM op AS o WHERE o.run = :run AND o.seq < p.seq AND o.seq >= p.seq - 1000
                                             AND o.start_ns + o.dur_ns = p.at_ns)
 ORDER BY p.lasted_ns DESC, p.seq;

-- SPDX-License-Identifier: MIT
-- title: Requests under way at once
-- about: How long so many requests were under way at the same time, from the first request to the end of the last; 0 is
--    time without any. 'share' is of all that time, 'busy_share' of the time with any. Sums of the times of overlapping
--    requests say more than passed; these do not.
WITH whole AS MATERIALIZED (
    SELECT max(start_ns + dur_ns) - min(start_ns) AS span_ns, sum(dur_ns) AS dur_ns FROM op WHERE run = :run),
-- Of each request the part in which one that had begun before was still under way: so many of these parts lie over an
-- instant as requests, less one. Most requests have no such part.
second AS MATERIALIZED (
    SELECT start_ns, min(end_ns, done_ns) AS end_ns
      FROM (SELECT start_ns, start_ns + dur_ns AS end_ns,
                   max(start_ns + dur_ns) OVER (ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS done_ns
              FROM op WHERE run = :run)
     WHERE done_ns > start_ns AND end_ns > start_ns),
steps AS (
    SELECT at, step, 1 + sum(step) OVER (ORDER BY at, step ROWS UNBOUNDED PRECEDING) AS level
      FROM (SELECT start_ns AS at, 1 AS step FROM second UNION ALL SELECT end_ns, -1 FROM second)),
-- The time at a level is the sum of the instants at which it is left less that of those at which it is entered. In two
-- halves, as such sums outgrow 64 bits.
instants AS MATERIALIZED (
    SELECT level, step, sum(at >> 20) AS high, sum(at & 1048575) AS low FROM steps GROUP BY 1, 2),
more AS MATERIALIZED (
    SELECT level, (sum(high) << 20) + sum(low) AS ns
      FROM (SELECT level - step AS level, high, low FROM instants UNION ALL SELECT level, -high, -low FROM instants)
     WHERE level > 1 GROUP BY level),
busy AS (SELECT dur_ns - coalesce((SELECT sum(end_ns - start_ns) FROM second), 0) AS ns FROM whole),
levels AS (
    SELECT 0 AS level, (SELECT span_ns FROM whole) - ns AS ns FROM busy
     UNION ALL SELECT 1, ns - coalesce((SELECT sum(ns) FROM more), 0) FROM busy
     UNION ALL SELECT level, ns FROM more)
SELECT level AS at_once, ns AS time_ns, 1.0 * ns / nullif((SELECT span_ns FROM whole), 0) AS share,
       CASE WHEN level THEN 1.0 * ns / (SELECT ns FROM busy) END AS busy_share
  FROM levels WHERE ns > 0
 ORDER BY level;

-- SPDX-License-Identifier: MIT
-- title: Requests under way at once
-- about: How long so many requests were under way at the same time, from the first request to the end of the last; 0 is
--    time without any. 'share' is of all that time, 'busy_share' of the time with any. Sums of the times of overlapping
--    requests say more than passed; these do not.
WITH whole AS MATERIALIZED (
    SELECT max(start_ns + dur_ns) - min(start_ns) AS span_ns, sum(dur_ns) AS dur_ns FROM op WHERE run = :run),
-- Requests that no other overlaps are one at a time, and are most: only the rest needs counting.
overlapping AS MATERIALIZED (
    SELECT start_ns, end_ns
      FROM (SELECT start_ns, start_ns + dur_ns AS end_ns, lead(start_ns) OVER w AS next_ns,
                   max(start_ns + dur_ns) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS done_ns
              FROM op WHERE run = :run AND dur_ns > 0 WINDOW w AS (ORDER BY start_ns))
     WHERE done_ns > start_ns OR next_ns < end_ns),
steps AS (
    SELECT at, step, sum(step) OVER (ORDER BY at, step ROWS UNBOUNDED PRECEDING) AS level
      FROM (SELECT start_ns AS at, 1 AS step FROM overlapping UNION ALL SELECT end_ns, -1 FROM overlapping)),
-- The time at a level is the sum of the instants at which it is left less that of those at which it is entered. In two
-- halves, as such sums outgrow 64 bits.
instants AS MATERIALIZED (
    SELECT level, step, sum(at >> 20) AS high, sum(at & 1048575) AS low FROM steps GROUP BY 1, 2),
levels AS (
    SELECT level, (sum(high) << 20) + sum(low) AS ns
      FROM (SELECT level - step AS level, high, low FROM instants UNION ALL SELECT level, -high, -low FROM instants)
     WHERE level > 0 GROUP BY level
     UNION ALL SELECT 1, dur_ns - coalesce((SELECT sum(end_ns - start_ns) FROM overlapping), 0) FROM whole),
busy AS MATERIALIZED (SELECT level, sum(ns) AS ns FROM levels GROUP BY level HAVING sum(ns) > 0)
SELECT level AS at_once, ns AS time_ns, 1.0 * ns / nullif((SELECT span_ns FROM whole), 0) AS share,
       CASE WHEN level THEN 1.0 * ns / sum(ns) FILTER (WHERE level) OVER () END AS busy_share
  FROM (SELECT * FROM busy UNION ALL SELECT 0, span_ns - coalesce((SELECT sum(ns) FROM busy), 0) FROM whole WHERE span_ns > 0)
 ORDER BY level;

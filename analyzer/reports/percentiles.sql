-- SPDX-License-Identifier: MIT
-- title: Percentiles of the times of each operation
-- about: Nearest rank: the smallest time that so many percent of the operations did not exceed.
-- param clock=fs: 'fs' for time inside the filesystem, 'dur' for whole requests
WITH times AS (
    SELECT op, CASE WHEN :clock = 'dur' THEN dur_ns ELSE fs_ns END AS ns, count(*) AS n
      FROM op WHERE run = :run GROUP BY 1, 2),
ranked AS (
    SELECT *, sum(n) OVER (PARTITION BY op ORDER BY ns) AS upto, sum(n) OVER (PARTITION BY op) AS count
      FROM times)
SELECT (SELECT name FROM op_type WHERE code = r.op) AS op, max(count) AS count, min(ns) AS min_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 10) AS p10_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 25) AS p25_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 50) AS p50_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 75) AS p75_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 90) AS p90_ns,
       min(ns) FILTER (WHERE upto * 100 >= count * 99) AS p99_ns,
       min(ns) FILTER (WHERE upto * 1000 >= count * 999) AS p999_ns,
       max(ns) AS max_ns
  FROM ranked AS r
 GROUP BY r.op
 ORDER BY sum(n * ns) DESC, op;

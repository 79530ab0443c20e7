-- SPDX-License-Identifier: MIT
-- title: Operations by time in the filesystem
-- about: One row per operation: how often, how many failed, total, mean, percentiles (nearest rank) and share of the
--    time in the filesystem; 'dur' is the total of whole requests.
WITH times AS (
    SELECT op, fs_ns, count(*) AS n, sum(result < 0) AS errors, sum(dur_ns) AS dur_ns
      FROM op WHERE run = :run GROUP BY op, fs_ns),
ranked AS (
    SELECT *, sum(n) OVER (PARTITION BY op ORDER BY fs_ns) AS upto, sum(n) OVER (PARTITION BY op) AS count
      FROM times)
SELECT (SELECT name FROM op_type WHERE code = r.op) AS op, sum(n) AS count, sum(errors) AS errors,
       sum(n * fs_ns) AS fs_ns, sum(n * fs_ns) / sum(n) AS mean_ns,
       min(fs_ns) FILTER (WHERE upto * 100 >= count * 50) AS p50_ns,
       min(fs_ns) FILTER (WHERE upto * 100 >= count * 95) AS p95_ns,
       min(fs_ns) FILTER (WHERE upto * 100 >= count * 99) AS p99_ns,
       max(fs_ns) AS max_ns,
       1.0 * sum(n * fs_ns) / nullif(sum(sum(n * fs_ns)) OVER (), 0) AS share,
       sum(dur_ns) AS dur_ns
  FROM ranked AS r
 GROUP BY r.op
 ORDER BY fs_ns DESC, op;

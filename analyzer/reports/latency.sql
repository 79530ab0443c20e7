-- SPDX-License-Identifier: MIT
-- title: Histogram of the times of each operation, in powers of two
-- about: How many operations took from 'from' to below 'to', what share of that operation's number and of its time,
--    and how many percent took less than 'to'. A '#' of 'bar' is 2% of the number.
-- param clock=fs: 'fs' for time inside the filesystem, 'dur' for whole requests
-- param op=*: which operations, as a GLOB pattern
WITH buckets AS (
    SELECT op, CASE WHEN ns > 0 THEN CAST(log2(ns) AS INTEGER) ELSE 0 END AS bucket, count(*) AS n, sum(ns) AS ns
      FROM (SELECT op, CASE WHEN :clock = 'dur' THEN dur_ns ELSE fs_ns END AS ns
              FROM op WHERE run = :run AND op IN (SELECT code FROM op_type WHERE name GLOB :op))
     GROUP BY 1, 2),
shares AS (
    SELECT *, 1.0 * n / sum(n) OVER (PARTITION BY op) AS share,
           1.0 * ns / nullif(sum(ns) OVER (PARTITION BY op), 0) AS time_share,
           1.0 * sum(n) OVER (PARTITION BY op ORDER BY bucket) / sum(n) OVER (PARTITION BY op) AS below_share,
           sum(ns) OVER (PARTITION BY op) AS total
      FROM buckets)
SELECT (SELECT name FROM op_type WHERE code = s.op) AS op, CASE WHEN bucket THEN 1 << bucket ELSE 0 END AS from_ns,
       2 << bucket AS to_ns, n AS count, share, time_share, below_share,
       substr('##################################################', 1, CAST(share * 50 + 0.5 AS INTEGER)) AS bar
  FROM shares AS s
 ORDER BY total DESC, op, bucket;

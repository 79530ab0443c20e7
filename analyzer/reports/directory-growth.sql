-- SPDX-License-Identifier: MIT
-- title: Cost of creating as a directory grows
-- about: Creates in the order in which they filled their directories: the first in each, the second and third, the
--    fourth to seventh and so on. A mean that rises says that big directories cost. What was in a directory before the
--    run is not counted.
WITH placed AS (
    SELECT fs_ns, row_number() OVER (PARTITION BY parent ORDER BY seq) AS place, parent
      FROM op
     WHERE run = :run AND result >= 0 AND op IN (SELECT code FROM op_type WHERE name IN ('create', 'mkdir', 'mknod', 'symlink'))),
buckets AS (
    SELECT CAST(log2(place) AS INTEGER) AS bucket, fs_ns, parent,
           row_number() OVER (PARTITION BY CAST(log2(place) AS INTEGER) ORDER BY fs_ns) AS rank,
           count(*) OVER (PARTITION BY CAST(log2(place) AS INTEGER)) AS n
      FROM placed)
SELECT 1 << bucket AS from_entry, (2 << bucket) - 1 AS to_entry, count(DISTINCT parent) AS directories, n AS count,
       sum(fs_ns) AS fs_ns, sum(fs_ns) / n AS mean_ns, min(fs_ns) FILTER (WHERE rank * 100 >= n * 50) AS p50_ns,
       min(fs_ns) FILTER (WHERE rank * 100 >= n * 99) AS p99_ns, max(fs_ns) AS max_ns
  FROM buckets
 GROUP BY bucket
 ORDER BY bucket;

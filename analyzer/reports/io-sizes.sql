-- SPDX-License-Identifier: MIT
-- title: Small and large reads and writes
-- about: Reads and writes by the number of bytes that they moved: how many, their share of all reads or writes, bytes,
--    time in the filesystem and bytes per second of that time. Many below 4096 bytes say that a buffer is missing.
WITH moved AS (
    SELECT op, max(result, 0) AS bytes, result < 0 AS failed, count(*) AS n, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op WHERE run = :run AND op IN (SELECT code FROM op_type WHERE name IN ('read', 'write'))
     GROUP BY 1, 2, 3),
sized AS (
    SELECT *, CASE WHEN failed THEN -1 WHEN bytes = 0 THEN 0 WHEN bytes < 512 THEN 1 WHEN bytes < 4096 THEN 512
                   WHEN bytes = 4096 THEN 4096 WHEN bytes < 65536 THEN 4097 WHEN bytes < 1048576 THEN 65536
                   ELSE 1048576 END AS least
      FROM moved)
SELECT (SELECT name FROM op_type WHERE code = s.op) AS op,
       CASE least WHEN -1 THEN 'failed' WHEN 0 THEN 'nothing' WHEN 1 THEN '1-511' WHEN 512 THEN '512-4095'
                  WHEN 4096 THEN '4096' WHEN 4097 THEN '4097-64Ki' WHEN 65536 THEN '64Ki-1Mi' ELSE '1Mi' END AS size,
       sum(n) AS count, 1.0 * sum(n) / sum(sum(n)) OVER (PARTITION BY s.op) AS share, sum(n * bytes) AS bytes,
       sum(fs_ns) AS fs_ns, sum(fs_ns) / sum(n) AS mean_ns, sum(dur_ns) AS dur_ns,
       CAST(1e9 * sum(n * bytes) / nullif(sum(fs_ns), 0) AS INTEGER) AS bytes_each_second
  FROM sized AS s
 GROUP BY s.op, least
 ORDER BY op, least;

-- SPDX-License-Identifier: MIT
-- title: Hot and cold directories
-- about: Requests by the directory that their object is in (listings by the directory itself): number, different names,
--    requests per name, what was created, time and its share. 'order=cold' begins with those that cost least.
-- param order=hot: 'hot' for the most time first, 'cold' for the least
-- param limit=30: how many rows
WITH by_path AS (
    SELECT path, op IN (SELECT code FROM op_type WHERE class = 'dir') AS itself, count(*) AS n, sum(result < 0) AS errors,
           sum(result >= 0 AND op IN (SELECT code FROM op_type WHERE name IN ('create', 'mkdir', 'symlink', 'mknod'))) AS created,
           sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op WHERE run = :run AND path IS NOT NULL GROUP BY 1, 2),
by_directory AS (
    SELECT CASE WHEN itself OR p.parent = 0 THEN p.id ELSE p.parent END AS directory, sum(n) AS requests,
           count(DISTINCT p.id) AS names, sum(created) AS created, sum(errors) AS errors, sum(fs_ns) AS fs_ns,
           sum(dur_ns) AS dur_ns
      FROM by_path AS b JOIN path AS p ON p.run = :run AND p.id = b.path GROUP BY 1)
SELECT coalesce(nullif(p.path, ''), '.') AS path, requests, names, 1.0 * requests / names AS requests_per_name, created, errors,
       fs_ns, fs_ns / requests AS mean_ns, 1.0 * fs_ns / nullif(sum(fs_ns) OVER (), 0) AS share, dur_ns
  FROM by_directory AS d JOIN path AS p ON p.run = :run AND p.id = d.directory
 ORDER BY CASE WHEN :order = 'cold' THEN fs_ns ELSE -fs_ns END, p.path
 LIMIT :limit;

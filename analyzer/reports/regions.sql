-- SPDX-License-Identifier: MIT
-- title: Regions that git itself names, with the requests made in them
-- about: Parts of git's work by name, 'outer > inner': how often, their time (with what is inside them), and the requests
--    for which it is the innermost region.
-- param limit=40: how many rows
WITH times AS (
    SELECT path, count(*) AS regions, sum(end_ns - start_ns) AS total_ns, max(end_ns - start_ns) AS longest_ns
      FROM git_region WHERE run = :run GROUP BY path),
by_region AS (
    SELECT region, count(*) AS n, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns FROM git_op WHERE run = :run GROUP BY region),
requests AS (
    SELECT r.path, sum(n) AS n, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM by_region AS b JOIN git_region AS r ON r.run = :run AND r.id = b.region GROUP BY r.path)
SELECT t.path AS region, regions, total_ns, longest_ns, coalesce(n, 0) AS requests, coalesce(fs_ns, 0) AS fs_ns,
       coalesce(dur_ns, 0) AS dur_ns
  FROM times AS t LEFT JOIN requests AS q ON q.path = t.path
 ORDER BY total_ns DESC, region
 LIMIT :limit;

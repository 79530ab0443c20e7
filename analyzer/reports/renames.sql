-- SPDX-License-Identifier: MIT
-- title: Renames, links and symbolic links
-- about: What kind of name becomes what kind ('from', 'to': class of path_class, '.lock' added for lock files), how
--    often, the time it took, and an example. A link is from the old name to the new one.
WITH moved AS (
    SELECT t.name AS op, o.result, o.fs_ns, o.dur_ns, o.seq,
           CASE WHEN t.name = 'link' THEN e.path2 ELSE o.path END AS source,
           CASE WHEN t.name = 'link' THEN o.path ELSE e.path2 END AS target
      FROM op AS o JOIN op_type AS t ON t.code = o.op LEFT JOIN op_extra AS e ON e.run = o.run AND e.id = o.extra
     WHERE o.run = :run AND o.op IN (SELECT code FROM op_type WHERE name IN ('rename', 'link', 'symlink')))
SELECT m.op, a.class || CASE WHEN a.lock THEN '.lock' ELSE '' END AS "from",
       CASE WHEN m.op = 'symlink' THEN NULL ELSE b.class || CASE WHEN b.lock THEN '.lock' ELSE '' END END AS "to",
       count(*) AS count, sum(m.result < 0) AS errors, sum(m.fs_ns) AS fs_ns, sum(m.fs_ns) / count(*) AS mean_ns,
       max(m.fs_ns) AS max_ns, sum(m.dur_ns) AS dur_ns, min(a.path) AS path, min(b.path) AS path2
  FROM moved AS m
  LEFT JOIN path_class AS a ON a.run = :run AND a.id = m.source
  LEFT JOIN path_class AS b ON b.run = :run AND b.id = m.target
 GROUP BY 1, 2, 3
 ORDER BY fs_ns DESC, 1, 2, 3;

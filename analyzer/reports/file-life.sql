-- SPDX-License-Identifier: MIT
-- title: Life of a file that is written out: its steps, and what each costs
-- about: All requests about files that the run created outside of a .git, as git does at a checkout: how often each
--    step happens per file, and its time per file, in the order of their first appearance. The last row is a whole
--    file. Steps that failed as expected have the error in brackets.
WITH made AS MATERIALIZED (
    SELECT o.node, o.path
      FROM op AS o JOIN path_class AS c ON c.run = :run AND c.id = o.path AND c.class IN ('worktree', 'outside')
     WHERE o.run = :run AND o.result >= 0 AND o.op = (SELECT code FROM op_type WHERE name = 'create')),
steps AS (
    SELECT op, CASE WHEN result < 0 THEN -result END AS error, min(seq) AS seq, count(*) AS n,
           sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op
     WHERE run = :run AND (node IN (SELECT node FROM made) OR (node IS NULL AND result < 0 AND path IN (SELECT path FROM made)))
     GROUP BY 1, 2),
files AS (SELECT count(*) AS n, 0 AS last FROM made)
SELECT (SELECT name FROM op_type WHERE code = op)
       || coalesce(' [' || coalesce((SELECT name FROM errno WHERE code = error), error) || ']', '') AS step,
       s.n AS count, 1.0 * s.n / f.n AS times_per_file, fs_ns / s.n AS mean_fs_ns, fs_ns / f.n AS fs_per_file_ns,
       dur_ns / f.n AS dur_per_file_ns, 1.0 * fs_ns / nullif(sum(fs_ns) OVER (), 0) AS share
  FROM (SELECT * FROM steps ORDER BY seq) AS s, files AS f
UNION ALL
SELECT 'a whole file', f.n, 1.0 * sum(s.n) / f.n, sum(fs_ns) / sum(s.n), sum(fs_ns) / f.n, sum(dur_ns) / f.n, 1.0
  FROM steps AS s, files AS f HAVING f.n > 0;

-- SPDX-License-Identifier: MIT
-- title: Probes for what does not exist
-- about: Requests that failed with ENOENT: who asks for what, how often, for how many names, and the time it cost.
--    Names inside a .git are listed one by one, others by their directory. 'created' is how many of the names the run
--    made: asking for those is a part of making them.
-- param limit=30: how many rows
WITH missed AS (
    SELECT path, process, op, count(*) AS n, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op WHERE run = :run AND result = (SELECT -code FROM errno WHERE name = 'ENOENT')
     GROUP BY path, process, op),
made AS (
    SELECT path FROM op
     WHERE run = :run AND result >= 0 AND op IN (SELECT code FROM op_type WHERE name IN ('create', 'mkdir', 'mknod', 'symlink'))),
named AS MATERIALIZED (
    SELECT (SELECT w.comm FROM process AS w WHERE w.run = :run AND w.id = m.process) AS comm, op, class,
           CASE WHEN class IN ('worktree', 'outside') THEN c.parent ELSE c.id END AS what,
           class IN ('worktree', 'outside') AS many,
           m.path, n, fs_ns, dur_ns, m.path IN (SELECT path FROM made) AS made
      FROM missed AS m JOIN path_class AS c ON c.run = :run AND c.id = m.path)
SELECT comm, (SELECT name FROM op_type WHERE code = n.op) AS op, class, sum(n) AS count,
       count(DISTINCT n.path) AS names, count(DISTINCT CASE WHEN made THEN n.path END) AS created,
       sum(fs_ns) AS fs_ns, sum(fs_ns) / sum(n) AS mean_ns, sum(dur_ns) AS dur_ns,
       CASE WHEN many THEN coalesce(nullif(p.path, '') || '/', '') || '*' ELSE p.path END AS path
  FROM named AS n LEFT JOIN path AS p ON p.run = :run AND p.id = n.what
 GROUP BY comm, n.op, class, many, what
 ORDER BY dur_ns DESC, 10
 LIMIT :limit;

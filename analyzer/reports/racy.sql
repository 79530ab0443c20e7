-- SPDX-License-Identifier: MIT
-- title: Files that git read again, and why
-- about: Files of the worktree whose contents git read, by command: 'same second' are racy, as young as the index was, so
--    that git does not trust what it noted of them; 'younger' were changed after it; 'older' were wanted for another
--    reason. Times are compared in whole seconds, as git does. Reads of what the run itself wrote count by when.
WITH reads AS (
    SELECT path, process, min(seq) AS seq, count(*) AS n, sum(result) AS bytes, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op
     WHERE run = :run AND result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'read')
       AND process IN (SELECT id FROM process WHERE run = :run AND comm GLOB 'git*')
     GROUP BY path, process),
files AS MATERIALIZED (
    SELECT r.*, c.path AS name, (SELECT g.path FROM repository AS g
                WHERE g.run = :run AND (g.path = '' OR substr(c.path, 1, length(g.path) + 1) = g.path || '/')
                ORDER BY length(g.path) DESC LIMIT 1) AS repository
      FROM reads AS r JOIN path_class AS c ON c.run = :run AND c.id = r.path AND c.class = 'worktree'),
index_paths AS MATERIALIZED (
    SELECT id, rtrim(substr(path, 1, length(path) - length('.git/index')), '/') AS repository
      FROM path WHERE run = :run AND (path = '.git/index' OR path GLOB '*/.git/index')),
wanted AS MATERIALIZED (SELECT path FROM files UNION SELECT id FROM index_paths),
-- When contents changed, as the run's seq and as wall clock: before the run, by writing, by renaming onto the name.
changes AS MATERIALIZED (
    SELECT path, 0 AS seq, mtime_ns AS real_ns FROM initial WHERE run = :run AND path IN (SELECT path FROM wanted)
     UNION ALL
    SELECT path, seq, start_ns + (SELECT start_real_ns FROM run WHERE id = :run) FROM op
     WHERE run = :run AND result >= 0 AND op IN (SELECT code FROM op_type WHERE name IN ('create', 'write'))
       AND path IN (SELECT path FROM wanted)
     UNION ALL
    SELECT path2, seq, start_ns + (SELECT start_real_ns FROM run WHERE id = :run) FROM op
     WHERE run = :run AND result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'rename')
       AND path2 IN (SELECT path FROM wanted)),
-- Without GROUP BY these would be looked up for every read; max() takes the other column along from its row.
changed AS (
    SELECT f.path, f.process, max(h.seq), h.real_ns FROM files AS f JOIN changes AS h ON h.path = f.path AND h.seq < f.seq
     GROUP BY f.path, f.process),
noted AS (
    SELECT f.path, f.process, max(h.seq), h.real_ns
      FROM files AS f JOIN index_paths AS x ON x.repository = f.repository JOIN changes AS h ON h.path = x.id AND h.seq < f.seq
     GROUP BY f.path, f.process)
SELECT coalesce(CASE (c.real_ns / 1000000000 > n.real_ns / 1000000000) - (c.real_ns / 1000000000 < n.real_ns / 1000000000)
                WHEN 0 THEN 'same second' WHEN 1 THEN 'younger' ELSE 'older' END, 'unknown') AS why,
       count(DISTINCT f.path) AS files, sum(f.n) AS reads, sum(f.bytes) AS bytes, sum(f.fs_ns) AS fs_ns, sum(f.dur_ns) AS dur_ns,
       w.cmdline AS command, min(f.name) AS example
  FROM files AS f
  LEFT JOIN changed AS c ON c.path = f.path AND c.process = f.process
  LEFT JOIN noted AS n ON n.path = f.path AND n.process = f.process
  JOIN process AS w ON w.run = :run AND w.id = f.process
 GROUP BY why, command
 ORDER BY files DESC, why, command;

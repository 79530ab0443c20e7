-- SPDX-License-Identifier: MIT
-- title: Files that git read again, and why
-- about: Files of the worktree whose contents git read, by command: 'same second' are racy, as young as the index was, so
--    that git does not trust what it noted of them; 'younger' were changed after it; 'older' were wanted for another
--    reason. Times are compared in whole seconds, as git does. Reads of what the run itself wrote count by when.
WITH reads AS MATERIALIZED (
    SELECT path, process, min(seq) AS seq, count(*) AS n, sum(result) AS bytes, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op
     WHERE run = :run AND result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'read')
       AND process IN (SELECT id FROM process WHERE run = :run AND comm GLOB 'git*')
     GROUP BY path, process),
roots AS MATERIALIZED (SELECT path, path || '/' AS inside FROM repository WHERE run = :run),
files AS MATERIALIZED (
    SELECT r.*, c.path AS name, (SELECT g.path FROM roots AS g WHERE g.path = '' OR substr(c.path, 1, length(g.inside)) = g.inside
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
    SELECT path2, seq, start_ns + (SELECT start_real_ns FROM run WHERE id = :run)
      FROM op AS o JOIN op_extra AS e ON e.run = o.run AND e.id = o.extra
     WHERE o.run = :run AND result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'rename')
       AND path2 IN (SELECT path FROM wanted)),
-- The last change before each read, of the file and of its index: by a walk over both in order. To compare each read
-- with each change would take for ever where the same files are written and read again and again.
changed AS (
    SELECT *, first_value(real_ns) OVER (PARTITION BY path, nth ORDER BY seq) AS changed_ns
      FROM (SELECT *, count(real_ns) OVER (PARTITION BY path ORDER BY seq ROWS UNBOUNDED PRECEDING) AS nth
              FROM (SELECT path, seq, real_ns, NULL AS process, NULL AS n, NULL AS bytes, NULL AS fs_ns, NULL AS dur_ns,
                           NULL AS name, NULL AS repository FROM changes
                     UNION ALL
                    SELECT path, seq, NULL, process, n, bytes, fs_ns, dur_ns, name, repository FROM files))),
noted AS (
    SELECT *, first_value(real_ns) OVER (PARTITION BY repository, nth ORDER BY seq) AS noted_ns
      FROM (SELECT *, count(real_ns) OVER (PARTITION BY repository ORDER BY seq ROWS UNBOUNDED PRECEDING) AS nth
              FROM (SELECT x.repository, h.seq, h.real_ns, NULL AS path, NULL AS process, NULL AS n, NULL AS bytes,
                           NULL AS fs_ns, NULL AS dur_ns, NULL AS name, NULL AS changed_ns
                      FROM index_paths AS x JOIN changes AS h ON h.path = x.id
                     UNION ALL
                    SELECT repository, seq, NULL, path, process, n, bytes, fs_ns, dur_ns, name, changed_ns
                      FROM changed WHERE process IS NOT NULL)))
SELECT coalesce(CASE (changed_ns / 1000000000 > noted_ns / 1000000000) - (changed_ns / 1000000000 < noted_ns / 1000000000)
                WHEN 0 THEN 'same second' WHEN 1 THEN 'younger' ELSE 'older' END, 'unknown') AS why,
       count(DISTINCT path) AS files, sum(n) AS reads, sum(bytes) AS bytes, sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns,
       (SELECT w.cmdline FROM process AS w WHERE w.run = :run AND w.id = noted.process) AS command, min(name) AS example
  FROM noted
 WHERE process IS NOT NULL
 GROUP BY why, command
 ORDER BY files DESC, why, command;

-- SPDX-License-Identifier: MIT
-- title: What of git the time goes to: packs, objects, refs, index, worktree
-- about: Requests by what their path is to git (the view path_class): number, different paths, creates, bytes read and
--    written, time and its share. Lock files count for what they lock.
WITH by_path AS (
    SELECT path, count(*) AS n, sum(result < 0) AS errors,
           sum(result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'create')) AS created,
           sum(CASE WHEN result > 0 AND op = (SELECT code FROM op_type WHERE name = 'read') THEN result ELSE 0 END) AS read,
           sum(CASE WHEN result > 0 AND op = (SELECT code FROM op_type WHERE name = 'write') THEN result ELSE 0 END) AS written,
           sum(fs_ns) AS fs_ns, sum(dur_ns) AS dur_ns
      FROM op WHERE run = :run GROUP BY path)
SELECT coalesce(c.class, 'none') AS class, sum(n) AS requests, count(*) AS paths, sum(created) AS created, sum(errors) AS errors,
       sum(read) AS bytes_read, sum(written) AS bytes_written, sum(fs_ns) AS fs_ns,
       1.0 * sum(fs_ns) / nullif(sum(sum(fs_ns)) OVER (), 0) AS share, sum(dur_ns) AS dur_ns
  FROM by_path AS b LEFT JOIN path_class AS c ON c.run = :run AND c.id = b.path
 GROUP BY 1
 ORDER BY fs_ns DESC, class;

-- SPDX-License-Identifier: MIT
-- title: Phases of git: wall time, requests, and time in the filesystem
-- about: 'wall' is the time in which a phase was in the foreground: these add up to the run's. Requests, creates, errors,
--    bytes and times are of all that was done in the phase, in the background too. 'share' is of the time in the
--    filesystem; 'about' says what the phase is. The 'wall' of 'fstape git' differs: that puts the requests of
--    'git, other' down to the phases that their paths tell.
WITH spans AS (SELECT phase, sum(end_ns - start_ns) AS wall_ns FROM git_span WHERE run = :run GROUP BY phase),
requests AS (
    SELECT phase, count(*) AS n, sum(o.result < 0) AS errors,
           sum(o.result >= 0 AND o.op = (SELECT code FROM op_type WHERE name = 'create')) AS created,
           sum(CASE WHEN o.result > 0 AND o.op = (SELECT code FROM op_type WHERE name = 'read') THEN o.result ELSE 0 END) AS read,
           sum(CASE WHEN o.result > 0 AND o.op = (SELECT code FROM op_type WHERE name = 'write') THEN o.result ELSE 0 END) AS written,
           sum(o.fs_ns) AS fs_ns, sum(o.dur_ns) AS dur_ns
      FROM git_op AS o WHERE run = :run GROUP BY phase)
SELECT p.name AS phase, coalesce(s.wall_ns, 0) AS wall_ns, coalesce(n, 0) AS requests, coalesce(errors, 0) AS errors,
       coalesce(created, 0) AS created, coalesce(read, 0) AS bytes_read, coalesce(written, 0) AS bytes_written,
       coalesce(fs_ns, 0) AS fs_ns, 1.0 * coalesce(fs_ns, 0) / nullif(sum(fs_ns) OVER (), 0) AS share,
       coalesce(dur_ns, 0) AS dur_ns, p.description AS about
  FROM git_phase AS p LEFT JOIN spans AS s ON s.phase = p.id LEFT JOIN requests AS r ON r.phase = p.id
 WHERE s.phase IS NOT NULL OR r.phase IS NOT NULL
 ORDER BY wall_ns DESC, fs_ns DESC, p.id;

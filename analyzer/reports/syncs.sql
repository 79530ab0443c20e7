-- SPDX-License-Identifier: MIT
-- title: Syncs, and what they waited for
-- about: fsync and fsyncdir, the slowest first: bytes and number of writes to that file since it was synced before,
--    and how many other requests came in meanwhile ('meanwhile', counted up to 10,000): with none the program stood
--    still. 'share' is of all time in the filesystem.
-- param limit=20: how many rows
WITH syncs AS MATERIALIZED (
    SELECT seq, op, node, path, process, start_ns, dur_ns, fs_ns, result
      FROM op WHERE run = :run AND op IN (SELECT code FROM op_type WHERE class = 'sync')),
writes AS (
    SELECT seq, node, result AS bytes FROM op
     WHERE run = :run AND result >= 0 AND op = (SELECT code FROM op_type WHERE name = 'write')
       AND node IN (SELECT node FROM syncs)
     UNION ALL SELECT seq, node, NULL FROM syncs),
epochs AS (
    SELECT *, count(*) FILTER (WHERE bytes IS NULL) OVER (PARTITION BY node ORDER BY seq DESC ROWS UNBOUNDED PRECEDING) AS epoch
      FROM writes),
dirty AS (
    SELECT max(seq) FILTER (WHERE bytes IS NULL) AS seq, count(bytes) AS writes, sum(bytes) AS bytes
      FROM epochs WHERE epoch > 0 GROUP BY node, epoch)
SELECT s.start_ns AS at_ns, (SELECT name FROM op_type WHERE code = s.op) AS op, s.fs_ns, s.dur_ns,
       1.0 * s.fs_ns / nullif((SELECT sum(fs_ns) FROM op WHERE run = :run), 0) AS share,
       d.writes, coalesce(d.bytes, 0) AS bytes,
       (SELECT count(*) FROM op AS o
         WHERE o.run = :run AND o.seq > s.seq AND o.seq <= s.seq + 10000 AND o.start_ns < s.start_ns + s.dur_ns) AS meanwhile,
       w.comm, p.path
  FROM (SELECT * FROM syncs ORDER BY fs_ns DESC, seq LIMIT :limit) AS s
  JOIN dirty AS d ON d.seq = s.seq
  LEFT JOIN process AS w ON w.run = :run AND w.id = s.process
  LEFT JOIN path AS p ON p.run = :run AND p.id = s.path
 ORDER BY s.fs_ns DESC, s.seq;

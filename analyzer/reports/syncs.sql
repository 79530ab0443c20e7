-- SPDX-License-Identifier: MIT
-- title: Syncs, and what they waited for
-- about: fsync and fsyncdir, the slowest first: bytes and number of writes to that file since it was synced before,
--    and how many other requests came in meanwhile ('meanwhile', counted up to 10,000): with none the program stood
--    still. 'share' is of all time in the filesystem. 'flushes' and 'flush' are the disk's cache flushes, and their
--    time, from the sample of the machine before it to the one after, a tenth of a second apart; of several disks,
--    which may lie one below the other, the highest.
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
      FROM epochs WHERE epoch > 0 GROUP BY node, epoch),
-- Only changes of a counter are stored: when a sample was taken, any of them tells.
slowest AS MATERIALIZED (
    SELECT *, (SELECT max(time_ns) FROM host_value WHERE run = :run AND time_ns <= start_ns) AS sample_before,
           (SELECT min(time_ns) FROM host_value WHERE run = :run AND time_ns >= start_ns + dur_ns) AS sample_after
      FROM (SELECT * FROM syncs ORDER BY fs_ns DESC, seq LIMIT :limit)),
counted AS (
    SELECT s.seq, c.name,
           (SELECT value FROM host_value AS v WHERE v.run = :run AND v.counter = c.id AND v.time_ns <= s.sample_after
             ORDER BY time_ns DESC LIMIT 1)
         - (SELECT value FROM host_value AS v WHERE v.run = :run AND v.counter = c.id AND v.time_ns <= s.sample_before
             ORDER BY time_ns DESC LIMIT 1) AS added
      FROM slowest AS s JOIN host_counter AS c ON c.run = :run AND c.source GLOB 'disk:*' AND c.name IN ('flushes', 'flush_time')),
disks AS (
    SELECT seq, max(added) FILTER (WHERE name = 'flushes') AS flushes, max(added) FILTER (WHERE name = 'flush_time') AS flush_ns
      FROM counted GROUP BY seq)
SELECT s.start_ns AS at_ns, (SELECT name FROM op_type WHERE code = s.op) AS op, s.fs_ns, s.dur_ns,
       1.0 * s.fs_ns / nullif((SELECT sum(fs_ns) FROM op WHERE run = :run), 0) AS share,
       d.writes, coalesce(d.bytes, 0) AS bytes,
       (SELECT count(*) FROM op AS o
         WHERE o.run = :run AND o.seq > s.seq AND o.seq <= s.seq + 10000 AND o.start_ns < s.start_ns + s.dur_ns) AS meanwhile,
       k.flushes, k.flush_ns, w.comm, p.path
  FROM slowest AS s
  JOIN dirty AS d ON d.seq = s.seq
  LEFT JOIN disks AS k ON k.seq = s.seq
  LEFT JOIN process AS w ON w.run = :run AND w.id = s.process
  LEFT JOIN path AS p ON p.run = :run AND p.id = s.path
 ORDER BY s.fs_ns DESC, s.seq;

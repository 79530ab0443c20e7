-- views.sql - what people query. Made anew whenever a database is opened for writing by another version.

-- One row per operation, with names for codes and times relative to the run's start.
-- The names come from scalar subqueries, so that a query pays only for the columns that it uses.
CREATE VIEW ops AS
SELECT op.run, op.seq, op.start_ns, op.dur_ns, op.fs_ns,
       (SELECT t.name FROM op_type AS t WHERE t.code = op.op) AS op,
       (SELECT t.class FROM op_type AS t WHERE t.code = op.op) AS class,
       (SELECT p.path FROM path AS p WHERE p.run = op.run AND p.id = op.path) AS path,
       (SELECT p.path FROM path AS p WHERE p.run = op.run AND p.id = op.path2) AS path2,
       op.node, op.parent, op.fh, op.offset, op.length,
       max(op.result, 0) AS result,
       CASE WHEN op.result < 0
            THEN coalesce((SELECT e.name FROM errno AS e WHERE e.code = -op.result), 'E' || -op.result)
       END AS error,
       (SELECT w.pid FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS pid,
       (SELECT w.tid FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS tid,
       (SELECT w.comm FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS comm,
       op.flags, op.mode, op.args, op.process
  FROM op;

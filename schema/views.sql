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

-- Git repositories that a run met, by the names in front of their '.git/': '' is one at the mount's root, 'a/b' one
-- below, 'x.git' a bare one. Git looks at HEAD in each of them first.
CREATE VIEW repository AS
SELECT DISTINCT run, rtrim(substr(path, 1, length(path) - length('.git/HEAD')), '/') AS path
  FROM path WHERE path GLOB '*/.git/HEAD' OR path = '.git/HEAD'
UNION
SELECT DISTINCT run, substr(path, 1, length(path) - length('/HEAD'))
  FROM path WHERE path GLOB '*?.git/HEAD' AND path NOT GLOB '*/.git/HEAD';

-- What each path is to git, one row per path. `class`:
--   'worktree' files and directories beside a .git   'pack'   packs, their indexes, multi-pack-index, commit-graph
--   'object'   loose objects and their directories   'ref'    refs, packed-refs, HEAD and its kind
--   'index'    the index                             'config' config, info/, shallow, commondir, description
--   'hooks', 'log' (reflogs)                         'git'    whatever else there is in a .git
--   'outside'  of any repository that the run met
-- `lock` is 1 for X.lock, whose class is X's: writing the index is writing index.lock. Of submodules and linked
-- worktrees, what is in .git/modules/NAME and .git/worktrees/NAME is classed as if it were in .git itself.
CREATE VIEW path_class AS
SELECT run, id, parent, path, path GLOB '*.lock' AND inside IS NOT NULL AS lock,
       CASE
       WHEN inside IS NULL THEN
            CASE WHEN EXISTS (SELECT 1 FROM repository AS r WHERE r.run = p.run
                                 AND (r.path = '' OR p.path = r.path OR substr(p.path, 1, length(r.path) + 1) = r.path || '/'))
                 THEN 'worktree' ELSE 'outside' END
       WHEN inside GLOB '/refs*' OR inside GLOB '/worktrees/*/refs*' THEN 'ref'
       WHEN inside GLOB '/logs*' OR inside GLOB '/worktrees/*/logs*' THEN 'log'
       WHEN inside GLOB '*/objects/pack*' OR inside GLOB '*/objects/info/commit-graph*' THEN 'pack'
       WHEN inside GLOB '*/objects*' THEN 'object'
       WHEN inside GLOB '*/hooks*' THEN 'hooks'
       WHEN inside GLOB '*/refs*' OR inside GLOB '*/packed-refs*' OR inside GLOB '*HEAD' OR inside GLOB '*HEAD.lock' THEN 'ref'
       WHEN inside GLOB '*/logs*' THEN 'log'
       WHEN inside GLOB '*/index' OR inside GLOB '*/index.*' OR inside GLOB '*/sharedindex.*' THEN 'index'
       WHEN inside GLOB '*/config' OR inside GLOB '*/config.*' OR inside GLOB '*/info*' OR inside GLOB '*/shallow*'
            OR inside GLOB '*/commondir*' OR inside GLOB '*/description' THEN 'config'
       ELSE 'git'
       END AS class
  FROM (SELECT run, id, parent, path,
               CASE WHEN instr(path, '.git/') THEN substr(path, instr(path, '.git/') + 4)
                    WHEN path GLOB '*.git' THEN '/' END AS inside
          FROM path) AS p;

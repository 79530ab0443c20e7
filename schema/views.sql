-- views.sql - what people query. Made anew whenever a database is opened for writing by another version.

-- One row per operation, with names for codes and times relative to the run's start.
-- The names come from scalar subqueries, so that a query pays only for the columns that it uses.
CREATE VIEW ops AS
SELECT op.run, op.seq, op.start_ns, op.dur_ns, op.fs_ns,
       (SELECT t.name FROM op_type AS t WHERE t.code = op.op) AS op,
       (SELECT t.class FROM op_type AS t WHERE t.code = op.op) AS class,
       (SELECT p.path FROM path AS p WHERE p.run = op.run AND p.id = op.path) AS path,
       (SELECT p.path FROM path AS p WHERE p.run = op.run AND p.id =
               (SELECT e.path2 FROM op_extra AS e WHERE e.run = op.run AND e.id = op.extra)) AS path2,
       op.node, op.parent, op.fh, op.offset, op.length,
       max(op.result, 0) AS result,
       CASE WHEN op.result < 0
            THEN coalesce((SELECT e.name FROM errno AS e WHERE e.code = -op.result), 'E' || -op.result)
       END AS error,
       (SELECT w.pid FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS pid,
       (SELECT w.tid FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS tid,
       (SELECT w.comm FROM process AS w WHERE w.run = op.run AND w.id = op.process) AS comm,
       (SELECT e.flags FROM op_extra AS e WHERE e.run = op.run AND e.id = op.extra) AS flags,
       (SELECT e.mode FROM op_extra AS e WHERE e.run = op.run AND e.id = op.extra) AS mode,
       (SELECT e.args FROM op_extra AS e WHERE e.run = op.run AND e.id = op.extra) AS args,
       op.process
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
WITH roots AS MATERIALIZED (SELECT run, path, path || '/' AS inside FROM repository)
SELECT run, id, parent, path, path GLOB '*.lock' AND inside IS NOT NULL AS lock,
       CASE
       WHEN inside IS NULL THEN
            CASE WHEN EXISTS (SELECT 1 FROM roots AS r WHERE r.run = p.run
                                 AND (r.path = '' OR p.path = r.path OR substr(p.path, 1, length(r.inside)) = r.inside))
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

-- The phase of git's work (git_phase.id), three rules, used when a run ends: a region's own, else that of the region
-- around it; else the command's; else that of the path. An operation of a region that has no phase takes the next one.
CREATE VIEW git_region_rule AS
SELECT r.run, r.id,
       CASE
       WHEN r.category = 'unpack_trees' THEN
            CASE WHEN c.name IN ('status', 'commit', 'diff', 'diff-index', 'diff-files', 'describe', 'add', 'log', 'show')
                 THEN 14 ELSE 10 END
       WHEN r.category = 'index' AND r.label LIKE '%read%' AND r.label <> 'preload' THEN 11
       WHEN r.category = 'index' AND r.label IN ('preload', 'refresh') THEN 12
       WHEN r.category = 'index' AND r.label LIKE '%write%' THEN 13
       WHEN r.category IN ('fetch-pack', 'negotiation_v0_v1', 'negotiation_v2', 'fetch', 'transport', 'push', 'transport_push')
            THEN 6
       WHEN r.category = 'status' AND r.label = 'untracked' OR r.category IN ('dir', 'read_directory') THEN 15
       WHEN r.category IN ('status', 'diff', 'diffcore-rename') THEN 14
       WHEN r.category = 'cache_tree' AND r.label = 'update' AND c.name NOT IN ('clone', 'checkout', 'switch', 'reset') THEN 16
       WHEN r.category = 'pack-objects' THEN 18
       WHEN r.category IN ('midx', 'commit-graph', 'chunkfile', 'prune', 'repack', 'maintenance') THEN 19
       WHEN r.category = 'progress' AND r.label LIKE '%pdating files%' THEN 10
       WHEN r.category = 'progress' AND (r.label LIKE '%ndexing objects%' OR r.label LIKE '%eceiving objects%'
            OR r.label LIKE '%esolving deltas%' OR r.label LIKE '%npacking objects%') THEN 8
       WHEN r.category = 'progress' AND r.label LIKE '%efresh index%' THEN 12
       END AS phase
  FROM git_region AS r JOIN git_command AS c ON c.run = r.run AND c.id = r.command;

CREATE VIEW git_command_rule AS
SELECT run, id,
       CASE
       WHEN name IN ('index-pack', 'unpack-objects', 'fetch-pack', 'http-fetch') THEN 8
       WHEN name IN ('upload-pack', 'receive-pack', 'send-pack', 'upload-archive') THEN 7
       WHEN name = 'rev-list' AND parent IS NOT NULL THEN 9
       WHEN name = 'checkout--worker' THEN 10
       WHEN name = 'pack-objects' THEN 18
       WHEN name IN ('gc', 'maintenance', 'repack', 'prune', 'prune-packed', 'pack-refs', 'reflog', 'rerere',
            'commit-graph', 'multi-pack-index', 'fsck') OR (name = 'worktree' AND argv GLOB '*worktree prune*') THEN 19
       WHEN name IN ('remote-http', 'remote-https', 'remote-ext', 'ls-remote') THEN 6
       END AS phase,
       -- instead of the path's own for files of the worktree: 'checkout -- PATH' has no region
       CASE
       WHEN name IN ('clone', 'checkout', 'switch', 'restore', 'reset', 'read-tree', 'checkout-index', 'merge', 'rebase', 'pull',
            'cherry-pick', 'revert', 'am', 'apply', 'stash', 'worktree', 'submodule') THEN 10
       END AS worktree_phase
  FROM git_command;

CREATE VIEW path_phase AS
SELECT run, id,
       CASE class
       WHEN 'worktree' THEN 20
       WHEN 'outside' THEN 20
       WHEN 'pack' THEN CASE WHEN path GLOB '*/tmp_*' THEN 8 ELSE 17 END
       WHEN 'object' THEN CASE WHEN path GLOB '*/tmp_*' THEN 16 ELSE 17 END
       WHEN 'index' THEN CASE WHEN lock THEN 13 ELSE 11 END
       WHEN 'git' THEN 4
       ELSE 5
       END AS phase
  FROM path_class;

-- The table `op` with git_range's ids: scalar subqueries again, as most questions are about one of them. NULL: the run
-- has not been attributed.
CREATE VIEW git_op AS
SELECT o.*,
       (SELECT r.command FROM git_range AS r WHERE r.run = o.run AND r.process = o.process AND r.seq <= o.seq
         ORDER BY r.seq DESC LIMIT 1) AS command,
       (SELECT r.region FROM git_range AS r WHERE r.run = o.run AND r.process = o.process AND r.seq <= o.seq
         ORDER BY r.seq DESC LIMIT 1) AS region,
       (SELECT r.phase FROM git_range AS r WHERE r.run = o.run AND r.process = o.process AND r.seq <= o.seq
         ORDER BY r.seq DESC LIMIT 1) AS phase
  FROM op AS o;

-- The operations with git's story: `command` is the argv of the git process or of the other program, `region` the
-- innermost region with those around it.
CREATE VIEW git_ops AS
SELECT o.*,
       coalesce((SELECT c.argv FROM git_command AS c WHERE c.run = o.run AND c.id = g.command),
                (SELECT coalesce(w.cmdline, w.comm) FROM process AS w WHERE w.run = o.run AND w.id = o.process)
               ) AS command,
       (SELECT c.sid FROM git_command AS c WHERE c.run = o.run AND c.id = g.command) AS sid,
       (SELECT r.path FROM git_region AS r WHERE r.run = o.run AND r.id = g.region) AS region,
       (SELECT f.name FROM git_phase AS f WHERE f.id = g.phase) AS phase,
       g.command AS command_id, g.region AS region_id, g.phase AS phase_id
  FROM ops AS o LEFT JOIN git_range AS g ON g.run = o.run AND g.process = o.process
   AND g.seq = (SELECT max(r.seq) FROM git_range AS r WHERE r.run = o.run AND r.process = o.process AND r.seq <= o.seq);

-- One row per change of a counter of the machine; 'counter' values are cumulative, 'gauge' values are levels.
CREATE VIEW host_sample AS
SELECT v.run, v.time_ns, c.source, c.name, c.kind, c.unit, v.value, c.id AS counter
  FROM host_value AS v JOIN host_counter AS c ON c.run = v.run AND c.id = v.counter;

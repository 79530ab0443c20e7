-- schema.sql - the tables of a recording. Applied to a new database by trace_open(); views.sql follows it.
-- Times are nanoseconds, sizes bytes. Text that comes from file names or command lines is stored as a BLOB-safe
-- TEXT value: any bytes but NUL, not necessarily UTF-8.

-- What identifies this database ('uuid': a spool must match it) and how it was made.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per recording: what was recorded, under which conditions, and whether it is whole.
CREATE TABLE run (
    id              INTEGER PRIMARY KEY,
    label           TEXT,               -- chosen by the user; commands accept it for the number
    state           TEXT NOT NULL,      -- 'recording', 'finishing', 'done', 'recovered' (the recorder died);
                                        -- 'native': timed by bench without the shim, nothing recorded
    clean_end       INTEGER,            -- 1: ended by unmounting; 0: the recorder died, lost data, or ended before its
                                        -- command; NULL: not ended yet
    requests        INTEGER,            -- requests counted at dispatch
    recorded        INTEGER,            -- of these, stored in `op`
    dropped         INTEGER,            -- of these, lost; requests = recorded + dropped when all is known
    dropped_by_op   TEXT,               -- JSON object: operation name -> count, operations with losses only
    lost_from_ns    INTEGER,            -- when the first of the dropped operations was, the run's time; NULL: none was
    lost_to_ns      INTEGER,            -- and the last; what lies between may have gaps, seq tells which
    damaged         INTEGER,            -- spool segments that could not be read to their end
    data_lost       INTEGER,            -- pieces of contents that found no room (data=full)
    scan            TEXT,               -- how far `initial` has what the run did not meet: 'done', 'off', 'partial'
    scanned         INTEGER,            -- rows of `initial` from the walk after the run
    note            TEXT,               -- why the run is partial, in words
    source          TEXT,               -- the real directory
    mountpoint      TEXT,
    fs_type         TEXT,               -- of the source: 'ext4', 'xfs', ...
    fs_options      TEXT,               -- its mount options
    device          TEXT,               -- what it is mounted from
    cache           TEXT,               -- 'never', 'auto', 'always'
    entry_timeout_ns INTEGER,
    attr_timeout_ns INTEGER,
    overflow        TEXT,               -- 'block', 'drop'
    load            TEXT,               -- 'live', 'end'
    data            TEXT,               -- 'none', 'full'
    threads         INTEGER,            -- most worker threads at once
    transport       TEXT,               -- 'dev' (/dev/fuse), 'uring' (io_uring)
    wait            TEXT,               -- how a worker waits: 'auto', 'pool', 'sleep', 'poll', 'follow'
    modes           TEXT,               -- in which requests never arrive, names joined by ' ': schema/mode.c
    capabilities_offered TEXT,          -- by the kernel, names joined by ' '
    capabilities_taken   TEXT,
    mount_options   TEXT,               -- of the FUSE mount
    kernel          TEXT,               -- uname -r
    machine         TEXT,               -- uname -m
    cpus            INTEGER,
    libfuse         TEXT,
    sqlite          TEXT,
    version         TEXT,               -- of fstape
    daemon_pid      INTEGER,
    privileged      INTEGER,            -- 1: the shim ran with root's rights
    start_real_ns   INTEGER,            -- CLOCK_REALTIME at the run's time 0
    start_coarse_ns INTEGER,            -- CLOCK_REALTIME_COARSE, which file systems stamp with, then
    start_mono_ns   INTEGER,            -- CLOCK_MONOTONIC at the run's time 0
    end_ns          INTEGER,            -- the run's time of its end
    daemon_user_ns  INTEGER,            -- CPU time of the shim, loader included
    daemon_sys_ns   INTEGER,
    command         TEXT,               -- what was run in it: JSON array of its arguments
    exit_status     INTEGER,            -- the command's; 128 + N when signal N ended it
    real_ns         INTEGER,            -- the command's wall time
    user_ns         INTEGER,            -- CPU time of the command and all its children
    sys_ns          INTEGER,
    command_ns      INTEGER,            -- the run's time of the command's start
    clock_step_ns   INTEGER,            -- the largest step of the wall clock during the run; NULL: none was seen
    git_lines       INTEGER,            -- lines of git's trace that were read; NULL: there was none to read
    git_bad_lines   INTEGER,            -- of these, not understood: malformed, cut off
    git_note        TEXT,               -- what of git's own story is missing or not to be trusted, in words
    dir_readahead   INTEGER,            -- threads that read ahead what opened directories hold; 0: off
    bench           INTEGER,            -- the benchmark that it belongs to
    replay_of       TEXT,               -- of a replay: uuid of the database that has the original run,
    replay_run      INTEGER,            -- and that run's number; NULL: not a replay
    workload        TEXT,               -- set by bench: what, on which target, in which round, with cold caches or warm
    target          TEXT,
    round           INTEGER,
    caches          TEXT,               -- 'cold', 'warm'
    setup           TEXT                -- JSON object of bench: how target and repository were made, versions
) STRICT;

-- Clock readings, to convert between the run's time and wall clock time: real_ns was read between the other two.
CREATE TABLE clock_anchor (
    run       INTEGER NOT NULL REFERENCES run (id),
    before_ns INTEGER NOT NULL,         -- the run's time
    real_ns   INTEGER NOT NULL,         -- CLOCK_REALTIME
    after_ns  INTEGER NOT NULL,         -- the run's time
    PRIMARY KEY (run, before_ns)
) STRICT, WITHOUT ROWID;

-- Operation codes, classes and names, as in schema/ops.def of the version that wrote the database.
CREATE TABLE op_type (
    code   INTEGER PRIMARY KEY,
    name   TEXT NOT NULL UNIQUE,
    class  TEXT NOT NULL,
    replay INTEGER NOT NULL             -- 1: a replay issues it
) STRICT;

CREATE TABLE errno (
    code INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;

-- Threads that made requests, as they were: after exec, or when a tid is used again, there is a new row.
CREATE TABLE process (
    run         INTEGER NOT NULL REFERENCES run (id),
    id          INTEGER NOT NULL,
    tid         INTEGER NOT NULL,
    pid         INTEGER NOT NULL,       -- thread group: what ps calls PID
    ppid        INTEGER NOT NULL,
    uid         INTEGER NOT NULL,
    gid         INTEGER NOT NULL,
    start_ticks INTEGER NOT NULL,       -- since boot, clock ticks
    first_ns    INTEGER NOT NULL,       -- first seen, the run's time
    comm        TEXT NOT NULL,
    exe         TEXT,
    cmdline     TEXT,                   -- arguments joined by ' '
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Paths as they were when operations ran, relative to the mount's root ('' is the root). The same text may recur.
CREATE TABLE path (
    run    INTEGER NOT NULL REFERENCES run (id),
    id     INTEGER NOT NULL,
    parent INTEGER NOT NULL,            -- path id of the directory, 0 for the root
    path   TEXT NOT NULL,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- The operations. Query the view `ops` instead: it has names where this has codes and ids.
CREATE TABLE op (
    run      INTEGER NOT NULL REFERENCES run (id),
    seq      INTEGER NOT NULL,          -- order of arrival
    start_ns INTEGER NOT NULL,
    dur_ns   INTEGER NOT NULL,
    fs_ns    INTEGER NOT NULL,
    op       INTEGER NOT NULL REFERENCES op_type (code),
    process  INTEGER NOT NULL,
    path     INTEGER,
    node     INTEGER,
    parent   INTEGER,
    fh       INTEGER,
    offset   INTEGER,
    length   INTEGER,
    result   INTEGER NOT NULL,          -- count or 0, or -errno
    extra    INTEGER,                   -- op_extra: what else it has
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- Processor time of threads that made requests, read now and then when one had come, often with two in a row. From
-- /proc/TID/schedstat, since the thread began.
CREATE TABLE client_cpu (
    run      INTEGER NOT NULL,
    seq      INTEGER NOT NULL,          -- the request
    cpu_ns   INTEGER NOT NULL,          -- used
    delay_ns INTEGER NOT NULL,          -- ready to run, and waiting for a processor
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- What few operations have, or many of them alike: a NULL in each of the others takes space, and the same text again and
-- again takes more. Operations share a row, but the same may be there twice.
CREATE TABLE op_extra (
    run   INTEGER NOT NULL REFERENCES run (id),
    id    INTEGER NOT NULL,
    path2 INTEGER,                      -- path: the other name of rename and link, the target of a symlink, ...
    flags INTEGER,
    mode  INTEGER,
    args  TEXT,                         -- JSON object
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Operations of replays: the recorded one that each repeats, in the database and run that the replay's row names.
CREATE TABLE replayed (
    run      INTEGER NOT NULL REFERENCES run (id),
    seq      INTEGER NOT NULL,
    original INTEGER NOT NULL,          -- seq there
    expected INTEGER NOT NULL,          -- result there: count or 0, or -errno
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

-- What existed when the run began, by the paths of then: what the run met, and with `fstape record` all the rest.
CREATE TABLE initial (
    run      INTEGER NOT NULL REFERENCES run (id),
    path     INTEGER NOT NULL,
    seq      INTEGER NOT NULL,          -- the operation that found it; 0: none (the root, or the walk after the run)
    node     INTEGER,                   -- NULL: the run never met it
    parent   INTEGER,                   -- node of the directory it was found in; NULL: the root, or not met there
    dev      INTEGER NOT NULL,          -- names with the same dev and ino are hard links of one file
    ino      INTEGER NOT NULL,
    mode     INTEGER NOT NULL,          -- st_mode, with the type
    size     INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    nlink    INTEGER NOT NULL,
    uid      INTEGER NOT NULL,
    gid      INTEGER NOT NULL,
    rdev     INTEGER,                   -- of a device
    blocks   INTEGER,                   -- allocated, of 512 bytes
    target   TEXT,                      -- of a symlink
    PRIMARY KEY (run, path)
) STRICT, WITHOUT ROWID;

-- Inodes of the start that the kernel forgot and asked for again: their later nodes, and the one of their row in initial.
CREATE TABLE node_alias (
    run   INTEGER NOT NULL,
    node  INTEGER NOT NULL,
    first INTEGER,                      -- NULL: the run has not ended yet
    dev   INTEGER NOT NULL,
    ino   INTEGER NOT NULL,
    PRIMARY KEY (run, node)
) STRICT, WITHOUT ROWID;

-- Extended attributes of what the run left as it was.
CREATE TABLE initial_xattr (
    run   INTEGER NOT NULL,
    path  INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, path, name)
) STRICT, WITHOUT ROWID;

-- With data=full. Contents, each stored once for all runs.
CREATE TABLE content (
    hash   BLOB PRIMARY KEY,            -- XXH3, 128 bits, canonical form
    length INTEGER NOT NULL,            -- bytes, at most 64 KiB
    packed INTEGER NOT NULL,            -- 0: as it is; 1: a zstd frame
    bytes  BLOB NOT NULL
) STRICT;

-- The bytes that an operation wrote, copied (of its source), or read of an old file, in pieces.
CREATE TABLE data (
    run    INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    offset INTEGER NOT NULL,            -- in the file that the operation's node is
    length INTEGER NOT NULL,
    hash   BLOB NOT NULL,               -- in content
    PRIMARY KEY (run, seq, offset)
) STRICT, WITHOUT ROWID;

-- What old files held after the run, in pieces, by their paths before it; holes are left out. Where the run had written,
-- it is what it wrote.
CREATE TABLE initial_data (
    run    INTEGER NOT NULL,
    path   INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    hash   BLOB NOT NULL,
    PRIMARY KEY (run, path, offset)
) STRICT, WITHOUT ROWID;

-- How far each spool segment of an unfinished run has been loaded: written in the transaction that loads.
CREATE TABLE spool_mark (
    run        INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    loaded     INTEGER NOT NULL,        -- bytes
    PRIMARY KEY (run, slot)
) STRICT, WITHOUT ROWID;

-- Git's own story, from its trace2 events (https://git-scm.com/docs/api-trace2). All times are the run's.

-- One row per git process that told its story.
CREATE TABLE git_command (
    run        INTEGER NOT NULL REFERENCES run (id),
    id         INTEGER NOT NULL,
    parent     INTEGER,                 -- the git command that started it
    region     INTEGER,                 -- the parent's innermost region at that time
    phase      INTEGER,                 -- git_phase of what it does outside regions; NULL: its paths tell
    sid        TEXT NOT NULL,           -- session id; begins with the parent's
    pid        INTEGER NOT NULL,
    name       TEXT,                    -- 'clone', 'index-pack', ...
    hierarchy  TEXT,                    -- 'clone/index-pack'
    argv       TEXT,                    -- arguments joined by ' '
    version    TEXT,                    -- of git
    worktree   TEXT,
    start_ns   INTEGER NOT NULL,
    end_ns     INTEGER NOT NULL,        -- of its last event when its end is not told: exit_code is NULL then
    exit_code  INTEGER,                 -- 128 + N: ended by signal N
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Parts of a git command's work that git itself names.
CREATE TABLE git_region (
    run      INTEGER NOT NULL REFERENCES run (id),
    id       INTEGER NOT NULL,
    command  INTEGER NOT NULL,
    parent   INTEGER,                   -- the region around it in the same thread
    phase    INTEGER,                   -- git_phase
    thread   TEXT NOT NULL,             -- 'main', 'th02:preload_thread', ...
    nesting  INTEGER NOT NULL,          -- 1: outermost in its thread
    category TEXT NOT NULL,
    label    TEXT NOT NULL,
    message  TEXT,
    start_ns INTEGER NOT NULL,
    end_ns   INTEGER NOT NULL,          -- the command's when it was never left
    path     TEXT NOT NULL,             -- 'category/label', outer ones before it, ' > ' between; across processes
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- Programs that git commands started: other git commands, hooks, editors, filters, ssh.
CREATE TABLE git_child (
    run       INTEGER NOT NULL REFERENCES run (id),
    id        INTEGER NOT NULL,
    command   INTEGER NOT NULL,         -- that started it
    child_id  INTEGER NOT NULL,         -- git's number for it
    class     TEXT,                     -- 'hook', 'editor', 'transport/ssh', ...; '?': git does not say
    hook      TEXT,                     -- 'pre-commit', ...
    argv      TEXT,
    pid       INTEGER,                  -- NULL: its end is not told
    start_ns  INTEGER NOT NULL,
    end_ns    INTEGER,
    exit_code INTEGER,
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- All other events: data, counters, timers, errors, exec, aliases, parameters, threads, ...
CREATE TABLE git_event (
    run      INTEGER NOT NULL REFERENCES run (id),
    id       INTEGER NOT NULL,
    command  INTEGER NOT NULL,
    time_ns  INTEGER NOT NULL,
    event    TEXT NOT NULL,             -- 'data', 'counter', 'error', ...
    thread   TEXT,
    category TEXT,
    label    TEXT,                      -- key, name, parameter
    value    TEXT,                      -- value, message
    text     TEXT NOT NULL,             -- the event as git wrote it, JSON
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- What git is doing, in words for people. views.sql says what belongs to which phase.
CREATE TABLE git_phase (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL
) STRICT;
INSERT INTO git_phase VALUES
    (1,  'other programs',     'programs other than git, and time in which no git command ran'),
    (2,  'kernel',             'requests that the kernel makes by itself, later: forgotten inodes'),
    (3,  'hooks',              'hooks, and programs that they start'),
    (4,  'git, other',         'git outside its regions, where neither command nor path says more'),
    (5,  'refs and config',    'references, HEAD, reflogs, configuration, hook look-ups'),
    (6,  'negotiate',          'talking with the other side about what to transfer'),
    (7,  'send pack',          'the serving side: upload-pack, receive-pack, send-pack'),
    (8,  'receive pack',       'index-pack, unpack-objects: objects arrive and are indexed'),
    (9,  'check connectivity', 'rev-list after a transfer: is everything there?'),
    (10, 'checkout',           'unpack_trees of commands that change the worktree, and their workers'),
    (11, 'read index',         'reading the index'),
    (12, 'refresh index',      'lstat of each entry of the index; preload threads too'),
    (13, 'write index',        'writing the new index, its lock'),
    (14, 'compare',            'status and diff: HEAD with index, index with worktree'),
    (15, 'untracked files',    'reading directories for files that git does not know'),
    (16, 'write objects',      'loose objects and trees'),
    (17, 'read objects',       'objects and packs read outside the above'),
    (18, 'pack objects',       'pack-objects: choosing, compressing, writing a pack'),
    (19, 'maintenance',        'gc, repack, prune and the like, commit-graph, multi-pack-index'),
    (20, 'worktree',           'files of the worktree, outside the above');

-- Which command and region operations belong to, made when the run has ended: those of a process from `seq` on, up to the
-- next row of it. The view `git_op` has them by operation.
CREATE TABLE git_range (
    run     INTEGER NOT NULL REFERENCES run (id),
    process INTEGER NOT NULL,
    seq     INTEGER NOT NULL,           -- of the first operation
    command INTEGER,                    -- git_command; NULL: not a git command's
    region  INTEGER,                    -- git_region, innermost; may be one of the parent command's
    phase   INTEGER NOT NULL,           -- git_phase
    PRIMARY KEY (run, process, seq)
) STRICT, WITHOUT ROWID;

-- What was in the foreground: covers the time of the run's command (or of the run) without gap or overlap. Where several
-- processes work at once it is what began last; the serving side of a transfer gives way.
CREATE TABLE git_span (
    run      INTEGER NOT NULL REFERENCES run (id),
    start_ns INTEGER NOT NULL,
    end_ns   INTEGER NOT NULL,
    command  INTEGER,
    region   INTEGER,
    phase    INTEGER NOT NULL,
    PRIMARY KEY (run, start_ns)
) STRICT, WITHOUT ROWID;

-- What the machine counted meanwhile; query the view `host_sample`.
CREATE TABLE host_counter (
    run    INTEGER NOT NULL REFERENCES run (id),
    id     INTEGER NOT NULL,
    source TEXT NOT NULL,               -- 'disk:loop0', 'memory', 'pressure:io', 'jbd2:loop0-8', ...
    name   TEXT NOT NULL,
    kind   TEXT NOT NULL,               -- 'counter': grows, differences mean something; 'gauge': a level
    unit   TEXT NOT NULL,               -- 'ns', 'bytes', 'count'
    PRIMARY KEY (run, id)
) STRICT, WITHOUT ROWID;

-- A value holds until the next row of its counter: only changes are stored, and the first and last sample.
CREATE TABLE host_value (
    run     INTEGER NOT NULL REFERENCES run (id),
    counter INTEGER NOT NULL,
    time_ns INTEGER NOT NULL,
    value   INTEGER NOT NULL,
    PRIMARY KEY (run, counter, time_ns)
) STRICT, WITHOUT ROWID;

-- Benchmarks: what 'fstape bench --resume' goes on with. Its runs have rounds first_round ... first_round + rounds - 1.
CREATE TABLE bench (
    id            INTEGER PRIMARY KEY,
    words         TEXT NOT NULL,        -- JSON array: its options, as words of the command line
    first_round   INTEGER NOT NULL,
    rounds        INTEGER NOT NULL,
    start_real_ns INTEGER NOT NULL,
    finished      INTEGER NOT NULL      -- 1: every round has been measured
) STRICT;

-- What the kernel's counters of the device and its filesystem grew by during a run of bench; names: analyzer/counters.h.
CREATE TABLE run_counter (
    run   INTEGER NOT NULL REFERENCES run (id),
    name  TEXT NOT NULL,                -- 'device.flushes', 'device.write_bytes', 'jbd2.transactions', ...
    value INTEGER NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

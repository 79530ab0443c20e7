/* SPDX-License-Identifier: MIT */
/* replay_compile*.c, replay_order.c, replay_names.c: what waits for what, what is not issued, what is refused. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "replay_plan.h"
#include "unit.h"

/* A recording made up: operations of threads 1, 2, ... one after the other, unless `overlap` says else. */
struct script {
	struct trace *trace;
	int64_t run, now;
	uint64_t seq;
	uint32_t n_paths;
	char *paths[64];
	bool overlap; /* the next operation arrives while the last one is still under way */
};

static void script_begin(const struct scratch *scratch, struct script *s)
{
	*s = (struct script){};
	assert_int_equal(trace_open(scratch->db, TRACE_CREATE, &s->trace), 0);
	assert_int_equal(trace_run_create(s->trace, NULL, &s->run), 0);
	assert_int_equal(trace_begin(s->trace), 0);
	for (uint32_t thread = 1; thread <= 4; thread++) {
		struct process_record p = {
			.id = thread, .tid = (int)thread, .tgid = (int)thread, .ppid = 1, .start_ticks = 1, .comm_len = 1
		};

		assert_int_equal(trace_add_process(s->trace, s->run, &p, "t"), 0);
	}
}

static void script_end(struct script *s)
{
	assert_int_equal(trace_commit(s->trace), 0);
	for (uint32_t i = 0; i < s->n_paths; i++)
		free(s->paths[i]);
	trace_close(s->trace);
}

/* The id of a path; those above it come with it. */
static uint32_t path(struct script *s, const char *text)
{
	const char *slash = strrchr(text, '/');
	auto_free char *above = slash ? strndup(text, (size_t)(slash - text)) : strdup("");
	struct path_record record = {};

	for (uint32_t i = 0; i < s->n_paths; i++)
		if (strcmp(s->paths[i], text) == 0)
			return i + 1;
	record.parent = text[0] ? path(s, above) : 0;
	s->paths[s->n_paths] = strdup(text);
	record.id = ++s->n_paths;
	record.text_len = (uint32_t)strlen(text);
	assert_int_equal(trace_add_path(s->trace, s->run, &record, text), 0);
	return record.id;
}

static uint64_t add(struct script *s, uint32_t thread, struct event e, const char *args)
{
	e.seq = ++s->seq;
	s->now += s->overlap ? 1 : 100;
	s->overlap = false;
	e.start_ns = s->now;
	e.dur_ns = e.dur_ns ?: 10;
	e.process = thread;
	e.args_len = args ? (uint16_t)strlen(args) : 0;
	assert_int_equal(trace_add_event(s->trace, s->run, &e, args), 0);
	return e.seq;
}

#define ADD(s, thread, opcode, ...) add(s, thread, (struct event){ .op = OP_##opcode, __VA_ARGS__ }, NULL)
#define NAME(s, parent_node, text)  .parent = (parent_node), .path = path(s, text)

static struct plan compile(struct script *s, unsigned int threads)
{
	const struct plan_options options = { .threads = threads };
	struct plan plan;

	assert_int_equal(plan_compile(s->trace, s->run, &options, &plan), 0);
	return plan;
}

static uint32_t number_of(const struct plan *plan, uint64_t seq)
{
	for (uint32_t i = 1; i <= plan->n_actions; i++)
		if (plan->actions[i].seq == seq)
			return i;
	fail_msg("operation %d is not in the plan", (int)seq);
	return 0;
}

/* Whether the action `later` can only begin after `earlier` has ended: through threads and waits. */
static bool follows(const struct plan *plan, uint32_t later, uint32_t earlier)
{
	const struct action *a = &plan->actions[later];
	bool found = later == earlier;

	if (later < earlier)
		return false;
	if (!found && a->index)
		found = follows(plan, plan->turns[plan->threads[a->thread].first + a->index - 1], earlier);
	for (uint32_t w = a->first_wait; w < plan->actions[later + 1].first_wait && !found; w++)
		found = follows(plan, plan->waits[w], earlier);
	return found;
}

static void assert_follows(const struct plan *plan, uint64_t later, uint64_t earlier)
{
	if (!follows(plan, number_of(plan, later), number_of(plan, earlier)))
		fail_msg("%d does not wait for %d", (int)later, (int)earlier);
}

static void assert_free(const struct plan *plan, uint64_t a, uint64_t b)
{
	if (follows(plan, number_of(plan, a), number_of(plan, b)) ||
		follows(plan, number_of(plan, b), number_of(plan, a)))
		fail_msg("%d and %d wait for each other", (int)a, (int)b);
}

static const struct action *action(const struct plan *plan, uint64_t seq)
{
	return &plan->actions[number_of(plan, seq)];
}

/* All threads have something to do until here: none takes the place of another that has ended. */
static void everybody(struct script *s)
{
	for (uint32_t thread = 1; thread <= 4; thread++)
		ADD(s, thread, statfs, .node = 1, .path = path(s, ""));
}

/* A plan of a script that has ended. */
static struct plan compiled(const struct scratch *scratch, struct script *s, unsigned int threads)
{
	struct plan plan;

	script_end(s);
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &s->trace), 0);
	plan = compile(s, threads);
	trace_close(s->trace);
	return plan;
}

static void names_have_generations(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t absent = ADD(&s, 1, lookup, NAME(&s, 1, "a"), .result = -ENOENT);
	uint64_t absent2 = ADD(&s, 3, lookup, NAME(&s, 1, "a"), .result = -ENOENT);
	uint64_t made =
		ADD(&s, 2, create, NAME(&s, 1, "a"), .node = 2, .fh = 1, .flags = O_EXCL, .mode = S_IFREG | 0644);
	uint64_t seen = ADD(&s, 1, lookup, NAME(&s, 1, "a"), .node = 2, .mode = S_IFREG | 0644);
	uint64_t seen2 = ADD(&s, 4, getattr, .node = 2, .path = path(&s, "a"));
	uint64_t gone = ADD(&s, 3, unlink, NAME(&s, 1, "a"), .node = 2);
	uint64_t other = ADD(&s, 4, mkdir, NAME(&s, 1, "b"), .node = 4, .mode = 0755);
	uint64_t again =
		ADD(&s, 2, create, NAME(&s, 1, "a"), .node = 3, .fh = 2, .flags = O_EXCL, .mode = S_IFREG | 0644);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, made, absent);
	assert_follows(&plan, made, absent2);
	assert_free(&plan, absent, absent2);
	assert_follows(&plan, seen, made);
	assert_follows(&plan, seen2, made);
	assert_free(&plan, seen, seen2);
	assert_follows(&plan, gone, seen);
	assert_follows(&plan, gone, seen2);
	assert_follows(&plan, again, gone);
	assert_free(&plan, other, gone);
	assert_free(&plan, other, again);
	plan_free(&plan);
}

static void files_and_their_data(void **state)
{
	struct script s;
	struct plan plan;
	uint32_t a;

	script_begin(*state, &s);
	a = path(&s, "a");
	uint64_t opened = ADD(&s, 1, open, .node = 2, .path = a, .fh = 7);
	uint64_t read1 = ADD(&s, 2, read, .node = 2, .path = a, .fh = 7, .length = 10, .result = 10);
	uint64_t read2 = ADD(&s, 3, read, .node = 2, .path = a, .fh = 7, .length = 10, .result = 10);
	uint64_t write1 = ADD(&s, 4, write, .node = 2, .path = a, .fh = 7, .length = 10, .result = 10);
	uint64_t write2 = ADD(&s, 2, write, .node = 2, .path = a, .fh = 7, .length = 10, .result = 10);
	uint64_t failed = ADD(&s, 3, write, .node = 2, .path = a, .fh = 7, .length = 10, .result = -ENOSPC);
	uint64_t times = add(&s, 1, (struct event){ .op = OP_setattr, .node = 2, .path = a }, "{\"mtime\":5}");
	uint64_t closed = ADD(&s, 2, release, .node = 2, .path = a, .fh = 7);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, read1, opened);
	assert_free(&plan, read1, read2);
	assert_follows(&plan, write1, read1);
	assert_follows(&plan, write1, read2);
	assert_follows(&plan, write2, write1);
	assert_follows(&plan, failed, write2);
	assert_follows(&plan, times, write2);
	assert_follows(&plan, closed, failed);
	assert_follows(&plan, closed, write1);
	plan_free(&plan);
}

static void directories_and_their_listings(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t made = ADD(&s, 1, mkdir, NAME(&s, 1, "d"), .node = 2, .mode = 0755);
	uint64_t one = ADD(&s, 2, mknod, NAME(&s, 2, "d/1"), .node = 3, .mode = S_IFREG | 0644);
	uint64_t two = ADD(&s, 3, mknod, NAME(&s, 2, "d/2"), .node = 4, .mode = S_IFREG | 0644);
	uint64_t opened = ADD(&s, 4, opendir, .node = 2, .path = path(&s, "d"), .fh = 1);
	uint64_t listed =
		ADD(&s, 4, readdir, .node = 2, .path = path(&s, "d"), .fh = 1, .length = 4096, .result = 120);
	uint64_t end = ADD(&s, 4, readdir, .node = 2, .path = path(&s, "d"), .fh = 1, .offset = 9, .length = 4096);
	uint64_t gone = ADD(&s, 2, unlink, NAME(&s, 2, "d/1"), .node = 3);
	uint64_t gone2 = ADD(&s, 3, unlink, NAME(&s, 2, "d/2"), .node = 4);
	uint64_t removed = ADD(&s, 1, rmdir, NAME(&s, 1, "d"), .node = 2);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, one, made);
	assert_follows(&plan, two, made);
	assert_free(&plan, one, two);
	assert_follows(&plan, opened, made);
	assert_follows(&plan, listed, one);
	assert_follows(&plan, listed, two);
	assert_follows(&plan, gone, end);
	assert_follows(&plan, gone2, end);
	assert_free(&plan, gone, gone2);
	assert_follows(&plan, removed, gone);
	assert_follows(&plan, removed, gone2);
	assert_follows(&plan, removed, end);
	assert_true(action(&plan, end)->listing_end);
	assert_false(action(&plan, listed)->listing_end);
	plan_free(&plan);
}

static void a_directory_that_moves_stands_alone(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t made = ADD(&s, 1, mkdir, NAME(&s, 1, "d"), .node = 2, .mode = 0755);
	uint64_t other = ADD(&s, 2, mkdir, NAME(&s, 1, "e"), .node = 3, .mode = 0755);
	uint64_t moved = ADD(&s, 1, rename, NAME(&s, 1, "d"), .path2 = path(&s, "f"), .node = 2);
	uint64_t after = ADD(&s, 3, lookup, NAME(&s, 3, "e/x"), .result = -ENOENT);
	uint64_t within = ADD(&s, 2, mkdir, NAME(&s, 2, "f/x"), .node = 4, .mode = 0755);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, moved, made);
	assert_follows(&plan, moved, other);
	assert_follows(&plan, after, moved);
	assert_follows(&plan, within, moved);
	assert_int_equal(action(&plan, within)->dir, action(&plan, made)->object);
	plan_free(&plan);
}

static void renames_make_and_remove_names(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t lock =
		ADD(&s, 1, create, NAME(&s, 1, "x.lock"), .node = 2, .fh = 1, .flags = O_EXCL, .mode = S_IFREG | 0644);
	uint64_t busy = ADD(&s, 2, create, NAME(&s, 1, "x.lock"), .flags = O_EXCL, .result = -EEXIST);
	uint64_t moved = ADD(&s, 1, rename, NAME(&s, 1, "x.lock"), .path2 = path(&s, "x"), .node = 2);
	uint64_t seen = ADD(&s, 3, lookup, NAME(&s, 1, "x"), .node = 2, .mode = S_IFREG | 0644);
	uint64_t again =
		ADD(&s, 2, create, NAME(&s, 1, "x.lock"), .node = 3, .fh = 2, .flags = O_EXCL, .mode = S_IFREG | 0644);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, busy, lock);
	assert_follows(&plan, moved, busy);
	assert_follows(&plan, seen, moved);
	assert_follows(&plan, again, moved);
	assert_free(&plan, seen, again);
	assert_int_equal(action(&plan, seen)->object, action(&plan, lock)->object);
	plan_free(&plan);
}

/* What arrived first took effect last: the results say so. */
static void results_decide_about_overlaps(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t seen = ADD(&s, 1, lookup, NAME(&s, 1, "a"), .node = 2, .mode = S_IFREG | 0644, .dur_ns = 50);
	s.overlap = true;
	uint64_t made =
		ADD(&s, 2, create, NAME(&s, 1, "a"), .node = 2, .fh = 1, .flags = O_EXCL, .mode = S_IFREG | 0644);
	uint64_t again = ADD(&s, 3, mkdir, NAME(&s, 1, "b"), .node = 3, .dur_ns = 50, .mode = 0755);
	s.overlap = true;
	uint64_t absent = ADD(&s, 1, lookup, NAME(&s, 1, "b"), .result = -ENOENT);
	uint64_t last = ADD(&s, 1, lookup, NAME(&s, 1, "b"), .node = 3, .mode = S_IFDIR | 0755);
	everybody(&s);
	plan = compiled(*state, &s, 0);
	assert_follows(&plan, seen, made);
	assert_int_equal(action(&plan, seen)->object, action(&plan, made)->object);
	assert_follows(&plan, last, again);
	assert_int_equal(plan.counts.reordered, 2); /* the lookup of a; the failed one of b, which nothing explains */
	assert_int_equal(plan.counts.ambiguous, 1);
	assert_true(number_of(&plan, absent) > 0);
	plan_free(&plan);
}

static void what_the_kernel_does_is_not_issued(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	uint64_t own = ADD(&s, 1, lookup, NAME(&s, 1, "a"), .result = -ENOENT);
	uint64_t twice = ADD(&s, 1, lookup, NAME(&s, 1, "a"), .result = -ENOENT);
	uint64_t made =
		ADD(&s, 1, create, NAME(&s, 1, "a"), .node = 2, .fh = 1, .flags = O_EXCL, .mode = S_IFREG | 0644);
	uint64_t capability =
		add(&s, 1, (struct event){ .op = OP_getxattr, .node = 2, .path = path(&s, "a"), .result = -ENODATA },
			"{\"name\":\"security.capability\"}");
	uint64_t written = ADD(&s, 1, write, .node = 2, .path = path(&s, "a"), .fh = 1, .length = 5, .result = 5);
	uint64_t asked =
		add(&s, 1, (struct event){ .op = OP_getxattr, .node = 2, .path = path(&s, "a"), .result = -ENODATA },
			"{\"name\":\"user.x\"}");
	uint64_t forgotten = ADD(&s, 1, forget, .node = 2, .path = path(&s, "a"), .length = 1);
	uint64_t elsewhere = ADD(&s, 2, lookup, NAME(&s, 1, "c"), .result = -ENOENT);
	uint64_t target = ADD(&s, 1, lookup, NAME(&s, 1, "b"), .result = -ENOENT);
	uint64_t moved = ADD(&s, 1, rename, NAME(&s, 1, "a"), .path2 = path(&s, "b"), .node = 2);
	plan = compiled(*state, &s, 0);
	assert_int_equal(action(&plan, own)->how, ACTION_ISSUED);
	assert_int_equal(action(&plan, twice)->how, ACTION_DUPLICATE);
	assert_int_equal(action(&plan, made)->how, ACTION_ISSUED);
	assert_int_equal(action(&plan, capability)->how, ACTION_KERNEL);
	assert_int_equal(action(&plan, written)->how, ACTION_ISSUED);
	assert_int_equal(action(&plan, asked)->how, ACTION_ISSUED);
	assert_int_equal(action(&plan, forgotten)->how, ACTION_FORGET);
	assert_int_equal(action(&plan, elsewhere)->how, ACTION_ISSUED);
	assert_int_equal(action(&plan, target)->how, ACTION_DUPLICATE);
	assert_int_equal(action(&plan, moved)->how, ACTION_ISSUED);
	plan_free(&plan);
}

static void threads_as_many_as_at_once_or_as_asked(void **state)
{
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	for (uint32_t thread = 1; thread <= 4; thread++) /* one after the other: one thread can play them all */
		ADD(&s, thread, getattr, .node = 1, .path = path(&s, ""));
	plan = compiled(*state, &s, 0);
	assert_int_equal(plan.n_threads, 1);
	assert_int_equal(plan.recorded_threads, 4);
	plan_free(&plan);
	assert_int_equal(trace_open(((struct scratch *)*state)->db, TRACE_READ, &s.trace), 0);
	plan = compile(&s, 2);
	assert_int_equal(plan.n_threads, 2);
	plan_free(&plan);
	trace_close(s.trace);
}

static void refused(const struct scratch *scratch, struct script *s, const char *words)
{
	const struct plan_options options = {};
	struct plan plan;
	char *text;
	int err;

	script_end(s);
	assert_int_equal(trace_open(scratch->db, TRACE_READ, &s->trace), 0);
	capture_begin((struct scratch *)(uintptr_t)scratch);
	err = plan_compile(s->trace, s->run, &options, &plan);
	text = capture_end((struct scratch *)(uintptr_t)scratch);
	if (err >= 0 || !strstr(text, words))
		fail_msg("%d: '%s' does not say '%s'", err, text, words);
	free(text);
	trace_close(s->trace);
	unlink(scratch->db);
}

static void strangers_recordings_are_refused(void **state)
{
	static const char *const names[] = { "..", ".", "a/..", "a/", "/", "a//" };
	struct script s;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		script_begin(*state, &s);
		struct path_record bad = { .id = 9, .parent = path(&s, ""), .text_len = (uint32_t)strlen(names[i]) };
		trace_add_path(s.trace, s.run, &bad, names[i]);
		ADD(&s, 1, mkdir, .parent = 1, .path = 9, .node = 2, .mode = 0755);
		refused(*state, &s, "leads out");
	}
	script_begin(*state, &s);
	ADD(&s, 1, write, .node = 2, .path = path(&s, "a"), .fh = 1, .offset = 1LL << 62, .length = 1, .result = 1);
	refused(*state, &s, "offset 4611686018427387904");
	script_begin(*state, &s);
	ADD(&s, 1, read, .node = 2, .path = path(&s, "a"), .fh = 1, .length = 1LL << 40);
	refused(*state, &s, "at once");
	script_begin(*state, &s);
	add(&s, 1, (struct event){ .op = OP_setattr, .node = 2, .path = path(&s, "a") },
		"{\"size\":4611686018427387904}");
	refused(*state, &s, "size 4611686018427387904");
	script_begin(*state, &s);
	add(&s, 1, (struct event){ .op = OP_setattr, .node = 2, .path = path(&s, "a") }, "{\"size\":");
	refused(*state, &s, "JSON");
	script_begin(*state, &s);
	struct path_record circle = { .id = 7, .parent = 8, .text_len = 3 },
			   circle2 = { .id = 8, .parent = 7, .text_len = 1 };
	trace_add_path(s.trace, s.run, &circle, "a/b");
	trace_add_path(s.trace, s.run, &circle2, "a");
	ADD(&s, 1, mkdir, .parent = 77, .path = 7, .node = 2, .mode = 0755);
	refused(*state, &s, "directory (node 77)");
	script_begin(*state, &s);
	ADD(&s, 1, mknod, NAME(&s, 1, "a"), .node = 2, .mode = S_IFCHR | 0644);
	refused(*state, &s, "--allow-devices");
}

/* Between two requests of one system call lie 90 ns: the way to the recorder. It is taken off all gaps. */
static void pauses_are_the_programs_own(void **state)
{
	const struct plan_options options = { .pace = true };
	struct script s;
	struct plan plan;
	char name[16];

	script_begin(*state, &s);
	for (uint64_t i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "n%d", (int)i);
		ADD(&s, 1, lookup, NAME(&s, 1, name), .result = -ENOENT);
		ADD(&s, 1, mkdir, NAME(&s, 1, name), .node = 10 + i, .mode = 0755);
	}
	uint64_t quick = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	s.now += 5000;
	uint64_t slow = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	s.now += 700000;
	uint64_t child = ADD(&s, 2, statfs, .node = 1, .path = path(&s, ""));
	s.now += 400;
	uint64_t parent = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	script_end(&s);
	assert_int_equal(trace_open(((struct scratch *)*state)->db, TRACE_READ, &s.trace), 0);
	assert_int_equal(plan_compile(s.trace, s.run, &options, &plan), 0);
	assert_int_equal(plan.pace.round_trip_ns, 90);
	assert_int_equal(plan.pace.think_ns[number_of(&plan, quick)], 0);
	assert_int_equal(plan.pace.think_ns[number_of(&plan, slow)], 5000);
	assert_int_equal(plan.pace.think_ns[number_of(&plan, child)], 700000);
	assert_int_equal(plan.pace.after[number_of(&plan, child)], number_of(&plan, slow)); /* its parent's last */
	assert_int_equal(plan.pace.think_ns[number_of(&plan, parent)], 400);
	assert_int_equal(plan.pace.after[number_of(&plan, parent)], number_of(&plan, child));
	plan_free(&plan);
	trace_close(s.trace);
}

/* What thread 1 has used by request `seq`, less the ways: of each, 30 ns are its own and 10 ns waiting for a processor. */
static void read_cpu(struct script *s, uint64_t seq, int64_t gaps, int64_t cpu_ns, int64_t delay_ns)
{
	const struct cpu_record record = { seq, 7 + gaps * 30 + cpu_ns, 9 + gaps * 10 + delay_ns };

	assert_int_equal(trace_add_cpu(s->trace, s->run, &record), 0);
}

/* Gaps share out what the thread was busy in the stretch; what it was neither busy nor ready nor on the way, it waited. */
static void pauses_are_of_processor_time_where_that_was_read(void **state)
{
	const struct plan_options options = { .pace = true };
	struct script s;
	struct plan plan;
	char name[16];

	script_begin(*state, &s);
	for (uint64_t i = 0; i < 30; i++) {
		snprintf(name, sizeof(name), "n%d", (int)i);
		read_cpu(&s, ADD(&s, 1, lookup, NAME(&s, 1, name), .result = -ENOENT), 2 * (int64_t)i, 0, 0);
		read_cpu(&s, ADD(&s, 1, mkdir, NAME(&s, 1, name), .node = 10 + i, .mode = 0755), 2 * (int64_t)i + 1, 0, 0);
	}
	s.now += 5000;
	uint64_t one = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	s.now += 3000;
	uint64_t two = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	read_cpu(&s, two, 61, 6000, 1000);
	s.now += 1000000;
	uint64_t long_one = ADD(&s, 1, statfs, .node = 1, .path = path(&s, ""));
	read_cpu(&s, long_one, 62, 406000, 1000);
	script_end(&s);
	assert_int_equal(trace_open(((struct scratch *)*state)->db, TRACE_READ, &s.trace), 0);
	assert_int_equal(plan_compile(s.trace, s.run, &options, &plan), 0);
	assert_int_equal(plan.pace.round_cpu_ns, 30);
	assert_int_equal(plan.pace.think_ns[number_of(&plan, one)], 3750);
	assert_int_equal(plan.pace.think_ns[number_of(&plan, two)], 2250);
	assert_int_equal(plan.pace.blocked_ns[number_of(&plan, two)], 0); /* 1000: too short to have been one wait */
	assert_int_equal(plan.pace.think_ns[number_of(&plan, long_one)], 400000);
	assert_int_equal(plan.pace.blocked_ns[number_of(&plan, long_one)], 601000);
	plan_free(&plan);
	trace_close(s.trace);
}

static unsigned int next_random(unsigned int *state, unsigned int n)
{
	*state = *state * 1103515245 + 12345;
	return (*state >> 16) % n;
}

/* Whatever the recording says: waits lead backwards, and each thread goes forwards, so that nobody waits for ever. */
static void any_recording_gives_an_order(void **state)
{
	static const char *const names[] = { "a", "b", "d", "d/a", "d/b", "d/e/a" };
	static const int results[] = { 0, 0, 0, -ENOENT, -EEXIST };
	unsigned int random = 1;
	struct script s;
	struct plan plan;

	script_begin(*state, &s);
	for (int i = 0; i < 5000; i++) {
		unsigned int op = next_random(&random, OP_COUNT);
		const struct op_desc *desc = op_get(op);
		struct event e = { .op = (uint16_t)op,
			.node = next_random(&random, 9) + 1,
			.fh = next_random(&random, 9),
			.dur_ns = next_random(&random, 900) };

		if (!desc || op == OP_symlink)
			continue;
		e.path = path(&s, names[next_random(&random, 6)]);
		e.path2 = path(&s, names[next_random(&random, 6)]);
		e.parent = next_random(&random, 4) + 1;
		e.result = results[next_random(&random, 5)];
		e.flags = next_random(&random, 2) ? O_EXCL : 0;
		add(&s, next_random(&random, 4) + 1, e, NULL);
	}
	plan = compiled(*state, &s, 0);
	for (uint32_t i = 1; i <= plan.n_actions; i++)
		for (uint32_t w = plan.actions[i].first_wait; w < plan.actions[i + 1].first_wait; w++)
			assert_in_range(plan.waits[w], 1, i - 1);
	for (uint32_t t = 0; t < plan.n_threads; t++)
		for (uint32_t i = 1; i < plan.threads[t].count; i++)
			assert_true(plan.turns[plan.threads[t].first + i - 1] < plan.turns[plan.threads[t].first + i]);
	assert_int_equal(plan.n_actions, s.seq);
	plan_free(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(names_have_generations),
		scratch_test(files_and_their_data),
		scratch_test(directories_and_their_listings),
		scratch_test(a_directory_that_moves_stands_alone),
		scratch_test(renames_make_and_remove_names),
		scratch_test(results_decide_about_overlaps),
		scratch_test(what_the_kernel_does_is_not_issued),
		scratch_test(threads_as_many_as_at_once_or_as_asked),
		scratch_test(pauses_are_the_programs_own),
		scratch_test(pauses_are_of_processor_time_where_that_was_read),
		scratch_test(strangers_recordings_are_refused),
		scratch_test(any_recording_gives_an_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

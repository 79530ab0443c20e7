/* SPDX-License-Identifier: MIT */
/*
 * git_findings.c - candidates and their costs. A kind of operation in a phase costs its time in the filesystem; look-ups of
 * names that do not exist, the shim, and git itself cost wall time.
 */
#include "git_findings.h"

#include <inttypes.h>
#include <string.h>

#include "table.h"

#define MOST_KINDS 2	   /* of the findings, about kinds of operations: the others shall be heard, too */
#define LEAST_SHARE 0.02   /* of the run's wall time; less is no finding */

static double share(int64_t part, int64_t all)
{
	return all > 0 ? 100.0 * (double)part / (double)all : 0;
}

/* Puts it in its place among the dearest; what falls out is freed. */
static void offer(struct git_finding *findings, int *count, int limit, struct git_finding *finding)
{
	int at = *count;

	while (at > 0 && findings[at - 1].cost_ns < finding->cost_ns)
		at--;
	if (at >= limit) {
		strbuf_free(&finding->text);
		strbuf_free(&finding->sql);
		return;
	}
	if (*count == limit) {
		strbuf_free(&findings[limit - 1].text);
		strbuf_free(&findings[limit - 1].sql);
	} else {
		++*count;
	}
	memmove(&findings[at + 1], &findings[at], (size_t)(*count - at - 1) * sizeof(*findings));
	findings[at] = *finding;
}

static void kind_finding(const struct git_view *view, const struct git_phase_view *phase, int op,
	struct git_finding *finding)
{
	const struct git_kind *kind = &phase->kinds[op];
	struct git_cell good = git_sum(kind->good);
	char total[24], median[24], tail[24];

	finding->cost_ns = good.fs_ns;
	strbuf_addf(&finding->text,
		"In '%s', %" PRId64 " %s took %s in the filesystem, %.0f%% of all time in it: half of them up to %s,"
		" one in a hundred more than %s.",
		phase->name, good.count, op_get((unsigned int)op)->name, format_duration(good.fs_ns, total),
		share(good.fs_ns, view->fs_ns), format_duration(git_percentile(kind, 0.5), median),
		format_duration(git_percentile(kind, 0.99), tail));
	strbuf_addf(&finding->sql,
		"SELECT fs_ns, path, region FROM git_ops WHERE run = %" PRId64 " AND phase = '%s' AND op = '%s'"
		" AND error IS NULL ORDER BY fs_ns DESC LIMIT 20",
		view->run, phase->name, op_get((unsigned int)op)->name);
}

static int find_kinds(const struct git_view *view, struct git_finding findings[static MOST_KINDS])
{
	int count = 0;

	for (int p = 0; p < GIT_PHASES; p++) {
		const struct git_phase_view *phase = &view->phases[p];

		for (unsigned int op = 1; phase->kinds && op < OP_COUNT; op++) {
			struct git_finding finding = {};
			int64_t cost = git_sum(phase->kinds[op].good).fs_ns;

			if (!op_get(op) || !cost || (count == MOST_KINDS && cost <= findings[count - 1].cost_ns))
				continue;
			kind_finding(view, phase, (int)op, &finding);
			offer(findings, &count, MOST_KINDS, &finding);
		}
	}
	return count;
}

static void find_probes(const struct git_view *view, struct git_finding *finding)
{
	const struct git_phase_view *most = NULL;
	int64_t count = 0, most_count = 0;
	char cost[24];

	for (int p = 0; p < GIT_PHASES; p++) {
		const struct git_phase_view *phase = &view->phases[p];
		struct git_cell bad = phase->kinds ? git_sum(phase->kinds[OP_lookup].bad) : (struct git_cell){};

		finding->cost_ns += bad.dur_ns;
		count += bad.count;
		if (bad.count > most_count) {
			most_count = bad.count;
			most = phase;
		}
	}
	if (!most)
		return;
	strbuf_addf(&finding->text,
		"%" PRId64 " look-ups of names that do not exist took %s, most of them (%" PRId64 ") in '%s': before a file"
		" is made, git and the kernel each ask whether it is there.",
		count, format_duration(finding->cost_ns, cost), most_count, most->name);
	strbuf_addf(&finding->sql,
		"SELECT phase, comm, count(*) AS lookups, sum(dur_ns) AS dur_ns FROM git_ops WHERE run = %" PRId64
		" AND op = 'lookup' AND error IS NOT NULL GROUP BY 1, 2 ORDER BY 4 DESC",
		view->run);
}

static int64_t own_ns(const struct git_phase_view *phase)
{
	return phase->wall_ns - phase->in_fs_ns - phase->in_shim_ns;
}

static void find_own(const struct git_view *view, struct git_finding *finding)
{
	const struct git_phase_view *most = &view->phases[0];
	char own[24], wall[24];

	for (int p = 1; p < GIT_PHASES; p++)
		if (own_ns(&view->phases[p]) > own_ns(most))
			most = &view->phases[p];
	finding->cost_ns = own_ns(most);
	strbuf_addf(&finding->text,
		"Of the %s of '%s', %s (%.0f%%) pass while no request is being served: git's own work, waiting for other"
		" processes, and requests on their way through the kernel.",
		format_duration(most->wall_ns, wall), most->name, format_duration(finding->cost_ns, own),
		share(finding->cost_ns, most->wall_ns));
	strbuf_addf(&finding->sql,
		"SELECT c.argv, r.path AS region, sum(s.end_ns - s.start_ns) AS wall_ns FROM git_span AS s"
		" JOIN git_phase AS p ON p.id = s.phase"
		" LEFT JOIN git_command AS c ON c.run = s.run AND c.id = s.command"
		" LEFT JOIN git_region AS r ON r.run = s.run AND r.id = s.region"
		" WHERE s.run = %" PRId64 " AND p.name = '%s' GROUP BY 1, 2 ORDER BY 3 DESC",
		view->run, most->name);
}

static void find_shim(const struct git_view *view, struct git_finding *finding)
{
	char cost[24];

	for (int p = 0; p < GIT_PHASES; p++)
		finding->cost_ns += view->phases[p].in_shim_ns;
	strbuf_addf(&finding->text,
		"The recorder itself took %s of the wall time (%.0f%%) in requests: compare filesystems by fs_ns, which is"
		" without it.",
		format_duration(finding->cost_ns, cost), share(finding->cost_ns, view->wall_ns));
	strbuf_addf(&finding->sql,
		"SELECT op, count(*), sum(dur_ns - fs_ns) AS shim_ns FROM ops WHERE run = %" PRId64
		" GROUP BY 1 ORDER BY 3 DESC",
		view->run);
}

int git_findings_make(const struct git_view *view, struct git_finding findings[static GIT_FINDINGS])
{
	static void (*const others[])(const struct git_view *, struct git_finding *) = { find_probes, find_own, find_shim };
	struct git_finding kinds[MOST_KINDS] = {};
	int n_kinds = find_kinds(view, kinds), count = 0, failed = 0;

	memset(findings, 0, GIT_FINDINGS * sizeof(*findings));
	for (int i = 0; i < n_kinds; i++)
		offer(findings, &count, GIT_FINDINGS, &kinds[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		struct git_finding finding = {};

		others[i](view, &finding);
		offer(findings, &count, GIT_FINDINGS, &finding);
	}
	while (count > 0 && (findings[count - 1].cost_ns <= 0 ||
			(double)findings[count - 1].cost_ns < LEAST_SHARE * (double)view->wall_ns)) {
		strbuf_free(&findings[count - 1].text);
		strbuf_free(&findings[--count].sql);
	}
	for (int i = 0; i < count; i++)
		failed |= findings[i].text.failed || findings[i].sql.failed;
	if (failed)
		git_findings_free(findings);
	return failed ? -ENOMEM : count;
}

void git_findings_free(struct git_finding findings[static GIT_FINDINGS])
{
	for (int i = 0; i < GIT_FINDINGS; i++) {
		strbuf_free(&findings[i].text);
		strbuf_free(&findings[i].sql);
	}
}

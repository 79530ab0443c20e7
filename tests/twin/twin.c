/* SPDX-License-Identifier: MIT */
/* twin.c - the command line: seeds, episodes, what came of them. */
#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "twin.h"

static const char usage[] =
	"Usage: twin [OPTION...] DIRECTORY DIRECTORY\n"
	"Does the same random steps in two directories, on filesystems of one type, and\n"
	"reports the first answer, attribute or content that differs, with the fewest\n"
	"steps that lead to it. Needs root, and changes nothing outside of them.\n"
	"\n"
	"  -s, --seed N       the first seed (1)\n"
	"      --seeds N      so many seeds, one after the other (1)\n"
	"  -n, --ops N        steps for each seed (20000)\n"
	"  -e, --episode N    steps between fresh starts, at most 8192 (2000)\n"
	"      --below DIR    what the second directory shows: attributes are compared too\n"
	"      --shrink N     seconds for finding the fewest steps (120)\n"
	"  -a, --all          go on after a difference: one for each seed\n"
	"      --keep         leave the directories of the last episode\n"
	"  -h, --help         this text\n"
	"\n"
	"Exit status: 0 no difference, 1 a difference or a failure, 2 wrong usage.\n";

struct settings {
	uint64_t seed, seeds, ops, episode, shrink;
	bool all;
	struct twin twin;
};

static int parse_number(const char *text, const char *what, uint64_t max, uint64_t *ret_number)
{
	char *end;

	errno = 0;
	*ret_number = strtoull(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || *ret_number > max) {
		log_msg("%s must be a number up to %ju, not '%s'", what, (uintmax_t)max, text);
		return -EINVAL;
	}
	return 0;
}

/* 1: the help was asked for. */
static int parse(int argc, char **argv, struct settings *s)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },   { "seeds", required_argument, NULL, 'S' },
		{ "ops", required_argument, NULL, 'n' },    { "episode", required_argument, NULL, 'e' },
		{ "below", required_argument, NULL, 'b' },  { "shrink", required_argument, NULL, 'x' },
		{ "all", no_argument, NULL, 'a' },	    { "keep", no_argument, NULL, 'k' },
		{ "help", no_argument, NULL, 'h' },	    {},
	};
	int option, err = 0;

	while ((option = getopt_long(argc, argv, "s:n:e:ah", options, NULL)) >= 0 && err == 0) {
		switch (option) {
		case 's': err = parse_number(optarg, "--seed", UINT64_MAX, &s->seed); break;
		case 'S': err = parse_number(optarg, "--seeds", 1000000, &s->seeds); break;
		case 'n': err = parse_number(optarg, "--ops", UINT64_MAX / 2, &s->ops); break;
		case 'e': err = parse_number(optarg, "--episode", STEPS_MAX, &s->episode); break;
		case 'b': s->twin.below = optarg; break;
		case 'x': err = parse_number(optarg, "--shrink", 86400, &s->shrink); break;
		case 'a': s->all = true; break;
		case 'k': s->twin.keep = true; break;
		case 'h': return 1;
		default: return -EINVAL;
		}
	}
	if (err == 0 && argc - optind != 2) {
		log_msg("two directories are needed");
		err = -EINVAL;
	}
	if (err < 0)
		return err;
	s->episode = s->episode ?: 1;
	s->twin.dirs[0] = argv[optind];
	s->twin.dirs[1] = argv[optind + 1];
	return 0;
}

static int make_memories(struct twin *twin)
{
	for (int i = 0; i < 2; i++) {
		twin->memories[i] = mmap(NULL, sizeof(struct memory), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (twin->memories[i] == MAP_FAILED)
			return log_errno(errno, "no memory");
	}
	return 0;
}

static void print_steps(const struct step *steps, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		printf("  %3zu  ", i + 1);
		step_describe(stdout, &steps[i]);
		putchar('\n');
	}
}

static void report(struct settings *s, uint64_t seed, uint64_t before, struct step *steps, size_t count,
	struct difference *d)
{
	size_t from, left;

	printf("DIFFERENCE at step %ju of seed %ju: ", (uintmax_t)before + d->step + 1, (uintmax_t)seed);
	step_describe(stdout, &steps[d->step]);
	printf("\n  first:  %s\n  second: %s\n", d->text[0], d->text[1]);
	fflush(stdout);
	count = d->step + 1;
	from = count > 12 ? count - 12 : 0;
	if (!s->shrink) {
		puts("the last steps before it:");
		print_steps(steps + from, count - from);
		return;
	}
	left = shrink(&s->twin, steps, count, (unsigned int)s->shrink, d);
	if (!left) {
		puts("It did not come again with the same steps; the last ones were:");
		print_steps(steps + from, count - from);
		return;
	}
	printf("%zu steps are enough:\n", left);
	print_steps(steps, left);
	printf("  first:  %s\n  second: %s\n", d->text[0], d->text[1]);
	fflush(stdout);
}

/* 1: a difference. */
static int run_seed(struct settings *s, uint64_t seed, struct step *steps)
{
	struct random random = { seed };
	uint64_t done = 0;
	int64_t start = clock_ns(CLOCK_MONOTONIC);

	while (done < s->ops) {
		size_t count = s->ops - done < s->episode ? s->ops - done : s->episode;
		struct difference d;
		int found;

		steps_make(&random, steps, count);
		found = episode_run(&s->twin, steps, count, &d);
		if (found > 0)
			report(s, seed, done, steps, count, &d);
		if (found != 0)
			return found;
		done += count;
	}
	printf("seed %ju: %ju steps, no difference, %.0f steps/s\n", (uintmax_t)seed, (uintmax_t)done,
		(double)done * 1e9 / (double)(clock_ns(CLOCK_MONOTONIC) - start));
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct settings s = { .seed = 1, .seeds = 1, .ops = 20000, .episode = 2000, .shrink = 120 };
	struct step *steps;
	int err, status = 0;

	log_set_program("twin");
	err = parse(argc, argv, &s);
	if (err != 0) {
		fputs(usage, err > 0 ? stdout : stderr);
		return err > 0 ? 0 : 2;
	}
	if (geteuid() != 0) {
		log_msg("only root can act as others and change its root directory");
		return 1;
	}
	steps = calloc(s.episode, sizeof(*steps));
	if (!steps || make_memories(&s.twin) < 0)
		return 1;
	umask(0);
	for (uint64_t i = 0; i < s.seeds && (s.all || !status); i++)
		if (run_seed(&s, s.seed + i, steps) != 0)
			status = 1;
	free(steps);
	return status;
}

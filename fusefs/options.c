/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "base.h"
#include "mode.h"
#include "readahead.h"
#include "spool.h"

#define DEFAULT_SPOOL (32ull << 20)
#define DEFAULT_THREADS 32u

/* Options of the form NAME=WORD. */
#define WORDS(WORD)                                                                                                   \
	WORD(db) WORD(label) WORD(cache) WORD(overflow) WORD(load) WORD(data) WORD(wait) WORD(transport) WORD(spool)  \
	WORD(max_db) WORD(keep_runs) WORD(entry_timeout) WORD(attr_timeout) WORD(threads) WORD(dir_readahead)         \
	WORD(ready_fd)

/* What fuse_opt fills; words are turned into values afterwards. */
struct raw {
	struct options *options;
#define WORD(name) char *name;
	WORDS(WORD)
#undef WORD
	char *source, *mountpoint;
	int too_many;
};

enum { KEY_ALLOW_OTHER = 1 };

static const struct fuse_opt option_table[] = {
#define WORD(name) { #name "=%s", offsetof(struct raw, name), 0 },
	WORDS(WORD)
#undef WORD
	FUSE_OPT_KEY("allow_other", KEY_ALLOW_OTHER),
	FUSE_OPT_KEY("allow_root", KEY_ALLOW_OTHER),
	FUSE_OPT_END,
};

static const struct fuse_opt switch_table[] = {
	{ "-f", offsetof(struct options, foreground), 1 },
	{ "-d", offsetof(struct options, debug), 1 },
	{ "-d", offsetof(struct options, foreground), 1 },
	{ "debug", offsetof(struct options, debug), 1 },
	{ "debug", offsetof(struct options, foreground), 1 },
	{ "-s", offsetof(struct options, singlethread), 1 },
	{ "-h", offsetof(struct options, show_help), 1 },
	{ "--help", offsetof(struct options, show_help), 1 },
	{ "-V", offsetof(struct options, show_version), 1 },
	{ "--version", offsetof(struct options, show_version), 1 },
	{ "norecord", offsetof(struct options, norecord), 1 },
	{ "noflush", offsetof(struct options, noflush), 1 },
	{ "writeback", offsetof(struct options, writeback), 1 },
	{ "data_passthrough", offsetof(struct options, data_passthrough), 1 },
	/* libfuse is told to print requests as well */
	FUSE_OPT_KEY("-d", FUSE_OPT_KEY_KEEP),
	FUSE_OPT_KEY("debug", FUSE_OPT_KEY_KEEP),
	FUSE_OPT_END,
};

void options_help(void)
{
	printf("usage: fstapefs [options] SOURCE MOUNTPOINT\n"
	       "\n"
	       "Mounts SOURCE on MOUNTPOINT (they may be the same), lets every operation\n"
	       "through and records it, with its timing, in an SQLite database.\n"
	       "\n"
	       "    -f                  stay in the foreground\n"
	       "    -d  -o debug        print requests (implies -f)\n"
	       "    -s                  one worker thread\n"
	       "    -h  --help          print this help\n"
	       "    -V  --version       print versions\n"
	       "    -o opt[,opt...]     mount options:\n"
	       "\n"
	       "    db=FILE             database to record into, made when it is missing\n"
	       "    label=TEXT          name of the run\n"
	       "    cache=MODE          what the kernel may answer by itself:\n"
	       "                          never   nothing: every lookup and stat arrives\n"
	       "                          auto    for a second (default elsewhere)\n"
	       "                          always  as on a local file system (default in place)\n"
	       "    overflow=MODE       when the spool is full: block (wait, the default), or\n"
	       "                        drop (lose operations, counted)\n"
	       "    load=MODE           fill the database live (default), or at the end\n"
	       "    data=MODE           contents of files: none (the default), or full (record\n"
	       "                          what is written, copied, and read of old files)\n"
	       "    spool=SIZE          most bytes of the spool, with K, M or G; up to 4G\n"
	       "                        (default 32M)\n"
	       "    max_db=SIZE         stop recording when the database is that big; the mount\n"
	       "                        goes on, and what it does is counted\n"
	       "    keep_runs=N         at the start, delete the oldest runs of the database so\n"
	       "                        that N are left with the new one\n"
	       "    threads=N           most worker threads (default 32)\n"
	       "    wait=HOW            how a worker waits for the next request of a lone\n"
	       "                        client: sleep, poll, follow (to its processor), auto\n"
	       "                        (what measures best, the default); or pool (as for\n"
	       "                        many clients)\n"
	       "    transport=WAY       how requests come: dev (/dev/fuse, the default), uring\n"
	       "                        (io_uring, Linux 6.14 where it is enabled), or auto\n"
	       "                        (uring if it can be had)\n"
	       "    dir_readahead=N     threads that look ahead at what is in a directory when\n"
	       "                        it is opened, or off (default)\n"
	       "    entry_timeout=S     seconds that the kernel may keep names\n"
	       "    attr_timeout=S      seconds that the kernel may keep attributes\n"
	       "    noflush             do not ask when files are closed: faster, but that is\n"
	       "                        not recorded; POSIX locks are then the kernel's own\n"
	       "    writeback           let the kernel collect writes: faster, but its writes\n"
	       "                        are recorded, not those of programs; cache=always only\n"
	       "    data_passthrough    let the kernel read and write files without asking:\n"
	       "                        faster, and not recorded (Linux 6.9, root)\n"
	       "    norecord            pass operations through, record nothing\n"
	       "\n"
	       "A comma in a value is written \"\\,\".\n"
	       "\n"
	       "Options of every FUSE mount, such as ro, allow_other, fsname=NAME:\n");
	fuse_lowlevel_help();
}

const char *cache_mode_name(enum cache_mode mode)
{
	static const char *const names[] = { "default", "never", "auto", "always" };

	return names[mode];
}

static const char *const waits[] = { "auto", "pool", "sleep", "poll", "follow", NULL };

const char *wait_mode_name(enum wait_mode mode)
{
	return waits[mode];
}

unsigned int options_modes(const struct options *options)
{
	return (options->noflush ? MODE_BIT(MODE_NOFLUSH) : 0) | (options->writeback ? MODE_BIT(MODE_WRITEBACK) : 0) |
	       (options->data_passthrough ? MODE_BIT(MODE_DATA_PASSTHROUGH) : 0);
}

static int process_option(void *data, const char *arg, int key, struct fuse_args *out)
{
	struct raw *raw = data;

	(void)out;
	if (key == KEY_ALLOW_OTHER) {
		raw->options->allow_other = true;
		return 1;
	}
	if (key == FUSE_OPT_KEY_NONOPT) {
		char **place = !raw->source ? &raw->source : !raw->mountpoint ? &raw->mountpoint : NULL;

		if (place)
			*place = strdup(arg);
		else
			raw->too_many = 1;
		return 0;
	}
	return 1;
}

static int choose(const char *option, const char *word, const char *const *words, int *ret_index)
{
	struct strbuf auto_strbuf list = {};

	if (!word)
		return 0;
	for (int i = 0; words[i]; i++)
		if (strcmp(word, words[i]) == 0) {
			*ret_index = i;
			return 0;
		}
	for (int i = 0; words[i]; i++)
		strbuf_addf(&list, "%s%s", i ? " or " : "", words[i]);
	log_msg("option %s=%s: must be %s", option, word, list.buf ?: "another one");
	return -EINVAL;
}

static int parse_number(const char *option, const char *text, double least, double most, double *ret_value)
{
	char *end;
	double value;

	if (!text)
		return 0;
	value = strtod(text, &end);
	if (end == text || *end || !(value >= least && value <= most)) {
		log_msg("option %s=%s: must be a number from %.0f to %.0f", option, text, least, most);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

static int parse_size(const char *option, const char *text, uint64_t most, uint64_t *ret_size)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	double value;

	if (!text)
		return 0;
	value = strtod(text, &end);
	unit = *end ? strchr(units, *end) : NULL;
	if (end == text || !(value > 0 && value < 1e12) || (*end && (!unit || end[1]))) {
		log_msg("option %s=%s: must be a size such as 64M", option, text);
		return -EINVAL;
	}
	value *= unit ? (double)(1ull << (10 * (unit - units + 1))) : 1;
	if (value > (double)most) {
		log_msg("option %s=%s: must be at most %lluG", option, text, (unsigned long long)(most >> 30));
		return -EINVAL;
	}
	*ret_size = (uint64_t)value;
	return 0;
}

/* The words as values. Prints what is wrong with the first bad one. */
static int convert(struct options *options, const struct raw *raw)
{
	static const char *const caches[] = { "never", "auto", "always", NULL };
	static const char *const overflows[] = { "block", "drop", NULL };
	static const char *const loads[] = { "live", "end", NULL };
	static const char *const datas[] = { "none", "full", NULL };
	static const char *const transports[] = { "dev", "auto", "uring", NULL };
	int cache = -1, overflow = OVERFLOW_BLOCK, load = LOAD_LIVE, data = DATA_NONE, wait = WAIT_AUTO;
	int transport = TRANSPORT_DEV, err;
	double threads = DEFAULT_THREADS, ready_fd = -1, keep_runs = 0, readahead = 0;

	err = choose("cache", raw->cache, caches, &cache);
	err = err ?: choose("overflow", raw->overflow, overflows, &overflow);
	err = err ?: choose("load", raw->load, loads, &load);
	err = err ?: choose("data", raw->data, datas, &data);
	err = err ?: choose("wait", raw->wait, waits, &wait);
	err = err ?: choose("transport", raw->transport, transports, &transport);
	err = err ?: parse_size("spool", raw->spool, SPOOL_LIMIT_MAX, &options->spool_size);
	err = err ?: parse_size("max_db", raw->max_db, 1ull << 50, &options->max_db);
	err = err ?: parse_number("keep_runs", raw->keep_runs, 1, 1e9, &keep_runs);
	err = err ?: parse_number("threads", raw->threads, 1, 1024, &threads);
	if (raw->dir_readahead && strcmp(raw->dir_readahead, "off") != 0)
		err = err ?: parse_number("dir_readahead", raw->dir_readahead, 1, READAHEAD_MAX_THREADS, &readahead);
	err = err ?: parse_number("ready_fd", raw->ready_fd, 0, 1 << 20, &ready_fd);
	err = err ?: parse_number("entry_timeout", raw->entry_timeout, 0, 1e9, &options->entry_timeout);
	err = err ?: parse_number("attr_timeout", raw->attr_timeout, 0, 1e9, &options->attr_timeout);
	if (err == 0 && options->data_passthrough && (data == DATA_FULL || options->writeback)) {
		log_msg("option data_passthrough: %s", data == DATA_FULL ?
			"data=full wants to see what is read and written" :
			"what the kernel writes below at once is not in its writeback cache; choose one of them");
		err = -EINVAL;
	}
	options->cache = (enum cache_mode)(cache + 1);
	options->overflow = (enum overflow_mode)overflow;
	options->load = (enum load_mode)load;
	options->data = (enum data_mode)data;
	options->wait = (enum wait_mode)wait;
	options->transport = (enum transport)transport;
	options->threads = (unsigned int)threads;
	options->dir_readahead = (unsigned int)readahead;
	options->ready_fd = (int)ready_fd;
	options->keep_runs = (unsigned int)keep_runs;
	if (options->singlethread)
		options->threads = 1;
	return err;
}

static int check(const struct options *options, const struct raw *raw)
{
	if (raw->too_many || !raw->source || !raw->mountpoint) {
		log_msg("%s (fstapefs -h prints help)",
			raw->too_many ? "more than a SOURCE and a MOUNTPOINT given" :
					"needs a SOURCE directory and a MOUNTPOINT");
		return -EINVAL;
	}
	if (!raw->db && !options->norecord) {
		log_msg("needs -o db=FILE to record into, or -o norecord (fstapefs -h prints help)");
		return -EINVAL;
	}
	return 0;
}

/* A path that stays right when the daemon leaves its directory; as it is, where what is wrong with it will be said. */
static char *absolute(const char *path)
{
	return path_resolve_new(path) ?: strdup(path);
}

/* The options that libfuse keeps, for the record. */
static char *remaining_options(const struct fuse_args *args)
{
	struct strbuf text = {};

	for (int i = 1; i < args->argc; i++)
		if (strcmp(args->argv[i], "-o") != 0)
			strbuf_addf(&text, "%s%s", text.len ? "," : "", args->argv[i]);
	return text.buf;
}

static void free_raw(struct raw *raw)
{
#define WORD(name) free(raw->name);
	WORDS(WORD)
#undef WORD
	free(raw->source);
	free(raw->mountpoint);
}

int options_parse(struct options *options, struct fuse_args *args)
{
	struct raw raw = { .options = options };
	int err;

	*options = (struct options){ .spool_size = DEFAULT_SPOOL, .entry_timeout = -1, .attr_timeout = -1, .ready_fd = -1 };
	if (fuse_opt_parse(args, options, switch_table, NULL) < 0 ||
		fuse_opt_parse(args, &raw, option_table, process_option) < 0) {
		free_raw(&raw);
		return -EINVAL;
	}
	if (options->show_help || options->show_version) {
		free_raw(&raw);
		return 0;
	}
	err = check(options, &raw);
	err = err ?: convert(options, &raw);
	if (err == 0) {
		options->source = absolute(raw.source);
		options->mountpoint = absolute(raw.mountpoint);
		options->db = raw.db && !options->norecord ? absolute(raw.db) : NULL;
		options->label = steal_ptr(&raw.label);
		options->mount_text = remaining_options(args);
	}
	free_raw(&raw);
	return err;
}

void options_free(struct options *options)
{
	free(options->source);
	free(options->mountpoint);
	free(options->db);
	free(options->label);
	free(options->mount_text);
}

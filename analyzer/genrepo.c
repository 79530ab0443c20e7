/* SPDX-License-Identifier: MIT */
#include "genrepo.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base.h"
#include "child.h"
#include "isolate.h"
#include "statistics.h"

#define FILES_PER_FOLDER   16
#define FOLDERS_PER_FOLDER 6
#define FIRST_COMMIT_TIME  1167609600 /* 2007-01-01 00:00:00 UTC */

struct generator {
	const struct genrepo_options *options;
	struct random random;
	FILE *stream;    /* to fast-import */
	uint32_t *files; /* numbers of the files that exist now, in no order */
	uint32_t count;
	uint32_t next_file; /* numbers are not used again */
	struct strbuf text; /* of one file */
};

static const char *const words[] = {
	"and", "buffer", "char", "count", "define", "else", "entry", "error", "file", "flags", "for",
	"free", "goto", "head", "if", "include", "index", "inode", "int", "length", "list", "lock",
	"long", "mask", "mode", "mutex", "name", "next", "node", "offset", "page", "path", "queue",
	"read", "return", "size", "state", "static", "struct", "sync", "table", "tree", "type", "unlock",
	"unsigned", "value", "void", "while", "write", "zero",
};

/* Folder 0 is the root; the others hang in a tree of FOLDERS_PER_FOLDER branches. */
static void add_folder(struct strbuf *path, uint32_t folder)
{
	if (folder == 0)
		return;
	add_folder(path, (folder - 1) / FOLDERS_PER_FOLDER);
	strbuf_addf(path, "%s%02" PRIx32 "/", words[folder % ARRAY_SIZE(words)], folder);
}

/* A file's number decides its path, kind and mean size, so that rewriting keeps them. */
static void add_path(const struct generator *gen, struct strbuf *path, uint32_t file)
{
	static const char *const suffixes[] = { ".c", ".h", ".txt", ".py", "", ".md" };
	uint32_t folders = gen->options->files / FILES_PER_FOLDER + 1;
	struct random random = { gen->options->seed ^ file };
	uint32_t folder = (uint32_t)random_below(&random, folders);

	add_folder(path, folder);
	strbuf_addf(path, "%s-%" PRIu32 "%s", words[random_below(&random, ARRAY_SIZE(words))], file,
		suffixes[random_below(&random, ARRAY_SIZE(suffixes))]);
}

/* Words with numbers among them: without these it would pack far better than real text. */
static void make_text(struct generator *gen)
{
	double mean = gen->options->mean_bytes;
	size_t size = (size_t)(-log(random_unit(&gen->random)) * mean) + 1;
	struct strbuf *text = &gen->text;

	text->len = 0;
	while (text->len < size && !text->failed) {
		uint64_t dice = random_next(&gen->random);
		const char *word = words[(dice & 0xffff) % ARRAY_SIZE(words)];

		strbuf_add(text, word, strlen(word));
		if ((dice >> 16) % 4 == 0)
			strbuf_addf(text, "_%04" PRIx64, (dice >> 24) & 0xffff);
		strbuf_add(text, (dice >> 40) % 8 == 0 ? "\n" : " ", 1);
	}
	text->len = size < text->len ? size : text->len;
	if (text->buf)
		text->buf[text->len - 1] = '\n';
}

static void write_file(struct generator *gen, uint32_t file)
{
	struct strbuf auto_strbuf path = {};
	bool link = file % 100 == 99;
	const char *mode = "120000";

	add_path(gen, &path, file);
	if (link) {
		gen->text.len = 0;
		strbuf_addf(&gen->text, "target-%04" PRIx64, random_below(&gen->random, 10000));
	} else {
		make_text(gen);
	}
	if (path.failed || gen->text.failed)
		return; /* seen at the end */
	if (!link)
		mode = file % 50 == 7 ? "100755" : "100644";
	fprintf(gen->stream, "M %s inline %s\ndata %zu\n", mode, path.buf, gen->text.len);
	fwrite(gen->text.buf, 1, gen->text.len, gen->stream);
	fputc('\n', gen->stream);
}

static void delete_file(struct generator *gen, uint32_t slot)
{
	struct strbuf auto_strbuf path = {};

	add_path(gen, &path, gen->files[slot]);
	gen->files[slot] = gen->files[--gen->count];
	if (path.buf)
		fprintf(gen->stream, "D %s\n", path.buf);
}

static void add_files(struct generator *gen, uint32_t count)
{
	for (uint32_t i = 0; i < count && !isolate_stopped(); i++) {
		gen->files[gen->count++] = gen->next_file;
		write_file(gen, gen->next_file++);
	}
}

static void write_commit(struct generator *gen, uint32_t number)
{
	char message[64];
	int len = snprintf(message, sizeof(message), "Commit %" PRIu32 "\n", number + 1);

	fprintf(gen->stream,
		"commit refs/heads/master\ncommitter Nobody <nobody@example.org> %d +0000\ndata %d\n%s",
		(int)(FIRST_COMMIT_TIME + number * 3600), len, message);
	if (number == 0) {
		add_files(gen, gen->options->files);
	} else {
		uint32_t change = gen->count / 10 ? gen->count / 10 : 1, replace = gen->count / 100;

		for (uint32_t i = 0; i < replace; i++)
			delete_file(gen, (uint32_t)random_below(&gen->random, gen->count));
		for (uint32_t i = 0; i < change; i++)
			write_file(gen, gen->files[random_below(&gen->random, gen->count)]);
		add_files(gen, replace);
	}
	fputc('\n', gen->stream);
}

/* Returns whether all could be written; fast-import says itself what it did not like. */
static bool write_history(struct generator *gen)
{
	for (uint32_t i = 0; i < gen->options->commits && !ferror(gen->stream) && !isolate_stopped(); i++)
		write_commit(gen, i);
	fputs("done\n", gen->stream);
	return fflush(gen->stream) == 0 && !gen->text.failed;
}

int genrepo_make(const char *git_dir, const struct genrepo_options *options)
{
	char *argv[] = { "git", "-C", (char *)git_dir, "fast-import", "--quiet", "--done",
		"--date-format=raw", NULL };
	struct generator gen = { .options = options, .random = { options->seed } };
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	struct child_result result = {};
	bool written = false;
	pid_t pid;
	int fd, err;

	gen.files = calloc((size_t)options->files + 1, sizeof(*gen.files));
	if (!gen.files)
		return log_errno(ENOMEM, "cannot generate a repository");
	err = child_start_writer(argv, NULL, &pid, &fd);
	if (err < 0) {
		free(gen.files);
		return log_errno(err, "cannot run git fast-import to generate a repository");
	}
	sigaction(SIGPIPE, &ignore, &before);
	gen.stream = fdopen(fd, "w");
	if (gen.stream) {
		setvbuf(gen.stream, NULL, _IOFBF, 1 << 16);
		written = write_history(&gen);
		if (isolate_stopped())
			kill(pid, SIGTERM); /* before it complains that the stream ends early */
		fclose(gen.stream);
	} else {
		close(fd);
	}
	sigaction(SIGPIPE, &before, NULL);
	err = child_wait(pid, &result);
	free(gen.files);
	strbuf_free(&gen.text);
	if (isolate_stopped() || (err == 0 && result.status == 128 + SIGINT))
		return -ECANCELED;
	if (err == 0 && written && result.status == 0)
		return 0;
	log_msg("%s: cannot generate a repository: git fast-import ended with status %d", git_dir,
		result.status);
	return -EIO;
}

/* SPDX-License-Identifier: MIT */
#include <linux/falloc.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/xattr.h>

#include "twin.h"

enum {
	AT = 1 << 0,
	AT2 = 1 << 1,
	MODE = 1 << 2,
	SLOT = 1 << 3,
	SLOT2 = 1 << 4,
	MAP = 1 << 5,
	FLAGS = 1 << 6,
	LEN = 1 << 7,
	VALUE = 1 << 8,
	OFF = 1 << 9,
	OFF2 = 1 << 10,
	OWNER = 1 << 11,
};

struct choice {
	uint32_t value;
	const char *text;
};
#define C(value) { value, #value }

static const struct choice choices_none[] = { { 0, "" } };
static const struct choice choices_open[] = { { 0, "" } }; /* see random_open_flags() */
static const struct choice choices_unlink[] = { { 0, "0" }, { 0, "0" }, C(AT_REMOVEDIR) };
static const struct choice choices_rename[] = { { 0, "0" }, { 0, "0" }, { 0, "0" }, { 0, "0" }, C(RENAME_NOREPLACE),
	C(RENAME_EXCHANGE), C(RENAME_WHITEOUT), C(RENAME_NOREPLACE | RENAME_EXCHANGE) };
static const struct choice choices_follow[] = { { 0, "0" }, { 0, "0" }, C(AT_SYMLINK_FOLLOW) };
static const struct choice choices_nofollow[] = { { 0, "0" }, C(AT_SYMLINK_NOFOLLOW) };
static const struct choice choices_stat[] = { { 0, "0" }, C(AT_SYMLINK_NOFOLLOW), C(AT_STATX_FORCE_SYNC),
	C(AT_EMPTY_PATH) };
static const struct choice choices_mknod[] = { C(S_IFIFO), C(S_IFSOCK), C(S_IFREG), { 0, "0" }, C(S_IFCHR), C(S_IFDIR) };
static const struct choice choices_access[] = { { 0, "0" }, C(AT_EACCESS), C(AT_EACCESS), C(AT_SYMLINK_NOFOLLOW) };
static const struct choice choices_attribute[] = { { 0, "0" }, { 0x40, "NODUMP" }, { 0x80, "NOATIME" } };
static const struct choice choices_xattr[] = { { 0, "0" }, { 0, "0" }, C(XATTR_CREATE), C(XATTR_REPLACE) };
static const struct choice choices_append[] = { { 0, "0" }, C(O_APPEND) };
static const struct choice choices_whence[] = { C(SEEK_SET), C(SEEK_CUR), C(SEEK_END), C(SEEK_DATA), C(SEEK_HOLE) };
static const struct choice choices_fallocate[] = { { 0, "0" }, C(FALLOC_FL_KEEP_SIZE),
	C(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE), C(FALLOC_FL_ZERO_RANGE),
	C(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE), C(FALLOC_FL_PUNCH_HOLE) };
static const struct choice choices_copy[] = { { 0, "by position" }, { 1, "at offsets" }, { 2, "from an offset" } };
static const struct choice choices_fsync[] = { { 0, "fsync" }, { 1, "fdatasync" } };
static const struct choice choices_map[] = { C(PROT_READ | PROT_WRITE), C(PROT_READ | PROT_WRITE), C(PROT_READ),
	{ PROT_READ | 1u << 16, "PROT_READ, MAP_PRIVATE" } };
static const struct choice choices_flock[] = { C(LOCK_SH), C(LOCK_EX), C(LOCK_UN) };
static const struct choice choices_lock[] = { C(F_RDLCK), C(F_WRLCK), C(F_UNLCK) };

static const struct row {
	const char *name;
	unsigned int weight, uses;
	const struct choice *choices;
	size_t n_choices;
} rows[] = {
#define STEP(name, weight, uses, choices)                                                                              \
	[STEP_##name] = { #name, weight, uses, choices_##choices, ARRAY_SIZE(choices_##choices) },
#include "steps.def"
#undef STEP
};

static const struct choice open_bits[] = { C(O_CREAT), C(O_EXCL), C(O_TRUNC), C(O_APPEND), C(O_DIRECTORY), C(O_NOFOLLOW),
	C(O_PATH), C(O_SYNC), C(O_DSYNC), C(O_NOATIME) };
static const unsigned int open_percent[] = { 45, 8, 12, 12, 8, 8, 8, 3, 3, 4 };

/* splitmix64 */
static uint64_t next(struct random *random)
{
	uint64_t z = random->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static uint32_t below(struct random *random, uint32_t limit)
{
	return (uint32_t)((next(random) >> 32) * limit >> 32);
}

static bool percent(struct random *random, unsigned int chance)
{
	return below(random, 100) < chance;
}

/* Few names, so that steps meet each other's work. */
static struct place random_place(struct random *random)
{
	static const char usual[] = "aaaabbbbcccddde", odd[] = "LNXB";
	struct place place = { .base = BASE_ROOT, .slot = (uint8_t)below(random, SLOTS) };
	unsigned int depth = percent(random, 55) ? 1 : percent(random, 66) ? 2 : 3;
	unsigned int where = below(random, 100);
	size_t at = 0;

	if (where < 12)
		place.base = BASE_SLOT;
	else if (where < 25)
		place.base = BASE_CWD;
	else if (where < 30)
		place.base = BASE_ABSOLUTE;
	while (depth--) {
		if (percent(random, 3))
			place.text[at++] = '.';
		place.text[at++] = percent(random, 3) ? odd[below(random, sizeof(odd) - 1)] :
							usual[below(random, sizeof(usual) - 1)];
	}
	if (percent(random, 6))
		place.text[at++] = "/.^"[below(random, 3)];
	place.text[at] = '\0';
	return place;
}

void place_text(const struct place *place, char text[static PLACE_MAX])
{
	size_t at = 0;

	text[0] = '\0';
	for (const char *c = place->text; *c; c++) {
		if (*c == '/' || c != place->text)
			text[at++] = '/';
		switch (*c) {
		case '/': break;
		case 'L': memset(text + at, 'n', 255), at += 255; break;
		case 'X': memset(text + at, 'x', 256), at += 256; break;
		case 'N': memcpy(text + at, "w\n\xff'\" \\", 7), at += 7; break;
		case 'B': memcpy(text + at, "\x01%s", 3), at += 3; break;
		case '^': text[at++] = '.', text[at++] = '.'; break;
		default: text[at++] = *c;
		}
	}
	text[at] = '\0';
}

static int64_t random_offset(struct random *random)
{
	unsigned int kind = below(random, 100);
	int64_t offset = kind < 65 ? below(random, 16 << 10) : kind < 92 ? below(random, 200 << 10) :
			 kind < 98 ? below(random, 2 << 20) : kind < 99 ? (1ll << 32) + below(random, 1 << 16) : -5;

	return percent(random, 40) ? offset & ~4095ll : offset;
}

static uint32_t random_length(struct random *random)
{
	unsigned int kind = below(random, 100);
	uint32_t len = kind < 70 ? below(random, 6000) : kind < 95 ? below(random, 40 << 10) : below(random, DATA_MAX);

	return percent(random, 30) ? len & ~4095u : len;
}

static uint32_t random_open_flags(struct random *random)
{
	static const uint32_t modes[] = { O_RDWR, O_RDWR, O_RDWR, O_WRONLY, O_RDONLY, O_RDONLY };
	uint32_t flags = modes[below(random, ARRAY_SIZE(modes))];

	for (size_t i = 0; i < ARRAY_SIZE(open_bits); i++)
		if (percent(random, open_percent[i]))
			flags |= open_bits[i].value;
	return flags;
}

static void random_step(struct random *random, const struct step *before, struct step *step)
{
	static const uint16_t modes[] = { 0644, 0755, 0755, 0777, 0777, 0666, 0600, 0700, 0, 0444, 0555, 04755, 02755,
		06777, 01777, 02777, 0070, 0007, 0664, 0775 };
	static const uint16_t umasks[] = { 0, 022, 022, 077, 027, 0177 };
	static const uint8_t actors[] = { 0, 0, 0, 0, 0, 1, 1, 1, 2, 2 };
	static const uint32_t owners[] = { 0, 1000, 1001, 2000, (uint32_t)-1, (uint32_t)-1 };
	const struct row *row;
	uint32_t total = 0, at;

	for (size_t i = 0; i < STEP_COUNT; i++)
		total += rows[i].weight;
	at = below(random, total);
	*step = (struct step){ .actor = before->actor, .umask = before->umask };
	while (at >= rows[step->kind].weight)
		at -= rows[step->kind++].weight;
	row = &rows[step->kind];
	if (percent(random, 6))
		step->actor = actors[below(random, ARRAY_SIZE(actors))];
	if (percent(random, 2))
		step->umask = umasks[below(random, ARRAY_SIZE(umasks))];
	step->at = random_place(random);
	step->at2 = random_place(random);
	step->slot = (uint8_t)below(random, SLOTS);
	step->slot2 = (uint8_t)below(random, SLOTS);
	step->map = (uint8_t)below(random, MAPS);
	step->flags = row->choices == choices_open ? random_open_flags(random) :
						     row->choices[below(random, (uint32_t)row->n_choices)].value;
	step->mode = modes[below(random, ARRAY_SIZE(modes))];
	step->len = random_length(random);
	step->value = (uint32_t)next(random);
	step->off = random_offset(random);
	step->off2 = random_offset(random);
	step->uid = owners[below(random, ARRAY_SIZE(owners))];
	step->gid = owners[below(random, ARRAY_SIZE(owners))];
}

void steps_make(struct random *random, struct step *steps, size_t count)
{
	const struct step first = { .umask = 022 };

	for (size_t i = 0; i < count; i++)
		random_step(random, i ? &steps[i - 1] : &first, &steps[i]);
	if (count)
		steps[count - 1] = (struct step){ .kind = STEP_survey, .umask = 022 };
}

/* --- description --------------------------------------------------------------------------------------------------- */

static void describe_place(FILE *file, const struct place *place)
{
	char text[PLACE_MAX];

	if (place->base == BASE_SLOT)
		fprintf(file, " fd%u:", place->slot);
	else
		fputs(place->base == BASE_CWD ? " cwd:" : place->base == BASE_ABSOLUTE ? " /" : " ", file);
	place_text(place, text);
	fputc('"', file);
	for (const char *c = text; *c; c++) {
		if (strlen(text) > 100 && c == text + 8)
			fprintf(file, "..(%zu)", strlen(text) - 8), c = text + strlen(text) - 1;
		else if (*c < ' ' || *c == '"' || *c == '\\')
			fprintf(file, "\\%03o", (unsigned char)*c);
		else
			fputc(*c, file);
	}
	fputc('"', file);
}

static void describe_flags(FILE *file, const struct row *row, uint32_t flags)
{
	fputc(' ', file);
	if (row->choices == choices_open) {
		fputs((flags & O_ACCMODE) == O_RDWR ? "O_RDWR" : flags & O_WRONLY ? "O_WRONLY" : "O_RDONLY", file);
		for (size_t i = 0; i < ARRAY_SIZE(open_bits); i++)
			if ((flags & open_bits[i].value) == open_bits[i].value)
				fprintf(file, "|%s", open_bits[i].text);
		return;
	}
	for (size_t i = 0; i < row->n_choices; i++)
		if (row->choices[i].value == flags) {
			fputs(row->choices[i].text, file);
			return;
		}
}

void step_describe(FILE *file, const struct step *s)
{
	static const char *const users[] = { "root", "user 1000", "user 1001" };
	const struct row *row = &rows[s->kind];

	fputs(row->name, file);
	if (row->uses & SLOT)
		fprintf(file, " fd%u", s->slot);
	if (row->uses & SLOT2)
		fprintf(file, " fd%u", s->slot2);
	if (row->uses & MAP)
		fprintf(file, " map%u", s->map);
	if (row->uses & AT)
		describe_place(file, &s->at);
	if (row->uses & AT2)
		describe_place(file, &s->at2);
	if (row->uses & FLAGS || row->choices == choices_open)
		describe_flags(file, row, s->flags);
	if (row->uses & MODE)
		fprintf(file, " mode=%04o", s->mode);
	if (row->uses & OFF)
		fprintf(file, " off=%lld", (long long)s->off);
	if (row->uses & OFF2)
		fprintf(file, " off2=%lld", (long long)s->off2);
	if (row->uses & LEN)
		fprintf(file, " len=%u", s->len);
	if (row->uses & VALUE)
		fprintf(file, " value=%u", s->value);
	if (row->uses & OWNER)
		fprintf(file, " uid=%d gid=%d", (int)s->uid, (int)s->gid);
	fprintf(file, "   [%s, umask %03o]", users[s->actor], s->umask);
}

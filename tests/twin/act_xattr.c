/* SPDX-License-Identifier: MIT */
/* act_xattr.c - steps about extended attributes, access control lists and file capabilities among them. */
#include <linux/capability.h>
#include <linux/posix_acl_xattr.h>
#include <string.h>
#include <sys/xattr.h>

#include "acts.h"

#define XATTR_VALUE_MAX 70000u

static const char *const names[] = { "user.a", "user.a", "user.b", "trusted.t", "security.x", "security.capability",
	"system.posix_acl_access", "system.posix_acl_access", "system.posix_acl_default", "nonsense.x", "user.", };

static const char *name_of(const struct step *s)
{
	return names[s->value % ARRAY_SIZE(names)];
}

/* A valid list: owner, one user, group, mask, others. */
static size_t acl_value(char *data, uint32_t bits)
{
	static const uint16_t tags[] = { 1, 2, 4, 0x10, 0x20 };
	struct posix_acl_xattr_header header = { .a_version = POSIX_ACL_XATTR_VERSION };

	memcpy(data, &header, sizeof(header));
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		struct posix_acl_xattr_entry entry = {
			.e_tag = tags[i],
			.e_perm = (bits >> 3 * i) & 7,
			.e_id = tags[i] == 2 ? 1001 : (uint32_t)-1,
		};

		memcpy(data + sizeof(header) + i * sizeof(entry), &entry, sizeof(entry));
	}
	return sizeof(header) + ARRAY_SIZE(tags) * sizeof(struct posix_acl_xattr_entry);
}

static size_t make_value(struct world *w, const struct step *s)
{
	const char *name = name_of(s);
	struct vfs_cap_data cap = { .magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
		.data = { { .permitted = s->value & 0xff } } };
	size_t len = s->len % 50 == 0 ? XATTR_VALUE_MAX : s->len % 20 == 0 ? 3000 : s->len % 200;

	world_data(w, s->value, len);
	if (s->len % 10 == 9) /* what is no list and no capability */
		return len;
	if (strncmp(name, "system.", 7) == 0)
		return acl_value(w->data, s->value >> 8);
	if (strcmp(name, "security.capability") == 0) {
		memcpy(w->data, &cap, sizeof(cap));
		return sizeof(cap);
	}
	return len;
}

bool act_has_setid(int fd, const char *path)
{
	struct stat st;

	return (path ? stat(path, &st) : fstat(fd, &st)) == 0 && st.st_mode & (S_ISUID | S_ISGID);
}

bool act_has_capability(int fd, const char *path)
{
	const char *name = "security.capability";

	return (path ? getxattr(path, name, NULL, 0) : fgetxattr(fd, name, NULL, 0)) >= 0;
}

/* Not both: see twin.h. */
static bool is_capability_with_setid(const struct step *s, int fd, const char *path)
{
	return strcmp(name_of(s), "security.capability") == 0 && act_has_setid(fd, path);
}

void act_setxattr(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	size_t len = make_value(w, s);

	world_path(&s->at, path);
	if (is_capability_with_setid(s, -1, path))
		return;
	say_result(w, (s->len & 1 ? lsetxattr : setxattr)(path, name_of(s), w->data, len, (int)s->flags));
}

void act_fsetxattr(struct world *w, const struct step *s)
{
	size_t len = make_value(w, s);

	if (is_capability_with_setid(s, w->slots[s->slot], NULL))
		return;
	say_result(w, fsetxattr(w->slots[s->slot], name_of(s), w->data, len, (int)s->flags));
}

/* With room for it, with too little, and asked for its size only. */
static size_t room_of(const struct step *s)
{
	return s->value >> 16 & 3 ? XATTR_VALUE_MAX : s->value >> 18 & 1 ? 10 : 0;
}

static void say_value(struct world *w, ssize_t len, size_t room)
{
	say_result(w, len);
	if (len > 0 && room)
		say_bytes(w, w->data, (size_t)len);
}

void act_getxattr(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];

	world_path(&s->at, path);
	say_value(w, (s->len & 1 ? lgetxattr : getxattr)(path, name_of(s), w->data, room_of(s)), room_of(s));
}

void act_fgetxattr(struct world *w, const struct step *s)
{
	say_value(w, fgetxattr(w->slots[s->slot], name_of(s), w->data, room_of(s)), room_of(s));
}

/* The order is the filesystem's own. */
void act_listxattr(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];
	uint64_t sum = 0;
	ssize_t len;

	world_path(&s->at, path);
	len = llistxattr(path, w->data, s->len & 1 ? DATA_MAX : 4);
	say_result(w, len);
	for (ssize_t i = 0; i < len; i++) {
		uint64_t hash = 14695981039346656037ull; /* FNV-1a */

		for (; i < len && w->data[i]; i++)
			hash = (hash ^ (unsigned char)w->data[i]) * 1099511628211ull;
		sum += hash;
	}
	say(w, " %llx", (unsigned long long)sum);
}

void act_removexattr(struct world *w, const struct step *s)
{
	char path[PATH_ROOM];

	world_path(&s->at, path);
	say_result(w, (s->len & 1 ? lremovexattr : removexattr)(path, name_of(s)));
}

#include "hook/settings_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static enum err find_path(struct settings_file *t, struct fault *f)
{
    const struct hook_options *o = t->options;
    const char *home = getenv("HOME"), *path = o->to.bytes;
    char joined[PATH_MAX];
    if (t->place == NULL)
        return fault_set(f, ERR_BAD_VALUE, "",
                         "the hook of %s is not installed by this program: the guide for coding "
                         "agents has its form",
                         o->agent->title);
    if (path == NULL) path = t->place->path;
    if (str_is_absent(o->to) && *path != '/') {
        if (home == NULL || *home != '/')
            return fault_set(f, ERR_BAD_VALUE, "", "HOME is not set: name the file with --to");
        snprintf(joined, sizeof joined, "%s/%s", home, path);
        path = joined;
    }
    if (strlen(path) >= sizeof t->path)
        return fault_set(f, ERR_BAD_VALUE, "", "the path is too long");
    if (realpath(path, t->path) == NULL) memcpy(t->path, path, strlen(path) + 1);
    return ERR_OK;
}

static enum err read_before(struct settings_file *t, struct fault *f)
{
    struct stat s;
    int fd = open(t->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    char *bytes = arena_bytes(&t->arena, SETTINGS_BYTES_MAX);
    size_t size = 0;
    bool is_read = fd >= 0 && bytes != NULL && fstat(fd, &s) == 0 &&
                   file_read(fd, bytes, SETTINGS_BYTES_MAX, &size);
    int error = errno;
    if (fd >= 0) close(fd);
    if (!is_read || size == SETTINGS_BYTES_MAX)
        return fault_set(f, ERR_IO, "", "it cannot be read: %s",
                         is_read ? "it is too large" : strerror(error));
    t->before = str_of(bytes, size);
    t->mode = s.st_mode & 07777;
    return ERR_OK;
}

enum err settings_file_open(struct settings_file *t, const struct hook_options *o, struct fault *f)
{
    *t = (struct settings_file){.options = o,
                                .place = settings_place(o->agent, o->managed),
                                .mode = o->managed ? 0644 : 0600};
    arena_init(&t->arena, 64 << 10, 256 << 20);
    enum err err = find_path(t, f);
    return err == ERR_OK ? read_before(t, f) : err;
}

/* The folders above the file. */
static bool make_folders(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] != '/') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, mode) != 0 && errno != EEXIST) return false;
    }
    return true;
}

/* A reader sees the old file or the new one. */
enum err settings_file_replace(const struct settings_file *t, struct str text, struct fault *f)
{
    char aside[PATH_MAX + 16], folder[PATH_MAX];
    snprintf(aside, sizeof aside, "%s.writ-hook", t->path);
    snprintf(folder, sizeof folder, "%s", t->path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) *slash = '\0';
    bool is_made = make_folders(t->path, t->options->managed ? 0755 : 0700);
    if (is_made) (void)unlink(aside); /* of a run that was ended */
    is_made = is_made && file_make(aside, text) && chmod(aside, t->mode) == 0 &&
              rename(aside, t->path) == 0;
    if (!is_made) {
        int error = errno;
        (void)unlink(aside);
        return fault_set(f, ERR_IO, "", "it cannot be written: %s", strerror(error));
    }
    (void)folder_sync(slash == NULL ? "." : folder);
    return ERR_OK;
}

void settings_file_close(struct settings_file *t) { arena_fini(&t->arena); }

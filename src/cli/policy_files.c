/* policy_files.c - finds the documents in files and directories, and joins them into a set.
 *
 * A directory stands for all documents in it and below, in byte order of their paths. Names that
 * begin with a dot are skipped, because git and editors have their own files there. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "cli/policy.h"

struct str policy_name_of(struct str path)
{
    size_t from = path.size;
    while (from > 0 && path.bytes[from - 1] != '/') from--;
    struct str name = str_skip(path, from);
    struct str stem = policy_file_stem(name);
    return str_is_absent(stem) ? name : stem;
}

enum { FILES_MAX = 10000, FOLDERS_DEEP = 8 };

/* Whether the path ends in .yaml, .yml or .json. */
static bool is_document(struct str path)
{
    struct str name = policy_name_of(path);
    return name.bytes + name.size < path.bytes + path.size;
}

static int add(struct cli *c, struct policy_files *files, const char *path)
{
    if (files->count == FILES_MAX)
        return cli_complain(c, USAGE, "the limit is %d documents; name fewer files", FILES_MAX);
    if (files->count == files->room) {
        size_t room = files->room * 2 + 64;
        const char **larger = arena_array(&c->arena, const char *, room);
        if (larger == NULL) return cli_complain(c, REFUSED, "there is no memory");
        if (files->count > 0) memcpy(larger, files->paths, files->count * sizeof *larger);
        files->paths = larger;
        files->room = room;
    }
    files->paths[files->count++] = path;
    return DONE;
}

static int compare_names(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The entries of a folder, as sorted paths. */
static int list_folder(struct cli *c, const char *path, struct policy_files *ret)
{
    DIR *folder = opendir(path);
    if (folder == NULL)
        return cli_complain(c, USAGE, "%s cannot be opened: %s", path, strerror(errno));
    size_t size = strlen(path);
    const char *slash = size > 0 && path[size - 1] == '/' ? "" : "/";
    int code = DONE;
    for (struct dirent *entry; code == DONE && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.') continue;
        struct str one = arena_printf(&c->arena, "%s%s%s", path, slash, entry->d_name);
        code = str_is_absent(one) ? cli_complain(c, REFUSED, "there is no memory")
                                  : add(c, ret, one.bytes);
    }
    closedir(folder);
    if (code == DONE && ret->count > 0)
        qsort(ret->paths, ret->count, sizeof *ret->paths, compare_names);
    return code;
}

static int add_folder(struct cli *c, const char *path, unsigned depth, struct policy_files *files)
{
    struct policy_files found = {0};
    if (depth == FOLDERS_DEEP)
        return cli_complain(c, USAGE, "%s: folders are nested too deeply", path);
    int code = list_folder(c, path, &found);
    for (size_t i = 0; i < found.count && code == DONE; i++) {
        struct stat about;
        /* a broken link is reported when it is read */
        bool is_there = stat(found.paths[i], &about) == 0;
        if (is_there && S_ISDIR(about.st_mode))
            code = add_folder(c, found.paths[i], depth + 1, files);
        else if (is_document(str_from(found.paths[i])))
            code = add(c, files, found.paths[i]);
    }
    return code;
}

bool policy_is_folder(const char *path)
{
    struct stat about;
    return strcmp(path, "-") != 0 && stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

int policy_files_add(struct cli *c, const char *path, struct policy_files *files)
{
    size_t before = files->count;
    if (!policy_is_folder(path)) return add(c, files, path);
    int code = add_folder(c, path, 0, files);
    if (code == DONE && files->count == before)
        return cli_complain(c, USAGE, "%s holds no documents (*.yaml, *.yml, *.json)", path);
    return code;
}

int policy_file_text(struct cli *c, const char *file, struct str *ret)
{
    return file_text(c, str_from(file), LIMIT_POLICY_BODY_BYTES, ret);
}

int policy_text_load(struct cli *c, const char *file, struct str text, bool tested,
                     struct policy_document **ret, struct policy_problems *problems)
{
    struct str name = strcmp(file, "-") == 0 ? STR("stdin") : policy_name_of(str_from(file));
    *problems = (struct policy_problems){0};
    enum err e = tested ? policy_load(name, text, ret, problems)
                        : policy_load_untested(name, text, ret, problems);
    if (e == ERR_OK) return DONE;
    if (problems->count == 0) cli_complain(c, REFUSED, "%s: %s", file, err_sentence(e));
    return REFUSED;
}

int policy_file_load(struct cli *c, const char *file, bool tested, struct policy_document **ret,
                     struct policy_problems *problems)
{
    struct str text;
    *problems = (struct policy_problems){0};
    int code = policy_file_text(c, file, &text);
    return code != DONE ? code : policy_text_load(c, file, text, tested, ret, problems);
}

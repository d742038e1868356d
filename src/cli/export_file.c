#include "cli/export_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { STATE_MAX = 64 << 10, PAGE_FIRST = 1 << 20, PAGE_LIMIT = 256 << 20 };

/* ---- bytes ---- */

static bool write_all(int fd, struct str bytes, uint64_t at)
{
    while (bytes.size > 0) {
        ssize_t done = pwrite(fd, bytes.bytes, bytes.size, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += (uint64_t)done;
        bytes = str_skip(bytes, (size_t)done);
    }
    return true;
}

/* A file's name is safe on disk only after its directory was synced. */
static bool sync_directory(struct cli *c, const char *path)
{
    struct str copy = arena_copy(&c->arena, str_from(path));
    return !str_is_absent(copy) && folder_sync(dirname((char *)(uintptr_t)copy.bytes));
}

static int cannot(struct cli *c, const char *path, const char *what)
{
    return cli_complain(c, REFUSED, "%s cannot be %s: %s", path, what, strerror(errno));
}

/* ---- the state ---- */

static void put_state(struct buf *out, const struct export_file *x)
{
    buf_put_literal(out, "{\"asked\":");
    json_put_string(out, x->asked);
    buf_printf(out, ",\"bytes\":%llu,\"events\":%llu", (unsigned long long)x->bytes,
               (unsigned long long)x->events);
    if (x->last_id > 0) {
        buf_put_literal(out, ",\"last_event\":");
        json_put_string(out, x->last_event);
        buf_printf(out, ",\"last_id\":%llu", (unsigned long long)x->last_id);
    }
    buf_put_literal(out, ",\"target\":");
    json_put_string(out, x->target);
    buf_put_literal(out, "}\n");
}

static int write_state(struct cli *c, const struct export_file *x)
{
    char bytes[STATE_MAX], next[PATH_MAX];
    struct buf out = buf_over(bytes, sizeof bytes);
    put_state(&out, x);
    if (out.overflow || (size_t)snprintf(next, sizeof next, "%s.new", x->state_path) >= sizeof next)
        return cli_complain(c, USAGE, "%s: the name or the options are too long", x->path);
    if (unlink(next) != 0 && errno != ENOENT) return cannot(c, next, "removed");
    if (!file_make(next, buf_view(&out))) return cannot(c, next, "written");
    if (rename(next, x->state_path) != 0) return cannot(c, x->state_path, "written");
    return DONE;
}

static bool state_of(struct export_file *x, const struct json *root, struct str *ret_asked)
{
    *ret_asked = json_text(root, STR("asked"));
    x->target = json_text(root, STR("target"));
    x->bytes = json_u64(root, STR("bytes"), UINT64_MAX);
    x->events = json_u64(root, STR("events"), UINT64_MAX);
    x->last_id = json_u64(root, STR("last_id"), 0);
    x->last_event = json_text(root, STR("last_event"));
    bool has_last = x->last_id > 0;
    return !str_is_absent(*ret_asked) && str_starts(x->target, STR("/api/v1/audit")) &&
           x->bytes <= INT64_MAX && x->events <= INT64_MAX && x->last_id <= INT64_MAX &&
           has_last == !str_is_absent(x->last_event) && has_last == (x->events > 0);
}

static int read_state(struct cli *c, struct export_file *x)
{
    struct str text, asked;
    struct json *root;
    struct fault ignored;
    int code = file_text(c, str_from(x->state_path), STATE_MAX, &text);
    if (code != DONE) return code;
    if (json_read(text, NULL, &c->arena, &root, &ignored) != ERR_OK || !state_of(x, root, &asked))
        return cli_complain(c, REFUSED,
                            "%s is not the state of an export; remove it and %s to begin again",
                            x->state_path, x->path);
    if (str_equal(asked, x->asked)) return DONE;
    return cli_complain(
        c, USAGE, "%s was begun with other options (%.*s); give the same, or another --output",
        x->path, STR_FORMAT(text_shown(&c->arena, asked)));
}

/* ---- opening ---- */

static bool there_is(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0;
}

/* The lock belongs to a descriptor, so it ends with the process, however the process ends. */
static int lock_file(struct cli *c, struct export_file *x)
{
    struct stat s;
    if (flock(x->fd, LOCK_EX | LOCK_NB) != 0)
        return cli_complain(c, REFUSED, "%s is being written by another export", x->path);
    if (fstat(x->fd, &s) == 0 && s.st_nlink == 0)
        return cli_complain(c, REFUSED, "%s was just removed by an export that failed; try again",
                            x->path);
    return DONE;
}

/* The file, then its lock, then the state: if two exports begin at once, one makes the file. A kill
 * in between leaves an empty file, which --resume continues. */
static int open_new(struct cli *c, struct export_file *x)
{
    x->fd = open(x->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (x->fd < 0) return cannot(c, x->path, "made");
    int code = lock_file(c, x);
    if (code != DONE) return code;
    x->is_new = true;
    code = write_state(c, x);
    if (code != DONE) return code;
    return sync_directory(c, x->path) ? DONE : cannot(c, x->path, "synced");
}

/* Cuts off the bytes after the position of the state. */
static int cut_tail(struct cli *c, struct export_file *x)
{
    struct stat s;
    char last = '\n';
    if (fstat(x->fd, &s) != 0) return cannot(c, x->path, "read");
    bool is_whole = (uint64_t)s.st_size >= x->bytes &&
                    (x->bytes == 0 || pread(x->fd, &last, 1, (off_t)x->bytes - 1) == 1) &&
                    last == '\n';
    if (!is_whole)
        return cli_complain(c, REFUSED, "%s does not match %s: it was changed, or is another file",
                            x->path, x->state_path);
    return ftruncate(x->fd, (off_t)x->bytes) == 0 ? DONE : cannot(c, x->path, "cut");
}

static int open_old(struct cli *c, struct export_file *x)
{
    x->fd = open(x->path, O_RDWR | O_CLOEXEC);
    if (x->fd < 0) return cannot(c, x->path, "opened");
    struct stat s;
    int code = lock_file(c, x);
    if (code != DONE) return code;
    if (!there_is(x->state_path) && fstat(x->fd, &s) == 0 && s.st_size == 0)
        return write_state(c, x);
    if (!there_is(x->state_path))
        code = cli_complain(c, REFUSED, "%s cannot be continued: %s does not exist", x->path,
                            x->state_path);
    if (code == DONE) code = read_state(c, x);
    return code == DONE ? cut_tail(c, x) : code;
}

/* The export was killed before it made its file, or the file was removed. */
static int open_without_file(struct cli *c, struct export_file *x)
{
    int code = read_state(c, x);
    if (code != DONE) return code;
    if (x->bytes == 0) return open_new(c, x);
    return cli_complain(
        c, REFUSED,
        "%s does not exist, but %s has a position after %llu events; remove that to begin again",
        x->path, x->state_path, (unsigned long long)x->events);
}

int export_file_open(struct cli *c, struct export_file *x, bool resume)
{
    x->fd = -1;
    buf_init(&x->page, PAGE_FIRST, PAGE_LIMIT);
    if (x->path == NULL) return DONE;
    struct str state = arena_printf(&c->arena, "%s.export", x->path);
    x->state_path = (char *)(uintptr_t)state.bytes;
    if (there_is(x->path)) {
        if (resume) return open_old(c, x);
        return cli_complain(c, USAGE, "%s exists: continue it with --resume, or name another file",
                            x->path);
    }
    return resume && there_is(x->state_path) ? open_without_file(c, x) : open_new(c, x);
}

/* ---- writing ---- */

static int commit_output(struct cli *c, struct export_file *x)
{
    print_str(c->out, buf_view(&x->page));
    if (!print_end(c->out))
        return cli_complain(c, REFUSED, "the output could not be written: %s", strerror(errno));
    x->bytes += x->page.size;
    buf_clear(&x->page);
    return DONE;
}

int export_file_commit(struct cli *c, struct export_file *x)
{
    if (x->page.overflow)
        return cli_complain(c, REFUSED, "a page of events is larger than memory allows");
    if (x->path == NULL) return commit_output(c, x);
    if (!write_all(x->fd, buf_view(&x->page), x->bytes) || fdatasync(x->fd) != 0)
        return cannot(c, x->path, "written");
    x->bytes += x->page.size;
    buf_clear(&x->page);
    return write_state(c, x);
}

bool export_file_keep(struct export_file *x)
{
    if (x->path == NULL || !x->is_new || x->bytes > 0) return x->path != NULL;
    unlink(x->path);
    unlink(x->state_path);
    return false;
}

void export_file_close(struct export_file *x)
{
    if (x->path != NULL && x->fd >= 0) close(x->fd);
    buf_fini(&x->page);
}

#include "cli/key_output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

/* Only a regular file is replaced: a rename over /dev/stdout or a link would destroy it. */
static int check_replaceable(struct cli *c, const char *path)
{
    struct stat s;
    if (lstat(path, &s) != 0 || S_ISREG(s.st_mode)) return DONE;
    return cli_complain(c, USAGE, "--output: %s is not a regular file, so it is not replaced",
                        path);
}

static int cannot_make(struct cli *c, const struct key_output *o)
{
    if (errno != EEXIST)
        return cli_complain(c, USAGE, "--output: %s cannot be made: %s", o->made, strerror(errno));
    if (o->made != o->path)
        return cli_complain(c, USAGE,
                            "--output: %s exists: another command is writing it, or one was "
                            "interrupted; then remove it",
                            o->made);
    return cli_complain(
        c, USAGE, "--output: %s exists. Name another file, or replace it with --force", o->path);
}

int key_output_open(struct cli *c, const struct arguments *a, struct key_output *ret)
{
    struct str path = argument_text(a, "output");
    bool replaces = argument_given(a, "force");
    *ret = (struct key_output){.fd = -1};
    if (str_is_absent(path))
        return replaces ? cli_complain(c, USAGE, "--force needs --output FILE beside it") : DONE;
    if (path.size == 0) return cli_complain(c, USAGE, "--output needs the name of a file");
    ret->path = ret->made = path.bytes;
    if (replaces) {
        int code = check_replaceable(c, ret->path);
        if (code != DONE) return code;
        ret->made = arena_printf(&c->arena, "%s.new", ret->path).bytes;
    }
    ret->fd = open(ret->made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ret->fd < 0) return cannot_make(c, ret);
    (void)fchmod(ret->fd, 0600); /* a umask may have taken the owner's rights */
    return DONE;
}

static bool write_key(struct cli *c, struct key_output *o, struct str key)
{
    struct str folder = arena_copy(&c->arena, str_from(o->path));
    bool written = file_write(o->fd, key) && file_write(o->fd, STR("\n")) && fsync(o->fd) == 0 &&
                   (o->made == o->path || rename(o->made, o->path) == 0);
    int error = errno;
    close(o->fd);
    o->fd = -1;
    if (written) {
        /* A filesystem that cannot sync a folder has the file all the same. */
        (void)folder_sync(dirname((char *)(uintptr_t)folder.bytes));
        return true;
    }
    unlink(o->made);
    errno = error;
    return false;
}

int key_output_commit(struct cli *c, struct key_output *o, struct str key)
{
    if (write_key(c, o, key)) return DONE;
    return cli_complain(
        c, REFUSED, "the key was made, and %s cannot be written: %s. The key is lost: revoke it",
        o->path, strerror(errno));
}

void key_output_abandon(struct key_output *o)
{
    if (o->fd < 0) return;
    close(o->fd);
    o->fd = -1;
    unlink(o->made);
}

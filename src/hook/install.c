#include "hook/install.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "crypto/crypto.h"
#include "crypto/secret.h"
#include "hook/guard.h"
#include "hook/settings_file.h"
#include "hook/trust.h"

enum { DONE = 0, FAILED = 1, SECRET_BYTES = 4096 };

static int complain(const char *what, const struct fault *f)
{
    fprintf(stderr, "writ-hook: %s%s%s\n", what, *what == '\0' ? "" : ": ", f->text);
    return FAILED;
}

/* ---- the line ---- */

/* An agent starts the hook in another folder, so paths become absolute. */
static enum err absolute(struct settings_file *t, const char *option, struct str *path,
                         struct fault *f)
{
    char full[PATH_MAX];
    if (str_is_absent(*path)) return ERR_OK;
    if (realpath(path->bytes, full) == NULL)
        return fault_set(f, ERR_NOT_FOUND, "", "--%s: %s: %m", option, path->bytes);
    *path = arena_copy(&t->arena, str_from(full));
    return ERR_OK;
}

static enum err check_key(struct str path, struct fault *f)
{
    char secret[SECRET_BYTES];
    size_t size;
    enum err err = secret_read("--key-file", path.bytes, secret, sizeof secret, &size, f);
    memory_wipe(secret, sizeof secret);
    return err;
}

/* The settings with the hook, in `out`. */
static enum err make(struct settings_file *t, struct buf *out, struct fault *f)
{
    struct hook_options o = *t->options;
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size <= 0) return fault_set(f, ERR_IO, "", "this program does not know its own path");
    enum err err = absolute(t, "key-file", &o.key_file, f);
    if (err == ERR_OK) err = absolute(t, "tls-ca-file", &o.ca_file, f);
    if (err == ERR_OK) err = absolute(t, "tls-cert-file", &o.cert_file, f);
    if (err == ERR_OK) err = absolute(t, "tls-key-file", &o.cert_key_file, f);
    if (err == ERR_OK) err = check_key(o.key_file, f);
    if (err != ERR_OK) return err;
    struct buf line;
    buf_init(&line, 1 << 10, 64 << 10);
    guard_put(&line, str_of(program, (size_t)size), &o);
    err = line.overflow
              ? fault_plain(f, ERR_FULL)
              : settings_with(t->place, &o, buf_view(&line), t->before, &t->arena, out, f);
    buf_fini(&line);
    return err;
}

/* ---- the commands ---- */

static bool needs_trust(const struct settings_file *t)
{
    return str_equal(str_from(t->options->agent->name), STR("codex")) && !t->options->managed &&
           str_is_absent(t->options->to);
}

static int install(struct settings_file *t, struct buf *out)
{
    struct fault f;
    if (make(t, out, &f) != ERR_OK || settings_file_replace(t, buf_view(out), &f) != ERR_OK)
        return complain(t->path, &f);
    printf("%s starts the hook of %s\n", t->path, t->options->agent->title);
    if (!needs_trust(t)) return DONE;
    if (codex_trust(str_from(t->path), STR("writ-hook"), false, &f) != ERR_OK)
        return complain("", &f);
    printf("Codex trusts it\n");
    return DONE;
}

static int print(struct settings_file *t, struct buf *out)
{
    struct fault f;
    if (make(t, out, &f) != ERR_OK) return complain(t->path, &f);
    fwrite(out->bytes, 1, out->size, stdout);
    return DONE;
}

static int uninstall(struct settings_file *t, struct buf *out)
{
    struct fault f;
    if (str_is_absent(t->before)) {
        (void)fault_set(&f, ERR_NOT_FOUND, "", "there is no such file");
        return complain(t->path, &f);
    }
    enum err err = settings_without(t->place, t->options, t->before, &t->arena, out, &f);
    if (err == ERR_OK && out->size > 0) err = settings_file_replace(t, buf_view(out), &f);
    if (err == ERR_OK && out->size == 0 && unlink(t->path) != 0)
        err = fault_set(&f, ERR_IO, "", "it cannot be removed: %m");
    if (err != ERR_OK) return complain(t->path, &f);
    printf("%s does not start the hook any more\n", t->path);
    return DONE;
}

static int perform(const struct hook_options *o,
                   int (*command)(struct settings_file *, struct buf *))
{
    struct settings_file t;
    struct fault f;
    struct buf out;
    buf_init(&out, 4 << 10, SETTINGS_BYTES_MAX);
    int code = settings_file_open(&t, o, &f) == ERR_OK ? command(&t, &out) : complain(t.path, &f);
    buf_fini(&out);
    settings_file_close(&t);
    return code;
}

int hook_install(const struct hook_options *o) { return perform(o, install); }
int hook_uninstall(const struct hook_options *o) { return perform(o, uninstall); }
int hook_print(const struct hook_options *o) { return perform(o, print); }

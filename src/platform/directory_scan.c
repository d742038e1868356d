/* directory_scan.c - see directory_scan.h.
 *
 * The directory is one set: a document that is applied without its neighbour may allow what the
 * neighbour denies. To detect half a checkout or half a file, everything is read twice, one second
 * apart. All names, signs (device, inode, size, times) and texts must be alike. A file that is
 * written after the second reading has other times than those that were read, so the next look
 * finds it. Opening a file never blocks (a FIFO), and reading is bounded. */
#include "platform/directory_scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"

enum {
    BYTES_MAX = LIMIT_POLICY_BYTES_PER_TENANT,
    STEPS_MAX = 2 * LIMIT_POLICIES_PER_TENANT,
    LOGGED_MAX = 10, /* problems logged for one file */
    NAMED_MAX = 3,
    AGAIN_MS = 150, /* after a failed write to the store */
};

static uint64_t now_ms(const struct directory_scan *l) { return l->monotonic_ns() / 1000000 + 1; }

/* ---- reading the directory ---- */

static void __attribute__((format(printf, 2, 3)))
refuse_file(struct directory_file *f, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    f->problems = 1;
    f->line = f->column = 0;
}

/* `error` is an errno, or 0 if there is none. */
static void fail(struct directory_scan *l, const char *what, int error)
{
    snprintf(l->state.failure, sizeof l->state.failure, "%.200s %s%s%s; the policies in force stay",
             l->path, what, error == 0 ? "" : ": ", error == 0 ? "" : strerror(error));
}

/* Names that begin with a point or # belong to editors and other tools. */
static struct str stem_of(struct str file)
{
    if (file.size == 0 || file.bytes[0] == '.' || file.bytes[0] == '#') return (struct str){0};
    return policy_file_stem(file);
}

/* Reads the file's text, and adds to `signs` the values that change when the file changes. */
static void read_file(struct directory_file *f, int directory, const char *name, size_t *left,
                      struct buf *signs)
{
    struct stat about;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    buf_printf(signs, "%s ", f->file);
    if (fd < 0 || fstat(fd, &about) != 0) {
        refuse_file(f, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        refuse_file(f, "is not a regular file");
    } else if (about.st_size > LIMIT_POLICY_BODY_BYTES) {
        refuse_file(f, "has %lld bytes; the limit is 1 MiB", (long long)about.st_size);
    } else if ((size_t)about.st_size > *left) {
        refuse_file(f,
                    "makes the set too large: the documents of a tenant may have %d bytes together",
                    BYTES_MAX);
    } else {
        size_t room = (size_t)about.st_size + 1;
        f->content = malloc(room);
        check(f->content != NULL);
        if (!file_read(fd, f->content, room, &f->size))
            refuse_file(f, "cannot be read: %s", strerror(errno));
        else if (f->size != (size_t)about.st_size)
            refuse_file(
                f, "cannot be read completely: its size differs from the bytes that were read");
        *left -= (size_t)about.st_size;
        sha256_write_hex(sha256_once(str_of(f->content, f->problems > 0 ? 0 : f->size)), f->digest);
        buf_printf(signs, "%.*s ", SHA256_HEX, f->digest);
    }
    if (fd >= 0) {
        buf_printf(signs, "%llu %llu %lld %lld.%09ld %lld.%09ld", (unsigned long long)about.st_dev,
                   (unsigned long long)about.st_ino, (long long)about.st_size,
                   (long long)about.st_mtim.tv_sec, about.st_mtim.tv_nsec,
                   (long long)about.st_ctim.tv_sec, about.st_ctim.tv_nsec);
        close(fd);
    }
    buf_put_byte(signs, '\n');
}

static int is_document(const struct dirent *entry)
{
    return !str_is_absent(stem_of(str_from(entry->d_name)));
}

/* Sets the printable file name and, if the name is valid, the policy's name. */
static void name_file(struct directory_file *f, struct str file)
{
    struct str stem = stem_of(file);
    for (size_t i = 0; i < file.size && i < sizeof f->file - 1; i++)
        f->file[i] = file.bytes[i] > ' ' && file.bytes[i] < 0x7f ? file.bytes[i] : '?';
    if (policy_is_name(stem)) memcpy(f->name, stem.bytes, stem.size);
}

/* Reads all documents with their texts, sorted by name. Returns false with a failure. */
static bool read_directory(struct directory_scan *l, struct sha256 *ret_seen)
{
    struct directory_state *k = &l->state;
    struct dirent **entries = NULL;
    struct buf signs;
    size_t left = BYTES_MAX;
    int directory = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int count = directory < 0 ? -1 : scandirat(directory, ".", &entries, is_document, alphasort);
    if (count < 0)
        fail(l, "cannot be opened", errno);
    else if (count > DIRECTORY_FILES_MAX)
        fail(l, "holds more documents than a tenant may have", 0);
    buf_init(&signs, 4 << 10, 4 << 20);
    if (k->failure[0] == '\0') {
        k->file_count = (size_t)count;
        k->files = calloc(k->file_count + 1, sizeof *k->files);
        check(k->files != NULL);
        for (size_t i = 0; i < k->file_count; i++) {
            name_file(&k->files[i], str_from(entries[i]->d_name));
            read_file(&k->files[i], directory, entries[i]->d_name, &left, &signs);
        }
        *ret_seen = sha256_once(buf_view(&signs));
    }
    buf_fini(&signs);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    if (directory >= 0) close(directory);
    return k->failure[0] == '\0';
}

/* Refuses files whose name no policy can have, and two files for one policy, since neither can be
 * preferred. */
static void check_names(struct directory_state *k)
{
    struct map by_name = {0};
    for (size_t i = 0; i < k->file_count; i++) {
        struct directory_file *f = &k->files[i], *other;
        if (f->name[0] == '\0') {
            refuse_file(f,
                        "is not named like a policy: 1 to %d of [A-Za-z0-9._-] before the ending",
                        POLICY_NAME_MAX);
            continue;
        }
        other = map_get(&by_name, str_from(f->name));
        if (other == NULL) {
            check(map_put(&by_name, str_from(f->name), f));
            continue;
        }
        refuse_file(f, "is the policy %s, like %s: remove one of the two files", f->name,
                    other->file);
        refuse_file(other, "is the policy %s, like %s: remove one of the two files", f->name,
                    f->file);
    }
    map_fini(&by_name);
}

/* ---- the policies in force ---- */

/* The first few names of a list, for people. */
struct named {
    size_t count;
    struct buf names;
    char bytes[NAMED_MAX * (POLICY_NAME_MAX + 2) + 8];
};

static void name_one(struct named *n, struct str name)
{
    if (n->count == 0) n->names = buf_over(n->bytes, sizeof n->bytes);
    if (n->count < NAMED_MAX)
        buf_printf(&n->names, "%s%.*s", n->count == 0 ? "" : ", ", STR_FORMAT(name));
    if (n->count++ == NAMED_MAX) buf_put_literal(&n->names, ", …");
}

#define NAMED(n) STR_FORMAT(buf_view(&(n)->names))

struct comparing {
    struct directory_scan *look;
    struct map files; /* by policy name */
    size_t in_force;  /* files whose text is in force */
    size_t owned;     /* policies of this directory */
    size_t gone;      /* of these, policies without a file */
    struct named strangers, overridden, here, abroad;
};

static struct policy_step *add_step(struct directory_scan *l, struct str name)
{
    struct policy_step *step = &l->apply.batch.steps[l->apply.batch.count++];
    *step = (struct policy_step){.change = {.tenant = l->tenant,
                                            .name = arena_copy(&l->arena, name),
                                            .claims = true,
                                            .directory = l->directory}};
    return step;
}

/* A policy of the tenant. A policy that came from this directory and has lost its file is
 * deleted. */
static void compare_row(void *context, const struct policy_row *row)
{
    struct comparing *c = context;
    struct directory_scan *l = c->look;
    struct directory_file *f = map_get(&c->files, row->name);
    bool is_of_file = str_equal(row->updated_by, STR(FILES_PRINCIPAL));
    bool is_of_here = is_of_file && str_equal(row->directory, l->directory);
    bool is_same =
        f != NULL && row->is_active && str_equal(row->digest, str_of(f->digest, SHA256_HEX));
    c->owned += is_of_here;
    if (f != NULL) f->is_in_force = is_same;
    if (is_same && is_of_file) c->in_force++;
    if (f == NULL && is_of_here) {
        c->gone++;
        if (l->apply.batch.count < STEPS_MAX) add_step(l, row->name)->deletes = true;
    }
    if (f == NULL && is_of_file && !is_of_here) name_one(&c->strangers, row->name);
    /* Only a row that is newer than our own last application counts. Two directories that overwrote
     * each other would otherwise never stop. An older row means that the store was restored. */
    if (f != NULL && is_of_file && !is_of_here && !is_same && row->is_active &&
        l->before.applied_revision > 0 && row->revision > l->before.applied_revision)
        name_one(&c->overridden, row->name);
}

static void compare_elsewhere(void *context, const struct policy_row *row)
{
    struct comparing *c = context;
    struct directory_state *k = &c->look->state;
    bool is_first = c->here.count == 0 && c->abroad.count == 0;
    name_one(str_equal(row->directory, c->look->directory) ? &c->here : &c->abroad, row->name);
    if (is_first && row->tenant.size < sizeof k->elsewhere_tenant)
        memcpy(k->elsewhere_tenant, row->tenant.bytes, row->tenant.size);
}

static void tell_others(struct directory_state *k, const struct comparing *c)
{
    const char *is[2] = {"y is", "ies are"}, *it[2] = {"it", "them"};
    size_t n;
    if ((n = c->overridden.count) > 0)
        snprintf(k->strangers, sizeof k->strangers,
                 "another directory's file%s came into force after %s here: %.*s; make the "
                 "directories the same, or change the file",
                 n == 1 ? "" : "s", n == 1 ? "the one" : "those", NAMED(&c->overridden));
    else if ((n = c->strangers.count) > 0)
        snprintf(k->strangers, sizeof k->strangers,
                 "%zu polic%s in force from another directory and without a file here: %.*s", n,
                 is[n > 1], NAMED(&c->strangers));
    if ((n = c->here.count) > 0)
        snprintf(
            k->elsewhere, sizeof k->elsewhere,
            "%zu polic%s in force from this directory in another tenant, where no file changes "
            "%s: %.*s; set policies.tenant back, or DELETE %s there",
            n, is[n > 1], it[n > 1], NAMED(&c->here), it[n > 1]);
    if ((n = c->abroad.count) > 0)
        snprintf(k->abroad, sizeof k->abroad,
                 "%zu polic%s in force from another directory in another tenant: %.*s; where no "
                 "platform has that directory and tenant any more, no file changes %s: DELETE %s "
                 "there",
                 n, is[n > 1], NAMED(&c->abroad), it[n > 1], it[n > 1]);
}

static enum err compare(struct directory_scan *l, struct comparing *c, struct store *s)
{
    struct fault f;
    for (size_t i = 0; i < l->state.file_count; i++)
        check(l->state.files[i].name[0] == '\0' ||
              map_put(&c->files, str_from(l->state.files[i].name), &l->state.files[i]));
    enum err err = policy_store_rows(s, l->tenant, compare_row, c, &f);
    if (err == ERR_OK)
        err = policy_store_rows_elsewhere(s, l->tenant, STR(FILES_PRINCIPAL), compare_elsewhere, c,
                                          &f);
    map_fini(&c->files);
    if (err == ERR_OK)
        tell_others(&l->state, c);
    else
        snprintf(l->state.failure, sizeof l->state.failure, "the store cannot be read: %.300s",
                 f.text);
    return err;
}

/* ---- judging the set ---- */

static void log_problem(const struct directory_file *f, unsigned line, unsigned column,
                        const char *path, const char *message)
{
    char where[320];
    snprintf(where, sizeof where, line > 0 ? "%s:%u:%u" : "%s", f->file, line, column);
    log_line(LOG_WARNING, "policy_file_refused", "file", f->file, "where", where, "path", path,
             "why", message, NULL);
}

/* Copies the problems of the set check to the files and, if they are news, to the log. */
static void take_problems(struct directory_scan *l, bool is_news)
{
    const struct set_guard *g = &l->apply.guard;
    for (size_t i = 0; i < g->problem_count; i++) {
        const struct set_problem *p = &g->problems[i];
        struct directory_file *f = NULL;
        for (size_t k = 0; k < l->state.file_count; k++)
            if (strcmp(l->state.files[k].name, p->policy) == 0) f = &l->state.files[k];
        const char *message = policy_problem_short(&p->problem);
        if (f == NULL) { /* a policy that was put through the API */
            if (is_news)
                log_line(LOG_WARNING, "policy_file_refused", "file", "", "where", p->policy, "path",
                         p->problem.path, "why", message, NULL);
            continue;
        }
        if (f->problems++ == 0) {
            f->line = p->problem.line;
            f->column = p->problem.column;
            snprintf(f->message, sizeof f->message, "%s%s%s", p->problem.path,
                     p->problem.path[0] == '\0' ? "" : ": ", message);
        }
        if (is_news && f->problems <= LOGGED_MAX)
            log_problem(f, p->problem.line, p->problem.column, p->problem.path, message);
    }
}

/* "the directory is refused as a whole, …: base.yaml:3:5, more.yaml; the log has the reasons" */
static void refuse_set(struct directory_scan *l, const char *why)
{
    struct directory_state *k = &l->state;
    struct buf b = buf_over(k->failure, sizeof k->failure - 1);
    size_t told = 0;
    buf_printf(&b, "%.200s is refused as a whole, and the policies in force stay: %s", l->path,
               why);
    for (size_t i = 0; i < k->file_count; i++) {
        const struct directory_file *f = &k->files[i];
        if (f->problems == 0) continue;
        if (told++ >= NAMED_MAX) continue;
        buf_printf(&b, "%s%.60s", told == 1 ? "" : ", ", f->file);
        if (f->line > 0) buf_printf(&b, ":%u:%u", f->line, f->column);
    }
    buf_printf(&b, "%s; the log has the reasons", told > NAMED_MAX ? ", …" : "");
    k->failure[b.size] = '\0';
}

static size_t problem_files(const struct directory_state *k)
{
    size_t count = 0;
    for (size_t i = 0; i < k->file_count; i++) count += k->files[i].problems > 0;
    return count;
}

/* Adds a step for every file, so that this directory claims all of them. */
static void add_files(struct directory_scan *l)
{
    struct directory_state *k = &l->state;
    bool *in_force = arena_array(&l->arena, bool, STEPS_MAX);
    check(in_force != NULL);
    for (size_t i = 0; i < k->file_count; i++) {
        in_force[l->apply.batch.count] = k->files[i].is_in_force;
        struct policy_change *p = &add_step(l, str_from(k->files[i].name))->change;
        p->content = str_of(k->files[i].content, k->files[i].size);
        p->has_active = p->is_active = true;
    }
    l->apply.in_force = in_force;
}

/* The directory has stood still. Leaves the steps that must be stored, or none. */
static void judge(struct directory_scan *l, struct store *s)
{
    struct directory_state *k = &l->state;
    struct comparing c = {.look = l};
    bool is_news =
        l->before.judged_revision == 0 || memcmp(&l->before.judged, &k->seen, sizeof k->seen) != 0;
    k->failure[0] = k->strangers[0] = k->elsewhere[0] = k->abroad[0] = k->elsewhere_tenant[0] =
        '\0';
    l->apply.guard.spares_unchanged = true;
    l->apply.batch.steps = arena_array(&l->arena, struct policy_step, STEPS_MAX);
    check(l->apply.batch.steps != NULL);
    if (compare(l, &c, s) != ERR_OK) {
        l->apply.batch.count = 0;
        return;
    }
    k->judged = k->seen;
    k->judged_revision = l->store_revision;
    k->is_stale = false;
    k->is_ready = k->is_ready || c.owned > 0; /* an applied set stays in force */
    if (k->file_count == 0) {
        l->apply.batch.count = 0;
        k->is_ready = true;
        if (c.owned > 0)
            snprintf(k->failure, sizeof k->failure,
                     "%.200s holds no document: its policies stay in force (%zu polic%s) "
                     "until a file is added, or the API deletes them",
                     l->path, c.owned, c.owned == 1 ? "y" : "ies");
        return;
    }
    check_names(k);
    for (size_t i = 0; i < k->file_count && is_news; i++)
        if (k->files[i].problems > 0) log_problem(&k->files[i], 0, 0, "", k->files[i].message);
    struct fault f;
    enum err err = ERR_OK;
    bool is_all_there = c.in_force == k->file_count && c.gone == 0;
    if (problem_files(k) == 0 && (is_news || !is_all_there) &&
        (is_news || c.overridden.count == 0)) {
        add_files(l);
        err = policy_apply_check(&l->apply, NULL, &l->arena, &f);
        if (err == ERR_INVALID_POLICY) take_problems(l, is_news);
    } else {
        l->apply.batch.count = 0;
    }
    if (problem_files(k) > 0) {
        l->apply.batch.count = 0;
        refuse_set(l, "");
    } else if (err != ERR_OK) {
        directory_scan_put_off(l, f.text);
    } else if (l->apply.batch.count == 0) {
        k->is_ready = true;
    }
}

/* ---- the look ---- */

/* Schedules the next reading for the time when the directory may have stood still for long
 * enough. */
static void wait_until_still(struct directory_scan *l, uint64_t at_ms)
{
    struct directory_state *k = &l->state;
    l->again_ms = k->seen_ms + DIRECTORY_STILL_MS - at_ms;
    memcpy(k->failure, l->before.failure, sizeof k->failure);
    if (k->restless_ms == 0) k->restless_ms = at_ms;
    if (at_ms < k->restless_ms + DIRECTORY_RESTLESS_MS) return;
    snprintf(k->failure, sizeof k->failure,
             "%.200s has been changing for %llu s: it is read when nothing in it has changed for a "
             "second",
             l->path, (unsigned long long)((at_ms - k->restless_ms) / 1000));
}

static void free_contents(struct directory_state *k)
{
    for (size_t i = 0; i < k->file_count; i++) {
        free(k->files[i].content);
        k->files[i].content = NULL;
    }
}

/* Keeps the results of the last look for the files. */
static void keep_files(struct directory_scan *l)
{
    free_contents(&l->state);
    free(l->state.files);
    l->state.files = l->before.files;
    l->state.file_count = l->before.file_count;
}

void directory_scan_run(struct directory_scan *l, struct store *s)
{
    struct directory_state *k = &l->state;
    struct fault f;
    struct sha256 seen;
    arena_init(&l->arena, 64 << 10, 64 << 20);
    *k = l->before;
    k->files = NULL;
    k->file_count = 0;
    k->failure[0] = '\0';
    uint64_t started_ms = now_ms(l);
    struct revision now;
    bool knows_store = store_revision(s, &now, &f) == ERR_OK;
    l->store_revision = now.number;
    if (!read_directory(l, &seen)) {
        keep_files(l);
        k->seen_ms = 0;
        k->judged_revision = 0;
        return;
    }
    bool is_same = k->seen_ms > 0 && memcmp(&seen, &k->seen, sizeof seen) == 0;
    if (!is_same) {
        k->seen = seen;
        k->seen_ms = now_ms(l);
    }
    if (started_ms < k->seen_ms + DIRECTORY_STILL_MS) {
        wait_until_still(l, started_ms);
        return;
    }
    k->restless_ms = 0;
    bool is_judged = k->judged_revision > 0 && memcmp(&k->judged, &k->seen, sizeof seen) == 0;
    if (!knows_store) {
        snprintf(k->failure, sizeof k->failure, "the store cannot be read: %.300s", f.text);
    } else if (is_judged && !k->is_stale && k->judged_revision == l->store_revision) {
        memcpy(k->failure, l->before.failure, sizeof k->failure);
        keep_files(l);
    } else {
        judge(l, s);
    }
}

/* Schedules a new judgement soon. */
void directory_scan_put_off(struct directory_scan *l, const char *why)
{
    struct directory_state *k = &l->state;
    snprintf(k->failure, sizeof k->failure, "changes cannot be stored: %.300s", why);
    k->judged_revision = 0;
    l->apply.batch.count = 0;
    l->again_ms = AGAIN_MS;
}

static void log_change(const struct policy_step *p)
{
    char version[24], name[POLICY_NAME_MAX + 1];
    if (p->result.effect == POLICY_UNCHANGED) return;
    snprintf(version, sizeof version, "%llu", (unsigned long long)p->result.version);
    snprintf(name, sizeof name, "%.*s", STR_FORMAT(p->change.name));
    log_line(LOG_INFO, "policy_file_in_force", "policy", name, "effect",
             policy_effect_name(p->result.effect), "version", version, NULL);
}

enum err directory_scan_store(struct directory_scan *l, struct store *s, const struct actor *by,
                              struct fault *f)
{
    struct directory_state *k = &l->state;
    enum err err = policy_apply_store(&l->apply, s, by, f);
    if (err == ERR_INVALID_POLICY || err == ERR_ROLE_IN_USE || err == ERR_OUT_OF_RANGE) {
        bool is_news = l->before.judged_revision == 0 ||
                       memcmp(&l->before.judged, &k->seen, sizeof k->seen) != 0;
        take_problems(l, is_news);
        if (err == ERR_OUT_OF_RANGE && is_news)
            log_line(LOG_WARNING, "policies_dir", "why", f->text, NULL);
        refuse_set(l, err == ERR_ROLE_IN_USE ? "a policy that is in force names a role that no "
                                               "document would define after the change"
                                             : "");
        return err;
    }
    if (err != ERR_OK) {
        directory_scan_put_off(l, f->text);
        return err;
    }
    k->is_ready = true;
    k->applied_revision = l->store_revision;
    for (size_t i = 0; i < l->apply.batch.count; i++) {
        const struct policy_step *p = &l->apply.batch.steps[i];
        log_change(p);
        if (p->result.revision > k->applied_revision) k->applied_revision = p->result.revision;
    }
    /* The next look, which is soon, compares changes that others made meanwhile. */
    k->is_stale = true;
    l->again_ms = AGAIN_MS;
    return ERR_OK;
}

void directory_scan_fini(struct directory_scan *l)
{
    arena_fini(&l->arena);
    if (l->state.files != l->before.files) free_contents(&l->state);
}

void watch_state_fini(struct directory_state *s)
{
    free(s->files);
    *s = (struct directory_state){0};
}

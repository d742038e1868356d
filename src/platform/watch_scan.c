/* watch_scan.c - see watch_scan.h.
 *
 * Only what has another sign (device, inode, size, times) than when it was last read is read. A
 * file that changes while it is read, or has changed a moment ago, is left for the next look: half
 * a document can be valid and looser than the whole. What a moment ago is goes by the clock as it
 * stands beside each stat: a look may wait for long before it begins, and last for long. Opening
 * never waits (a FIFO) and reading is bounded, whatever stands in the directory. */
#include "platform/watch_scan.h"

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
#include "policy/policy.h"

enum { ENTRIES_MAX = 100000, LOGGED_MAX = 10 /* problems of one file */ };

/* ---- problems ---- */

static void __attribute__((format(printf, 2, 3)))
refuse_file(struct watch_file *f, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(f->message, sizeof f->message, format, arguments);
    va_end(arguments);
    f->problems = 1;
    f->line = f->column = 0;
}

static void log_problem(const struct watch_file *f, unsigned line, unsigned column,
                        const char *path, const char *message)
{
    char where[320];
    if (line > 0)
        snprintf(where, sizeof where, "%s:%u:%u", f->file, line, column);
    else
        snprintf(where, sizeof where, "%s", f->file);
    log_line(LOG_WARNING, "policy_file_refused", "file", f->file, "where", where, "path", path,
             "why", message, NULL);
}

static bool is_news(const struct watch_file *f, const struct watch_file *before)
{
    return before == NULL || before->problems != f->problems || before->line != f->line ||
           before->column != f->column || strcmp(before->message, f->message) != 0;
}

/* ---- the directory ---- */

/* The part of a document's file name before its ending; absent: it is no document. */
static struct str stem_of(struct str file)
{
    if (file.size == 0 || file.bytes[0] == '.' || file.bytes[0] == '#') return (struct str){0};
    return policy_file_stem(file);
}

static void name_file(struct watch_file *f, struct str file, struct str stem)
{
    for (size_t i = 0; i < file.size && i < sizeof f->file - 1; i++)
        f->file[i] = file.bytes[i] > ' ' && file.bytes[i] < 0x7f ? file.bytes[i] : '?';
    if (policy_is_name(stem)) memcpy(f->name, stem.bytes, stem.size);
}

static int compare_files(const void *a, const void *b)
{
    const struct watch_file *x = a, *y = b;
    return strcmp(x->file, y->file);
}

/* `error`: errno's, or 0 where it says nothing. */
static void fail(struct watch_scan *s, const char *what, int error)
{
    snprintf(s->after.failure, sizeof s->after.failure, "%.200s %s%s%s", s->path, what,
             error == 0 ? "" : ": ", error == 0 ? "" : strerror(error));
}

/* Which documents there are, sorted. False: the directory cannot be read, or has too many. */
static bool list_files(struct watch_scan *s, DIR *directory)
{
    struct watch_known *k = &s->after;
    size_t entries = 0;
    k->files = calloc(WATCH_FILES_MAX, sizeof *k->files);
    check(k->files != NULL);
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (entry == NULL && errno != 0) fail(s, "cannot be read", errno);
        if (entry == NULL) break;
        struct str file = str_from(entry->d_name), stem = stem_of(file);
        if (++entries > ENTRIES_MAX) {
            fail(s, "holds too many files to look through", 0);
            break;
        }
        if (!str_is_absent(stem) && k->file_count == WATCH_FILES_MAX) {
            fail(s, "holds more documents than a tenant may have", 0);
            break;
        }
        if (!str_is_absent(stem)) name_file(&k->files[k->file_count++], file, stem);
    }
    if (k->failure[0] != '\0') return false;
    qsort(k->files, k->file_count, sizeof *k->files, compare_files);
    return true;
}

static const struct watch_file *known_file(const struct watch_known *k, const struct watch_file *f)
{
    if (k->file_count == 0) return NULL;
    return bsearch(f, k->files, k->file_count, sizeof *k->files, compare_files);
}

/* ---- one file ---- */

static uint64_t ns_of(struct timespec t)
{
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static struct watch_sign sign_of(const struct stat *about)
{
    return (struct watch_sign){.device = about->st_dev,
                               .inode = about->st_ino,
                               .size = (uint64_t)about->st_size,
                               .modified_ns = ns_of(about->st_mtim),
                               .changed_ns = ns_of(about->st_ctim)};
}

static bool same_sign(const struct watch_sign *a, const struct watch_sign *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* A time that is far ahead of ours is another machine's: nothing can be said of its age. */
static bool is_young(const struct watch_scan *s, const struct watch_sign *sign)
{
    uint64_t newest = sign->modified_ns > sign->changed_ns ? sign->modified_ns : sign->changed_ns;
    uint64_t now_ns = s->wall_ns();
    if (newest > now_ns) return newest - now_ns < (uint64_t)WATCH_AHEAD_MS * 1000000;
    return now_ns - newest < (uint64_t)WATCH_SETTLE_MS * 1000000;
}

enum reading { READ_ALL, READ_FAILED, READ_CHANGED, READ_YOUNG };

/* The file's bytes, to be freed. */
static enum reading read_bytes(struct watch_file *f, int fd, char **ret, size_t *ret_size)
{
    size_t size, room = (size_t)f->sign.size + 1;
    struct stat about;
    char *bytes = malloc(room);
    check(bytes != NULL);
    if (!file_read(fd, bytes, room, &size)) {
        refuse_file(f, "cannot be read: %s", strerror(errno));
        free(bytes);
        return READ_FAILED;
    }
    struct watch_sign now = {0};
    if (fstat(fd, &about) == 0) now = sign_of(&about);
    if (size != f->sign.size || !same_sign(&now, &f->sign)) {
        free(bytes);
        return READ_CHANGED;
    }
    *ret = bytes;
    *ret_size = size;
    return READ_ALL;
}

/* Complains, or gives a descriptor of a file of a bearable size with its sign taken; -1. */
static int open_file(struct watch_file *f, int directory, const char *name)
{
    struct stat about;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &about) != 0) {
        refuse_file(f, "cannot be opened: %s", strerror(errno));
        if (fd >= 0) close(fd);
        return -1;
    }
    f->sign = sign_of(&about);
    if (!S_ISREG(about.st_mode))
        refuse_file(f, "is no regular file");
    else if (about.st_size > LIMIT_POLICY_BODY_BYTES)
        refuse_file(f, "has %lld bytes; 1 MiB is the most", (long long)about.st_size);
    else
        return fd;
    close(fd);
    f->is_read = true;
    return -1;
}

static void add_step(struct watch_scan *s, struct policy_step step, struct watch_load load)
{
    struct watch_load *l = &s->loads[s->step_count];
    struct policy_step *p = &s->steps[s->step_count++];
    *l = load;
    *p = step;
    p->change.tenant = s->tenant;
    p->change.name = str_from(l->name);
    p->change.claims = true;
    p->change.directory = s->directory;
    if (!step.deletes) p->change.digest = str_of(l->digest, SHA256_HEX);
}

/* Takes `bytes`. */
static void check_document(struct watch_scan *s, struct watch_file *f,
                           const struct watch_file *before, char *bytes, size_t size)
{
    struct policy_document *d;
    struct policy_problems problems = {0};
    struct str text = str_of(bytes, size);
    enum err err = policy_load_new(str_from(f->name), text, &d, &problems);
    f->is_read = f->has_reading = true;
    if (err == ERR_OK) {
        struct watch_load load = {.content = bytes, .file = (size_t)(f - s->after.files)};
        memcpy(load.name, f->name, sizeof load.name);
        sha256_write_hex(policy_document_digest(d), load.digest);
        memcpy(f->digest, load.digest, sizeof load.digest);
        add_step(s,
                 (struct policy_step){.change = {.content = text,
                                                 .is_json = policy_document_is_json(d),
                                                 .has_active = true,
                                                 .is_active = true}},
                 load);
        policy_document_release(d);
        return;
    }
    free(bytes);
    if (problems.count == 0) {
        refuse_file(f, "%s", err_sentence(err));
        f->is_read = err == ERR_INVALID_POLICY;
        return;
    }
    const struct policy_problem *first = &problems.list[0];
    refuse_file(f, "%s%s%s", first->path, first->path[0] == '\0' ? "" : ": ",
                policy_problem_short(first));
    f->problems = problems.count;
    f->line = first->line;
    f->column = first->column;
    bool tell = is_news(f, before) || !same_sign(&f->sign, &before->sign);
    for (size_t i = 0; tell && i < problems.count && i < LOGGED_MAX; i++)
        log_problem(f, problems.list[i].line, problems.list[i].column, problems.list[i].path,
                    policy_problem_short(&problems.list[i]));
}

/* For the next look, with what was known of it. One that never settles is told: what is in force in
 * its stead would stay so unseen. */
static void put_off(struct watch_scan *s, struct watch_file *f, const struct watch_file *before,
                    enum reading why)
{
    unsigned tries = before == NULL ? 1 : before->tries + 1;
    if (before != NULL) *f = *before;
    f->is_read = false;
    f->tries = tries < WATCH_TRIES ? tries : WATCH_TRIES;
    s->again |= why == READ_YOUNG || tries < WATCH_TRIES;
    s->skipped |= !f->has_reading && tries < WATCH_TRIES;
    if (tries < WATCH_TRIES) return;
    if (why == READ_YOUNG)
        refuse_file(f, "changes again and again: it is read when it was left alone for %d ms",
                    WATCH_SETTLE_MS);
    else
        refuse_file(f, "cannot be read whole: its size is not what is read from it, or it changes "
                       "again and again; put a plain file there");
    if (is_news(f, before)) log_problem(f, 0, 0, "", f->message);
}

/* What was read of it before still holds. False: it is not in force, and has to be read again. */
static bool keep_read(struct watch_scan *s, struct watch_file *f, const struct watch_file *before)
{
    bool was_valid = before->problems == 0 || before->is_overridden;
    enum watch_match match = was_valid ? watch_match(s, before) : WATCH_IN_FORCE;
    if (match == WATCH_MISSING) return false;
    *f = *before;
    if (!was_valid) return true;
    f->is_overridden = match == WATCH_OVERRIDDEN;
    f->problems = 0;
    f->message[0] = '\0';
    if (match == WATCH_IN_FORCE) return true;
    refuse_file(f,
                "is not in force: another directory's file for the policy %s came into force after "
                "it; make them the same",
                f->name);
    if (is_news(f, before)) log_problem(f, 0, 0, "", f->message);
    return true;
}

/* As it was found before, where nothing has changed; false: it has to be read. */
static bool keep_known(struct watch_scan *s, struct watch_file *f, const struct watch_file *before,
                       int directory)
{
    struct stat about;
    if (fstatat(directory, f->file, &about, 0) != 0) return false; /* opening it says why */
    struct watch_sign sign = sign_of(&about);
    if (before != NULL && before->is_read && same_sign(&sign, &before->sign))
        return keep_read(s, f, before);
    if (!is_young(s, &sign)) return false;
    put_off(s, f, before, READ_YOUNG);
    return true;
}

static void look_at(struct watch_scan *s, struct watch_file *f, int directory, size_t *bytes_read)
{
    const struct watch_file *before = known_file(&s->before, f);
    char *bytes;
    size_t size;
    if (keep_known(s, f, before, directory)) return;
    if (*bytes_read > WATCH_BYTES_MAX) {
        if (before != NULL) *f = *before;
        f->is_read = false;
        s->again = s->too_much = true;
        return;
    }
    int fd = open_file(f, directory, f->file);
    enum reading reading = READ_FAILED;
    if (fd >= 0) {
        /* It may have changed since it was looked at by its name. */
        reading = is_young(s, &f->sign) ? READ_YOUNG : read_bytes(f, fd, &bytes, &size);
        close(fd);
    }
    if (reading == READ_ALL) {
        *bytes_read += size;
        check_document(s, f, before, bytes, size);
    } else if (reading != READ_FAILED) {
        put_off(s, f, before, reading);
    } else if (is_news(f, before)) {
        log_problem(f, 0, 0, "", f->message);
    }
}

/* ---- names ---- */

static int compare_names(const void *a, const void *b)
{
    const struct watch_file *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The files that have a policy's name, sorted by it; *ret_count of them. To be freed. */
static struct watch_file **by_name(struct watch_known *k, size_t *ret_count)
{
    struct watch_file **list = calloc(k->file_count + 1, sizeof(struct watch_file *));
    size_t count = 0;
    check(list != NULL);
    for (size_t i = 0; i < k->file_count; i++)
        if (k->files[i].name[0] != '\0') list[count++] = &k->files[i];
    qsort(list, count, sizeof(struct watch_file *), compare_names);
    *ret_count = count;
    return list;
}

static void tell_once(struct watch_scan *s, struct watch_file *f)
{
    f->is_read = false; /* to be read when that is over */
    if (is_news(f, known_file(&s->before, f))) log_problem(f, 0, 0, "", f->message);
}

/* Files whose name no policy can have, and two files for one policy: neither can be preferred. */
static void refuse_names(struct watch_scan *s)
{
    struct watch_known *k = &s->after;
    size_t count;
    for (size_t i = 0; i < k->file_count; i++) {
        if (k->files[i].name[0] != '\0') continue;
        refuse_file(&k->files[i],
                    "is not named like a policy: 1 to %d of [A-Za-z0-9._-] before the "
                    "ending",
                    POLICY_NAME_MAX);
        tell_once(s, &k->files[i]);
    }
    struct watch_file **list = by_name(k, &count);
    for (size_t i = 0; i < count; i++) {
        bool before = i > 0 && strcmp(list[i]->name, list[i - 1]->name) == 0;
        bool after = i + 1 < count && strcmp(list[i]->name, list[i + 1]->name) == 0;
        if (!before && !after) continue;
        refuse_file(list[i], "is the policy %s, and so is %s: leave one of them", list[i]->name,
                    list[before ? i - 1 : i + 1]->file);
        tell_once(s, list[i]);
    }
    free(list);
}

/* ---- what is gone ---- */

static bool has_file(struct watch_file *const *list, size_t count, const char *name)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(list[middle]->name, name);
        if (order == 0) return true;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

/* A directory without any document is one that is not mounted, as far as can be known, and what it
 * has put in force may be what denies. Whoever means it says so by DELETE. */
static bool is_hollow(struct watch_scan *s)
{
    struct watch_known *k = &s->after;
    if (k->file_count > 0 || k->owned_count == 0) return false;
    for (size_t i = 0; i < k->owned_count; i++) k->owned[i].gone_ms = 0;
    k->is_stale = true; /* strangers were not looked for */
    snprintf(
        k->failure, sizeof k->failure,
        "%.200s holds no document: what came from it stays in force (%zu polic%s) until there is "
        "one, or DELETE",
        s->path, k->owned_count, k->owned_count == 1 ? "y" : "ies");
    return true;
}

/* Of what is owned and has no file any more. The time that it was gone ends before the directory
 * was read and begins after it: it may be back in between. */
static void find_gone(struct watch_scan *s, struct watch_file *const *list, size_t count,
                      uint64_t started_ms, uint64_t listed_ms)
{
    struct watch_known *k = &s->after;
    for (size_t i = 0; i < k->owned_count; i++) {
        struct watch_owned *o = &k->owned[i];
        if (has_file(list, count, o->name)) {
            o->gone_ms = 0;
            continue;
        }
        bool is_new = o->gone_ms == 0;
        if (is_new) o->gone_ms = listed_ms;
        if (is_new || started_ms < o->gone_ms + WATCH_REMOVAL_MS) {
            s->again = true;
            continue;
        }
        struct watch_load load = {.file = SIZE_MAX};
        memcpy(load.name, o->name, sizeof load.name);
        add_step(s, (struct policy_step){.deletes = true}, load);
    }
}

/* What other directories have put in force (an older one of this platform, or another platform's)
 * is theirs to delete, and somebody has to know that it is there. */
static void find_strangers(struct watch_scan *s, struct watch_file *const *list, size_t count)
{
    struct buf b = buf_over(s->after.strangers, sizeof s->after.strangers - 1);
    size_t told = 0, strangers = 0;
    if (!s->is_compared) {
        memcpy(s->after.strangers, s->before.strangers, sizeof s->after.strangers);
        return;
    }
    for (size_t i = 0; i < s->row_count; i++) {
        const struct watch_row *row = &s->rows[i];
        strangers += row->is_of_file && !row->is_of_here && !has_file(list, count, row->name);
    }
    if (strangers == 0) return;
    buf_printf(&b,
               "%zu polic%s in force from another directory and without a file here: ", strangers,
               strangers == 1 ? "y is" : "ies are");
    for (size_t i = 0; i < s->row_count && told < 3; i++) {
        const struct watch_row *row = &s->rows[i];
        if (!row->is_of_file || row->is_of_here || has_file(list, count, row->name)) continue;
        buf_printf(&b, "%s%s", told++ == 0 ? "" : ", ", row->name);
    }
    if (strangers > told) buf_put_literal(&b, ", …");
    s->after.strangers[b.size] = '\0';
}

static void find_fileless(struct watch_scan *s, uint64_t started_ms, uint64_t listed_ms)
{
    size_t count;
    if (is_hollow(s)) return;
    struct watch_file **list = by_name(&s->after, &count);
    find_gone(s, list, count, started_ms, listed_ms);
    find_strangers(s, list, count);
    free(list);
}

/* ---- the look ---- */

/* Nothing is known of the directory now: all stays as it was. */
static void keep_all(struct watch_scan *s)
{
    struct watch_known *k = &s->after;
    free(k->files);
    k->files = calloc(WATCH_FILES_MAX, sizeof *k->files);
    check(k->files != NULL);
    k->file_count = s->before.file_count;
    for (size_t i = 0; i < k->file_count; i++) k->files[i] = s->before.files[i];
    k->is_complete = s->before.is_complete;
    k->is_stale = true;
    memcpy(k->strangers, s->before.strangers, sizeof k->strangers);
    for (size_t i = 0; i < k->owned_count; i++) k->owned[i].gone_ms = 0;
}

/* Milliseconds, never 0. */
static uint64_t now_ms(const struct watch_scan *s) { return s->monotonic_ns() / 1000000 + 1; }

void watch_scan_run(struct watch_scan *s, struct store *store)
{
    size_t bytes_read = 0, room = 3 * WATCH_FILES_MAX;
    s->steps = calloc(room, sizeof *s->steps);
    s->loads = calloc(room, sizeof *s->loads);
    check(s->steps != NULL && s->loads != NULL);
    DIR *directory = NULL;
    if (watch_compare(s, store)) {
        directory = opendir(s->path);
        if (directory == NULL) fail(s, "cannot be opened", errno);
    }
    uint64_t started_ms = now_ms(s);
    if (directory == NULL || !list_files(s, directory)) {
        keep_all(s);
        if (directory != NULL) closedir(directory);
        return;
    }
    uint64_t listed_ms = now_ms(s);
    refuse_names(s);
    for (size_t i = 0; i < s->after.file_count; i++)
        if (s->after.files[i].problems == 0)
            look_at(s, &s->after.files[i], dirfd(directory), &bytes_read);
    closedir(directory);
    find_fileless(s, started_ms, listed_ms);
    s->after.is_complete = s->before.is_complete || (!s->too_much && !s->skipped);
}

void watch_known_fini(struct watch_known *k)
{
    free(k->files);
    free(k->owned);
    *k = (struct watch_known){0};
}

void watch_scan_fini(struct watch_scan *s)
{
    for (size_t i = 0; i < s->step_count; i++) free(s->loads[i].content);
    free(s->steps);
    free(s->loads);
    free(s->rows);
}

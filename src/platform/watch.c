/* watch.c - see watch.h: when to look, and what the reactor knows of it.
 *
 *   idle ── told of a change, or time ──▶ looking (a reader) ──▶ storing (the writer) ──▶ idle
 *
 * One look at a time. What is known belongs to the look while it is under way and to the reactor
 * when it is back; meanwhile the reactor answers from the last one, which the look has a copy of
 * its own of. inotify only says when: what there is, and whether it has changed, is for the look to
 * find out, so that a lost or missing notice costs policies.rescan and nothing else. */
#include "platform/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "platform/platform.h"
#include "platform/watch_scan.h"

enum {
    COMPANY_MS = 100, /* changes come in swarms */
    AGAIN_MS = 150,   /* until something is old enough */
    HOST_MAX = 256,
};

struct watch {
    struct platform *platform;
    struct str tenant;
    struct str directory; /* a view of: */
    char directory_text[PATH_MAX + HOST_MAX];
    struct watch_known known;
    struct loop_fd notices;
    struct loop_timer timer;
    int descriptor; /* of inotify; -1: none, then only time tells */
    int mark;       /* the directory's; -1: none */
    bool is_under_way;
    bool is_told; /* of a change since the last look began */
    char health[1664];
};

static void look(struct loop_timer *t);

static void look_in(struct watch *w, uint64_t ms)
{
    if (!w->platform->draining) loop_timer_start(w->platform->loop, &w->timer, ms, look);
}

/* Only the first of a swarm starts the timer: one that does not end must not put the look off. */
static void told(struct watch *w)
{
    if (w->is_told) return;
    w->is_told = true;
    if (!w->is_under_way) look_in(w, COMPANY_MS);
}

/* What fails may be mended by a change of our own (a DELETE). */
void watch_store_moved(struct watch *w, bool by_others)
{
    if (w == NULL) return;
    const struct watch_known *k = &w->known;
    if (by_others || k->failure[0] != '\0' || k->strangers[0] != '\0' ||
        k->elsewhere.text[0] != '\0')
        told(w);
}

/* ---- notices ---- */

static void noticed(struct loop_fd *f, int events)
{
    struct watch *w = link_owner(f, struct watch, notices);
    _Alignas(struct inotify_event) char bytes[4096];
    (void)events;
    while (read(w->descriptor, bytes, sizeof bytes) > 0) continue;
    told(w);
}

/* The directory may have become another one (a link that was turned): the same one keeps its
 * mark. */
static void mark_directory(struct watch *w)
{
    const uint32_t what = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                          IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
    if (w->descriptor < 0) return;
    int mark = inotify_add_watch(w->descriptor, w->platform->config->policies_dir, what);
    if (w->mark >= 0 && w->mark != mark) inotify_rm_watch(w->descriptor, w->mark);
    w->mark = mark;
}

static void start_notices(struct watch *w)
{
    w->mark = -1;
    w->descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->descriptor >= 0)
        loop_fd_start(w->platform->loop, &w->notices, w->descriptor, LOOP_READ, noticed);
    else
        log_line(LOG_WARNING, "no_inotify", "why", strerror(errno), "text",
                 "policies.dir is looked through by time alone", NULL);
}

/* ---- what is told ---- */

static size_t refused_count(const struct watch_known *k)
{
    size_t count = 0;
    for (size_t i = 0; i < k->file_count; i++) count += k->files[i].problems > 0;
    return count;
}

/* "2 files are not in force as they are there: ops.yaml, payments.yaml:3:5; the log says why" */
static void write_health(struct watch *w)
{
    const struct watch_known *k = &w->known;
    struct buf b = buf_over(w->health, sizeof w->health - 64);
    size_t count = refused_count(k), told = 0;
    if (k->failure[0] != '\0') buf_printf(&b, "%s", k->failure);
    if (k->strangers[0] != '\0') buf_printf(&b, "%s%s", b.size > 0 ? "; " : "", k->strangers);
    if (k->elsewhere.text[0] != '\0')
        buf_printf(&b, "%s%s", b.size > 0 ? "; " : "", k->elsewhere.text);
    if (count > 0)
        buf_printf(&b, "%s%zu file%s not in force as %s: ", b.size > 0 ? "; " : "", count,
                   count == 1 ? " is" : "s are", count == 1 ? "it is there" : "they are there");
    for (size_t i = 0; i < k->file_count && told < 3; i++) {
        const struct watch_file *f = &k->files[i];
        if (f->problems == 0) continue;
        buf_printf(&b, "%s%.80s", told++ == 0 ? "" : ", ", f->file);
        if (f->line > 0) buf_printf(&b, ":%u:%u", f->line, f->column);
    }
    if (count > 0)
        buf_printf(&b, "%s; what was in force before stays so, and the log says why",
                   count > told ? ", …" : "");
    if (b.size == 0) buf_put_literal(&b, "ok");
    w->health[b.size] = '\0';
}

static void publish(struct watch *w)
{
    struct metrics_sheet *sheet = w->platform->sheet;
    metric_set(sheet, METRIC_POLICY_FILES, w->known.file_count);
    metric_set(sheet, METRIC_POLICY_FILES_REFUSED, refused_count(&w->known));
    write_health(w);
}

const char *watch_health(const struct watch *w, bool *ret_ok)
{
    *ret_ok = w == NULL || strcmp(w->health, "ok") == 0;
    return w == NULL ? NULL : w->health;
}

bool watch_is_ready(const struct watch *w) { return w == NULL || w->known.is_complete; }

/* ---- what the API may change ---- */

enum err watch_permits(const struct watch *w, struct str tenant, struct str name, bool deletes,
                       struct policy_condition *c, struct fault *f)
{
    if (w == NULL || !str_equal(tenant, w->tenant)) return ERR_OK;
    c->not_of = STR(FILES_PRINCIPAL);
    c->seen = w->known.revision;
    if (!w->known.is_complete)
        return fault_set(f, ERR_STARTING, "", "policies.dir has not been looked through yet");
    for (size_t i = 0; i < w->known.file_count; i++)
        if (str_equal(str_from(w->known.files[i].name), name))
            return fault_set(
                f, ERR_WATCHED_POLICY, "",
                "the policy %.*s comes from the file %s of policies.dir: change it there",
                STR_FORMAT(name), w->known.files[i].file);
    for (size_t i = 0; i < w->known.owned_count && !deletes; i++)
        if (str_equal(str_from(w->known.owned[i].name), name))
            return fault_set(
                f, ERR_WATCHED_POLICY, "",
                "the policy %.*s came from policies.dir: put its file back, or delete it first",
                STR_FORMAT(name));
    return ERR_OK;
}

/* ---- one look ---- */

static void copy_known(const struct watch_known *from, struct watch_known *to)
{
    *to = *from;
    to->files = calloc(from->file_count + 1, sizeof *to->files);
    to->owned = calloc(from->owned_count + 1, sizeof *to->owned);
    check(to->files != NULL && to->owned != NULL);
    for (size_t i = 0; i < from->file_count; i++) to->files[i] = from->files[i];
    for (size_t i = 0; i < from->owned_count; i++) to->owned[i] = from->owned[i];
}

/* The reactor's: a look of which nothing is wanted any more, or which has been taken over. */
static void end_look(struct job *j)
{
    struct watch_scan *s = j->detail;
    watch_known_fini(&s->before);
    watch_known_fini(&s->after);
    watch_scan_fini(s);
    job_destroy(j);
}

static void log_elsewhere(const struct watch_elsewhere *now, const struct watch_elsewhere *before)
{
    if (now->text[0] == '\0') return;
    if (strcmp(now->text, before->text) == 0 && strcmp(now->tenant, before->tenant) == 0) return;
    log_line(LOG_WARNING, "policies_dir", "why", now->text, "tenant", now->tenant, NULL);
}

static void look_done(struct job *j)
{
    struct watch_scan *s = j->detail;
    struct watch *w = j->platform->watch;
    struct watch_known old = w->known;
    bool failed = s->after.failure[0] != '\0', again = s->again;
    bool strange = s->after.strangers[0] != '\0';
    if (failed && strcmp(old.failure, s->after.failure) != 0)
        log_line(LOG_ERROR, "policies_dir", "why", s->after.failure, NULL);
    if (strange && strcmp(old.strangers, s->after.strangers) != 0)
        log_line(LOG_WARNING, "policies_dir", "why", s->after.strangers, NULL);
    log_elsewhere(&s->after.elsewhere, &old.elsewhere);
    log_elsewhere(&s->after.abroad, &old.abroad);
    w->known = s->after;
    s->after = old;
    w->is_under_way = false;
    end_look(j);
    publish(w);
    look_in(w, w->is_told ? COMPANY_MS
               : again    ? AGAIN_MS
                          : w->platform->config->policies_rescan_ms);
}

static void store_work(struct job *j, struct store *store)
{
    struct watch_scan *s = j->detail;
    j->err = watch_scan_apply(s, store, &j->actor, &j->fault);
    j->wrote_nothing = true;
    for (size_t i = 0; i < s->step_count; i++) {
        const struct policy_result *r = &s->steps[i].result;
        if (r->effect == POLICY_UNCHANGED || s->after.failure[0] != '\0') continue;
        j->wrote_nothing = false;
        if (r->revision > j->revision) j->revision = r->revision;
        metric_add(j->sheet, METRIC_POLICY_FILE_CHANGES, 1);
    }
}

static void look_back(struct job *j)
{
    struct watch_scan *s = j->detail;
    if (j->platform->draining) {
        end_look(j);
        return;
    }
    j->done = look_done;
    j->work = store_work;
    if (s->step_count > 0) {
        if (job_queue(j, QUEUE_WRITER)) return;
        watch_scan_refuse(s, "too many changes wait for the store already");
        s->again = true;
    }
    look_done(j);
}

static void look_work(struct job *j, struct store *store) { watch_scan_run(j->detail, store); }

static void look(struct loop_timer *t)
{
    struct watch *w = link_owner(t, struct watch, timer);
    if (w->is_under_way || w->platform->draining) return;
    struct job *j = job_create(w->platform, NULL, look_work);
    struct watch_scan *s = job_detail(j, struct watch_scan);
    check(s != NULL);
    mark_directory(w);
    s->path = w->platform->config->policies_dir;
    s->tenant = w->tenant;
    s->directory = w->directory;
    s->wall_ns = world_wall_ns;
    s->monotonic_ns = world_monotonic_ns;
    j->actor.principal = STR(FILES_PRINCIPAL);
    j->done = look_back;
    copy_known(&w->known, &s->before);
    w->is_under_way = true;
    w->is_told = false;
    if (job_queue(j, QUEUE_READER)) return;
    w->is_under_way = false;
    end_look(j);
    look_in(w, COMPANY_MS);
}

/* ---- life ---- */

/* The directory's name in the store: on a server, where platforms of several machines meet, with
 * the machine's. The path as it is configured, since links in it are turned. */
static void name_directory(struct watch *w)
{
    const char *path = w->platform->config->policies_dir;
    char host[HOST_MAX] = "", here[PATH_MAX] = "";
    if (store_is_address(platform_store(w->platform->config)) &&
        gethostname(host, sizeof host - 2) == 0)
        memcpy(host + strlen(host), ":", 2);
    if (path[0] != '/' && getcwd(here, sizeof here - 1) != NULL)
        memcpy(here + strlen(here), "/", 2);
    struct buf b = buf_over(w->directory_text, sizeof w->directory_text);
    buf_printf(&b, "%s%s%s", host, here, path);
    w->directory = buf_view(&b);
}

enum err watch_create(struct platform *p, struct watch **ret, struct fault *f)
{
    const char *path = p->config->policies_dir;
    *ret = NULL;
    if (path[0] == '\0') return ERR_OK;
    int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool may_be_read = directory >= 0 && faccessat(directory, ".", R_OK | X_OK, 0) == 0;
    int why = errno;
    if (directory >= 0) close(directory);
    if (!may_be_read)
        return fault_set(f, ERR_IO, "", "policies.dir: %s cannot be read: %s", path, strerror(why));
    struct str tenant = str_from(p->config->policies_tenant);
    if (tenant.size == 0 || str_code_points(tenant) > LIMIT_ID_CHARACTERS ||
        str_equal(tenant, STR("*")))
        return fault_set(f, ERR_BAD_VALUE, "",
                         "policies.tenant: must name one tenant, 1 to %d characters, not *",
                         LIMIT_ID_CHARACTERS);
    struct watch *w = calloc(1, sizeof *w);
    check(w != NULL);
    w->platform = p;
    w->tenant = tenant;
    name_directory(w);
    publish(w);
    start_notices(w);
    look_in(w, 0);
    *ret = w;
    return ERR_OK;
}

void watch_destroy(struct watch *w)
{
    if (w == NULL) return;
    loop_timer_stop(w->platform->loop, &w->timer);
    if (w->descriptor >= 0) {
        loop_fd_stop(w->platform->loop, &w->notices);
        close(w->descriptor);
    }
    watch_known_fini(&w->known);
    free(w);
}

/* watch.c - see watch.h: when to look, and what the reactor knows of it.
 *
 *   idle ── told of a change, or time ──▶ looking (a reader) ──▶ storing (the writer) ──▶ idle
 *
 * One look at a time. What is known belongs to the reactor, which answers from it while a look
 * reads a copy; the look's own state takes its place when it is back. inotify only says when: what
 * there is, and whether it has changed, the look finds out, so that a lost notice costs
 * policies.rescan and nothing else. */
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
#include "platform/watch_look.h"

enum {
    COMPANY_MS = 100, /* changes come in swarms */
    HOST_MAX = 256,
};

struct watch {
    struct platform *platform;
    struct str tenant;
    struct str directory; /* a view of: */
    char directory_text[PATH_MAX + HOST_MAX];
    struct watch_state known;
    struct loop_fd notices;
    struct loop_timer timer;
    int descriptor; /* of inotify; -1: none, then only time tells */
    int mark;       /* the directory's; -1: none */
    bool is_under_way;
    bool is_told;    /* of a change since the last look began */
    bool is_waiting; /* for the directory to stand still: no look is any use before */
    char health[1760];
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
    if (!w->is_under_way && !w->is_waiting) look_in(w, COMPANY_MS);
}

/* What fails may be mended by a change of our own (a DELETE). */
void watch_store_moved(struct watch *w, bool by_others)
{
    if (w == NULL) return;
    const struct watch_state *k = &w->known;
    if (by_others || k->failure[0] != '\0' || k->strangers[0] != '\0' || k->elsewhere[0] != '\0')
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

static void publish(struct watch *w)
{
    const struct watch_state *k = &w->known;
    const char *texts[] = {k->failure, k->strangers, k->elsewhere};
    struct metrics_sheet *sheet = w->platform->sheet;
    size_t refused = 0;
    for (size_t i = 0; i < k->file_count; i++) refused += k->files[i].problems > 0;
    metric_set(sheet, METRIC_POLICY_FILES, k->file_count);
    metric_set(sheet, METRIC_POLICY_FILES_REFUSED, refused);
    struct buf b = buf_over(w->health, sizeof w->health - 1);
    for (size_t i = 0; i < 3; i++)
        if (texts[i][0] != '\0') buf_printf(&b, "%s%s", b.size > 0 ? "; " : "", texts[i]);
    if (b.size == 0) buf_put_literal(&b, "ok");
    w->health[b.size] = '\0';
}

const char *watch_health(const struct watch *w, bool *ret_ok)
{
    *ret_ok = w == NULL || strcmp(w->health, "ok") == 0;
    return w == NULL ? NULL : w->health;
}

const char *watch_unready(const struct watch *w)
{
    if (w == NULL || w->known.is_ready) return NULL;
    return w->known.failure[0] != '\0' ? w->known.failure
                                       : "policies.dir is being read for the first time";
}

/* ---- what the API may change ---- */

enum err watch_permits(const struct watch *w, struct str tenant, struct str name,
                       struct policy_condition *c, struct fault *f)
{
    if (w == NULL || !str_equal(tenant, w->tenant)) return ERR_OK;
    c->not_of = STR(FILES_PRINCIPAL);
    c->seen = w->known.judged_revision;
    if (w->known.files == NULL)
        return fault_set(f, ERR_STARTING, "", "policies.dir has not been looked through yet");
    for (size_t i = 0; i < w->known.file_count; i++)
        if (str_equal(str_from(w->known.files[i].name), name))
            return fault_set(
                f, ERR_WATCHED_POLICY, "",
                "the policy %.*s comes from the file %s of policies.dir: change it there",
                STR_FORMAT(name), w->known.files[i].file);
    return ERR_OK;
}

/* ---- one look ---- */

/* The reactor's: its state is wanted no more, or has been taken over. */
static void end_look(struct job *j)
{
    struct watch_look *l = j->detail;
    watch_look_fini(l);
    if (l->state.files != l->before.files) watch_state_fini(&l->state);
    job_destroy(j);
}

static void log_news(enum log_level level, const char *now, const char *before, const char *tenant)
{
    if (now[0] == '\0' || strcmp(now, before) == 0) return;
    log_line(level, "policies_dir", "why", now, tenant == NULL ? NULL : "tenant", tenant, NULL);
}

static void look_done(struct job *j)
{
    struct watch_look *l = j->detail;
    struct watch *w = j->platform->watch;
    const struct watch_state *old = &w->known, *now = &l->state;
    log_news(LOG_ERROR, now->failure, old->failure, NULL);
    log_news(LOG_WARNING, now->strangers, old->strangers, NULL);
    log_news(LOG_WARNING, now->elsewhere, old->elsewhere, now->elsewhere_tenant);
    log_news(LOG_WARNING, now->abroad, old->abroad, now->elsewhere_tenant);
    watch_look_fini(l);
    if (now->files != old->files) watch_state_fini(&w->known);
    w->known = *now;
    l->before.files = l->state.files; /* ours now */
    uint64_t again_ms = l->again_ms;
    w->is_under_way = false;
    w->is_waiting = again_ms > 0;
    job_destroy(j);
    publish(w);
    look_in(w, again_ms > 0 ? again_ms
               : w->is_told ? COMPANY_MS
                            : w->platform->config->policies_rescan_ms);
}

static void store_work(struct job *j, struct store *store)
{
    struct watch_look *l = j->detail;
    j->err = watch_look_store(l, store, &j->actor, &j->fault);
    j->wrote_nothing = j->err == ERR_OK;
    for (size_t i = 0; j->err == ERR_OK && i < l->apply.batch.count; i++) {
        const struct policy_result *r = &l->apply.batch.steps[i].result;
        if (r->effect == POLICY_UNCHANGED) continue;
        j->wrote_nothing = false;
        if (r->revision > j->revision) j->revision = r->revision;
        metric_add(j->sheet, METRIC_POLICY_FILE_CHANGES, 1);
    }
}

static void look_back(struct job *j)
{
    struct watch_look *l = j->detail;
    if (j->platform->draining) {
        end_look(j);
        return;
    }
    j->done = look_done;
    j->work = store_work;
    j->is_check = false;
    if (l->apply.batch.count > 0) {
        if (job_queue(j, QUEUE_WRITER)) return;
        watch_look_put_off(l, "too many changes wait for the store already");
    }
    look_done(j);
}

static void look_work(struct job *j, struct store *store) { watch_look_run(j->detail, store); }

static void look(struct loop_timer *t)
{
    struct watch *w = link_owner(t, struct watch, timer);
    if (w->is_under_way || w->platform->draining) return;
    struct job *j = job_create(w->platform, NULL, look_work);
    struct watch_look *l = job_detail(j, struct watch_look);
    check(l != NULL);
    mark_directory(w);
    l->path = w->platform->config->policies_dir;
    l->tenant = w->tenant;
    l->directory = w->directory;
    l->monotonic_ns = world_monotonic_ns;
    l->before = w->known;
    set_guard_init(&l->apply.guard, w->platform->book);
    j->actor.principal = STR(FILES_PRINCIPAL);
    j->done = look_back;
    w->is_under_way = true;
    w->is_told = w->is_waiting = false;
    if (job_queue(j, QUEUE_READER)) return;
    w->is_under_way = false;
    job_destroy(j);
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
    watch_state_fini(&w->known);
    free(w);
}

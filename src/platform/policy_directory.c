/* policy_directory.c - see policy_directory.h: when to look, and what the reactor knows.
 *
 *   idle ── notice or timer ──▶ looking (a reader) ──▶ storing (the writer) ──▶ idle
 *
 * One look at a time. The known state belongs to the reactor, which answers from it while a look
 * reads a copy. The look's own state replaces it when the look returns. inotify only triggers a
 * look: the look itself finds the files and the changes. So a lost notice costs policies.rescan and
 * nothing else. */
#include "platform/policy_directory.h"

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
#include "platform/directory_scan.h"

enum {
    COMPANY_MS = 100, /* collects the many notices of one change */
    HOST_MAX = 256,
};

struct policy_directory {
    struct platform *platform;
    struct str tenant;
    struct str directory; /* a view of: */
    char directory_text[PATH_MAX + HOST_MAX];
    struct directory_state known;
    struct loop_fd notices;
    struct loop_timer timer;
    int descriptor; /* of inotify; -1: none, then only the timer triggers a look */
    int mark;       /* the inotify watch of the directory; -1: none */
    bool is_under_way;
    bool is_told;    /* a change was reported since the last look began */
    bool is_waiting; /* for the directory to stand still: an earlier look is useless */
    char health[1760];
};

static void look(struct loop_timer *t);

static void look_in(struct policy_directory *w, uint64_t ms)
{
    if (!w->platform->draining) loop_timer_start(w->platform->loop, &w->timer, ms, look);
}

/* Only the first of many notices starts the timer. Otherwise an endless series would put the look
 * off forever. */
static void told(struct policy_directory *w)
{
    if (w->is_told) return;
    w->is_told = true;
    if (!w->is_under_way && !w->is_waiting) look_in(w, COMPANY_MS);
}

/* A change of our own (a DELETE) may solve a problem. */
void directory_store_moved(struct policy_directory *w, bool by_others)
{
    if (w == NULL) return;
    const struct directory_state *k = &w->known;
    if (by_others || k->failure[0] != '\0' || k->strangers[0] != '\0' || k->elsewhere[0] != '\0')
        told(w);
}

/* ---- notices ---- */

static void noticed(struct loop_fd *f, int events)
{
    struct policy_directory *w = link_owner(f, struct policy_directory, notices);
    _Alignas(struct inotify_event) char bytes[4096];
    (void)events;
    while (read(w->descriptor, bytes, sizeof bytes) > 0) continue;
    told(w);
}

/* The path may lead to another directory now (a link that was changed). The same directory keeps
 * its inotify watch. */
static void mark_directory(struct policy_directory *w)
{
    const uint32_t what = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                          IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF;
    if (w->descriptor < 0) return;
    int mark = inotify_add_watch(w->descriptor, w->platform->config->policies_dir, what);
    if (w->mark >= 0 && w->mark != mark) inotify_rm_watch(w->descriptor, w->mark);
    w->mark = mark;
}

static void start_notices(struct policy_directory *w)
{
    w->mark = -1;
    w->descriptor = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (w->descriptor >= 0)
        loop_fd_start(w->platform->loop, &w->notices, w->descriptor, LOOP_READ, noticed);
    else
        log_line(LOG_WARNING, "no_inotify", "why", strerror(errno), "text",
                 "policies.dir is read only every policies.rescan", NULL);
}

/* ---- publishing the state ---- */

static void publish(struct policy_directory *w)
{
    const struct directory_state *k = &w->known;
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

const char *directory_health(const struct policy_directory *w, bool *ret_ok)
{
    *ret_ok = w == NULL || strcmp(w->health, "ok") == 0;
    return w == NULL ? NULL : w->health;
}

const char *directory_unready(const struct policy_directory *w)
{
    if (w == NULL || w->known.is_ready) return NULL;
    return w->known.failure[0] != '\0' ? w->known.failure
                                       : "policies.dir is being read for the first time";
}

/* ---- changes that the API may make ---- */

enum err directory_permits(const struct policy_directory *w, struct str tenant, struct str name,
                           struct policy_condition *c, struct fault *f)
{
    if (w == NULL || !str_equal(tenant, w->tenant)) return ERR_OK;
    c->not_of = STR(FILES_PRINCIPAL);
    c->seen = w->known.judged_revision;
    if (w->known.files == NULL)
        return fault_set(f, ERR_STARTING, "", "policies.dir has not been read yet");
    for (size_t i = 0; i < w->known.file_count; i++)
        if (str_equal(str_from(w->known.files[i].name), name))
            return fault_set(
                f, ERR_WATCHED_POLICY, "",
                "the policy %.*s comes from the file %s of policies.dir: change it there",
                STR_FORMAT(name), w->known.files[i].file);
    return ERR_OK;
}

/* ---- one look ---- */

/* The reactor's. The look's state is not needed any more, or was taken over. */
static void end_look(struct job *j)
{
    struct directory_scan *l = j->detail;
    directory_scan_fini(l);
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
    struct directory_scan *l = j->detail;
    struct policy_directory *w = j->platform->watch;
    const struct directory_state *old = &w->known, *now = &l->state;
    log_news(LOG_ERROR, now->failure, old->failure, NULL);
    log_news(LOG_WARNING, now->strangers, old->strangers, NULL);
    log_news(LOG_WARNING, now->elsewhere, old->elsewhere, now->elsewhere_tenant);
    log_news(LOG_WARNING, now->abroad, old->abroad, now->elsewhere_tenant);
    directory_scan_fini(l);
    if (now->files != old->files) watch_state_fini(&w->known);
    w->known = *now;
    l->before.files = l->state.files; /* moved to the state */
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
    struct directory_scan *l = j->detail;
    j->err = directory_scan_store(l, store, &j->actor, &j->fault);
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
    struct directory_scan *l = j->detail;
    if (j->platform->draining) {
        end_look(j);
        return;
    }
    j->done = look_done;
    j->work = store_work;
    j->is_check = false;
    if (l->apply.batch.count > 0) {
        if (job_queue(j, QUEUE_WRITER)) return;
        directory_scan_put_off(l, "too many changes wait for the store");
    }
    look_done(j);
}

static void look_work(struct job *j, struct store *store) { directory_scan_run(j->detail, store); }

static void look(struct loop_timer *t)
{
    struct policy_directory *w = link_owner(t, struct policy_directory, timer);
    if (w->is_under_way || w->platform->draining) return;
    struct job *j = job_create(w->platform, NULL, look_work);
    struct directory_scan *l = job_detail(j, struct directory_scan);
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

/* The directory's name in the store. On a database server, which platforms of several machines
 * share, it has the machine's name. It has the path as configured, since links in it may change. */
static void name_directory(struct policy_directory *w)
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

enum err directory_create(struct platform *p, struct policy_directory **ret, struct fault *f)
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
    struct policy_directory *w = calloc(1, sizeof *w);
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

void directory_destroy(struct policy_directory *w)
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

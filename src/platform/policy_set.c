#include "platform/policy_set.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"

enum { ROWS_ARENA_FIRST = 64 << 10, ROWS_ARENA_MOST = 512 << 20 };

/* ---- the facts of one text ---- */

struct facts {
    _Atomic size_t references;
    char digest[SHA256_HEX];
    struct policy_roles *roles; /* NULL: it does not load */
    size_t problem_count;       /* load errors, or refusals if it were new */
    struct policy_problem *problems;
};

struct policy_book {
    pthread_mutex_t lock;
    struct map by_digest;
};

static void facts_release(struct facts *x)
{
    if (x == NULL || atomic_fetch_sub(&x->references, 1) > 1) return;
    policy_roles_destroy(x->roles);
    free(x->problems);
    free(x);
}

/* Returns NULL without memory. */
static struct facts *facts_create(struct str digest, const struct policy_document *d,
                                  const struct policy_problems *problems)
{
    struct facts *x = calloc(1, sizeof *x);
    check(digest.size == SHA256_HEX);
    if (x == NULL) return NULL;
    x->references = 1;
    memcpy(x->digest, digest.bytes, SHA256_HEX);
    if (d != NULL) x->roles = policy_roles_create(d);
    x->problem_count = problems->count;
    if (problems->count == 0) return x;
    x->problems = calloc(problems->count, sizeof *x->problems);
    if (x->problems == NULL) {
        facts_release(x);
        return NULL;
    }
    memcpy(x->problems, problems->list, problems->count * sizeof *x->problems);
    return x;
}

struct policy_book *policy_book_create(void)
{
    struct policy_book *b = calloc(1, sizeof *b);
    check(b != NULL && pthread_mutex_init(&b->lock, NULL) == 0);
    return b;
}

void policy_book_destroy(struct policy_book *b)
{
    struct str digest;
    void *facts;
    for (size_t cursor = 0; map_next(&b->by_digest, &cursor, &digest, &facts);)
        facts_release(facts);
    map_fini(&b->by_digest);
    pthread_mutex_destroy(&b->lock);
    free(b);
}

/* The caller releases the result; NULL: unknown. */
static struct facts *book_find(struct policy_book *b, struct str digest)
{
    pthread_mutex_lock(&b->lock);
    struct facts *x = map_get(&b->by_digest, digest);
    if (x != NULL) x->references++;
    pthread_mutex_unlock(&b->lock);
    return x;
}

/* Takes one reference of `x` and returns one of the book's entry for the digest. */
static struct facts *book_add(struct policy_book *b, struct facts *x)
{
    struct str digest = str_of(x->digest, SHA256_HEX);
    pthread_mutex_lock(&b->lock);
    struct facts *known = map_get(&b->by_digest, digest);
    bool added = known == NULL && map_put(&b->by_digest, digest, x);
    if (known != NULL) known->references++;
    if (added) x->references++;
    if (known == NULL) known = x;
    pthread_mutex_unlock(&b->lock);
    if (known != x) facts_release(x);
    return known;
}

void policy_book_note(struct policy_book *b, const struct policy_document *d)
{
    char digest[SHA256_HEX];
    struct policy_problems refusals;
    sha256_write_hex(policy_document_digest(d), digest);
    struct facts *x = book_find(b, str_of(digest, SHA256_HEX));
    if (x == NULL) {
        policy_refusals(d, &refusals);
        x = facts_create(str_of(digest, SHA256_HEX), d, &refusals);
        if (x == NULL) return;
        x = book_add(b, x);
    }
    facts_release(x);
}

/* Does not run the document's tests: they ran when it was put. NULL: no memory, which is not
 * remembered. */
static struct facts *load_facts(struct policy_book *b, struct str name, struct str digest,
                                struct str text)
{
    struct policy_document *d = NULL;
    struct policy_problems problems;
    enum err err = policy_load_untested(name, text, &d, &problems);
    if (err == ERR_FULL) return NULL;
    if (err == ERR_OK) policy_refusals(d, &problems);
    struct facts *x = facts_create(digest, d, &problems);
    bool is_whole = x != NULL && (d == NULL || x->roles != NULL);
    if (d != NULL) policy_document_release(d);
    if (is_whole) return book_add(b, x);
    facts_release(x);
    return NULL;
}

/* ---- the rows in force ---- */

struct set_row {
    struct str tenant, name, digest; /* in the arena */
    uint64_t version;
    bool is_active;
    struct facts *facts; /* owned; NULL: not in force, or (in a report) not looked up yet */
};

struct set_rows {
    struct arena arena;
    struct set_row *list;
    size_t count, room;
};

static void rows_init(struct set_rows *r)
{
    *r = (struct set_rows){0};
    arena_init(&r->arena, ROWS_ARENA_FIRST, ROWS_ARENA_MOST);
}

static void rows_fini(struct set_rows *r)
{
    for (size_t i = 0; i < r->count; i++) facts_release(r->list[i].facts);
    free(r->list);
    arena_fini(&r->arena);
}

static void keep_row(void *context, const struct policy_row *row)
{
    struct set_rows *r = context;
    if (r->count == r->room) {
        size_t room = r->room * 2 + 64;
        struct set_row *list = realloc(r->list, room * sizeof *list);
        if (list == NULL) {
            arena_starve(&r->arena);
            return;
        }
        r->list = list;
        r->room = room;
    }
    r->list[r->count++] = (struct set_row){.tenant = arena_copy(&r->arena, row->tenant),
                                           .name = arena_copy(&r->arena, row->name),
                                           .digest = arena_copy(&r->arena, row->digest),
                                           .version = row->version,
                                           .is_active = row->is_active};
}

/* Fills in the facts of the row's text; *loaded counts the bytes that had to be loaded for it. */
static enum err row_facts(struct policy_book *b, struct store *s, struct set_row *row,
                          size_t *loaded, struct fault *f)
{
    row->facts = book_find(b, row->digest);
    if (row->facts != NULL) return ERR_OK;
    struct buf text;
    buf_init(&text, 16 << 10, LIMIT_POLICY_BODY_BYTES * 2);
    enum err err = policy_store_content(s, row->tenant, row->name, row->version, &text, f);
    if (err == ERR_OK && text.overflow) err = fault_plain(f, ERR_FULL);
    if (err == ERR_OK) {
        *loaded += text.size;
        row->facts = load_facts(b, row->name, row->digest, buf_view(&text));
        if (row->facts == NULL) err = fault_plain(f, ERR_FULL);
    }
    buf_fini(&text);
    return err;
}

/* ---- the guard ---- */

/* The resulting set, and for each member the step that changes it. */
struct outcome {
    struct set_guard *guard;
    struct policy_roles_member *before, *after;
    struct str *names;
    size_t *steps;
    size_t before_count, after_count;
    bool is_unknown; /* a document does not load, so its roles are unknown */
    size_t problems;
};

static void add_member(struct outcome *o, const struct facts *facts, struct str name, size_t step,
                       bool is_new)
{
    if (facts->roles == NULL) o->is_unknown = true;
    o->names[o->after_count] = name;
    o->steps[o->after_count] = step;
    o->after[o->after_count++] =
        (struct policy_roles_member){.roles = facts->roles, .is_new = is_new};
}

static const struct set_row *find_row(const struct set_rows *rows, struct str name)
{
    for (size_t i = 0; i < rows->count; i++)
        if (str_equal(rows->list[i].name, name)) return &rows->list[i];
    return NULL;
}

/* Adds a step's document as it will be, if it will be in force. */
static void add_changed(struct outcome *o, const struct set_rows *rows,
                        const struct policy_step *step, size_t index, const struct facts *facts)
{
    const struct policy_change *p = &step->change;
    const struct set_row *row = find_row(rows, p->name);
    bool is_active = p->has_active ? p->is_active : row == NULL || row->is_active;
    bool is_same = row != NULL && row->is_active && str_equal(row->digest, p->digest);
    if (is_active) add_member(o, facts, p->name, index, !(is_same && o->guard->spares_unchanged));
}

static enum err add_unchanged(struct outcome *o, const struct set_rows *rows,
                              const struct policy_step *steps, size_t count)
{
    struct map changed = {0};
    for (size_t i = 0; i < count; i++)
        if (!map_put(&changed, steps[i].change.name, (void *)(uintptr_t)(i + 1))) {
            map_fini(&changed);
            return ERR_FULL;
        }
    for (size_t i = 0; i < rows->count; i++) {
        const struct set_row *row = &rows->list[i];
        if (!row->is_active) continue;
        o->before[o->before_count++] = (struct policy_roles_member){.roles = row->facts->roles};
        if (map_get(&changed, row->name) == NULL)
            add_member(o, row->facts, row->name, SIZE_MAX, false);
    }
    map_fini(&changed);
    return ERR_OK;
}

static void keep_problem(void *context, const struct policy_unknown_role *u)
{
    struct outcome *o = context;
    struct set_guard *g = o->guard;
    size_t step = o->steps[u->member];
    if (o->problems++ == 0) {
        struct buf forced = buf_over(g->forced, sizeof g->forced);
        buf_printf(&forced,
                   "rule %.*s of policy %.*s names the role \"%.*s\", which no document defines",
                   STR_FORMAT(u->rule_id), STR_FORMAT(o->names[u->member]), STR_FORMAT(u->role));
        g->guard.forced = buf_view(&forced);
    }
    if (g->problem_count == SET_PROBLEMS_MAX) return;
    struct set_problem *p = &g->problems[g->problem_count++];
    *p = (struct set_problem){
        .step = step, .is_taken_away = u->is_taken_away, .problem = u->problem};
    struct str name = o->names[u->member];
    memcpy(p->policy, name.bytes, name.size < sizeof p->policy ? name.size : sizeof p->policy - 1);
}

/* Reports the first role that the changed documents lack, or else the first that other documents
 * lose. */
static enum err refuse(const struct set_guard *g, size_t count, struct fault *f)
{
    const struct set_problem *first = &g->problems[0];
    for (size_t i = 0; i < g->problem_count && first->is_taken_away; i++)
        if (!g->problems[i].is_taken_away) first = &g->problems[i];
    char more[48] = "";
    if (count > 1) snprintf(more, sizeof more, " (the first of %zu)", count);
    if (first->is_taken_away)
        return fault_set(f, ERR_ROLE_IN_USE, "",
                         "%.*s%s; the change would remove that role: change the rule first, or "
                         "change both in one apply, or use force",
                         STR_FORMAT(g->guard.forced), more);
    return fault_set(f, ERR_INVALID_POLICY, "", "%s: line %u (%s): %s%s", first->policy,
                     first->problem.line, first->problem.path,
                     policy_problem_short(&first->problem), more);
}

static enum err judge(struct outcome *o, struct fault *f)
{
    struct set_guard *g = o->guard;
    if (o->is_unknown) return ERR_OK;
    if (!policy_roles_check(o->before, o->before_count, o->after, o->after_count, keep_problem, o))
        return fault_plain(f, ERR_FULL);
    if (o->problems == 0 || g->force) return ERR_OK;
    return refuse(g, o->problems, f);
}

static enum err run_guard(struct policy_guard *guard, struct store *s,
                          const struct policy_step *steps, size_t count, struct fault *f)
{
    struct set_guard *g = link_owner(guard, struct set_guard, guard);
    struct set_rows rows;
    struct facts **changed = calloc(count + 1, sizeof(struct facts *));
    if (changed == NULL) return fault_plain(f, ERR_FULL);
    rows_init(&rows);
    g->problem_count = 0;
    guard->forced = (struct str){0};
    enum err err =
        count == 0 ? ERR_OK : policy_store_rows(s, steps[0].change.tenant, keep_row, &rows, f);
    if (err == ERR_OK && rows.arena.overflow) err = fault_plain(f, ERR_FULL);
    for (size_t i = 0; i < rows.count && err == ERR_OK; i++)
        if (rows.list[i].is_active) err = row_facts(g->book, s, &rows.list[i], &(size_t){0}, f);
    for (size_t i = 0; i < count && err == ERR_OK; i++) {
        const struct policy_change *p = &steps[i].change;
        if (steps[i].deletes) continue;
        changed[i] = book_find(g->book, p->digest);
        if (changed[i] == NULL) changed[i] = load_facts(g->book, p->name, p->digest, p->content);
        if (changed[i] == NULL) err = fault_plain(f, ERR_FULL);
    }
    if (err == ERR_OK) {
        size_t most = rows.count + count;
        struct outcome o = {.guard = g,
                            .before =
                                arena_array(&rows.arena, struct policy_roles_member, most + 1),
                            .after = arena_array(&rows.arena, struct policy_roles_member, most + 1),
                            .names = arena_array(&rows.arena, struct str, most + 1),
                            .steps = arena_array(&rows.arena, size_t, most + 1)};
        err = rows.arena.overflow ? ERR_FULL : add_unchanged(&o, &rows, steps, count);
        if (err != ERR_OK) (void)fault_plain(f, err);
        for (size_t i = 0; i < count && err == ERR_OK; i++)
            if (!steps[i].deletes) add_changed(&o, &rows, &steps[i], i, changed[i]);
        if (err == ERR_OK) err = judge(&o, f);
    }
    for (size_t i = 0; i < count; i++) facts_release(changed[i]);
    free(changed);
    rows_fini(&rows);
    return err;
}

void set_guard_init(struct set_guard *g, struct policy_book *book)
{
    *g = (struct set_guard){.guard = {.run = run_guard}, .book = book};
}

/* ---- the report ---- */

/* Replaces the quoted parts of the message by "…". */
static void put_problem_text(struct buf *out, const char *message)
{
    char text[sizeof((struct policy_problem *)0)->message + 64];
    struct buf b = buf_over(text, sizeof text);
    bool quoted = false;
    for (const char *c = message; *c != '\0'; c++) {
        if (*c == '"' && !quoted) buf_put_literal(&b, "\"…\"");
        if (*c == '"')
            quoted = !quoted;
        else if (!quoted)
            buf_put_byte(&b, *c);
    }
    json_put_string(out, buf_view(&b));
}

struct reporting {
    struct policy_report *report;
    struct buf json;
    const struct policy_problem **first; /* of each row, or NULL */
    struct policy_problem *unknown;      /* for roles: the problem that `first` points at */
    size_t from;                         /* the first row of the tenant */
};

static void report_row(struct reporting *r, const struct set_row *row,
                       const struct policy_problem *p)
{
    if (r->report->documents++ >= SET_REPORTED_MAX) return;
    if (r->report->documents > 1) buf_put_byte(&r->json, ',');
    buf_printf(&r->json, "{\"column\":%u,\"line\":%u,\"path\":", p->column, p->line);
    json_put_string(&r->json, str_from(p->path));
    buf_put_literal(&r->json, ",\"policy\":");
    json_put_string(&r->json, row->name);
    buf_put_literal(&r->json, ",\"problem\":");
    put_problem_text(&r->json, policy_problem_short(p));
    buf_put_byte(&r->json, '}');
}

static void log_row(const struct set_row *row, const struct policy_problem *p)
{
    char name[POLICY_NAME_MAX + 1], tenant[LIMIT_ID_CHARACTERS * 4 + 1];
    snprintf(name, sizeof name, "%.*s", STR_FORMAT(row->name));
    snprintf(tenant, sizeof tenant, "%.*s", STR_FORMAT(row->tenant));
    log_line(LOG_WARNING, "policy_would_be_refused", "policy", name, "tenant", tenant, "path",
             p->path, "why", policy_problem_short(p), NULL);
}

static void keep_first_unknown(void *context, const struct policy_unknown_role *u)
{
    struct reporting *r = context;
    size_t row = r->from + u->member;
    if (r->first[row] != NULL) return;
    r->unknown[row] = u->problem;
    r->first[row] = &r->unknown[row];
}

/* Reports the rows of one tenant, all of which are loaded. */
static bool report_tenant(struct reporting *r, const struct set_rows *rows, size_t to)
{
    struct policy_roles_member *set = calloc(to - r->from, sizeof *set);
    bool good = set != NULL, is_unknown = false;
    for (size_t i = r->from; good && i < to; i++) {
        const struct facts *x = rows->list[i].facts;
        if (x->problem_count > 0) r->first[i] = &x->problems[0];
        is_unknown |= x->roles == NULL;
        set[i - r->from] = (struct policy_roles_member){.roles = x->roles, .is_new = true};
    }
    if (good && !is_unknown)
        good = policy_roles_check(NULL, 0, set, to - r->from, keep_first_unknown, r);
    free(set);
    return good;
}

static enum err report_all(struct reporting *r, const struct set_rows *rows,
                           const struct policy_report *before, struct fault *f)
{
    r->first = calloc(rows->count + 1, sizeof *r->first);
    r->unknown = calloc(rows->count + 1, sizeof *r->unknown);
    bool good = r->first != NULL && r->unknown != NULL;
    for (size_t to; good && r->from < rows->count; r->from = to) {
        for (to = r->from + 1; to < rows->count; to++)
            if (!str_equal(rows->list[to].tenant, rows->list[r->from].tenant)) break;
        good = report_tenant(r, rows, to);
    }
    for (size_t i = 0; good && i < rows->count; i++)
        if (r->first[i] != NULL) report_row(r, &rows->list[i], r->first[i]);
    buf_put_literal(&r->json, "]}");
    if (r->json.overflow) { /* too many escapes for the buffer: the log has the problems */
        r->json = buf_over(r->report->json, sizeof r->report->json - 8);
        buf_put_literal(&r->json, "\"policies\":[]}");
    }
    r->report->json[r->json.size] = '\0';
    bool is_news = before == NULL || strcmp(before->json, r->report->json) != 0;
    for (size_t i = 0, told = 0; good && is_news && i < rows->count && told < SET_REPORTED_MAX; i++)
        if (r->first[i] != NULL) {
            log_row(&rows->list[i], r->first[i]);
            told++;
        }
    free(r->first);
    free(r->unknown);
    return good ? ERR_OK : fault_plain(f, ERR_FULL);
}

/* Removes the facts of texts that are not in force any more. Without memory for the comparison all
 * facts stay. */
static void forget_others(struct policy_book *b, const struct set_rows *rows)
{
    struct map kept = {0};
    struct str digest;
    void *value;
    bool is_known = true;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 0; i < rows->count && is_known; i++) {
        struct facts *x = rows->list[i].facts;
        struct str key = str_of(x->digest, SHA256_HEX);
        if (map_get(&kept, key) != NULL) continue;
        is_known = map_put(&kept, key, x);
    }
    for (size_t cursor = 0; is_known && map_next(&kept, &cursor, &digest, &value);)
        ((struct facts *)value)->references++;
    for (size_t cursor = 0; is_known && map_next(&b->by_digest, &cursor, &digest, &value);)
        facts_release(value);
    map_fini(is_known ? &b->by_digest : &kept);
    if (is_known) b->by_digest = kept;
    pthread_mutex_unlock(&b->lock);
}

enum err policy_report_make(struct policy_book *b, struct store *s,
                            const struct policy_report *before, struct policy_report *ret,
                            struct fault *f)
{
    struct set_rows rows;
    size_t loaded = 0, known = 0;
    *ret = (struct policy_report){0};
    rows_init(&rows);
    struct revision now;
    enum err err = store_revision(s, &now, f);
    ret->revision = now.number;
    if (err == ERR_OK) err = policy_store_rows_in_force(s, keep_row, &rows, f);
    if (err == ERR_OK && rows.arena.overflow) err = fault_plain(f, ERR_FULL);
    for (; known < rows.count && err == ERR_OK && loaded < SET_LOADED_BYTES_MAX; known++)
        err = row_facts(b, s, &rows.list[known], &loaded, f);
    if (err == ERR_OK && known == rows.count) {
        struct reporting r = {.report = ret, .json = buf_over(ret->json, sizeof ret->json - 8)};
        buf_put_literal(&r.json, "\"policies\":[");
        ret->is_complete = true;
        err = report_all(&r, &rows, before, f);
        if (err == ERR_OK) forget_others(b, &rows);
    }
    rows_fini(&rows);
    return err;
}

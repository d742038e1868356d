/* queue.c - `writ queue`: what waits for a person, laid out so that it can be judged.
 *
 * Arguments come from agents: they are shown line by line with their path, every control character
 * made visible, never obeyed. What policies mask is masked here too. */
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "cli/cli.h"

enum { WATCH_PAGE = 100, BODY_MAX = 64 << 10, PATH_COLUMNS = 32 };

/* ---- layout ---- */

static struct str who_shown(struct cli *c, const struct json *item)
{
    struct str actor = member_shown(c, item, "actor"), user = member_shown(c, item, "user_id");
    struct str who = actor.size > 0 ? actor : user, behalf = member_shown(c, item, "acting_for");
    if (behalf.size == 0) return who;
    return arena_printf(&c->arena, "%.*s for %.*s", STR_FORMAT(who), STR_FORMAT(behalf));
}

static struct str resource_shown(struct cli *c, const struct json *item)
{
    const struct json *resource = json_get(item, STR("resource"));
    struct str type = member_shown(c, resource, "type"), id = member_shown(c, resource, "id");
    if (type.size > 0 && id.size > 0)
        return arena_printf(&c->arena, "%.*s:%.*s", STR_FORMAT(type), STR_FORMAT(id));
    return type.size > 0 ? type : id;
}

/* One line for each value, with its path: `args.items[0].price   12.5`. How deep it goes, the reader
 * bounds. */
static void print_tree(struct cli *c, struct str path, const struct json *v)
{
    bool branch = (v->type == JSON_OBJECT || v->type == JSON_ARRAY) && v->count > 0;
    if (!branch) {
        struct str shown = v->type == JSON_OBJECT  ? STR("{}")
                           : v->type == JSON_ARRAY ? STR("[]")
                                                   : value_shown(c, v);
        size_t columns = text_columns(path);
        fprintf(c->out, "  %.*s%*s  ", STR_FORMAT(path),
                columns < PATH_COLUMNS ? (int)(PATH_COLUMNS - columns) : 0, "");
        print_str(c->out, shown);
        fputc('\n', c->out);
        return;
    }
    uint32_t index = 0;
    for (const struct json *m = v->child; m != NULL; m = m->next, index++) {
        struct str key = text_shown(&c->arena, m->key);
        struct str below =
            v->type == JSON_ARRAY
                ? arena_printf(&c->arena, "%.*s[%u]", STR_FORMAT(path), index)
                : arena_printf(&c->arena, "%.*s.%.*s", STR_FORMAT(path), STR_FORMAT(key));
        print_tree(c, below, m);
    }
}

static void print_part(struct cli *c, const struct json *item, const char *name)
{
    const struct json *v = json_get(item, str_from(name));
    if (v == NULL) return;
    fputc('\n', c->out);
    print_tree(c, str_from(name), v);
}

/* All of it, where the line "on" does not say all: policies may read its other members. */
static void print_resource(struct cli *c, const struct json *item)
{
    if (resource_has_more(json_get(item, STR("resource")))) print_part(c, item, "resource");
}

static void print_approvals(struct cli *c, const struct json *item)
{
    const struct json *list = json_get(item, STR("approvals"));
    for (const struct json *v = json_is_array(list) ? list->child : NULL; v != NULL; v = v->next) {
        struct str note = member_shown(c, v, "note");
        print_field(c, "approved by",
                    arena_printf(&c->arena, "%.*s at %.*s%s%.*s",
                                 STR_FORMAT(member_shown(c, v, "resolved_by")),
                                 STR_FORMAT(member_shown(c, v, "at")), note.size > 0 ? ": " : "",
                                 STR_FORMAT(note)));
    }
}

static void print_item(struct cli *c, const struct json *item)
{
    static const char *const fields[][2] = {
        {"review", "id"},         {"status", "status"},      {"reason", "reason"},
        {"rule", "rule"},         {"policy", "policy_name"}, {"confidence", "confidence_score"},
        {"asked", "enqueued_at"}, {"until", "expires_at"}};
    print_field(c, "who", who_shown(c, item));
    print_field(c, "wants to", member_shown(c, item, "action"));
    print_field(c, "on", resource_shown(c, item));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        print_field(c, fields[i][0], member_shown(c, item, fields[i][1]));
    if (json_u64(item, STR("approvals_required"), 1) > 1)
        print_field(c, "votes needed", member_shown(c, item, "approvals_required"));
    print_approvals(c, item);
    print_field(c, "resolved by", member_shown(c, item, "resolved_by"));
    print_field(c, "note", member_shown(c, item, "resolution_note"));
    print_field(c, "good until", member_shown(c, item, "approval_expires_at"));
    print_field(c, "redeemed", member_shown(c, item, "redeemed_at"));
    print_field(c, "trace", member_shown(c, item, "trace_id"));
    print_part(c, item, "args");
    print_resource(c, item);
    print_part(c, item, "resource_properties");
    print_part(c, item, "context");
}

static int print_answer(struct cli *c, const struct reply *reply)
{
    if (c->json)
        print_json(c, reply->body);
    else
        print_item(c, reply->root);
    return DONE;
}

/* ---- list ---- */

static int list_page(struct cli *c, const struct arguments *a, struct str status, struct str cursor,
                     struct str limit, struct reply *ret)
{
    struct target t;
    bool pending = str_is_empty(status) || str_equal(status, STR("pending"));
    target_init(c, &t, pending ? "/v1/queue/pending" : "/v1/queue");
    target_tenant(&t, c);
    if (!pending && !str_equal(status, STR("all"))) target_query(&t, "status", status);
    target_query(&t, "actor", argument_text(a, "actor"));
    target_query(&t, "action", argument_text(a, "action"));
    target_query(&t, "cursor", cursor);
    target_query(&t, "limit", limit);
    struct request r = {.side = SIDE_ENGINE, .method = "GET", .target = target_text(&t)};
    return cli_call(c, &r, ret);
}

static void add_review(struct cli *c, struct table *t, const struct json *item)
{
    table_add(t, member_shown(c, item, "id"));
    table_add(t, who_shown(c, item));
    table_add(t, member_shown(c, item, "action"));
    table_add(t, resource_shown(c, item));
    table_add(t, member_shown(c, item, "status"));
    table_add(t, member_shown(c, item, "expires_at"));
    table_add(t, member_shown(c, item, "reason"));
}

static int queue_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"REVIEW", "*WHO",  "*WANTS TO", "*ON",
                                        "STATUS", "UNTIL", "*REASON",   NULL};
    struct reply reply;
    int code = check_page(c, a);
    if (code == DONE)
        code =
            list_page(c, a, argument_text(a, "status"), argument_text(a, "cursor"),
                      argument_given(a, "limit") ? argument_text(a, "limit") : STR("50"), &reply);
    if (code != DONE) return code;
    if (!c->json)
        fprintf(c->err, "%llu of %llu\n", (unsigned long long)json_u64(reply.root, STR("count"), 0),
                (unsigned long long)json_u64(reply.root, STR("total"), 0));
    print_list(c, &reply, "items", heads, add_review);
    return DONE;
}

/* ---- one review ---- */

static void review_target(struct cli *c, struct target *t, struct str review, const char *what)
{
    target_init(c, t, "/v1/queue");
    target_segment(t, review);
    buf_put(&t->text, str_from(what));
    target_tenant(t, c);
}

static int queue_show(struct cli *c, const struct arguments *a)
{
    struct target t;
    struct reply reply;
    review_target(c, &t, argument_at(a, 0), "");
    struct request r = {.side = SIDE_ENGINE, .method = "GET", .target = target_text(&t)};
    int code = cli_call(c, &r, &reply);
    return code == DONE ? print_answer(c, &reply) : code;
}

static int queue_wait(struct cli *c, const struct arguments *a)
{
    struct target t;
    struct reply reply;
    for (;;) { /* each call is answered the moment the review is resolved */
        arena_reset(&c->arena);
        review_target(c, &t, argument_at(a, 0), "/wait");
        target_query(&t, "timeout_ms", STR("25000"));
        struct request r = {.side = SIDE_ENGINE, .method = "GET", .target = target_text(&t)};
        int code = cli_call(c, &r, &reply);
        if (code != DONE) return code;
        if (!str_equal(json_text(reply.root, STR("status")), STR("pending"))) break;
    }
    print_answer(c, &reply);
    return str_equal(json_text(reply.root, STR("status")), STR("approved")) ? DONE : REFUSED;
}

static int post(struct cli *c, const struct arguments *a, const char *what)
{
    struct target t;
    struct reply reply;
    struct buf body = cli_scratch(c, BODY_MAX);
    review_target(c, &t, argument_at(a, 0), what);
    buf_put_byte(&body, '{');
    put_text_member(&body, "note", argument_text(a, "note"));
    put_text_member(&body, "resolved_by", argument_text(a, "by"));
    buf_put_byte(&body, '}');
    if (body.overflow) return cli_complain(c, USAGE, "that is too long");
    struct request r = {
        .side = SIDE_ENGINE,
        .method = "POST",
        .target = target_text(&t),
        .body = buf_view(&body),
        .hint_code = "wrong_reviewer",
        .hint =
            "--by NAME says which person resolves it; the key's reviewers and the rule's review.by say who may."};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) return print_answer(c, &reply);
    fprintf(c->out, "%s is %.*s", a->positionals[0],
            STR_FORMAT(member_shown(c, reply.root, "status")));
    uint64_t needed = json_u64(reply.root, STR("approvals_required"), 1);
    const struct json *approvals = json_get(reply.root, STR("approvals"));
    if (str_equal(json_text(reply.root, STR("status")), STR("pending")) && approvals != NULL)
        fprintf(c->out, ": %u approved so far, %llu needed of each that the rules ask for",
                approvals->count, (unsigned long long)needed);
    fputs(".\n", c->out);
    return DONE;
}

static int queue_approve(struct cli *c, const struct arguments *a)
{
    return post(c, a, "/approve");
}
static int queue_deny(struct cli *c, const struct arguments *a) { return post(c, a, "/deny"); }

static int queue_cancel(struct cli *c, const struct arguments *a)
{
    struct target t;
    struct reply reply;
    review_target(c, &t, argument_at(a, 0), "/cancel");
    struct request r = {.side = SIDE_ENGINE, .method = "POST", .target = target_text(&t)};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) return print_answer(c, &reply);
    fprintf(c->out, "%s is cancelled.\n", a->positionals[0]);
    return DONE;
}

/* ---- watch ---- */

enum { REVIEW_TEXT = 30 };

struct seen { /* the reviews of the latest look */
    char (*ids)[REVIEW_TEXT];
    size_t count;
};

static bool was_seen(const struct seen *before, struct str id)
{
    for (size_t i = 0; i < before->count; i++)
        if (str_equal(id, str_of(before->ids[i], REVIEW_TEXT))) return true;
    return false;
}

static void print_arrival(struct cli *c, const struct json *item)
{
    if (c->json) {
        print_json(c, item->raw);
        return;
    }
    fprintf(
        c->out, "%.*s  %.*s  %.*s  %.*s  %.*s\n", STR_FORMAT(member_shown(c, item, "enqueued_at")),
        STR_FORMAT(member_shown(c, item, "id")), STR_FORMAT(who_shown(c, item)),
        STR_FORMAT(member_shown(c, item, "action")), STR_FORMAT(member_shown(c, item, "reason")));
}

/* Prints what is new since `before`, and makes it the latest look. */
static void print_arrivals(struct cli *c, const struct json *items, struct seen *before)
{
    struct seen now = {.ids = calloc(WATCH_PAGE, REVIEW_TEXT)};
    check(now.ids != NULL);
    for (const struct json *item = json_is_array(items) ? items->child : NULL; item != NULL;
         item = item->next) {
        struct str id = json_text(item, STR("id"));
        if (id.size != REVIEW_TEXT || now.count == WATCH_PAGE) continue;
        if (!was_seen(before, id)) print_arrival(c, item);
        memcpy(now.ids[now.count++], id.bytes, REVIEW_TEXT);
    }
    free(before->ids);
    *before = now;
    fflush(c->out);
}

/* A page goes on behind its last review, to younger ones. */
static int check_next(struct cli *c, const struct json *items, uint64_t cursor, uint64_t next)
{
    bool goes_on = json_is_array(items) && items->count > 0 && next > cursor;
    if (next == 0 || goes_on) return DONE;
    return cli_complain(c, REFUSED, "what the engine answers does not come to an end");
}

/* Looks once a second at the youngest page. What comes later comes behind it, so a page that was
 * full once need not be looked at again, however many wait. */
static int queue_watch(struct cli *c, const struct arguments *a)
{
    struct seen seen = {0};
    struct timespec pause = {.tv_sec = 1};
    uint64_t cursor = 0;
    int code;
    for (;;) {
        struct reply reply;
        struct str from = cursor == 0 ? (struct str){0}
                                      : arena_printf(&c->arena, "%llu", (unsigned long long)cursor);
        code = list_page(c, a, STR("pending"), from, arena_printf(&c->arena, "%d", WATCH_PAGE),
                         &reply);
        if (code != DONE) break;
        const struct json *items = json_get(reply.root, STR("items"));
        print_arrivals(c, items, &seen);
        uint64_t next = json_u64(reply.root, STR("next_cursor"), 0);
        code = check_next(c, items, cursor, next);
        if (code != DONE) break;
        arena_reset(&c->arena);
        if (next != 0) {
            cursor = next;
            continue;
        }
        if (argument_given(a, "once") || ferror(c->out)) break; /* nobody reads any more */
        nanosleep(&pause, NULL);
    }
    free(seen.ids);
    return code;
}

/* ---- the rows ---- */

static const struct flag list_flags[] = {
    {"status", "WORD", "pending (default), approved, denied, expired, cancelled, redeemed, all"},
    {"actor", "NAME", "only what this agent asked"},
    {"action", "NAME", "only this action"},
    PAGE_FLAGS("50"),
    {NULL, NULL, NULL}};
static const struct flag resolve_flags[] = {
    {"note", "TEXT", "why, for the record"},
    {"by", "NAME", "who resolves it (default: the key's owner)"},
    {NULL, NULL, NULL}};
static const struct flag watch_flags[] = {{"actor", "NAME", "only what this agent asks"},
                                          {"action", "NAME", "only this action"},
                                          {"once", NULL, "print what waits now and end"},
                                          {NULL, NULL, NULL}};

const struct command queue_commands[] = {
    {"queue", "list", "", "show what waits for a person", NULL, list_flags, 0, 0, queue_list},
    {"queue", "show", "REVIEW", "one review with its arguments, laid out for reading",
     "REVIEW is a rev_ id, or the trace id of a decision that was given it.", NULL, 1, 1,
     queue_show},
    {"queue", "approve", "REVIEW", "one person's yes", NULL, resolve_flags, 1, 1, queue_approve},
    {"queue", "deny", "REVIEW", "one person's no: it ends the review", NULL, resolve_flags, 1, 1,
     queue_deny},
    {"queue", "cancel", "REVIEW", "take back what one asked for", NULL, NULL, 1, 1, queue_cancel},
    {"queue", "wait", "REVIEW", "wait until a person has resolved it; 0 is approved", NULL, NULL, 1,
     1, queue_wait},
    {"queue", "watch", "", "print reviews as they come", "With --json: one review a line.",
     watch_flags, 0, 0, queue_watch},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

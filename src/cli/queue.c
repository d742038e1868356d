/* queue.c - `writ queue`: the reviews that wait for a person, laid out for a judgement.
 *
 * Arguments come from agents. They are printed line by line with their path, with every control
 * character made visible. Values that policies mask are masked here too. */
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/time.h"
#include "cli/cli.h"

enum {
    WATCH_PAGE = 100,
    LIST_PAGE = 100,
    BODY_MAX = 64 << 10,
    PATH_COLUMNS = 32,
    ARGUMENTS_SHOWN = 4,
    ARGUMENT_CHARACTERS = 24,
    ROWS_FIRST = 64 << 10,
    ROWS_MOST = 256 << 20,
};

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

/* One line for each value, with its path: `args.items[0].price   12.5`. The JSON reader bounds the
 * depth. */
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

/* The whole resource, where the line "on" has only a part: policies may read its other members. */
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

/* "finance or legal"; absent: the member is no list, or an empty one. */
static struct str list_shown(struct cli *c, const struct json *object, const char *name,
                             const char *between)
{
    const struct json *list = json_get(object, str_from(name));
    struct str text = {0};
    for (const struct json *v = json_is_array(list) ? list->child : NULL; v != NULL; v = v->next)
        text = arena_printf(&c->arena, "%.*s%s%.*s", STR_FORMAT(text), text.size > 0 ? between : "",
                            STR_FORMAT(value_shown(c, v)));
    return text;
}

static struct str by_shown(struct cli *c, const struct json *need)
{
    struct str by = list_shown(c, need, "by", " or ");
    return by.size > 0 ? by : STR("any reviewer");
}

/* " (proof: oidc)", or nothing */
static struct str proof_shown(struct cli *c, const struct json *need)
{
    struct str proof = member_shown(c, need, "proof");
    if (proof.size == 0) return STR("");
    return arena_printf(&c->arena, " (proof: %.*s)", STR_FORMAT(proof));
}

static void print_needs(struct cli *c, const struct json *item)
{
    const struct json *list = json_get(item, STR("needs"));
    for (const struct json *v = json_is_array(list) ? list->child : NULL; v != NULL; v = v->next) {
        struct str rule = member_shown(c, v, "rule"), voted = list_shown(c, v, "voted", ", ");
        print_field(c, "needs",
                    arena_printf(&c->arena, "%llu of %llu by %.*s%.*s%s%.*s%s%.*s",
                                 (unsigned long long)json_u64(v, STR("so_far"), 0),
                                 (unsigned long long)json_u64(v, STR("approvals"), 1),
                                 STR_FORMAT(by_shown(c, v)), STR_FORMAT(proof_shown(c, v)),
                                 rule.size > 0 ? " for rule " : "", STR_FORMAT(rule),
                                 voted.size > 0 ? ": " : "", STR_FORMAT(voted)));
    }
}

/* ": still needs 1 more by finance, 2 more by any reviewer" */
static void print_missing(struct cli *c, const struct json *review)
{
    const struct json *list = json_get(review, STR("needs"));
    const char *before = ": still needs ";
    for (const struct json *v = json_is_array(list) ? list->child : NULL; v != NULL; v = v->next) {
        uint64_t so_far = json_u64(v, STR("so_far"), 0), all = json_u64(v, STR("approvals"), 1);
        if (so_far >= all) continue;
        fprintf(c->out, "%s%llu more by %.*s%.*s", before, (unsigned long long)(all - so_far),
                STR_FORMAT(by_shown(c, v)), STR_FORMAT(proof_shown(c, v)));
        before = ", ";
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
    print_needs(c, item);
    print_approvals(c, item);
    print_field(c, "cancelled by", member_shown(c, item, "cancelled_by"));
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

/* What a page is asked for; absent: the engine's default. */
struct page_query {
    struct str status, order, cursor;
    bool mine;
    uint64_t limit;
};

static int list_page(struct cli *c, const struct arguments *a, const struct page_query *q,
                     struct reply *ret)
{
    struct target t;
    char digits[U64_DIGITS];
    bool pending = str_is_empty(q->status) || str_equal(q->status, STR("pending"));
    target_init(c, &t, pending ? "/v1/queue/pending" : "/v1/queue");
    target_tenant(&t, c);
    if (!pending && !str_equal(q->status, STR("all"))) target_query(&t, "status", q->status);
    target_query(&t, "actor", argument_text(a, "actor"));
    target_query(&t, "action", argument_text(a, "action"));
    if (q->mine) target_query(&t, "mine", STR("true"));
    target_query(&t, "order", q->order);
    target_query(&t, "cursor", q->cursor);
    target_query(&t, "limit", str_of_u64(q->limit, digits));
    struct request r = {.side = SIDE_ENGINE, .method = "GET", .target = target_text(&t)};
    return cli_call(c, &r, ret);
}

/* The next page begins after the last review of this one. */
static int check_next(struct cli *c, const struct reply *page, bool may_be_empty, uint64_t cursor,
                      uint64_t *ret_next)
{
    const struct json *items = json_get(page->root, STR("items"));
    bool has_items = json_is_array(items) && items->count > 0;
    *ret_next = json_u64(page->root, STR("next_cursor"), 0);
    if (*ret_next == 0 || (*ret_next > cursor && (has_items || may_be_empty))) return DONE;
    return cli_complain(
        c, REFUSED,
        "the engine's answer has a cursor that does not come to an end: check --engine");
}

/* "in 7 min": until the end of its state, by the engine's clock. */
static struct str deadline_shown(struct cli *c, const struct json *item, uint64_t now_ms)
{
    enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };
    struct str status = json_text(item, STR("status"));
    const char *member = str_equal(status, STR("pending"))    ? "expires_at"
                         : str_equal(status, STR("approved")) ? "approval_expires_at"
                                                              : NULL;
    uint64_t end_ms;
    if (member == NULL || !time_read(json_text(item, str_from(member)), &end_ms))
        return (struct str){0};
    if (end_ms <= now_ms) return STR("over");
    uint64_t left = end_ms - now_ms, unit = SECOND;
    const char *name = "s";
    if (left >= MINUTE) unit = MINUTE, name = "min";
    if (left >= 2 * HOUR) unit = HOUR, name = "h";
    if (left >= 2 * DAY) unit = DAY, name = "d";
    return arena_printf(&c->arena, "in %llu %s", (unsigned long long)(left / unit), name);
}

/* At most ARGUMENT_CHARACTERS of it. */
static struct str shortened(struct cli *c, struct str text)
{
    size_t count = 0, cut = 0;
    for (size_t at = 0; at < text.size; at++) {
        if (((unsigned char)text.bytes[at] & 0xC0) == 0x80) continue; /* inside a character */
        if (count == ARGUMENT_CHARACTERS - 1) cut = at;
        if (count++ == ARGUMENT_CHARACTERS)
            return arena_printf(&c->arena, "%.*s…", (int)cut, text.bytes);
    }
    return text;
}

/* An agent's text in a row of name=value: as JSON, if it could pass for more than one of them. */
static struct str word_shown(struct cli *c, struct str text)
{
    bool is_word = text.size > 0;
    for (size_t i = 0; i < text.size; i++)
        is_word = is_word && (unsigned char)text.bytes[i] > ' ' &&
                  strchr("=,+\"'[]{}\\", text.bytes[i]) == NULL;
    struct str shown = shortened(c, text);
    if (is_word || str_equal(text, STR("[masked]"))) return text_shown(&c->arena, shown);
    struct buf quoted = cli_scratch(c, 6 * shown.size + 2);
    json_put_string(&quoted, shown);
    return text_shown(&c->arena, buf_view(&quoted));
}

static struct str argument_shown(struct cli *c, const struct json *v)
{
    switch (v->type) {
    case JSON_OBJECT: return v->count == 0 ? STR("{}") : STR("{…}");
    case JSON_ARRAY: return arena_printf(&c->arena, "[%u]", v->count);
    case JSON_STRING: return word_shown(c, v->string);
    default: return shortened(c, v->raw);
    }
}

/* "amount=620 card=[masked] +2": the first arguments that are values, then the others. */
static struct str arguments_shown(struct cli *c, const struct json *item)
{
    const struct json *args = json_get(item, STR("args"));
    struct str text = {0};
    unsigned shown = 0;
    if (!json_is_object(args)) return text;
    for (unsigned round = 0; round < 2; round++)
        for (const struct json *m = args->child; m != NULL && shown < ARGUMENTS_SHOWN;
             m = m->next) {
            bool branch = m->type == JSON_OBJECT || m->type == JSON_ARRAY;
            if (branch != (round == 1)) continue;
            struct str key = word_shown(c, m->key);
            text =
                arena_printf(&c->arena, "%.*s%s%.*s=%.*s", STR_FORMAT(text), shown > 0 ? " " : "",
                             STR_FORMAT(key), STR_FORMAT(argument_shown(c, m)));
            shown++;
        }
    if (args->count > shown)
        text = arena_printf(&c->arena, "%.*s +%u", STR_FORMAT(text), args->count - shown);
    return text;
}

/* The pages of one list: as one table, or as one page for programs. */
struct queue_list {
    struct arena arena; /* the rows; those of c->arena end with their page */
    struct table table;
    struct buf items;
    uint64_t count, most; /* reviews; most 0: all */
    uint64_t total, next;
};

static bool add_review(struct cli *c, struct queue_list *l, const struct json *item,
                       uint64_t now_ms)
{
    const struct str cells[] = {
        member_shown(c, item, "id"),     deadline_shown(c, item, now_ms), who_shown(c, item),
        member_shown(c, item, "action"), resource_shown(c, item),         arguments_shown(c, item),
        member_shown(c, item, "status"), member_shown(c, item, "reason")};
    if (c->json) {
        if (l->count > 0) buf_put_byte(&l->items, ',');
        buf_put(&l->items, item->raw);
    } else {
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) table_add(&l->table, cells[i]);
    }
    l->count++;
    return !l->items.overflow && !l->arena.overflow;
}

static int add_page(struct cli *c, struct queue_list *l, const struct reply *reply)
{
    const struct json *items = json_get(reply->root, STR("items"));
    uint64_t now_ms = reply_now_ms(reply);
    for (const struct json *item = json_is_array(items) ? items->child : NULL; item != NULL;
         item = item->next) {
        if (!add_review(c, l, item, now_ms))
            return cli_complain(c, REFUSED,
                                "the list is too long for one answer; use --limit and --cursor");
    }
    l->total = json_u64(reply->root, STR("total"), 0);
    return DONE;
}

static void print_queue(struct cli *c, const struct queue_list *l, bool mine)
{
    if (c->json) {
        fputs("{\"items\":[", c->out);
        print_str(c->out, buf_view(&l->items));
        fprintf(c->out, "],\"count\":%llu,\"limit\":%llu,\"total\":%llu,\"next_cursor\":%llu}\n",
                (unsigned long long)l->count,
                (unsigned long long)(l->most > 0 ? l->most : l->count),
                (unsigned long long)l->total, (unsigned long long)l->next);
        return;
    }
    fprintf(c->err, mine ? "%llu for you, of %llu\n" : "%llu of %llu\n",
            (unsigned long long)l->count, (unsigned long long)l->total);
    table_print(&l->table, c->out, c->width);
    if (l->next != 0) fprintf(c->err, "More: --cursor %llu\n", (unsigned long long)l->next);
}

/* Every page, until the end or the limit. */
static int read_pages(struct cli *c, const struct arguments *a, struct page_query *q,
                      struct queue_list *l)
{
    uint64_t cursor = 0;
    (void)str_to_u64(q->cursor, &cursor);
    for (;;) {
        struct reply reply;
        char digits[U64_DIGITS];
        uint64_t left = l->most > 0 ? l->most - l->count : LIST_PAGE;
        q->limit = left < LIST_PAGE ? left : LIST_PAGE;
        int code = list_page(c, a, q, &reply);
        if (code == DONE) code = add_page(c, l, &reply);
        if (code != DONE) return code;
        code = check_next(c, &reply, q->mine, cursor, &l->next);
        if (code != DONE || l->next == 0 || (l->most > 0 && l->count == l->most)) return code;
        cursor = l->next;
        arena_reset(&c->arena);
        q->cursor = arena_copy(&l->arena, str_of_u64(cursor, digits));
    }
}

static int queue_list(struct cli *c, const struct arguments *a)
{
    static const char *const heads[] = {"REVIEW", "DEADLINE", "*WHO",    "*WANTS TO", "*ON",
                                        "*WITH",  "STATUS",   "*REASON", NULL};
    struct queue_list l = {0};
    struct page_query q = {.status = argument_text(a, "status"),
                           .cursor = argument_text(a, "cursor"),
                           .mine = argument_given(a, "mine")};
    uint64_t number;
    if (argument_given(a, "limit") &&
        (!str_to_u64(argument_text(a, "limit"), &l.most) || l.most == 0))
        return cli_complain(c, USAGE, "--limit: it must be a number from 1");
    if (argument_given(a, "cursor") && !str_to_u64(q.cursor, &number))
        return cli_complain(c, USAGE, "--cursor: it must be a number, as an earlier list gave it");
    if (str_is_empty(q.status) || str_equal(q.status, STR("pending"))) q.order = STR("deadline");
    arena_init(&l.arena, ROWS_FIRST, ROWS_MOST);
    buf_init(&l.items, ROWS_FIRST, ROWS_MOST);
    table_init(&l.table, &l.arena, heads);
    int code = read_pages(c, a, &q, &l);
    if (code == DONE) print_queue(c, &l, q.mine);
    buf_fini(&l.items);
    arena_fini(&l.arena);
    return code;
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
    if (body.overflow)
        return cli_complain(c, USAGE, "the request is larger than 64 KiB; shorten --note");
    struct request r = {
        .side = SIDE_ENGINE,
        .method = "POST",
        .target = target_text(&t),
        .body = buf_view(&body),
        .hint_code = "wrong_reviewer",
        .hint =
            "--by NAME names the person who resolves it; the key's reviewers and the rule's review.by list who may."};
    int code = cli_call(c, &r, &reply);
    if (code != DONE) return code;
    if (c->json) return print_answer(c, &reply);
    fprintf(c->out, "%s is %.*s", a->positionals[0],
            STR_FORMAT(member_shown(c, reply.root, "status")));
    print_missing(c, reply.root);
    fputs(".\n", c->out);
    return DONE;
}

static int queue_approve(struct cli *c, const struct arguments *a)
{
    return post(c, a, "/approve");
}
static int queue_deny(struct cli *c, const struct arguments *a) { return post(c, a, "/deny"); }
static int queue_revoke(struct cli *c, const struct arguments *a) { return post(c, a, "/revoke"); }

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

struct seen { /* the reviews of the latest poll */
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

/* Prints the reviews that are not in `before`, and makes this list the latest one. */
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

/* Polls the youngest page once a second. Later reviews come after it, so a page that was full is
 * not read again, however many reviews wait. */
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
        const struct page_query q = {.cursor = from, .limit = WATCH_PAGE};
        code = list_page(c, a, &q, &reply);
        if (code != DONE) break;
        const struct json *items = json_get(reply.root, STR("items"));
        print_arrivals(c, items, &seen);
        uint64_t next;
        code = check_next(c, &reply, false, cursor, &next);
        if (code != DONE) break;
        arena_reset(&c->arena);
        if (next != 0) {
            cursor = next;
            continue;
        }
        if (argument_given(a, "once") || ferror(c->out))
            break; /* the reader of the output has closed it */
        nanosleep(&pause, NULL);
    }
    free(seen.ids);
    return code;
}

/* ---- the rows ---- */

static const struct flag list_flags[] = {
    {"status", "WORD", "pending (default), approved, denied, expired, cancelled, redeemed, all"},
    {"actor", "NAME", "only requests of this agent"},
    {"action", "NAME", "only this action"},
    {"mine", NULL, "only those that a vote with this key can help"},
    {"limit", "N", "the most reviews to show (default: all)"},
    {"cursor", "N", "continue where an earlier list ended"},
    {NULL, NULL, NULL}};
static const struct flag resolve_flags[] = {
    {"note", "TEXT", "a note for the record"},
    {"by", "NAME", "the person who resolves it (default: the key's owner)"},
    {NULL, NULL, NULL}};
static const struct flag watch_flags[] = {
    {"actor", "NAME", "only requests of this agent"},
    {"action", "NAME", "only this action"},
    {"once", NULL, "print the reviews that wait now, and end"},
    {NULL, NULL, NULL}};

const struct command queue_commands[] = {
    {"queue", "list", "", "show the reviews that wait for a person",
     "Pending reviews come by deadline, others by age. WITH has the main arguments;\n"
     "`writ queue show` has all.",
     list_flags, 0, 0, queue_list},
    {"queue", "show", "REVIEW", "show one review with its arguments",
     "REVIEW is a rev_ id, or the trace id of a decision that created the review.", NULL, 1, 1,
     queue_show},
    {"queue", "approve", "REVIEW", "approve a review, as one person", NULL, resolve_flags, 1, 1,
     queue_approve},
    {"queue", "deny", "REVIEW", "deny a review, which ends it", NULL, resolve_flags, 1, 1,
     queue_deny},
    {"queue", "revoke", "REVIEW", "take an approval back before it is redeemed", NULL,
     resolve_flags, 1, 1, queue_revoke},
    {"queue", "cancel", "REVIEW", "cancel the review of your own request", NULL, NULL, 1, 1,
     queue_cancel},
    {"queue", "wait", "REVIEW", "wait until a review is resolved; exit status 0 is approved", NULL,
     NULL, 1, 1, queue_wait},
    {"queue", "watch", "", "print reviews as they come", "With --json: one review a line.",
     watch_flags, 0, 0, queue_watch},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

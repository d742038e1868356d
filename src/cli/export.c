/* export.c - `writ audit export`: events to a file, oldest first, in pages, so that memory does not
 * grow with the trail.
 *
 * "Oldest first" is the order of arrival in the store, which is the order of ids. Events that
 * arrive later have higher ids, whatever their time, so a run that continues after the last id
 * does not lose or repeat one (export_file.h keeps the file and the last id consistent). The run
 * ends at the newest id of its beginning, so it also ends if the trail grows as fast as it is
 * read.
 *
 * A resumed run reads the last event again and compares its event_id: in another store, or one that
 * was restored from a backup, the same id may be another event. */
#include "cli/audit.h"

#include "base/limits.h"
#include "cli/export_file.h"
#include "cli/export_row.h"
#include "cli/evidence.h"

enum { PAGE_ARENA_FIRST = 1 << 20, PAGE_ARENA_LIMIT = 64 << 20 };

struct export_run {
    struct cli page; /* the run, with an arena that lives for a page */
    struct export_file file;
    enum export_format format;
    bool guarded;
    uint64_t rows;   /* events of one call */
    uint64_t before; /* events that the file had before the run */
    bool is_met;     /* the last event of the earlier run was seen */
};

/* ---- the filters ---- */

static int read_format(struct cli *c, const struct arguments *a, struct export_run *x)
{
    struct str name = argument_text(a, "format");
    x->guarded = !argument_given(a, "unguarded");
    if (str_is_absent(name) || str_equal(name, STR("ndjson")))
        x->format = EXPORT_NDJSON;
    else if (str_equal(name, STR("csv")))
        x->format = EXPORT_CSV;
    else if (str_equal(name, STR("parquet")))
        return cli_complain(c, USAGE,
                            "--format: parquet is not written here; export ndjson, and see "
                            "writ audit export --help for the line that makes Parquet of it");
    else
        return cli_complain(c, USAGE, "--format: it must be ndjson or csv");
    if (!x->guarded && x->format != EXPORT_CSV)
        return cli_complain(c, USAGE, "--unguarded: that is for --format csv");
    return DONE;
}

/* The options that choose the file's content, as they were given. */
static struct str asked_text(struct cli *c, const struct arguments *a, const struct export_run *x)
{
    struct buf out = cli_scratch(c, 16 << 10);
    buf_put_literal(&out, "--format ");
    buf_put(&out, x->format == EXPORT_CSV ? STR("csv") : STR("ndjson"));
    if (!x->guarded) buf_put_literal(&out, " --unguarded");
    if (!str_is_absent(c->tenant)) buf_printf(&out, " --tenant %.*s", STR_FORMAT(c->tenant));
    for (size_t i = 0; audit_filters[i] != NULL; i++) {
        struct str value = argument_text(a, audit_filters[i]);
        if (!str_is_absent(value))
            buf_printf(&out, " --%s %.*s", audit_filters[i], STR_FORMAT(value));
    }
    return out.overflow ? (struct str){0} : buf_view(&out);
}

static int read_options(struct cli *c, const struct arguments *a, struct export_run *x)
{
    struct target target;
    int code = read_format(c, a, x);
    if (code == DONE) code = audit_target(c, a, &target);
    if (code != DONE) return code;
    x->file.path =
        str_equal(argument_text(a, "output"), STR("-")) ? NULL : argument_text(a, "output").bytes;
    x->file.target = target_text(&target);
    x->file.asked = asked_text(c, a, x);
    if (target.text.overflow || str_is_absent(x->file.asked) ||
        !str_is_utf8(x->file.asked, &(size_t){0}))
        return cli_complain(c, USAGE, "the options are too long, or not UTF-8");
    if (argument_given(a, "resume") && x->file.path == NULL)
        return cli_complain(c, USAGE, "--resume: it needs the --output that it continues");
    return DONE;
}

/* ---- pages ---- */

static int ask_rows(struct export_run *x, bool newest, uint64_t limit, uint64_t cursor,
                    struct reply *ret)
{
    struct cli *c = &x->page;
    arena_reset(&c->arena);
    struct buf target = cli_scratch(c, x->file.target.size + 128);
    buf_put(&target, x->file.target);
    buf_put_byte(&target, str_find(x->file.target, '?') < x->file.target.size ? '&' : '?');
    buf_printf(&target, "order=%s&exact=true&limit=%llu&cursor=%llu", newest ? "desc" : "asc",
               (unsigned long long)limit, (unsigned long long)cursor);
    struct request r = {
        .side = SIDE_PLATFORM, .method = "GET", .target = buf_view(&target), .may_overflow = true};
    return cli_call(c, &r, ret);
}

static int not_understood(struct export_run *x)
{
    return cli_complain(
        &x->page, REFUSED,
        "the platform's answer is no page of events; check that it is not older than this program");
}

static int newest_id(struct export_run *x, uint64_t *ret)
{
    struct reply reply;
    int code = ask_rows(x, true, 1, 0, &reply);
    if (code != DONE) return code;
    const struct json *events = json_get(reply.root, STR("events"));
    if (!json_is_array(events)) return not_understood(x);
    *ret = events->child == NULL ? 0 : json_u64(events->child, STR("id"), 0);
    return DONE;
}

/* The first row of a resumed run must be the last row of the file. */
static int meet_last(struct export_run *x, const struct json *row)
{
    const struct export_file *f = &x->file;
    struct str event =
        row == NULL ? (struct str){0} : json_text(json_get(row, STR("event")), STR("event_id"));
    bool is_it =
        row != NULL && json_u64(row, STR("id"), 0) == f->last_id && str_equal(event, f->last_event);
    x->is_met = true;
    if (is_it) return DONE;
    return cli_complain(
        &x->page, REFUSED,
        "%s ends with event %.*s, which the platform does not have under id %llu (any more): "
        "its store was restored, or is another's, or dropped it for its age; begin another file "
        "with --from",
        f->path, STR_FORMAT(text_shown(&x->page.arena, f->last_event)),
        (unsigned long long)f->last_id);
}

static int put_rows(struct cli *c, struct export_run *x, const struct json *row)
{
    struct export_file *f = &x->file;
    struct str last = {0};
    int code = DONE;
    if (!x->is_met) {
        code = meet_last(x, row);
        if (code == DONE) row = row->next;
    }
    for (; row != NULL && code == DONE; row = row->next) {
        uint64_t id = json_u64(row, STR("id"), 0);
        last = json_text(json_get(row, STR("event")), STR("event_id"));
        if (id <= f->last_id || str_is_absent(last)) return not_understood(x);
        export_put_row(&f->page, row, x->format, x->guarded);
        f->last_id = id;
        f->events++;
    }
    if (code != DONE || str_is_absent(last)) return code;
    f->last_event = last;
    return export_file_commit(c, f);
}

/* A page of events with very many small values needs more memory than it has bytes. The next page
 * is then smaller. */
static int next_page(struct cli *c, struct export_run *x, bool *ret_more)
{
    struct reply reply;
    uint64_t after = x->is_met ? x->file.last_id : x->file.last_id - 1;
    int code = ask_rows(x, false, x->rows, after, &reply);
    if (code != DONE) return code;
    if (reply.root == NULL && x->page.arena.overflow && x->rows > 1) {
        x->rows /= 2;
        *ret_more = true;
        return DONE;
    }
    const struct json *events = json_get(reply.root, STR("events"));
    if (!json_is_array(events)) return not_understood(x);
    *ret_more = json_u64(reply.root, STR("next_cursor"), 0) != 0;
    return put_rows(c, x, events->child);
}

static int all_pages(struct cli *c, struct export_run *x)
{
    uint64_t end = 0;
    bool more = true;
    int code = newest_id(x, &end);
    x->is_met = x->file.last_id == 0;
    if (code == DONE && x->file.bytes == 0) {
        export_put_head(&x->file.page, x->format);
        code = export_file_commit(c, &x->file);
    }
    while (code == DONE && more && (x->file.last_id < end || !x->is_met))
        code = next_page(c, x, &more);
    return code;
}

/* ---- the run ---- */

static void tell_end(struct cli *c, const struct export_run *x)
{
    const struct export_file *f = &x->file;
    unsigned long long all = f->events, fresh = f->events - x->before;
    if (f->path == NULL) return; /* standard output has the rows only */
    if (c->json)
        fprintf(c->out, "{\"events\":%llu,\"new\":%llu,\"bytes\":%llu,\"last_id\":%llu}\n", all,
                fresh, (unsigned long long)f->bytes, (unsigned long long)f->last_id);
    else
        fprintf(c->err, "%llu events in %s, %llu of them new\n", all, f->path, fresh);
}

int audit_export(struct cli *c, const struct arguments *a)
{
    struct export_run x = {.rows = LIMIT_PAGE};
    if (argument_given(a, "evidence")) return evidence_export(c, a);
    int code = read_options(c, a, &x);
    if (code != DONE) return code;
    code = export_file_open(c, &x.file, argument_given(a, "resume"));
    if (code == DONE) {
        x.before = x.file.events;
        x.page = *c;
        arena_init(&x.page.arena, PAGE_ARENA_FIRST, PAGE_ARENA_LIMIT);
        code = all_pages(c, &x);
        if (code != DONE && export_file_keep(&x.file))
            fputs("  --resume continues where it ended\n", c->err);
        c->clients[SIDE_PLATFORM] = x.page.clients[SIDE_PLATFORM];
        arena_fini(&x.page.arena);
    } else {
        (void)export_file_keep(&x.file);
    }
    if (code == DONE) tell_end(c, &x);
    export_file_close(&x.file);
    return code;
}

const struct flag export_flags[] = {
    AUDIT_FILTER_FLAGS,
    {"format", "WORD", "ndjson (default: each event as recorded) or csv"},
    {"evidence", NULL, "all records with what proves them, for writ audit verify --file"},
    {"output", "FILE", "into this new file (default, or -: standard output)"},
    {"resume", NULL, "continue an --output that was begun with the same options"},
    {"unguarded", NULL,
     "csv without an apostrophe before texts that a spreadsheet would calculate"},
    {NULL, NULL, NULL}};

const char export_text[] =
    "Events come in the order of their arrival. FILE.export has the position in the trail. After\n"
    "a crash, or later for new events, the same command with --resume continues, and no event is\n"
    "lost or repeated. If there is no FILE yet, --resume begins one.\n"
    "\n"
    "In csv (RFC 4180) a text that begins with = + - @ or ' gets an apostrophe before it, because\n"
    "agents choose such texts and a spreadsheet would take them for formulas.\n"
    "\n"
    "Parquet: DuckDB makes it from the csv (--unguarded):\n"
    "  duckdb -c \"COPY (FROM read_csv('audit.csv', all_varchar = true,\n"
    "    types = {'id': 'BIGINT', 'timestamp': 'TIMESTAMPTZ'})) TO 'audit.parquet'\"";

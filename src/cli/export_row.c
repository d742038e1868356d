#include "cli/export_row.h"

/* The columns of the store, before the members of the event. */
static const char *const place[] = {"node", "journal", "epoch", "seq"};

static const char *const members[] = {
#define EVENT(name, type) #name,
#include "event/event.def"
#undef EVENT
};

enum { PLACES = sizeof place / sizeof place[0], MEMBERS = sizeof members / sizeof members[0] };

/* ---- cells ---- */

static bool is_formula(struct str text)
{
    static const struct str wide[] = {STR("\uFF1D"), STR("\uFF0B"), STR("\uFF0D"), STR("\uFF20")};
    if (text.size == 0) return false;
    if (memchr("=+-@\t\r\n'", text.bytes[0], 8) != NULL) return true;
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        if (str_starts(text, wide[i])) return true;
    return false;
}

/* Semicolons and tabs are no separators here, but some spreadsheets take them for separators. */
static bool needs_quotes(struct str text)
{
    if (text.size == 0) return true;
    if (text.bytes[0] == ' ' || text.bytes[text.size - 1] == ' ') return true;
    for (size_t i = 0; i < text.size; i++)
        if (memchr("\",;\t\r\n", text.bytes[i], 6) != NULL) return true;
    return false;
}

void export_put_cell(struct buf *out, struct str text, bool guarded)
{
    bool guard = guarded && is_formula(text), quotes = needs_quotes(text) || guard;
    if (quotes) buf_put_byte(out, '"');
    if (guard) buf_put_byte(out, '\'');
    for (struct str rest = text; rest.size > 0;) {
        size_t run = str_find(rest, '"');
        buf_put(out, str_of(rest.bytes, run));
        if (run < rest.size) {
            buf_put_literal(out, "\"\"");
            run++;
        }
        rest = str_skip(rest, run);
    }
    if (quotes) buf_put_byte(out, '"');
}

static void put_value(struct buf *out, const struct json *v, bool guarded)
{
    if (v == NULL || v->type == JSON_NULL) return;
    if (v->type == JSON_STRING)
        export_put_cell(out, v->string, guarded);
    else
        export_put_cell(out, v->raw, false); /* a number, or begins with a brace: no formula */
}

/* ---- rows ---- */

static void put_csv(struct buf *out, const struct json *row, bool guarded)
{
    const struct json *source = json_get(row, STR("source")), *event = json_get(row, STR("event"));
    put_value(out, json_get(row, STR("id")), guarded);
    buf_put_byte(out, ',');
    put_value(out, json_get(row, STR("created_at")), guarded);
    for (size_t i = 0; i < PLACES; i++) {
        buf_put_byte(out, ',');
        put_value(out, json_get(source, str_from(place[i])), guarded);
    }
    for (size_t i = 0; i < MEMBERS; i++) {
        buf_put_byte(out, ',');
        put_value(out, json_get(event, str_from(members[i])), guarded);
    }
    buf_put_literal(out, "\r\n");
}

static void put_line(struct buf *out, const struct json *event)
{
    bool is_one = str_find(event->raw, '\n') == event->raw.size &&
                  str_find(event->raw, '\r') == event->raw.size;
    if (is_one)
        buf_put(out, event->raw);
    else
        json_put_canonical(out, event);
    buf_put_byte(out, '\n');
}

void export_put_row(struct buf *out, const struct json *row, enum export_format format,
                    bool guarded)
{
    if (format == EXPORT_CSV)
        put_csv(out, row, guarded);
    else
        put_line(out, json_get(row, STR("event")));
}

void export_put_head(struct buf *out, enum export_format format)
{
    if (format != EXPORT_CSV) return;
    buf_put_literal(out, "id,created_at");
    for (size_t i = 0; i < PLACES; i++) buf_printf(out, ",%s", place[i]);
    for (size_t i = 0; i < MEMBERS; i++) buf_printf(out, ",%s", members[i]);
    buf_put_literal(out, "\r\n");
}

#include "cli/evidence.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/world.h"
#include "cli/audit.h"
#include "crypto/base64.h"
#include "event/event.h"
#include "json/json.h"

enum {
    PAGE_ARENA_FIRST = 1 << 20,
    PAGE_ARENA_MOST = 512 << 20,
    BAR_CELLS = 30,
    BAR_EVERY_NS = 100000000,
    LINES_BETWEEN_CLOCKS = 1024,
};

/* ---- progress ---- */

void evidence_hide_progress(struct evidence_source *s)
{
    if (!s->is_shown) return;
    fprintf(s->c->err, "\r%*s\r", BAR_CELLS + 40, "");
    fflush(s->c->err);
    s->is_shown = false;
}

static void show_progress(struct evidence_source *s)
{
    if (s->is_quiet || s->lines % LINES_BETWEEN_CLOCKS != 0) return;
    uint64_t now = world_monotonic_ns();
    if (now - s->shown_ns < BAR_EVERY_NS) return;
    s->shown_ns = now;
    s->is_shown = true;
    fflush(s->c->out); /* what was printed before stands above the bar */
    if (s->size > 0) {
        int full = (int)(s->bytes * BAR_CELLS / s->size);
        fprintf(s->c->err, "\r[%.*s%*s] %3d %%  %llu lines", full, "##############################",
                BAR_CELLS - full, "", (int)(s->bytes * 100 / s->size),
                (unsigned long long)s->lines);
    } else {
        fprintf(s->c->err, "\r%llu lines", (unsigned long long)s->lines);
    }
    fflush(s->c->err);
}

/* ---- the source ---- */

static void begin_target(struct evidence_source *s)
{
    s->next.text.size = s->path_size;
    s->next.has_query = false;
    target_query(&s->next, "from", s->from);
    target_query(&s->next, "to", s->to);
}

int evidence_open(struct cli *c, struct evidence_source *s)
{
    struct stat st;
    s->c = c;
    s->is_quiet = s->is_quiet || c->json || isatty(fileno(c->err)) != 1;
    if (s->path == NULL) {
        s->page = *c;
        arena_init(&s->page.arena, PAGE_ARENA_FIRST, PAGE_ARENA_MOST);
        target_init(c, &s->next, "/api/v1/audit/evidence");
        s->path_size = s->next.text.size;
        begin_target(s);
        return DONE;
    }
    bool is_folder = stat(s->path, &st) == 0 && S_ISDIR(st.st_mode);
    if (is_folder) s->path = arena_printf(&c->arena, "%s/evidence.ndjson%c", s->path, '\0').bytes;
    s->file = fopen(s->path, "rb");
    if (s->file == NULL)
        return cli_complain(c, USAGE, "%s: %s%s", s->path, strerror(errno),
                            is_folder ? "; writ evidence export writes a folder with this file"
                                      : "");
    if (fstat(fileno(s->file), &st) == 0 && S_ISREG(st.st_mode)) s->size = (uint64_t)st.st_size;
    return DONE;
}

void evidence_close(struct evidence_source *s)
{
    evidence_hide_progress(s);
    if (s->file != NULL) fclose(s->file);
    free(s->line);
    if (s->path != NULL) return;
    s->c->clients[SIDE_PLATFORM] = s->page.clients[SIDE_PLATFORM];
    arena_fini(&s->page.arena);
}

static int next_of_file(struct evidence_source *s, struct str *ret)
{
    ssize_t size = getline(&s->line, &s->line_room, s->file);
    if (size < 0 && ferror(s->file))
        return cli_complain(s->c, USAGE, "%s: %s", s->path, strerror(errno));
    *ret = (struct str){0};
    if (size < 0) return DONE;
    s->bytes += (uint64_t)size;
    if (size > EVIDENCE_LINE_MAX)
        return cli_complain(s->c, REFUSED, "%s: a line has more than %d bytes", s->path,
                            EVIDENCE_LINE_MAX);
    while (size > 0 && (s->line[size - 1] == '\n' || s->line[size - 1] == '\r')) size--;
    *ret = str_of(s->line, (size_t)size);
    return DONE;
}

static int ask_page(struct evidence_source *s)
{
    struct cli *c = &s->page;
    struct reply reply;
    arena_reset(&c->arena);
    struct request r = {
        .side = SIDE_PLATFORM, .method = "GET", .target = target_text(&s->next), .is_raw = true};
    int code = cli_call(c, &r, &reply);
    s->rest = reply.body;
    s->is_begun = true;
    return code;
}

/* The page names the one after it. */
static void note_next(struct evidence_source *s, struct str line)
{
    static const char *const names[] = {"part", "node", "journal", "seq", "end_seq", "from", "to"};
    struct evidence_line l;
    if (!evidence_read(line, &s->page.arena, &l)) return;
    s->next.text.size = s->path_size;
    s->next.has_query = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct json *v = json_get(l.head, str_from(names[i]));
        struct str value = v == NULL ? (struct str){0} : json_is_string(v) ? v->string : v->raw;
        if (value.size > 0) target_query(&s->next, names[i], value);
    }
}

static int next_of_platform(struct evidence_source *s, struct str *ret)
{
    for (;;) {
        struct str line;
        while (!str_is_empty(s->rest) && str_split(&s->rest, '\n', &line)) {
            if (line.size > 0 && line.bytes[line.size - 1] == ',') line.size--;
            if (line.size < 2) continue; /* the brackets around the page */
            if (str_starts(line, STR("{\"line\":\"next\""))) {
                note_next(s, line);
                s->is_begun = false;
                continue;
            }
            if (str_starts(line, STR("{\"line\":\"end\""))) s->is_over = true;
            *ret = line;
            return DONE;
        }
        *ret = (struct str){0};
        if (s->is_over) return DONE;
        if (s->is_begun)
            return cli_complain(s->c, REFUSED,
                                "the platform's answer is no page of evidence; check "
                                "that it is not older than this program");
        int code = ask_page(s);
        if (code != DONE) return code;
    }
}

int evidence_next(struct evidence_source *s, struct str *ret)
{
    s->lines++;
    show_progress(s);
    return s->path != NULL ? next_of_file(s, ret) : next_of_platform(s, ret);
}

void evidence_seek(struct evidence_source *s, struct str node, struct str journal)
{
    if (s->path != NULL) return;
    begin_target(s);
    target_query(&s->next, "part", STR("streams"));
    target_query(&s->next, "node", node);
    target_query(&s->next, "journal", journal);
}

int evidence_times(struct cli *c, const struct arguments *a, struct evidence_source *s)
{
    int code = audit_time(c, a, "from", &s->from);
    return code == DONE ? audit_time(c, a, "to", &s->to) : code;
}

/* ---- to a file ---- */

static int copy_lines(struct evidence_source *s, FILE *out, const char *path)
{
    struct str line;
    int code;
    while ((code = evidence_next(s, &line)) == DONE && !str_is_absent(line)) {
        print_str(out, line);
        if (fputc('\n', out) == EOF) break;
    }
    if (code == DONE && (fflush(out) != 0 || ferror(out)))
        return cli_complain(s->c, REFUSED, "%s: %s", path, strerror(errno));
    return code;
}

int evidence_export(struct cli *c, const struct arguments *a)
{
    struct str path = argument_text(a, "output");
    bool is_file = !str_is_absent(path) && !str_equal(path, STR("-"));
    struct evidence_source s = {0};
    for (size_t i = 0; audit_filters[i] != NULL; i++)
        if (argument_given(a, audit_filters[i]) && strcmp(audit_filters[i], "from") != 0 &&
            strcmp(audit_filters[i], "to") != 0)
            return cli_complain(c, USAGE,
                                "--evidence: it has all records of a time, so --%s cannot be given",
                                audit_filters[i]);
    int code = evidence_times(c, a, &s);
    if (code != DONE) return code;
    if (argument_given(a, "resume") || argument_given(a, "format"))
        return cli_complain(c, USAGE, "--evidence: --format and --resume are for other exports");
    FILE *out = is_file ? fopen(path.bytes, "wxe") : c->out;
    if (out == NULL) return cli_complain(c, USAGE, "%s: %s", path.bytes, strerror(errno));
    s.is_quiet = !is_file && c->width > 0; /* the lines are on the terminal themselves */
    code = evidence_open(c, &s);
    if (code == DONE) {
        code = copy_lines(&s, out, is_file ? path.bytes : "standard output");
        evidence_close(&s);
    }
    if (is_file && fclose(out) != 0 && code == DONE)
        code = cli_complain(c, REFUSED, "%s: %s", path.bytes, strerror(errno));
    if (is_file && code != DONE)
        (void)remove(path.bytes); /* half a file would look like a cut one */
    if (is_file && code == DONE)
        fprintf(c->err, "%llu lines in %s\n", (unsigned long long)s.lines - 1, path.bytes);
    return code;
}

/* ---- one line ---- */

bool evidence_read(struct str line, struct arena *arena, struct evidence_line *ret)
{
    static const struct str mark = STR(",\"event\":");
    const struct json_options options = {.nul_anywhere = true};
    *ret = (struct evidence_line){0};
    /* no string of the head can have these bytes: a quote in a string is escaped */
    const char *at = memmem(line.bytes, line.size, mark.bytes, mark.size);
    struct str head = line;
    if (at != NULL && line.bytes[line.size - 1] == '}') {
        size_t before = (size_t)(at - line.bytes);
        ret->event = str_of(at + mark.size, line.size - before - mark.size - 1);
        char *text = arena_take(arena, before + 1);
        if (text == NULL) return false;
        memcpy(text, line.bytes, before);
        text[before] = '}';
        head = str_of(text, before + 1);
    }
    if (json_read(head, &options, arena, &ret->head, NULL) != ERR_OK || !json_is_object(ret->head))
        return false;
    struct str bytes = json_text(ret->head, STR("bytes"));
    if (!str_is_absent(bytes)) {
        uint8_t *raw = arena_take(arena, bytes.size + 3);
        size_t size = 0;
        if (raw == NULL || (bytes.size > 0 && !base64_read(bytes, raw, &size))) return false;
        ret->event = str_of((const char *)raw, size);
    }
    ret->kind = json_text(ret->head, STR("line"));
    ret->node = json_text(ret->head, STR("node"));
    ret->journal = json_text(ret->head, STR("journal"));
    return !str_is_absent(ret->kind);
}

int evidence_parse(struct evidence_source *s, struct str line, struct arena *arena,
                   struct evidence_line *ret)
{
    bool is_line = evidence_read(line, arena, ret);
    if (s->path != NULL && s->lines == 1 && !(is_line && str_equal(ret->kind, STR("evidence"))))
        return cli_complain(s->c, USAGE,
                            "%s is not an evidence file: it does not begin with the line "
                            "`evidence`. writ audit export --evidence writes such a file, and writ "
                            "evidence export a folder with one. Other exports prove nothing",
                            s->path);
    if (is_line) return DONE;
    return cli_complain(s->c, REFUSED, "%s: line %llu is not a line of evidence",
                        s->path != NULL ? s->path : "the platform", (unsigned long long)s->lines);
}

/* ---- the proof of one record ---- */

static void put_base64_member(struct buf *out, const char *name, struct str bytes)
{
    buf_printf(out, ",\"%s\":\"", name);
    base64_put(out, bytes, 0);
    buf_put_byte(out, '"');
}

void evidence_put_proof(struct buf *out, const struct evidence_proof *p)
{
    buf_put_literal(out, "{\"format\":\"writ proof 1\"");
    put_text_member(out, "event_id", p->event_id);
    put_text_member(out, "node", p->node);
    put_text_member(out, "journal", p->journal);
    buf_printf(out, ",\"seq\":%llu,\"base\":%llu,\"hashes\":[", (unsigned long long)p->seq,
               (unsigned long long)p->base);
    for (size_t i = 0; i < p->hashes->count; i++) {
        buf_put(out, i > 0 ? STR(",\"") : STR("\""));
        base64_put(out, str_of((const char *)p->hashes->hashes[i].bytes, SHA256_BYTES), 0);
        buf_put_byte(out, '"');
    }
    buf_put_byte(out, ']');
    put_text_member(out, "checkpoint", p->checkpoint);
    buf_put_literal(out, ",\"key\":{\"line\":\"key\"");
    put_text_member(out, "node", p->node);
    put_text_member(out, "journal", p->journal);
    put_text_member(out, "public_key", p->public_key);
    buf_put_byte(out, '}');
    put_base64_member(out, "record", p->record);
    buf_put_literal(out, "}\n");
}

/* ---- one event ---- */

/* The end of the string that begins at `at`, behind its quote; 0: it has none. */
static size_t string_end(struct str s, size_t at)
{
    for (at++; at < s.size; at++) {
        const char *quote = memchr(s.bytes + at, '"', s.size - at);
        if (quote == NULL) return 0;
        size_t end = (size_t)(quote - s.bytes), slashes = 0;
        while (end - slashes > at && s.bytes[end - slashes - 1] == '\\') slashes++;
        if (slashes % 2 == 0) return end + 1;
        at = end;
    }
    return 0;
}

/* The end of the value that begins at `at`; 0: it has none. */
static size_t value_end(struct str s, size_t at)
{
    if (at < s.size && s.bytes[at] == '"') return string_end(s, at);
    size_t depth = 0;
    for (; at < s.size; at++) {
        char c = s.bytes[at];
        if (c == '"') {
            size_t end = string_end(s, at);
            if (end == 0) return 0;
            at = end - 1;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (depth == 0) return at;
            if (--depth == 0) return at + 1;
        } else if (c == ',' && depth == 0) {
            return at;
        }
    }
    return 0;
}

/* Each record has twenty names, compared with as many: the first byte decides nearly all of them. */
static bool is_name(struct str name, struct str wanted)
{
    return name.size == wanted.size && name.bytes[0] == wanted.bytes[0] &&
           memcmp(name.bytes, wanted.bytes, wanted.size) == 0;
}

static bool is_outcome(struct str name)
{
    static const struct str names[] = {
#define EVENT(name, type)
#define OUTPUT_HASH(name, type)
#define OUTCOME(name, type) STR(#name),
#include "event/event.def"
#undef EVENT
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_name(name, names[i])) return true;
    return false;
}

static struct str unquoted(struct str value)
{
    if (value.size < 2 || value.bytes[0] != '"') return (struct str){0};
    return str_of(value.bytes + 1, value.size - 2);
}

static void note_member(struct evidence_event *e, struct str name, struct str value,
                        struct str *hash)
{
    if (is_name(name, STR("event_id"))) e->event_id = unquoted(value);
    if (is_name(name, STR("kind"))) e->kind = unquoted(value);
    if (is_name(name, STR("trace_id"))) e->trace_id = unquoted(value);
    if (is_name(name, STR("timestamp"))) e->timestamp = unquoted(value);
    if (is_name(name, STR("previous"))) e->previous = value;
    if (is_name(name, STR("output_hash"))) *hash = unquoted(value);
}

void evidence_event_read(struct str bytes, struct hasher *h, struct buf *scratch,
                         struct evidence_event *ret)
{
    struct str hash = {0};
    struct sha256 stored;
    size_t at = 1;
    *ret = (struct evidence_event){0};
    buf_clear(scratch);
    if (bytes.size < 2 || bytes.bytes[0] != '{') return;
    while (at < bytes.size && bytes.bytes[at] == '"') {
        size_t name_end = string_end(bytes, at);
        if (name_end == 0 || name_end >= bytes.size || bytes.bytes[name_end] != ':') return;
        size_t end = value_end(bytes, name_end + 1);
        if (end == 0 || end >= bytes.size) return;
        struct str name = unquoted(str_of(bytes.bytes + at, name_end - at));
        note_member(ret, name, str_of(bytes.bytes + name_end + 1, end - name_end - 1), &hash);
        if (is_outcome(name)) {
            buf_put_byte(scratch, scratch->size == 0 ? '{' : ',');
            buf_put(scratch, str_of(bytes.bytes + at, end - at));
        }
        if (bytes.bytes[end] == '}' && end + 1 == bytes.size) {
            ret->is_event = !str_is_absent(ret->event_id);
            break;
        }
        if (bytes.bytes[end] != ',') return;
        at = end + 1;
    }
    buf_put_byte(scratch, '}');
    ret->hash_is_right = str_is_absent(hash);
    if (str_is_absent(hash) || !sha256_read_hex(hash, &stored) || scratch->overflow) return;
    struct sha256 right = hasher_sha256(h, buf_view(scratch));
    ret->hash_is_right = memcmp(right.bytes, stored.bytes, SHA256_BYTES) == 0;
}

void evidence_own_event_read(struct str bytes, struct arena *arena, struct hasher *h,
                             struct buf *scratch, struct evidence_event *ret)
{
    static const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct json *event;
    *ret = (struct evidence_event){0};
    if (json_read(bytes, &options, arena, &event, NULL) != ERR_OK) return;
    size_t most = json_canonical_most(event);
    char *room = arena_take(arena, most);
    if (room == NULL) return;
    struct buf canonical = buf_over(room, most);
    json_put_canonical(&canonical, event);
    check(!canonical.overflow);
    evidence_event_read(buf_view(&canonical), h, scratch, ret);
    if (ret->is_event && event_kind_is_external(ret->kind)) ret->hash_is_right = true;
}

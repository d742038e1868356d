/* audit_verify.c - `writ audit verify`: every record of the store, or of an evidence file, against the
 * signed checkpoints. The rules are in evidence/verify.h; here stand the lines, the names of what was
 * found, and the checks of single rows: outputHash, the columns, the epochs. */
#include <stdlib.h>

#include "base/check.h"
#include "cli/audit.h"
#include "cli/evidence.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"
#include "evidence/verify.h"

enum {
    TRACES_KEPT = 1 << 14, /* of the newest records of a stream, to name those of a run */
    TRACES_SHOWN = 8,
    TRACE_MOST = 64,
    TIME_MOST = 32,
    EPOCH_MOST = 64,
    KEYS_MOST = 1024,
    SCRATCH_MOST = 1 << 20,
    OUTPUT_MOST = 4 << 20,
    NAME_MOST = 256,
};

struct seen {
    uint64_t seq;
    char trace[TRACE_MOST];
};

struct known_key {
    char node[NAME_MOST + 1], journal[NAME_MOST + 1];
    size_t node_size, journal_size;
    uint8_t public_key[ED25519_KEY_BYTES];
};

struct verify_run {
    struct cli *c;
    struct evidence_source source;
    struct arena arena; /* of a line */
    struct hasher *hasher;
    struct buf scratch;
    struct verify stream;
    bool has_stream, own_keys, is_ended;
    char node[NAME_MOST + 1], journal[NAME_MOST + 1];
    struct seen *seen; /* TRACES_KEPT of the stream, by seq modulo */
    char good_time[TIME_MOST], newest_time[TIME_MOST];
    struct {
        uint64_t seq;
        char text[EPOCH_MOST];
    } epoch; /* of the record before */
    struct known_key *keys;
    size_t key_count;
    char platform[NOTE_NAME_MAX + 1];
    struct arena anchor_arena;
    struct anchor *anchors;
    uint64_t findings, records, own;
    struct buf out; /* of a line of output */
};

struct anchor {
    struct anchor *next;
    struct str stream; /* writ/NODE/JOURNAL */
    struct str note;
};

/* ---- what is found ---- */

static void put_traces(struct verify_run *v, struct buf *out, uint64_t first, uint64_t last)
{
    size_t shown = 0, more = 0;
    if (v->has_stream && last > 0) {
        uint64_t from =
            last >= TRACES_KEPT && first < last - TRACES_KEPT + 1 ? last - TRACES_KEPT + 1 : first;
        for (uint64_t seq = from; seq <= last; seq++) {
            const struct seen *s = &v->seen[seq % TRACES_KEPT];
            if (s->seq != seq || s->trace[0] == '\0') continue;
            if (v->c->json || shown < TRACES_SHOWN) {
                if (shown++ > 0) buf_put_byte(out, ',');
                json_put_string(out, str_from(s->trace));
            } else {
                more++;
            }
        }
    }
    if (more > 0) buf_printf(out, ",\"and %zu more\"", more);
}

static void found(struct verify_run *v, const char *kind, struct str node, struct str journal,
                  uint64_t first, uint64_t last, struct str trace, const char *why)
{
    struct cli *c = v->c;
    struct buf *out = &v->out;
    buf_clear(out);
    buf_put_literal(out, "{\"finding\":");
    json_put_string(out, str_from(kind));
    put_text_member(out, "node", node);
    put_text_member(out, "journal", journal);
    buf_printf(out, ",\"first_seq\":%llu,\"last_seq\":%llu,\"traces\":[", (unsigned long long)first,
               (unsigned long long)last);
    size_t before = out->size;
    if (str_is_empty(trace))
        put_traces(v, out, first, last);
    else
        json_put_string(out, trace);
    struct str traces = str_of(out->bytes + before, out->size - before);
    buf_put_byte(out, ']');
    put_text_member(out, "why", str_from(why));
    buf_put_byte(out, '}');
    v->findings++;
    if (c->json) {
        print_json(c, buf_view(out));
        return;
    }
    fprintf(c->out, "%s: %.*s", kind, STR_FORMAT(text_shown(&v->arena, node)));
    if (!str_is_empty(journal))
        fprintf(c->out, "/%.*s", STR_FORMAT(text_shown(&v->arena, journal)));
    if (last > first)
        fprintf(c->out, " records %llu to %llu", (unsigned long long)first,
                (unsigned long long)last);
    else if (first > 0)
        fprintf(c->out, " record %llu", (unsigned long long)first);
    if (traces.size > 0) fprintf(c->out, ", trace %.*s", STR_FORMAT(text_shown(&v->arena, traces)));
    fprintf(c->out, ": %s\n", why);
}

static void tell(void *context, const struct verify_finding *f)
{
    struct verify_run *v = context;
    found(v, verify_kind_name(f->kind), str_from(v->node), str_from(v->journal), f->first, f->last,
          (struct str){0}, f->text);
}

/* ---- keys ---- */

static bool copy_name(char *to, struct str name)
{
    if (name.size > NAME_MOST) return false;
    memcpy(to, name.bytes, name.size);
    to[name.size] = '\0';
    return true;
}

static void add_key(struct verify_run *v, const struct evidence_line *l)
{
    struct known_key k = {.node_size = l->node.size, .journal_size = l->journal.size};
    uint8_t bytes[(ED25519_KEY_BYTES + 2) / 3 * 3];
    size_t size;
    struct str digits = json_text(l->head, STR("public_key"));
    const struct json *registered = json_get(l->head, STR("is_registered"));
    bool is_read = copy_name(k.node, l->node) && copy_name(k.journal, l->journal) &&
                   digits.size == sizeof bytes / 3 * 4 && base64_read(digits, bytes, &size) &&
                   size == ED25519_KEY_BYTES && v->key_count < KEYS_MOST;
    if (!is_read || (registered != NULL && registered->type != JSON_TRUE)) {
        found(v, "forged key", l->node, l->journal, 0, 0, (struct str){0},
              "the platform did not register this key: its row was written by another program");
        return;
    }
    memcpy(k.public_key, bytes, sizeof k.public_key);
    v->keys[v->key_count++] = k;
}

static bool is_of(const struct known_key *k, struct str node, struct str journal)
{
    return str_equal(str_of(k->node, k->node_size), node) &&
           str_equal(str_of(k->journal, k->journal_size), journal);
}

/* ---- streams ---- */

static int begin_stream(struct verify_run *v, const struct evidence_line *l)
{
    if (!copy_name(v->node, l->node) || !copy_name(v->journal, l->journal))
        return cli_complain(v->c, REFUSED, "a line of evidence has a name of more than %d bytes",
                            NAME_MOST);
    char name[VERIFY_NAME_MAX];
    struct buf out = buf_over(name, sizeof name);
    verify_init(&v->stream, str_from(v->node), str_from(v->journal), tell, v);
    v->has_stream = true;
    v->good_time[0] = '\0';
    v->epoch.seq = 0;
    memset(v->seen, 0, sizeof *v->seen * TRACES_KEPT);
    for (size_t i = 0; i < v->key_count; i++) {
        if (is_of(&v->keys[i], l->node, l->journal))
            (void)verify_add_key(&v->stream, v->keys[i].public_key); /* more are not tried */
        if (is_of(&v->keys[i], STR(""), STR("")) && v->platform[0] != '\0') {
            struct note_key k = note_key_of(str_from(v->platform), v->keys[i].public_key);
            (void)verify_add_platform(&v->stream, &k);
        }
    }
    if (!verify_name(l->node, l->journal, &out)) return DONE;
    for (const struct anchor *a = v->anchors; a != NULL; a = a->next)
        if (str_equal(a->stream, buf_view(&out)))
            verify_add_checkpoint(&v->stream,
                                  &(struct verify_checkpoint){.note = a->note, .is_anchor = true});
    return DONE;
}

static void print_stream(struct verify_run *v)
{
    const struct verify *s = &v->stream;
    FILE *out = v->c->out;
    if (v->c->json) {
        struct buf *line = &v->out;
        buf_clear(line);
        buf_put_literal(line, "{\"stream\":true");
        put_text_member(line, "node", s->node);
        put_text_member(line, "journal", s->journal);
        buf_printf(line, ",\"records\":%llu,\"proved\":%llu,\"proved_until\":%llu",
                   (unsigned long long)s->records, (unsigned long long)s->covered,
                   (unsigned long long)s->good_end);
        put_text_member(line, "checkpoint_time", str_from(v->good_time));
        buf_printf(line, ",\"dropped\":%llu,\"dropped_until\":%llu,\"given_up\":%llu}",
                   (unsigned long long)s->dropped, (unsigned long long)s->dropped_last,
                   (unsigned long long)s->given_up);
        print_json(v->c, buf_view(line));
        return;
    }
    fprintf(out, "%.*s/%.*s: %llu records, %llu proved", STR_FORMAT(text_shown(&v->arena, s->node)),
            STR_FORMAT(text_shown(&v->arena, s->journal)), (unsigned long long)s->records,
            (unsigned long long)s->covered);
    if (s->good_end > 0)
        fprintf(out, ", until the checkpoint of %s (record %llu)", v->good_time,
                (unsigned long long)s->good_end);
    fputs("\n", out);
    if (s->dropped > 0)
        fprintf(out, "  dropped by retention until record %llu, signed %s\n",
                (unsigned long long)s->dropped_last, s->dropped_time);
    if (s->given_up > 0)
        fprintf(out, "  %llu records were given up by a person (audit.gap)\n",
                (unsigned long long)s->given_up);
    if (s->next - 1 > s->good_end && s->records > 0)
        fprintf(out, "  not proved yet: records %llu to %llu, after the last checkpoint\n",
                (unsigned long long)s->good_end + 1, (unsigned long long)s->next - 1);
}

static void end_stream(struct verify_run *v, uint64_t position)
{
    verify_finish(&v->stream, position);
    print_stream(v);
    if (strcmp(v->good_time, v->newest_time) > 0)
        memcpy(v->newest_time, v->good_time, sizeof v->newest_time);
    verify_fini(&v->stream);
    v->has_stream = false;
}

/* ---- rows ---- */

static void check_row(struct verify_run *v, const struct evidence_line *l, struct str node,
                      uint64_t number, struct evidence_event *ret)
{
    evidence_event_read(l->event, v->hasher, &v->scratch, ret);
    struct str trace = str_is_absent(ret->trace_id) ? STR("") : ret->trace_id;
    if (!ret->is_event)
        found(v, "altered", node, l->journal, number, number, trace, "the record is not an event");
    else if (!ret->hash_is_right)
        found(v, "altered", node, l->journal, number, number, trace,
              "output_hash is not that of the event's members");
    const struct json *columns = json_get(l->head, STR("columns"));
    if (!json_is_array(columns)) return;
    for (const struct json *one = columns->child; one != NULL; one = one->next) {
        char kind[64];
        snprintf(kind, sizeof kind, "altered column %.*s",
                 STR_FORMAT(json_is_string(one) ? one->string : STR("?")));
        found(v, kind, node, l->journal, number, number, trace,
              "the column is not what the event has, so queries show another row");
    }
}

/* An epoch begins with engine.started, which names the epoch before it. */
static void check_epoch(struct verify_run *v, const struct evidence_line *l, uint64_t seq,
                        const struct evidence_event *e)
{
    struct str epoch = json_text(l->head, STR("epoch")), before = epoch;
    bool is_start = str_equal(e->kind, STR("engine.started"));
    struct json *previous;
    if (is_start) {
        before = (struct str){0};
        if (!str_is_absent(e->previous) &&
            json_read(e->previous, NULL, &v->arena, &previous, NULL) == ERR_OK)
            before = json_text(previous, STR("epoch"));
    }
    if (v->epoch.seq != 0 && v->epoch.seq + 1 == seq && !str_is_absent(before) &&
        !str_equal(before, str_from(v->epoch.text))) {
        uint64_t wrong = is_start ? seq - 1 : seq;
        found(v, "altered column epoch", str_from(v->node), l->journal, wrong, wrong,
              (struct str){0}, "the epoch changes without the start of an engine that names it");
    }
    v->epoch.seq = seq;
    snprintf(v->epoch.text, sizeof v->epoch.text, "%.*s", STR_FORMAT(epoch));
}

static void add_record(struct verify_run *v, const struct evidence_line *l)
{
    uint64_t seq = json_u64(l->head, STR("seq"), 0);
    struct evidence_event e;
    struct seen *s = &v->seen[seq % TRACES_KEPT];
    check_row(v, l, l->node, seq, &e);
    *s = (struct seen){.seq = seq};
    snprintf(s->trace, sizeof s->trace, "%.*s", STR_FORMAT(e.trace_id));
    check_epoch(v, l, seq, &e);
    struct sha256 leaf = merkle_leaf(v->hasher, l->event);
    uint64_t good = v->stream.good_end;
    verify_add_record(&v->stream, seq, &leaf);
    if (v->stream.good_end != good)
        snprintf(v->good_time, sizeof v->good_time, "%.*s", STR_FORMAT(e.timestamp));
    v->records++;
}

/* ---- lines ---- */

static int add_to_stream(struct verify_run *v, const struct evidence_line *l)
{
    struct verify *s = &v->stream;
    bool is_same =
        v->has_stream && str_equal(s->node, l->node) && str_equal(s->journal, l->journal);
    if (v->has_stream && !is_same) {
        found(v, "cut", s->node, s->journal, s->next, s->next, (struct str){0},
              "the stream has no end here");
        end_stream(v, 0);
    }
    if (!v->has_stream) {
        int code = begin_stream(v, l);
        if (code != DONE) return code;
    }
    if (str_equal(l->kind, STR("removal"))) {
        verify_add_removal(s, json_u64(l->head, STR("number"), 0), json_text(l->head, STR("note")));
    } else if (str_equal(l->kind, STR("checkpoint"))) {
        const struct verify_checkpoint c = {.note = json_text(l->head, STR("note")),
                                            .base = json_u64(l->head, STR("base"), 0),
                                            .end = json_u64(l->head, STR("end_seq"), 0),
                                            .from = json_u64(l->head, STR("from_seq"), 0),
                                            .frontier = json_text(l->head, STR("frontier"))};
        verify_add_checkpoint(s, &c);
    } else if (str_equal(l->kind, STR("quarantined"))) {
        struct sha256 leaf = merkle_leaf(v->hasher, l->event);
        verify_add_aside(s, json_u64(l->head, STR("seq"), 0), &leaf);
    } else if (str_equal(l->kind, STR("record"))) {
        add_record(v, l);
    } else {
        end_stream(v, json_u64(l->head, STR("next_seq"), 0));
    }
    return DONE;
}

static int add_line(struct verify_run *v, struct str line)
{
    struct evidence_line l;
    struct evidence_event e;
    arena_reset(&v->arena);
    if (!evidence_read(line, &v->arena, &l))
        return cli_complain(v->c, REFUSED,
                            "line %llu is not a line of evidence: "
                            "writ audit export --evidence writes such a file",
                            (unsigned long long)v->source.lines);
    if (str_equal(l.kind, STR("evidence"))) {
        if (json_u64(l.head, STR("format"), 0) != 1)
            return cli_complain(v->c, REFUSED,
                                "this evidence has a format that this program does "
                                "not know: use a newer writ");
        snprintf(v->platform, sizeof v->platform, "writ/platform/%.*s",
                 STR_FORMAT(json_text(l.head, STR("log_id"))));
    } else if (str_equal(l.kind, STR("key"))) {
        if (v->own_keys) add_key(v, &l);
    } else if (str_equal(l.kind, STR("own"))) {
        check_row(v, &l, STR("platform"), json_u64(l.head, STR("id"), 0), &e);
        v->own++;
    } else if (str_equal(l.kind, STR("end"))) {
        v->is_ended = true;
    } else {
        return add_to_stream(v, &l);
    }
    return DONE;
}

static int read_all(struct verify_run *v, const char *path,
                    void (*each)(struct verify_run *, const struct evidence_line *))
{
    struct evidence_source s;
    int code = evidence_open(v->c, &s, path);
    if (code != DONE) return code;
    struct str line;
    struct evidence_line l;
    while ((code = evidence_next(&s, &line)) == DONE && !str_is_absent(line)) {
        arena_reset(&v->arena);
        if (!evidence_read(line, &v->arena, &l)) {
            code = cli_complain(v->c, USAGE, "%s: line %llu is not a line of evidence", path,
                                (unsigned long long)s.lines);
            break;
        }
        each(v, &l);
    }
    evidence_close(&s);
    return code;
}

static void keep_key(struct verify_run *v, const struct evidence_line *l)
{
    if (str_equal(l->kind, STR("key"))) add_key(v, l);
}

static void keep_anchor(struct verify_run *v, const struct evidence_line *l)
{
    if (!str_equal(l->kind, STR("checkpoint"))) return;
    struct str note = json_text(l->head, STR("note"));
    struct str origin = str_of(note.bytes, str_find(note, '\n'));
    while (origin.size > 0 && origin.bytes[origin.size - 1] != '/') origin.size--;
    if (origin.size == 0) return;
    origin.size--;
    struct anchor *a = arena_new(&v->anchor_arena, struct anchor);
    if (a == NULL) return;
    *a = (struct anchor){v->anchors, arena_copy(&v->anchor_arena, origin),
                         arena_copy(&v->anchor_arena, note)};
    v->anchors = a;
}

/* ---- the run ---- */

static int print_result(struct verify_run *v)
{
    struct cli *c = v->c;
    if (!v->is_ended)
        found(v, "cut", STR("evidence"), (struct str){0}, 0, 0, (struct str){0},
              "the file ends before its last line");
    if (c->json) {
        struct buf *line = &v->out;
        buf_clear(line);
        buf_printf(line, "{\"findings\":%llu,\"records\":%llu,\"own\":%llu",
                   (unsigned long long)v->findings, (unsigned long long)v->records,
                   (unsigned long long)v->own);
        put_text_member(line, "complete_until", str_from(v->findings == 0 ? v->newest_time : ""));
        buf_put_byte(line, '}');
        print_json(c, buf_view(line));
    } else if (v->findings > 0) {
        fprintf(c->out, "NOT COMPLETE: %llu findings\n", (unsigned long long)v->findings);
    } else if (v->newest_time[0] == '\0') {
        fputs("nothing is proved: no checkpoint is here\n", c->out);
    } else {
        fprintf(c->out, "complete until the checkpoint of %s\n", v->newest_time);
    }
    return v->findings > 0 ? REFUSED : DONE;
}

static int run_lines(struct verify_run *v, const char *path)
{
    struct str line;
    int code = evidence_open(v->c, &v->source, path);
    if (code != DONE) return code;
    while ((code = evidence_next(&v->source, &line)) == DONE && !str_is_absent(line))
        if ((code = add_line(v, line)) != DONE) break;
    evidence_close(&v->source);
    if (v->has_stream && code == DONE) {
        end_stream(v, 0);
        v->is_ended = false;
    } else if (v->has_stream) {
        verify_fini(&v->stream);
    }
    return code == DONE ? print_result(v) : code;
}

int audit_verify(struct cli *c, const struct arguments *a)
{
    static struct verify_run v;
    struct str file = argument_text(a, "file"), keys = argument_text(a, "keys"),
               anchor = argument_text(a, "anchor");
    v = (struct verify_run){.c = c, .own_keys = str_is_absent(keys)};
    arena_init(&v.arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    arena_init(&v.anchor_arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    v.hasher = hasher_create();
    buf_init(&v.scratch, 4096, SCRATCH_MOST);
    buf_init(&v.out, 4096, OUTPUT_MOST);
    v.seen = calloc(TRACES_KEPT, sizeof *v.seen);
    v.keys = calloc(KEYS_MOST, sizeof *v.keys);
    check(v.seen != NULL && v.keys != NULL);
    int code = DONE;
    if (!str_is_absent(keys)) code = read_all(&v, keys.bytes, keep_key);
    if (code == DONE && !str_is_absent(anchor)) code = read_all(&v, anchor.bytes, keep_anchor);
    if (code == DONE) code = run_lines(&v, str_is_absent(file) ? NULL : file.bytes);
    free(v.keys);
    free(v.seen);
    buf_fini(&v.out);
    buf_fini(&v.scratch);
    hasher_destroy(v.hasher);
    arena_fini(&v.anchor_arena);
    arena_fini(&v.arena);
    return code;
}

const struct flag verify_flags[] = {
    {"file", "FILE", "this evidence file (writ audit export --evidence), without a platform"},
    {"keys", "FILE", "only the keys in this file count: lines `key` of an evidence file"},
    {"anchor", "FILE", "an earlier evidence file: what it has signed must be here, too"},
    {NULL, NULL, NULL}};

const char verify_text[] =
    "Computes every record again: its hashes, its place in the stream's signed tree, the columns\n"
    "by which queries find it. Names what was altered, is missing, was added or comes from another\n"
    "history. Exit status 1 if there is such a finding. Without --file it needs a key of an auditor\n"
    "of tenant *.\n"
    "\n"
    "Keys: the platform checks that an admin registered them. With --keys, nothing that the\n"
    "platform has is trusted.";

/* audit_verify.c - `writ audit verify`: every record of the store, or of an evidence file, against the
 * signed checkpoints. The rules are in evidence/verify.h; here stand the lines, the names of what was
 * found, and the checks of single rows: outputHash, the columns, the epochs. */
#include <stdlib.h>

#include "base/check.h"
#include "base/time.h"
#include "cli/anchor_input.h"
#include "cli/audit.h"
#include "cli/evidence.h"
#include "crypto/base64.h"
#include "event/event.h"
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
    uint64_t distrusted_from;
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
    struct anchor_input anchors;
    struct note_key witnesses[VERIFY_WITNESSES_MAX];
    size_t witness_count;
    char from[TIME_MOST], to[TIME_MOST]; /* what the evidence is of; "": all */
    uint64_t first, last;                /* of the line `range` of the stream */
    char anchor_time[TIME_MOST], newest_anchor[TIME_MOST], last_time[TIME_MOST];
    char newest_witness[TIME_MOST];
    uint64_t findings, records, own;
    struct buf out; /* of a line of output */
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
    evidence_hide_progress(&v->source);
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

/* As much as there is room for. Each record has three of them, and printf would take a tenth of the time. */
static void copy_text(char *to, size_t room, struct str text)
{
    size_t size = text.size < room ? text.size : room - 1;
    if (size > 0) memcpy(to, text.bytes, size);
    to[size] = '\0';
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
    struct known_key k = {.node_size = l->node.size,
                          .journal_size = l->journal.size,
                          .distrusted_from = json_u64(l->head, STR("distrusted_from"), 0)};
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
    v->good_time[0] = v->anchor_time[0] = '\0';
    v->first = 1;
    v->last = v->epoch.seq = 0;
    memset(v->seen, 0, sizeof *v->seen * TRACES_KEPT);
    for (size_t i = 0; i < v->key_count; i++) {
        if (is_of(&v->keys[i], l->node, l->journal))
            (void)verify_add_key(&v->stream, v->keys[i].public_key,
                                 v->keys[i].distrusted_from); /* more are not tried */
        if (is_of(&v->keys[i], STR(""), STR("")) && v->platform[0] != '\0') {
            struct note_key k = note_key_of(str_from(v->platform), v->keys[i].public_key);
            (void)verify_add_platform(&v->stream, &k);
        }
    }
    for (size_t i = 0; i < v->witness_count; i++)
        (void)verify_add_witness(&v->stream, &v->witnesses[i]);
    if (str_equal(l->kind, STR("range"))) {
        v->first = json_u64(l->head, STR("from_seq"), 1);
        v->last = json_u64(l->head, STR("end_seq"), 0);
        verify_set_range(&v->stream, v->first, v->last);
    }
    if (!verify_name(l->node, l->journal, &out)) return DONE;
    size_t count;
    struct kept_anchor *anchors = anchor_input_of(&v->anchors, buf_view(&out), &count);
    for (size_t i = 0; i < count; i++) {
        anchors[i].is_met = true;
        verify_add_checkpoint(&v->stream, &(struct verify_checkpoint){.note = anchors[i].note,
                                                                      .time = anchors[i].time,
                                                                      .is_anchor = true});
    }
    return DONE;
}

static const char *witness_time(const struct verify_witness *w, char to[TIME_TEXT + 1])
{
    to[0] = to[TIME_TEXT] = '\0';
    if (w->end > 0) time_write(w->time_s < UINT32_MAX ? w->time_s * 1000 : UINT64_MAX, to);
    return to;
}

static void put_witnesses(struct buf *out, const struct verify *s)
{
    char time[TIME_TEXT + 1];
    buf_put_literal(out, ",\"witnesses\":[");
    for (size_t i = 0; i < s->witness_count; i++) {
        const struct verify_witness *w = &s->witnesses[i];
        buf_printf(out, "%s{\"until\":%llu", i > 0 ? "," : "", (unsigned long long)w->end);
        put_text_member(out, "name", w->key.name);
        put_text_member(out, "time", str_from(witness_time(w, time)));
        buf_put_byte(out, '}');
    }
    buf_put_byte(out, ']');
}

static void print_witnesses(FILE *out, const struct verify *s)
{
    char time[TIME_TEXT + 1];
    for (size_t i = 0; i < s->witness_count; i++) {
        const struct verify_witness *w = &s->witnesses[i];
        if (w->end == 0) continue; /* a finding */
        fprintf(out, "  signed by the witness %.*s at %s until record %llu",
                STR_FORMAT(w->key.name), witness_time(w, time), (unsigned long long)w->end);
        if (s->next - 1 > w->end)
            fprintf(out, ", not yet records %llu to %llu", (unsigned long long)w->end + 1,
                    (unsigned long long)s->next - 1);
        fputs("\n", out);
    }
}

static void print_stream(struct verify_run *v)
{
    const struct verify *s = &v->stream;
    FILE *out = v->c->out;
    evidence_hide_progress(&v->source);
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
        buf_printf(line, ",\"anchored_until\":%llu", (unsigned long long)s->anchored_end);
        put_text_member(line, "anchor_time", str_from(v->anchor_time));
        buf_printf(line, ",\"dropped\":%llu,\"dropped_until\":%llu,\"given_up\":%llu",
                   (unsigned long long)s->dropped, (unsigned long long)s->dropped_last,
                   (unsigned long long)s->given_up);
        if (s->witness_count > 0) put_witnesses(line, s);
        buf_put_byte(line, '}');
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
    if (v->first > 1 || v->last > 0)
        fprintf(out, "  of this time: records %llu to %llu, in whole runs\n",
                (unsigned long long)v->first, (unsigned long long)s->next - 1);
    if (s->anchored_end > 0)
        fprintf(out, "  anchored until the anchor of %s (record %llu)\n", v->anchor_time,
                (unsigned long long)s->anchored_end);
    print_witnesses(out, s);
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

static void keep_newest(char newest[TIME_MOST], const char time[TIME_MOST])
{
    if (strcmp(time, newest) > 0) memcpy(newest, time, TIME_MOST);
}

/* The range has a record on each side that is not of the time; else it begins too late or ends too
 * early. */
static void check_edge(struct verify_run *v, uint64_t seq, struct str time, uint64_t edge)
{
    bool is_inside = (v->from[0] == '\0' || str_compare(time, str_from(v->from)) >= 0) &&
                     (v->to[0] == '\0' || str_compare(time, str_from(v->to)) < 0);
    if (seq == edge && is_inside)
        found(v, "cut", str_from(v->node), str_from(v->journal), seq, seq, (struct str){0},
              "the record at the edge is of the time that was asked for, so records are left out");
}

static void end_stream(struct verify_run *v, uint64_t position)
{
    if (v->last > 0) check_edge(v, v->epoch.seq, str_from(v->last_time), v->last);
    verify_finish(&v->stream, position);
    print_stream(v);
    keep_newest(v->newest_time, v->good_time);
    keep_newest(v->newest_anchor, v->anchor_time);
    for (size_t i = 0; i < v->stream.witness_count; i++) {
        char time[TIME_MOST] = "";
        keep_newest(v->newest_witness, witness_time(&v->stream.witnesses[i], time));
    }
    verify_fini(&v->stream);
    v->has_stream = false;
}

/* ---- rows ---- */

static void check_row(struct verify_run *v, const struct evidence_line *l, struct str node,
                      uint64_t number, struct evidence_event *ret)
{
    if (str_equal(l->kind, STR("own")))
        evidence_own_event_read(l->event, &v->arena, v->hasher, &v->scratch, ret);
    else
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

/* An epoch begins with engine.started or leader.changed, which names the epoch before it. */
static void check_epoch(struct verify_run *v, const struct evidence_line *l, uint64_t seq,
                        const struct evidence_event *e)
{
    struct str epoch = json_text(l->head, STR("epoch")), before = epoch;
    bool is_start = event_kind_begins_epoch(e->kind);
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
    copy_text(v->epoch.text, sizeof v->epoch.text, epoch);
}

static void add_record(struct verify_run *v, const struct evidence_line *l)
{
    uint64_t seq = json_u64(l->head, STR("seq"), 0);
    struct evidence_event e;
    struct seen *s = &v->seen[seq % TRACES_KEPT];
    check_row(v, l, l->node, seq, &e);
    s->seq = seq;
    copy_text(s->trace, sizeof s->trace, e.trace_id);
    check_epoch(v, l, seq, &e);
    struct sha256 leaf = merkle_leaf(v->hasher, l->event);
    struct verify *h = &v->stream;
    uint64_t good = h->good_end, anchored = h->anchored_end;
    if (v->first > 1) check_edge(v, seq, e.timestamp, v->first);
    copy_text(v->last_time, sizeof v->last_time, e.timestamp);
    verify_add_record(h, seq, &leaf);
    if (h->good_end != good) memcpy(v->good_time, v->last_time, sizeof v->good_time);
    if (h->anchored_end != anchored)
        snprintf(v->anchor_time, sizeof v->anchor_time, "%s",
                 h->anchored_time[0] != '\0' ? h->anchored_time : v->last_time);
    v->records++;
}

/* The text of a policy has the digest that its changes and decisions name. */
static void check_policy(struct verify_run *v, const struct evidence_line *l)
{
    struct sha256 stored, right = hasher_sha256(v->hasher, json_text(l->head, STR("content")));
    bool is_right = sha256_read_hex(json_text(l->head, STR("digest")), &stored) &&
                    memcmp(right.bytes, stored.bytes, SHA256_BYTES) == 0;
    uint64_t version = json_u64(l->head, STR("version"), 0);
    if (!is_right)
        found(v, "altered", STR("policy"), json_text(l->head, STR("name")), version, version,
              (struct str){0}, "the text of this version does not have its digest");
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
    if (str_equal(l->kind, STR("range"))) return DONE; /* begin_stream() has read it */
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
    int code = evidence_parse(&v->source, line, &v->arena, &l);
    if (code != DONE) return code;
    if (str_equal(l.kind, STR("evidence"))) {
        if (json_u64(l.head, STR("format"), 0) != 1)
            return cli_complain(v->c, REFUSED,
                                "this evidence has a format that this program does "
                                "not know: use a newer writ");
        snprintf(v->platform, sizeof v->platform, "writ/platform/%.*s",
                 STR_FORMAT(json_text(l.head, STR("log_id"))));
        snprintf(v->from, sizeof v->from, "%.*s", STR_FORMAT(json_text(l.head, STR("from"))));
        snprintf(v->to, sizeof v->to, "%.*s", STR_FORMAT(json_text(l.head, STR("to"))));
    } else if (str_equal(l.kind, STR("policy"))) {
        check_policy(v, &l);
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

static int read_keys(struct verify_run *v, const char *path)
{
    struct evidence_source s = {.path = path};
    struct str line;
    struct evidence_line l;
    int code = evidence_open(v->c, &s);
    if (code != DONE) return code;
    while ((code = evidence_next(&s, &line)) == DONE && !str_is_absent(line)) {
        arena_reset(&v->arena);
        if (!evidence_read(line, &v->arena, &l)) {
            code = cli_complain(v->c, USAGE, "%s: line %llu is not a line of evidence", path,
                                (unsigned long long)s.lines);
            break;
        }
        if (str_equal(l.kind, STR("key"))) add_key(v, &l);
    }
    evidence_close(&s);
    return code;
}

/* ---- the run ---- */

/* Of node or journal in the name of a stream: without its percent signs. */
static struct str decoded(struct arena *a, struct str text)
{
    char *to = arena_take(a, text.size + 1);
    size_t size = 0;
    uint8_t byte;
    if (to == NULL) return STR("");
    for (size_t i = 0; i < text.size; i++) {
        bool is_code =
            text.bytes[i] == '%' && i + 2 < text.size && hex_read(text.bytes + i + 1, &byte, 1);
        to[size++] = is_code ? (char)byte : text.bytes[i];
        if (is_code) i += 2;
    }
    return str_of(to, size);
}

/* The evidence has no stream of these anchors. */
static void check_unmet_anchors(struct verify_run *v)
{
    const struct anchor_input *in = &v->anchors;
    for (size_t i = 0; i < in->count; i++) {
        const struct kept_anchor *a = &in->list[i];
        bool is_newest = i + 1 == in->count || !str_equal(in->list[i + 1].stream, a->stream);
        if (a->is_met || !is_newest) continue;
        struct str name = str_skip(a->stream, sizeof "writ/" - 1);
        size_t slash = str_find(name, '/');
        arena_reset(&v->arena);
        found(v, "older database", decoded(&v->arena, str_of(name.bytes, slash)),
              decoded(&v->arena, str_skip(name, slash < name.size ? slash + 1 : slash)), 1, a->end,
              (struct str){0}, "an anchor names this stream, and nothing of it is here");
    }
    if (in->unreadable > 0 && !v->c->json)
        fprintf(v->c->out, "%llu lines or files of --anchors are not checkpoints\n",
                (unsigned long long)in->unreadable);
}

static int print_result(struct verify_run *v)
{
    struct cli *c = v->c;
    bool is_anchored = v->newest_anchor[0] != '\0';
    bool is_witnessed = !is_anchored && v->newest_witness[0] != '\0';
    const char *until = is_anchored    ? v->newest_anchor
                        : is_witnessed ? v->newest_witness
                                       : v->newest_time;
    const char *what = is_anchored ? "anchor" : is_witnessed ? "witness" : "checkpoint";
    check_unmet_anchors(v);
    if (!v->is_ended)
        found(v, "cut", STR("evidence"), (struct str){0}, 0, 0, (struct str){0},
              "the file ends before its last line");
    if (c->json) {
        struct buf *line = &v->out;
        buf_clear(line);
        buf_printf(line, "{\"findings\":%llu,\"records\":%llu,\"own\":%llu",
                   (unsigned long long)v->findings, (unsigned long long)v->records,
                   (unsigned long long)v->own);
        put_text_member(line, "complete_until", str_from(v->findings == 0 ? until : ""));
        put_text_member(line, "until_the", str_from(what));
        put_text_member(line, "from", str_from(v->from));
        put_text_member(line, "to", str_from(v->to));
        buf_put_byte(line, '}');
        print_json(c, buf_view(line));
    } else if (v->findings > 0) {
        fprintf(c->out, "NOT COMPLETE: %llu findings\n", (unsigned long long)v->findings);
    } else if (v->newest_time[0] == '\0') {
        fputs("nothing is proved: no checkpoint is here\n", c->out);
    } else {
        if (v->from[0] != '\0') fprintf(c->out, "from %s on: ", v->from);
        if (v->to[0] != '\0') fprintf(c->out, "before %s: ", v->to);
        fprintf(c->out, "complete until the %s of %s\n",
                is_witnessed ? "signature of the witness" : what, until);
    }
    return v->findings > 0 ? REFUSED : DONE;
}

static int run_lines(struct verify_run *v)
{
    struct str line;
    int code = evidence_open(v->c, &v->source);
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

/* Keys of witnesses, with blanks between: their names have none. */
static int read_witnesses(struct verify_run *v, struct str keys)
{
    struct str one;
    struct fault why;
    if (str_is_absent(keys)) return DONE;
    while (str_split(&keys, ' ', &one)) {
        if (one.size == 0) continue;
        if (v->witness_count == VERIFY_WITNESSES_MAX)
            return cli_complain(v->c, USAGE, "--witness: at most %d keys", VERIFY_WITNESSES_MAX);
        struct note_key *key = &v->witnesses[v->witness_count++];
        if (note_key_read(one, key, &why) != ERR_OK)
            return cli_complain(v->c, USAGE, "--witness: %s", why.text);
        if (key->type != NOTE_WITNESS)
            return cli_complain(v->c, USAGE,
                                "--witness: %.*s is the key of a log; a witness has one of type 4",
                                STR_FORMAT(key->name));
    }
    return DONE;
}

static int read_options(struct verify_run *v, const struct arguments *a)
{
    struct str file = argument_text(a, "file"), keys = argument_text(a, "keys"),
               anchors = argument_text(a, "anchors");
    bool is_timed = argument_given(a, "from") || argument_given(a, "to");
    if (!str_is_absent(file) && is_timed)
        return cli_complain(v->c, USAGE,
                            "--file: it is verified as a whole; writ audit export --evidence "
                            "--from … writes a part of the trail");
    v->own_keys = str_is_absent(keys);
    v->source = (struct evidence_source){.path = str_is_absent(file) ? NULL : file.bytes};
    int code = evidence_times(v->c, a, &v->source);
    if (code == DONE && !v->own_keys) code = read_keys(v, keys.bytes);
    if (code == DONE && !str_is_absent(anchors))
        code = anchor_input_read(v->c, &v->anchors, anchors.bytes);
    if (code == DONE) code = read_witnesses(v, argument_text(a, "witness"));
    return code;
}

int audit_verify(struct cli *c, const struct arguments *a)
{
    static struct verify_run v;
    v = (struct verify_run){.c = c};
    arena_init(&v.arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    anchor_input_init(&v.anchors);
    v.hasher = hasher_create();
    buf_init(&v.scratch, 4096, SCRATCH_MOST);
    buf_init(&v.out, 4096, OUTPUT_MOST);
    v.seen = calloc(TRACES_KEPT, sizeof *v.seen);
    v.keys = calloc(KEYS_MOST, sizeof *v.keys);
    check(v.seen != NULL && v.keys != NULL);
    int code = read_options(&v, a);
    if (code == DONE) code = run_lines(&v);
    free(v.keys);
    free(v.seen);
    buf_fini(&v.out);
    buf_fini(&v.scratch);
    hasher_destroy(v.hasher);
    anchor_input_fini(&v.anchors);
    arena_fini(&v.arena);
    return code;
}

const struct flag verify_flags[] = {
    {"from", "SPAN|TIME", "only records from this time on: 1h (ago), 2026-11-20, …"},
    {"to", "SPAN|TIME", "only records before this time"},
    {"file", "FILE|DIR", "this evidence (audit export --evidence, evidence export), offline"},
    {"keys", "FILE", "only the keys in this file count: lines `key` of an evidence file"},
    {"anchors", "PATH",
     "kept checkpoints, which must be here: file of an anchor, folder, evidence"},
    {"witness", "KEY", "this witness must have signed each stream; several with blanks between"},
    {NULL, NULL, NULL}};

const char verify_text[] =
    "Computes every record again: its hashes, its place in the stream's signed tree, the columns\n"
    "by which queries find it. Names what was altered, is missing, was added or comes from another\n"
    "history. Exit status 1 if there is such a finding. Without --file it needs a key of an auditor\n"
    "of tenant *.\n"
    "\n"
    "Keys: the platform checks that an admin registered them. With --keys, nothing that the\n"
    "platform has is trusted.";

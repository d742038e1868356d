/* evidence_export.c - `writ evidence export`: one pass over the platform's lines of evidence. Each line is
 * written as it came. What the page lists is kept in memory; leaves of the current run are kept for the
 * proofs of its resolutions. */
#include "cli/evidence_export.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/check.h"
#include "cli/audit.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"

enum {
    KEEP_MOST = 512 << 20,
    ROWS_MOST = 64 << 20,
    PAGE_MOST = 256 << 20,
    PATH_MOST = 4096,
    LEAVES_MAX = 1 << 20, /* of one run */
    AHEAD_MAX =
        1 << 16, /* checkpoints, and resolutions, of a stream that wait for their last record */
};

struct known_public { /* a key of the evidence */
    struct str node, journal, text;
};

struct run_ahead { /* a checkpoint */
    uint64_t base, from, end;
    struct str note, frontier;
};

struct resolution {
    struct str event_id, record;
    uint64_t seq;
};

struct exporting {
    struct cli *c;
    struct evidence_source source;
    struct export_content content;
    struct arena line, keep; /* of a line; of the whole run */
    struct arena run;        /* of a stream's checkpoints and resolutions */
    struct hasher *hasher;
    const char *folder;
    FILE *evidence, *resolutions, *readers;
    struct known_public *keys;
    size_t key_count;
    struct str node, journal; /* of the current stream */
    struct run_ahead *ahead;
    struct resolution *waiting;
    size_t ahead_count, waiting_count;
    struct run_ahead now; /* end 0: none */
    struct sha256 *leaves;
    size_t leaf_count;
    uint64_t next; /* the seq that the next leaf must have */
};

/* ---- files ---- */

static FILE *new_file(struct exporting *x, const char *name)
{
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/%s", x->folder, name);
    FILE *file = fopen(path, "wxe");
    if (file == NULL) (void)cli_complain(x->c, USAGE, "%s: %s", path, strerror(errno));
    return file;
}

static int close_file(struct exporting *x, FILE *file, const char *name)
{
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return cli_complain(x->c, REFUSED, "%s/%s: %s", x->folder, name, strerror(errno));
    return DONE;
}

static int write_file(struct exporting *x, const char *name, struct str text)
{
    FILE *file = new_file(x, name);
    if (file == NULL) return USAGE;
    print_str(file, text);
    return close_file(x, file, name);
}

static int full(struct exporting *x, const char *what)
{
    return cli_complain(x->c, REFUSED, "there are too many %s for one folder: use a shorter time",
                        what);
}

/* ---- texts of policies ---- */

static int add_policy(struct exporting *x, const struct evidence_line *l)
{
    struct export_content *e = &x->content;
    struct str digest = json_text(l->head, STR("digest"));
    char name[128];
    struct stat st;
    char path[PATH_MOST];
    if (e->policy_count == EXPORT_LISTS_MAX) return full(x, "texts of policies");
    struct export_policy *p = &e->policies[e->policy_count++];
    *p = (struct export_policy){
        .tenant = arena_copy(&x->keep, json_text(l->head, STR("tenant_id"))),
        .name = arena_copy(&x->keep, json_text(l->head, STR("name"))),
        .digest = arena_copy(&x->keep, digest),
        .created_at = arena_copy(&x->keep, json_text(l->head, STR("created_at"))),
        .created_by = arena_copy(&x->keep, json_text(l->head, STR("created_by"))),
        .suffix = str_equal(json_text(l->head, STR("format")), STR("json")) ? ".json" : ".yaml",
        .version = json_u64(l->head, STR("version"), 0)};
    if (!sha256_read_hex(digest, &(struct sha256){0}))
        return cli_complain(x->c, REFUSED, "the platform's evidence has a policy without a digest");
    snprintf(name, sizeof name, "policies/%.*s%s", STR_FORMAT(digest), p->suffix);
    snprintf(path, sizeof path, "%s/%s", x->folder, name);
    if (stat(path, &st) == 0) return DONE; /* another version, or tenant, has the same text */
    return write_file(x, name, json_text(l->head, STR("content")));
}

/* The digest of a set: over "<name> <digest>\n" of each document, by name (policy_digest). */
static bool set_is(struct exporting *x, const struct export_policy **documents, size_t count,
                   struct str digest)
{
    char hex[SHA256_HEX];
    struct buf text = buf_over(arena_take(&x->line, count * 400 + 1), count * 400 + 1);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%.*s %.*s\n", STR_FORMAT(documents[i]->name),
                   STR_FORMAT(documents[i]->digest));
    sha256_write_hex(hasher_sha256(x->hasher, buf_view(&text)), hex);
    return !text.overflow && str_equal(digest, str_of(hex, sizeof hex));
}

/* Tries each choice of one version, or none, of each name. The policies are in the order of tenants,
 * names and versions. */
static bool choose(struct exporting *x, struct export_set *s, size_t at, size_t end,
                   const struct export_policy **chosen, size_t count, unsigned *tries)
{
    const struct export_policy *all = x->content.policies;
    if (*tries == 0) return false;
    if (at == end) {
        (*tries)--;
        arena_reset(&x->line);
        s->document_count = count;
        return set_is(x, chosen, count, s->digest);
    }
    size_t next = at;
    while (next < end && str_equal(all[next].name, all[at].name)) next++;
    for (size_t i = next; i > at; i--) { /* the newest first */
        chosen[count] = &all[i - 1];
        if (choose(x, s, next, end, chosen, count + 1, tries)) return true;
    }
    return choose(x, s, next, end, chosen, count, tries);
}

static int find_documents(struct exporting *x, struct export_set *s)
{
    const struct export_content *e = &x->content;
    size_t from = 0, end;
    unsigned tries = EXPORT_TRIES_MAX;
    while (from < e->policy_count && !str_equal(e->policies[from].tenant, s->tenant)) from++;
    for (end = from; end < e->policy_count && str_equal(e->policies[end].tenant, s->tenant);) end++;
    s->documents = arena_take(&x->keep, (end - from + 1) * sizeof *s->documents);
    if (s->documents == NULL) return full(x, "texts of policies");
    if (choose(x, s, from, end, s->documents, 0, &tries)) return DONE;
    s->documents = NULL;
    s->document_count = 0;
    return DONE;
}

static int write_sets(struct exporting *x)
{
    struct export_content *e = &x->content;
    struct buf out;
    int code = DONE;
    buf_init(&out, 4096, PAGE_MOST);
    buf_put_literal(&out, "[");
    for (size_t i = 0; i < e->set_count && code == DONE; i++) {
        struct export_set *s = &e->sets[i];
        code = find_documents(x, s);
        buf_printf(&out, "%s{\"policy_digest\":", i > 0 ? ",\n" : "\n");
        json_put_string(&out, s->digest);
        put_text_member(&out, "tenant_id", s->tenant);
        put_text_member(&out, "first", s->first);
        put_text_member(&out, "last", s->last);
        buf_printf(&out, ",\"decisions\":%llu,\"documents\":%s", (unsigned long long)s->decisions,
                   s->documents == NULL ? "null" : "[");
        for (size_t k = 0; k < s->document_count; k++) {
            buf_put(&out, k > 0 ? STR(",{\"name\":") : STR("{\"name\":"));
            json_put_string(&out, s->documents[k]->name);
            buf_printf(&out, ",\"version\":%llu", (unsigned long long)s->documents[k]->version);
            put_text_member(&out, "digest", s->documents[k]->digest);
            buf_put_byte(&out, '}');
        }
        buf_put(&out, s->documents == NULL ? STR("}") : STR("]}"));
    }
    buf_put_literal(&out, "\n]\n");
    if (code == DONE)
        code = out.overflow ? full(x, "texts of policies")
                            : write_file(x, "policy-sets.json", buf_view(&out));
    buf_fini(&out);
    return code;
}

/* ---- events ---- */

static int note_set(struct exporting *x, const struct json *event)
{
    struct export_content *e = &x->content;
    struct str digest = json_text(event, STR("policy_digest")),
               tenant = json_text(event, STR("tenant_id")),
               time = json_text(event, STR("timestamp"));
    if (str_is_absent(digest)) return DONE;
    for (size_t i = e->set_count; i > 0; i--) {
        struct export_set *s = &e->sets[i - 1];
        if (!str_equal(s->digest, digest) || !str_equal(s->tenant, tenant)) continue;
        s->decisions++;
        if (str_compare(time, s->first) < 0) s->first = arena_copy(&x->keep, time);
        if (str_compare(time, s->last) > 0) memcpy((char *)s->last.bytes, time.bytes, s->last.size);
        return DONE;
    }
    if (e->set_count == EXPORT_LISTS_MAX) return full(x, "sets of policies");
    e->sets[e->set_count++] = (struct export_set){.tenant = arena_copy(&x->keep, tenant),
                                                  .digest = arena_copy(&x->keep, digest),
                                                  .first = arena_copy(&x->keep, time),
                                                  .last = arena_copy(&x->keep, time),
                                                  .decisions = 1};
    return DONE;
}

static void put_cells(struct export_table *t, const struct json *event, const char *const *names)
{
    if (t->count++ >= EXPORT_ROWS_SHOWN) return;
    buf_put_literal(&t->rows, "<tr>");
    for (; *names != NULL; names++) {
        const struct json *v = json_get(event, str_from(*names));
        buf_put_literal(&t->rows, "<td>");
        if (v != NULL) page_put_text(&t->rows, json_is_string(v) ? v->string : v->raw);
    }
}

static void note_decision(struct export_content *e, const struct json *event)
{
    static const struct str names[] = {STR("allow"), STR("deny"), STR("human_review"),
                                       STR("compute")};
    size_t i = 0;
    struct str decision = json_text(event, STR("decision"));
    while (i < 4 && !str_equal(decision, names[i])) i++;
    e->decisions[i]++;
}

static void put_line(FILE *file, struct str text)
{
    print_str(file, text);
    (void)fputc('\n', file);
}

/* `seq` 0: a row without a stream. */
static int note_event(struct exporting *x, struct str bytes, uint64_t seq)
{
    static const char *const resolved[] = {"timestamp", "kind",    "resolved_by",     "proof",
                                           "action",    "user_id", "resolution_note", NULL};
    static const char *const read[] = {"timestamp", "actor", "key_id", "count", "reason", NULL};
    struct export_content *e = &x->content;
    struct json *event;
    if (json_read(bytes, NULL, &x->line, &event, NULL) != ERR_OK || !json_is_object(event))
        return DONE; /* the verifier names it */
    struct str kind = json_text(event, STR("kind"));
    if (str_equal(kind, STR("decision"))) {
        note_decision(e, event);
        return note_set(x, event);
    }
    if (seq == 0 && str_equal(kind, STR("audit.read"))) {
        put_line(x->readers, bytes);
        put_cells(&e->readers, event, read);
        return DONE;
    }
    bool is_resolved =
        str_equal(kind, STR("review.approved")) || str_equal(kind, STR("review.denied"));
    if (seq == 0 || !is_resolved) return DONE;
    struct str id = json_text(event, STR("event_id"));
    put_line(x->resolutions, bytes);
    put_cells(&e->resolutions, event, resolved);
    if (e->resolutions.count <= EXPORT_ROWS_SHOWN) {
        buf_put_literal(&e->resolutions.rows, "<td><a href=\"proofs/");
        page_put_text(&e->resolutions.rows, id);
        buf_printf(&e->resolutions.rows, ".json\">%llu</a>\n", (unsigned long long)seq);
    }
    if (x->waiting_count == AHEAD_MAX || e->resolutions.count > EXPORT_PROOFS_MAX)
        return full(x, "resolved reviews");
    x->waiting[x->waiting_count++] =
        (struct resolution){arena_copy(&x->run, id), arena_copy(&x->run, bytes), seq};
    return DONE;
}

/* ---- proofs ---- */

/* The key that signed the checkpoint; absent: none that is known. */
static struct str signer_of(struct exporting *x, struct str checkpoint)
{
    struct note n;
    struct checkpoint p;
    uint8_t bytes[(ED25519_KEY_BYTES + 2) / 3 * 3];
    size_t size;
    if (note_read(checkpoint, &n, NULL) != ERR_OK || checkpoint_read(n.text, &p, NULL) != ERR_OK ||
        !note_name_is_valid(p.origin))
        return (struct str){0};
    for (size_t i = 0; i < x->key_count; i++) {
        const struct known_public *k = &x->keys[i];
        if (!str_equal(k->node, x->node) || !str_equal(k->journal, x->journal) ||
            k->text.size != sizeof bytes / 3 * 4 || !base64_read(k->text, bytes, &size) ||
            size != ED25519_KEY_BYTES)
            continue;
        struct note_key key = note_key_of(p.origin, bytes);
        if (note_verify(&n, &key) == NOTE_SIGNED) return k->text;
    }
    return (struct str){0};
}

static int prove_one(struct exporting *x, const struct resolution *r, struct str key)
{
    static struct proof_maker m;
    uint8_t bytes[(FRONTIER_BYTES_MAX + 2) / 3 * 3];
    size_t size;
    struct frontier before;
    char name[128];
    const struct run_ahead *run = &x->now;
    if (run->frontier.size > sizeof bytes / 3 * 4 || !base64_read(run->frontier, bytes, &size) ||
        !frontier_read(str_of((const char *)bytes, size), &before) ||
        before.size != run->from - run->base || r->event_id.size > 64 ||
        memchr(r->event_id.bytes, '/', r->event_id.size) != NULL) {
        x->content.unproved++;
        return DONE;
    }
    proof_begin_inclusion(&m, r->seq - run->base, run->end + 1 - run->base);
    proof_skip(&m, x->hasher, &before);
    for (size_t i = 0; i < x->leaf_count; i++) proof_add(&m, x->hasher, &x->leaves[i]);
    const struct evidence_proof p = {r->event_id, x->node, x->journal, run->note, key,
                                     r->record,   r->seq,  run->base,  &m.proof};
    struct buf out;
    buf_init(&out, 4096, 4 << 20);
    evidence_put_proof(&out, &p);
    snprintf(name, sizeof name, "proofs/%.*s.json", STR_FORMAT(r->event_id));
    int code = out.overflow ? full(x, "bytes in a record") : write_file(x, name, buf_view(&out));
    buf_fini(&out);
    x->content.proofs++;
    return code;
}

/* The run has all its records: the resolutions in it are proved. */
static int end_run(struct exporting *x)
{
    int code = DONE;
    struct str key = signer_of(x, x->now.note);
    size_t left = 0;
    for (size_t i = 0; i < x->waiting_count && code == DONE; i++) {
        const struct resolution r = x->waiting[i];
        if (r.seq > x->now.end || str_is_absent(key))
            x->waiting[left++] = r;
        else if (r.seq < x->now.from)
            x->content.unproved++;
        else
            code = prove_one(x, &r, key);
    }
    x->waiting_count = left;
    x->now.end = 0;
    return code;
}

static int add_leaf(struct exporting *x, uint64_t seq, struct str bytes)
{
    for (size_t i = 0; i < x->ahead_count; i++) {
        if (x->ahead[i].from != seq) continue;
        x->now = x->ahead[i];
        x->ahead[i] = x->ahead[--x->ahead_count];
        x->leaf_count = 0;
        x->next = seq;
        break;
    }
    if (x->now.end == 0 || seq != x->next || x->leaf_count == LEAVES_MAX) return DONE;
    x->leaves[x->leaf_count++] = merkle_leaf(x->hasher, bytes);
    x->next++;
    return seq == x->now.end ? end_run(x) : DONE;
}

/* ---- lines ---- */

static int begin_stream(struct exporting *x, const struct evidence_line *l)
{
    struct export_content *e = &x->content;
    if (e->stream_count == EXPORT_LISTS_MAX) return full(x, "streams");
    x->node = arena_copy(&x->keep, l->node);
    x->journal = arena_copy(&x->keep, l->journal);
    e->streams[e->stream_count++] = (struct export_stream){.node = x->node, .journal = x->journal};
    e->unproved = e->unproved + x->waiting_count;
    x->ahead_count = x->waiting_count = 0;
    x->now.end = 0;
    arena_reset(&x->run);
    return DONE;
}

static int add_record(struct exporting *x, const struct evidence_line *l)
{
    struct export_stream *s = &x->content.streams[x->content.stream_count - 1];
    uint64_t seq = json_u64(l->head, STR("seq"), 0);
    if (s->records++ == 0) s->first = seq;
    s->last = seq;
    int code = note_event(x, l->event, seq);
    return code == DONE ? add_leaf(x, seq, l->event) : code;
}

static int add_to_stream(struct exporting *x, const struct evidence_line *l)
{
    bool is_same = x->content.stream_count > 0 && str_equal(x->node, l->node) &&
                   str_equal(x->journal, l->journal);
    int code = is_same ? DONE : begin_stream(x, l);
    if (code != DONE) return code;
    if (str_equal(l->kind, STR("record"))) return add_record(x, l);
    if (str_equal(l->kind, STR("quarantined")))
        return add_leaf(x, json_u64(l->head, STR("seq"), 0), l->event);
    if (!str_equal(l->kind, STR("checkpoint")) || x->ahead_count == AHEAD_MAX) return DONE;
    x->ahead[x->ahead_count++] =
        (struct run_ahead){.base = json_u64(l->head, STR("base"), 0),
                           .from = json_u64(l->head, STR("from_seq"), 0),
                           .end = json_u64(l->head, STR("end_seq"), 0),
                           .note = arena_copy(&x->run, json_text(l->head, STR("note"))),
                           .frontier = arena_copy(&x->run, json_text(l->head, STR("frontier")))};
    return DONE;
}

static int add_line(struct exporting *x, struct str line)
{
    struct evidence_line l;
    arena_reset(&x->line);
    if (!evidence_read(line, &x->line, &l))
        return cli_complain(x->c, REFUSED, "the platform's answer is no page of evidence");
    if (str_equal(l.kind, STR("evidence"))) {
        x->content.made_at = arena_copy(&x->keep, json_text(l.head, STR("made_at")));
        x->content.from = arena_copy(&x->keep, json_text(l.head, STR("from")));
        x->content.to = arena_copy(&x->keep, json_text(l.head, STR("to")));
    } else if (str_equal(l.kind, STR("key"))) {
        if (x->key_count == EXPORT_LISTS_MAX) return full(x, "keys");
        x->keys[x->key_count++] =
            (struct known_public){arena_copy(&x->keep, l.node), arena_copy(&x->keep, l.journal),
                                  arena_copy(&x->keep, json_text(l.head, STR("public_key")))};
    } else if (str_equal(l.kind, STR("policy"))) {
        return add_policy(x, &l);
    } else if (str_equal(l.kind, STR("own"))) {
        return note_event(x, l.event, 0);
    } else if (!str_equal(l.kind, STR("end"))) {
        return add_to_stream(x, &l);
    }
    return DONE;
}

/* ---- the run ---- */

static int make_folders(struct exporting *x)
{
    static const char *const names[] = {"", "/policies", "/proofs"};
    char path[PATH_MOST];
    for (size_t i = 0; i < 3; i++) {
        int size = snprintf(path, sizeof path, "%s%s", x->folder, names[i]);
        if (size < 0 || size >= PATH_MOST / 2)
            return cli_complain(x->c, USAGE, "--output: the path is too long");
        if (mkdir(path, 0700) != 0)
            return cli_complain(x->c, USAGE, "%s: %s; the folder must be a new one", path,
                                strerror(errno));
    }
    return DONE;
}

static int read_all(struct exporting *x)
{
    struct str line;
    int code = evidence_open(x->c, &x->source);
    if (code != DONE) return code;
    while ((code = evidence_next(&x->source, &line)) == DONE && !str_is_absent(line)) {
        put_line(x->evidence, line);
        if ((code = add_line(x, line)) != DONE) break;
    }
    evidence_close(&x->source);
    x->content.unproved += x->waiting_count;
    if (code == DONE && (x->keep.overflow || x->run.overflow)) code = full(x, "events to list");
    return code;
}

static int write_page(struct exporting *x)
{
    struct buf page;
    const struct export_content *e = &x->content;
    buf_init(&page, 64 << 10, PAGE_MOST);
    page_put(&page, e);
    bool is_full = page.overflow || e->resolutions.rows.overflow || e->readers.rows.overflow;
    int code = is_full ? full(x, "rows") : write_file(x, "index.html", buf_view(&page));
    buf_fini(&page);
    return code;
}

static int write_folder(struct exporting *x)
{
    int code = make_folders(x);
    if (code != DONE) return code;
    x->evidence = new_file(x, "evidence.ndjson");
    x->resolutions = new_file(x, "resolutions.ndjson");
    x->readers = new_file(x, "readers.ndjson");
    if (x->evidence == NULL || x->resolutions == NULL || x->readers == NULL) return USAGE;
    code = read_all(x);
    int closed = close_file(x, x->evidence, "evidence.ndjson");
    if (closed == DONE) closed = close_file(x, x->resolutions, "resolutions.ndjson");
    if (closed == DONE) closed = close_file(x, x->readers, "readers.ndjson");
    if (code == DONE) code = closed;
    if (code == DONE) code = write_sets(x);
    if (code == DONE) code = write_page(x);
    return code;
}

static int evidence_folder_export(struct cli *c, const struct arguments *a)
{
    static struct exporting x;
    struct str folder = argument_text(a, "output");
    if (str_is_empty(folder))
        return cli_complain(c, USAGE, "--output is needed: a new folder for the evidence");
    x = (struct exporting){.c = c, .folder = folder.bytes};
    int code = evidence_times(c, a, &x.source);
    if (code != DONE) return code;
    arena_init(&x.line, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    arena_init(&x.keep, AUDIT_PAGE_FIRST, KEEP_MOST);
    arena_init(&x.run, AUDIT_PAGE_FIRST, KEEP_MOST);
    buf_init(&x.content.resolutions.rows, 4096, ROWS_MOST);
    buf_init(&x.content.readers.rows, 4096, ROWS_MOST);
    x.hasher = hasher_create();
    x.leaves = calloc(LEAVES_MAX, sizeof *x.leaves);
    x.ahead = calloc(AHEAD_MAX, sizeof *x.ahead);
    x.waiting = calloc(AHEAD_MAX, sizeof *x.waiting);
    x.keys = calloc(EXPORT_LISTS_MAX, sizeof *x.keys);
    x.content.streams = calloc(EXPORT_LISTS_MAX, sizeof *x.content.streams);
    x.content.policies = calloc(EXPORT_LISTS_MAX, sizeof *x.content.policies);
    x.content.sets = calloc(EXPORT_LISTS_MAX, sizeof *x.content.sets);
    check(x.leaves != NULL && x.ahead != NULL && x.waiting != NULL && x.keys != NULL &&
          x.content.streams != NULL && x.content.policies != NULL && x.content.sets != NULL);
    code = write_folder(&x);
    if (code == DONE)
        fprintf(c->err, "%s: open index.html, and run verify.py %s\n", x.folder, x.folder);
    free(x.content.sets);
    free(x.content.policies);
    free(x.content.streams);
    free(x.keys);
    free(x.waiting);
    free(x.ahead);
    free(x.leaves);
    hasher_destroy(x.hasher);
    buf_fini(&x.content.readers.rows);
    buf_fini(&x.content.resolutions.rows);
    arena_fini(&x.run);
    arena_fini(&x.keep);
    arena_fini(&x.line);
    return code;
}

static const struct flag folder_flags[] = {
    {"from", "SPAN|TIME", "only records from this time on: 24h (ago), 2026-11-20, …"},
    {"to", "SPAN|TIME", "only records before this time"},
    {"output", "DIR", "a new folder"},
    {NULL, NULL, NULL}};

static const char folder_text[] =
    "Writes a folder for an auditor: the records with their checkpoints, the proofs of all resolved\n"
    "reviews, the texts of policies in force, who resolved what, and who read the trail. index.html\n"
    "lists and links it. ops/examples/evidence/verify.py DIR and writ audit verify --file DIR verify it\n"
    "offline. If the command fails, remove what it has written. It needs a key of an auditor of tenant *.";

const struct command evidence_commands[] = {
    {"evidence", "export", "", "write a folder for an auditor, which is verified offline",
     folder_text, folder_flags, 0, 0, evidence_folder_export},
    {NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL}};

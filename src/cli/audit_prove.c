/* audit_prove.c - `writ audit prove EVENT`: a file that shows one record to be in the tree that its
 * engine signed, without the other records (RFC 6962, 2.1.1). Three readings: which record it is, which
 * checkpoint is the first that covers it, and the leaves of that tree. */
#include <errno.h>
#include <stdlib.h>

#include "cli/audit.h"
#include "cli/evidence.h"
#include "crypto/base64.h"
#include "evidence/verify.h"

enum { ASIDES_MAX = 4096, NAME_MOST = 256, SCRATCH_MOST = 1 << 20 };

struct prove_run {
    struct cli *c;
    const char *path; /* NULL: the platform */
    struct str wanted;
    struct arena arena; /* of a line */
    struct hasher *hasher;
    struct buf scratch;
    bool is_found, is_covered, is_begun;
    char node[NAME_MOST + 1], journal[NAME_MOST + 1];
    uint64_t seq, base, end, next;
    struct buf record, note, key;
    struct proof_maker proof;
    struct verify_aside asides[ASIDES_MAX];
    size_t aside_count;
};

typedef int prove_line(struct prove_run *p, const struct evidence_line *l, bool *ret_is_over);

static int read_lines(struct prove_run *p, prove_line *each)
{
    struct evidence_source s = {.path = p->path};
    struct str line;
    struct evidence_line l;
    bool is_over = false;
    int code = evidence_open(p->c, &s);
    if (code != DONE) return code;
    if (p->is_found) evidence_seek(&s, str_from(p->node), str_from(p->journal));
    while (!is_over && (code = evidence_next(&s, &line)) == DONE && !str_is_absent(line)) {
        arena_reset(&p->arena);
        code = evidence_parse(&s, line, &p->arena, &l);
        if (code == DONE) code = each(p, &l, &is_over);
        if (code != DONE) break;
    }
    evidence_close(&s);
    return code;
}

static bool is_of_stream(const struct prove_run *p, const struct evidence_line *l)
{
    return str_equal(l->node, str_from(p->node)) && str_equal(l->journal, str_from(p->journal));
}

/* ---- which record ---- */

static int find_record(struct prove_run *p, const struct evidence_line *l, bool *ret_is_over)
{
    struct evidence_event e;
    bool is_own = str_equal(l->kind, STR("own"));
    if (!is_own && !str_equal(l->kind, STR("record"))) return DONE;
    if (is_own)
        evidence_own_event_read(l->event, &p->arena, p->hasher, &p->scratch, &e);
    else
        evidence_event_read(l->event, p->hasher, &p->scratch, &e);
    if (!str_equal(e.event_id, p->wanted)) return DONE;
    if (is_own)
        return cli_complain(p->c, REFUSED,
                            "%.*s is an event of the platform, or of another system: "
                            "it is in no engine's tree",
                            STR_FORMAT(p->wanted));
    if (l->node.size > NAME_MOST || l->journal.size > NAME_MOST) return REFUSED;
    memcpy(p->node, l->node.bytes, l->node.size);
    memcpy(p->journal, l->journal.bytes, l->journal.size);
    p->seq = json_u64(l->head, STR("seq"), 0);
    buf_put(&p->record, l->event);
    p->is_found = *ret_is_over = true;
    return DONE;
}

/* ---- which checkpoint ---- */

static int find_checkpoint(struct prove_run *p, const struct evidence_line *l, bool *ret_is_over)
{
    if (!is_of_stream(p, l)) return DONE;
    uint64_t seq = json_u64(l->head, STR("seq"), 0);
    *ret_is_over = str_equal(l->kind, STR("stream_end")) ||
                   (p->is_covered && str_equal(l->kind, STR("record")) && seq >= p->end);
    if (!str_equal(l->kind, STR("checkpoint"))) return DONE;
    uint64_t end = json_u64(l->head, STR("end_seq"), 0), base = json_u64(l->head, STR("base"), 0);
    if (base > p->seq || end < p->seq || (p->is_covered && end >= p->end)) return DONE;
    p->is_covered = true;
    p->base = p->next = base;
    p->end = end;
    buf_clear(&p->note);
    buf_put(&p->note, json_text(l->head, STR("note")));
    return DONE;
}

/* ---- the leaves ---- */

static void add_leaf(struct prove_run *p, uint64_t seq, const struct sha256 *leaf)
{
    if (seq != p->next || proof_is_complete(&p->proof)) return;
    proof_add(&p->proof, p->hasher, leaf);
    p->next++;
}

static void add_asides(struct prove_run *p, uint64_t below)
{
    for (size_t i = 0; i < p->aside_count; i++)
        if (p->asides[i].seq < below) add_leaf(p, p->asides[i].seq, &p->asides[i].leaf);
}

/* Where retention has dropped the beginning of the tree, its note has the frontier. */
static void skip_dropped(struct prove_run *p, struct str note)
{
    struct verify_removal r;
    if (!verify_read_removal(note, &r) || !r.has_tree) return;
    if (r.base != p->base || r.last >= p->seq || r.last < p->next) return;
    proof_begin_inclusion(&p->proof, p->seq - p->base, p->end + 1 - p->base);
    proof_skip(&p->proof, p->hasher, &r.frontier);
    p->next = r.last + 1;
}

static int add_line(struct prove_run *p, const struct evidence_line *l, bool *ret_is_over)
{
    if (!is_of_stream(p, l)) return DONE;
    uint64_t seq = json_u64(l->head, STR("seq"), 0);
    if (str_equal(l->kind, STR("removal"))) {
        if (p->is_begun) return DONE; /* the notes come again at the stream's end */
        skip_dropped(p, json_text(l->head, STR("note")));
        return DONE;
    }
    *ret_is_over = str_equal(l->kind, STR("stream_end")) || proof_is_complete(&p->proof);
    bool is_record = str_equal(l->kind, STR("record"));
    if (*ret_is_over || (!is_record && !str_equal(l->kind, STR("quarantined")))) return DONE;
    struct sha256 leaf = merkle_leaf(p->hasher, l->event);
    p->is_begun = true;
    if (is_record) {
        add_asides(p, seq);
        add_leaf(p, seq, &leaf);
    } else if (seq >= p->next && p->aside_count < ASIDES_MAX) {
        p->asides[p->aside_count++] = (struct verify_aside){seq, leaf};
    }
    return DONE;
}

static int find_key(struct prove_run *p, const struct evidence_line *l, bool *ret_is_over)
{
    *ret_is_over = !str_equal(l->kind, STR("key")) && !str_equal(l->kind, STR("evidence"));
    if (str_equal(l->kind, STR("key")) && is_of_stream(p, l)) {
        buf_clear(&p->key);
        buf_put(&p->key, json_text(l->head, STR("public_key")));
    }
    return DONE;
}

/* ---- the file ---- */

static int write_proof(struct prove_run *p, struct str path)
{
    struct buf out;
    const struct evidence_proof proof = {.event_id = p->wanted,
                                         .node = str_from(p->node),
                                         .journal = str_from(p->journal),
                                         .checkpoint = buf_view(&p->note),
                                         .public_key = buf_view(&p->key),
                                         .record = buf_view(&p->record),
                                         .seq = p->seq,
                                         .base = p->base,
                                         .hashes = &p->proof.proof};
    buf_init(&out, 4096, 4 << 20);
    evidence_put_proof(&out, &proof);
    FILE *file =
        str_is_absent(path) || str_equal(path, STR("-")) ? p->c->out : fopen(path.bytes, "wxe");
    int code = DONE;
    if (file == NULL) {
        code = cli_complain(p->c, USAGE, "%s: %s", path.bytes, strerror(errno));
    } else {
        print_str(file, buf_view(&out));
        if (file != p->c->out && fclose(file) != 0)
            code = cli_complain(p->c, REFUSED, "%s: %s", path.bytes, strerror(errno));
    }
    buf_fini(&out);
    return code;
}

static int prove(struct prove_run *p, struct str path)
{
    int code = read_lines(p, find_record);
    if (code == DONE && !p->is_found)
        return cli_complain(p->c, REFUSED, "no record has the event_id %.*s",
                            STR_FORMAT(p->wanted));
    if (code == DONE) code = read_lines(p, find_checkpoint);
    if (code == DONE && !p->is_covered)
        return cli_complain(p->c, REFUSED, "record %llu of %s is not covered by a checkpoint",
                            (unsigned long long)p->seq, p->node);
    if (code != DONE) return code;
    proof_begin_inclusion(&p->proof, p->seq - p->base, p->end + 1 - p->base);
    code = read_lines(p, add_line);
    add_asides(p, p->end + 1);
    if (code == DONE && !proof_is_complete(&p->proof))
        return cli_complain(p->c, REFUSED,
                            "record %llu of %s is not here, so the tree cannot be "
                            "computed: writ audit verify has more",
                            (unsigned long long)p->next, p->node);
    p->is_found = false; /* keys come before the streams */
    if (code == DONE) code = read_lines(p, find_key);
    return code == DONE ? write_proof(p, path) : code;
}

int audit_prove(struct cli *c, const struct arguments *a)
{
    static struct prove_run p;
    struct str file = argument_text(a, "file");
    p = (struct prove_run){
        .c = c, .path = str_is_absent(file) ? NULL : file.bytes, .wanted = argument_at(a, 0)};
    arena_init(&p.arena, AUDIT_PAGE_FIRST, AUDIT_PAGE_MOST);
    buf_init(&p.scratch, 4096, SCRATCH_MOST);
    buf_init(&p.record, 4096, SCRATCH_MOST);
    buf_init(&p.note, 4096, SCRATCH_MOST);
    buf_init(&p.key, 64, 4096);
    p.hasher = hasher_create();
    int code = prove(&p, argument_text(a, "output"));
    hasher_destroy(p.hasher);
    buf_fini(&p.key);
    buf_fini(&p.note);
    buf_fini(&p.record);
    buf_fini(&p.scratch);
    arena_fini(&p.arena);
    return code;
}

const struct flag prove_flags[] = {
    {"file", "FILE", "from this evidence file, without a platform"},
    {"output", "FILE", "into this new file (default, or -: standard output)"},
    {NULL, NULL, NULL}};

const char prove_text[] =
    "Writes a proof: the record, the hashes that lead from it to the root of its tree, and the\n"
    "checkpoint that its engine signed. ops/examples/evidence/verify.py --proof FILE checks it.";

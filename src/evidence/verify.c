#include "evidence/verify.h"

#include <stdlib.h>

#include "base/check.h"
#include "crypto/base64.h"
#include "evidence/checkpoint.h"

const char *verify_kind_name(enum verify_kind k)
{
    static const char *const names[VERIFY_KIND_COUNT] = {
        [VERIFY_ALTERED] = "altered",
        [VERIFY_MISSING] = "missing",
        [VERIFY_TAIL] = "removed tail",
        [VERIFY_ORDER] = "out of order",
        [VERIFY_SECOND] = "second history",
        [VERIFY_FORGED_CHECKPOINT] = "forged checkpoint",
        [VERIFY_FORGED_REMOVAL] = "forged removal",
        [VERIFY_FORGED_FRONTIER] = "forged frontier",
        [VERIFY_NO_KEY] = "no key",
        [VERIFY_NO_CHECKPOINT] = "no checkpoint",
        [VERIFY_OLDER] = "older database",
        [VERIFY_BEYOND] = "beyond the position",
        [VERIFY_FORGED_WITNESS] = "forged witness",
        [VERIFY_NO_WITNESS] = "not witnessed"};
    return names[k];
}

static void find(struct verify *h, enum verify_kind kind, uint64_t first, uint64_t last,
                 const char *text)
{
    const struct verify_finding f = {kind, first, last, text};
    h->tell(h->context, &f);
}

/* One more element for a list; false: it has as many as it may have. */
static bool grow(void **list, size_t count, size_t *room, size_t most, size_t size)
{
    if (count < *room) return true;
    if (*room >= most) return false;
    size_t wider = *room == 0 ? 16 : 2 * *room;
    void *moved = realloc(*list, wider * size);
    if (moved == NULL) return false;
    *list = moved;
    *room = wider;
    return true;
}

/* ---- names ---- */

static void put_encoded(struct buf *to, struct str name)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < name.size; i++) {
        unsigned char c = (unsigned char)name.bytes[i];
        bool plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                     (c != '\0' && strchr("-._~", c) != NULL);
        if (plain) {
            buf_put_byte(to, (char)c);
        } else {
            buf_put_byte(to, '%');
            buf_put_byte(to, digits[c >> 4]);
            buf_put_byte(to, digits[c & 15]);
        }
    }
}

bool verify_name(struct str node, struct str journal, struct buf *to)
{
    buf_put_literal(to, "writ/");
    put_encoded(to, node);
    buf_put_byte(to, '/');
    put_encoded(to, journal);
    return !to->overflow;
}

/* ---- begin and end ---- */

void verify_init(struct verify *h, struct str node, struct str journal, verify_tell *tell,
                 void *context)
{
    *h = (struct verify){
        .node = node, .journal = journal, .tell = tell, .context = context, .first = 1, .next = 1};
    h->hasher = hasher_create();
}

void verify_set_range(struct verify *h, uint64_t first, uint64_t last)
{
    check(h->next == 1 && h->records == 0 && h->hole_count == 0);
    h->first = h->next = first > 0 ? first : 1;
    h->last = last;
}

void verify_fini(struct verify *h)
{
    hasher_destroy(h->hasher);
    free(h->removals);
    for (size_t i = h->marks.first; i < h->marks.count; i++) free(h->marks.list[i].frontier);
    free(h->marks.list);
    free(h->anchors.list);
    free(h->witnessed.list);
    free(h->holes);
    free(h->asides.list);
    *h = (struct verify){0};
}

enum err verify_add_key(struct verify *h, const uint8_t public_key[ED25519_KEY_BYTES],
                        uint64_t distrusted_from)
{
    if (h->key_count == VERIFY_KEYS_MAX) return ERR_FULL;
    h->distrusted_from[h->key_count] = distrusted_from;
    memcpy(h->keys[h->key_count++].public_key, public_key, ED25519_KEY_BYTES);
    return ERR_OK;
}

enum err verify_add_platform(struct verify *h, const struct note_key *k)
{
    if (h->platform_count == VERIFY_KEYS_MAX) return ERR_FULL;
    h->platforms[h->platform_count++] = *k;
    return ERR_OK;
}

enum err verify_add_witness(struct verify *h, const struct note_key *k)
{
    if (h->witness_count == VERIFY_WITNESSES_MAX) return ERR_FULL;
    h->witnesses[h->witness_count++] = (struct verify_witness){.key = *k};
    return ERR_OK;
}

/* ---- checkpoints ---- */

/* Whether a registered key signed it, under the name of its tree. */
static bool is_signed(struct verify *h, const struct note *n, struct str origin, uint64_t end)
{
    if (!note_name_is_valid(origin)) return false;
    for (size_t i = 0; i < h->key_count; i++) {
        if (h->distrusted_from[i] > 0 && end >= h->distrusted_from[i]) continue;
        struct note_key k = note_key_of(origin, h->keys[i].public_key);
        if (note_verify(n, &k) == NOTE_SIGNED) return true;
    }
    return false;
}

/* The base at the end of writ/NODE/JOURNAL/BASE, if it is of this stream. */
static bool read_origin(const struct verify *h, struct str origin, uint64_t *ret_base)
{
    char room[VERIFY_NAME_MAX];
    struct buf name = buf_over(room, sizeof room);
    if (!verify_name(h->node, h->journal, &name)) return false;
    buf_put_byte(&name, '/');
    if (name.overflow || !str_starts(origin, buf_view(&name))) return false;
    struct str base = str_skip(origin, name.size);
    return base.size > 0 && base.bytes[0] != '0' && str_to_u64(base, ret_base);
}

static bool read_frontier(struct str digits, struct frontier *ret)
{
    uint8_t bytes[(FRONTIER_BYTES_MAX + 2) / 3 * 3];
    size_t size;
    return digits.size <= sizeof bytes / 3 * 4 && base64_read(digits, bytes, &size) &&
           frontier_read(str_of((const char *)bytes, size), ret);
}

/* Takes the mark's frontier. */
static void insert_mark(struct verify *h, struct verify_marks *marks, const struct verify_mark *m)
{
    if (marks->first > 0 && marks->count == marks->room) {
        marks->count -= marks->first;
        memmove(marks->list, marks->list + marks->first, marks->count * sizeof *m);
        marks->first = 0;
    }
    size_t at = marks->count;
    while (at > marks->first && marks->list[at - 1].end > m->end) at--;
    for (size_t i = at; i > marks->first && marks->list[i - 1].end == m->end; i--) {
        struct verify_mark *o = &marks->list[i - 1];
        if (o->base != m->base || o->witness != m->witness || !sha256_equal(&o->root, &m->root))
            continue;
        if (o->time[0] == '\0') memcpy(o->time, m->time, sizeof o->time);
        free(m->frontier);
        return; /* the same once more */
    }
    if (!grow((void **)&marks->list, marks->count, &marks->room, VERIFY_AHEAD_MAX, sizeof *m)) {
        if (!h->is_full)
            find(h, VERIFY_FORGED_CHECKPOINT, m->from, m->end,
                 "there are too many checkpoints ahead of their records");
        h->is_full = true;
        free(m->frontier);
        return;
    }
    memmove(marks->list + at + 1, marks->list + at, (marks->count - at) * sizeof *m);
    marks->list[at] = *m;
    marks->count++;
}

/* NULL: it is good. */
static const char *read_mark(struct verify *h, const struct verify_checkpoint *c,
                             struct verify_mark *ret)
{
    struct note n;
    struct checkpoint p;
    uint64_t base = 0;
    *ret = (struct verify_mark){.is_anchor = c->is_anchor, .from = c->from};
    if (c->time.size > 0 && c->time.size < sizeof ret->time)
        memcpy(ret->time, c->time.bytes, c->time.size);
    if (note_read(c->note, &n, NULL) != ERR_OK || checkpoint_read(n.text, &p, NULL) != ERR_OK)
        return "it is not a checkpoint";
    if (!read_origin(h, p.origin, &base) || p.extensions.size > 0)
        return "its text is of another stream";
    if (p.size == 0 || p.size > INT64_MAX - base) return "its size is impossible";
    ret->base = base;
    ret->end = base + p.size - 1;
    ret->root = p.root;
    if (!is_signed(h, &n, p.origin, ret->end))
        return "no registered key signed it that counts for these records";
    h->has_signed = true;
    if (h->first_base == 0 || base < h->first_base) h->first_base = base;
    if (c->is_anchor) return NULL;
    if (c->base != base || c->end != ret->end) return "its columns are not those of its text";
    ret->frontier = malloc(sizeof *ret->frontier);
    if (ret->frontier == NULL) return "there is no memory for its frontier";
    if (c->from < base || c->from > ret->end + 1 || !read_frontier(c->frontier, ret->frontier) ||
        ret->frontier->size != c->from - base)
        return "its frontier is not one before its records";
    return NULL;
}

/* What the witnesses have signed of a checkpoint that is good. */
static void add_witnessed(struct verify *h, struct str bytes, const struct verify_mark *checkpoint)
{
    struct verify_mark m = *checkpoint;
    struct note n;
    if (h->witness_count == 0 || note_read(bytes, &n, NULL) != ERR_OK) return;
    m.frontier = NULL;
    for (m.witness = 0; m.witness < h->witness_count; m.witness++) {
        enum note_verdict verdict =
            note_verify_witness(&n, &h->witnesses[m.witness].key, &m.time_s);
        if (verdict == NOTE_FORGED)
            find(h, VERIFY_FORGED_WITNESS, m.from, m.end,
                 "a signature below the checkpoint names the witness, and is another's");
        else if (verdict == NOTE_SIGNED)
            insert_mark(h, &h->witnessed, &m);
    }
}

void verify_add_checkpoint(struct verify *h, const struct verify_checkpoint *c)
{
    struct verify_mark m;
    if (h->key_count == 0) return; /* one finding for the stream is enough */
    const char *wrong = read_mark(h, c, &m);
    if (wrong != NULL && !c->is_anchor) find(h, VERIFY_FORGED_CHECKPOINT, c->from, c->end, wrong);
    if (wrong != NULL || m.end < h->next || (h->last > 0 && m.end > h->last)) {
        free(m.frontier);
        return;
    }
    add_witnessed(h, c->note, &m);
    insert_mark(h, c->is_anchor ? &h->anchors : &h->marks, &m);
    if (!c->is_anchor && m.from >= h->next && (h->open_at == 0 || m.from < h->open_at))
        h->open_at = m.from;
}

/* ---- notes of removal ---- */

static bool take(struct str *text, char end, struct str *ret)
{
    size_t at = str_find(*text, end);
    if (at == text->size) return false;
    *ret = str_of(text->bytes, at);
    *text = str_skip(*text, at + 1);
    return true;
}

/* The lines after the name of the stream. */
static bool read_removal(struct str text, struct verify_removal *ret)
{
    struct str kind, first, last, time, base, frontier;
    *ret = (struct verify_removal){0};
    if (!take(&text, '\n', &kind) || !take(&text, ' ', &first) || !take(&text, '\n', &last) ||
        !take(&text, '\n', &time) || time.size >= sizeof ret->time)
        return false;
    ret->is_gap = str_equal(kind, STR("gap"));
    if (!ret->is_gap && !str_equal(kind, STR("retention"))) return false;
    memcpy(ret->time, time.bytes, time.size);
    if (!str_to_u64(first, &ret->first) || !str_to_u64(last, &ret->last) || ret->first == 0 ||
        ret->last < ret->first)
        return false;
    if (text.size == 0) return true;
    ret->has_tree = take(&text, ' ', &base) && take(&text, '\n', &frontier) && text.size == 0 &&
                    str_to_u64(base, &ret->base) && base.size > 0 &&
                    read_frontier(frontier, &ret->frontier) &&
                    ret->frontier.size == ret->last + 1 - ret->base;
    return ret->has_tree;
}

bool verify_read_removal(struct str bytes, struct verify_removal *ret)
{
    struct note n;
    struct str name;
    return note_read(bytes, &n, NULL) == ERR_OK && take(&n.text, '\n', &name) &&
           read_removal(n.text, ret);
}

/* Whether the first line of the note names this stream. */
static bool is_named(const struct verify *h, struct str text)
{
    char room[VERIFY_NAME_MAX];
    struct buf name = buf_over(room, sizeof room);
    return verify_name(h->node, h->journal, &name) &&
           str_equal(str_of(text.bytes, str_find(text, '\n')), buf_view(&name));
}

void verify_add_removal(struct verify *h, uint64_t number, struct str bytes)
{
    struct note n;
    struct verify_removal r;
    if (number <= h->removal_number) return;
    h->removal_number = number;
    if (note_read(bytes, &n, NULL) != ERR_OK || !is_named(h, n.text) ||
        !verify_read_removal(bytes, &r)) {
        find(h, VERIFY_FORGED_REMOVAL, 0, 0,
             "it is not a note about removed records of this stream");
        return;
    }
    bool is_good = false;
    for (size_t i = 0; i < h->platform_count && !is_good; i++)
        is_good = note_verify(&n, &h->platforms[i]) == NOTE_SIGNED;
    if (!is_good) {
        find(h, VERIFY_FORGED_REMOVAL, r.first, r.last, "the platform's key did not sign it");
        return;
    }
    if (!grow((void **)&h->removals, h->removal_count, &h->removal_room, VERIFY_RANGES_MAX,
              sizeof r)) {
        find(h, VERIFY_FORGED_REMOVAL, r.first, r.last, "there are too many notes of removal");
        return;
    }
    h->removals[h->removal_count++] = r;
}

/* ---- records ---- */

static bool same_frontier(const struct frontier *a, const struct frontier *b)
{
    size_t roots = (size_t)__builtin_popcountll(a->size);
    return a->size == b->size && memcmp(a->roots, b->roots, roots * SHA256_BYTES) == 0;
}

static void open_mark(struct verify *h, struct verify_mark *m)
{
    const struct verify_tree t = {true, m->base, m->from, *m->frontier};
    m->is_opened = true;
    if (!h->tree.is_known || h->tree.base != m->base)
        h->tree = t;
    else if (!same_frontier(&h->tree.frontier, m->frontier))
        h->other = t;
}

/* Checkpoints whose first new record comes now. */
static void open_marks(struct verify *h)
{
    if (h->open_at == 0 || h->open_at > h->next) return;
    h->open_at = 0;
    for (size_t i = h->marks.first; i < h->marks.count; i++) {
        struct verify_mark *m = &h->marks.list[i];
        if (m->is_opened || m->from < h->next) continue;
        if (m->from == h->next)
            open_mark(h, m);
        else if (h->open_at == 0 || m->from < h->open_at)
            h->open_at = m->from;
    }
}

static bool has_root(struct verify *h, const struct verify_tree *t, const struct verify_mark *m)
{
    if (!t->is_known || t->base != m->base) return false;
    struct sha256 root = frontier_root(&t->frontier, h->hasher);
    return sha256_equal(&root, &m->root);
}

/* The signed root agrees: so do all records that were read into the tree. */
static void agree(struct verify *h, uint64_t end)
{
    uint64_t first = h->tree.start;
    if (h->good_end >= end) return;
    if (h->good_end == 0 || first > h->good_end + 1) h->good_from = first;
    if (first <= h->good_end) first = h->good_end + 1;
    h->covered += end + 1 - first;
    h->good_end = end;
}

static void disagree(struct verify *h, const struct verify_mark *m)
{
    uint64_t first = h->tree.start > h->good_end ? h->tree.start : h->good_end + 1;
    if (!h->tree.is_known ||
        h->tree.base != m->base) { /* not readable, because of a hole perhaps */
        if (m->is_anchor) h->unread_end = m->end;
        return;
    }
    h->refuted_end = m->end;
    if (m->is_anchor) {
        find(h, VERIFY_SECOND, m->base, m->end, "an anchor has another root for these records");
        return;
    }
    find(h, VERIFY_ALTERED, first, m->end, "the records do not have the signed root");
    h->tree.is_known = h->other.is_known = false;
}

static void meet(struct verify *h, const struct verify_mark *m)
{
    bool is_other = h->other.is_known && h->other.base == m->base && m->is_opened;
    if (has_root(h, &h->tree, m)) {
        if (is_other)
            find(h, VERIFY_FORGED_FRONTIER, m->from, m->end,
                 "the stored frontier of a checkpoint is not that of the records before it");
        h->other.is_known = false;
        agree(h, m->end);
    } else if (has_root(h, &h->other, m)) {
        bool is_proved = h->good_from <= h->other.start - 1 && h->good_end >= h->other.start - 1;
        if (is_proved)
            find(h, VERIFY_SECOND, m->is_anchor ? m->base : m->from, m->end,
                 "it continues another history than the checkpoint before it");
        else
            find(h, VERIFY_ALTERED, h->tree.start > h->good_end ? h->tree.start : h->good_end + 1,
                 h->other.start - 1, "the records do not have the root that was signed later");
        h->tree = h->other;
        h->other.is_known = false;
        agree(h, m->end);
    } else {
        disagree(h, m);
        return;
    }
    if (!m->is_anchor || m->end < h->anchored_end) return;
    h->anchored_end = m->end;
    memcpy(h->anchored_time, m->time, sizeof h->anchored_time);
}

/* Those that end before `seq` go by: their last record is not here. */
static void meet_all(struct verify *h, struct verify_marks *marks, uint64_t seq)
{
    for (; marks->first < marks->count && marks->list[marks->first].end <= seq; marks->first++) {
        struct verify_mark *m = &marks->list[marks->first];
        if (m->end == seq) meet(h, m);
        free(m->frontier);
    }
}

static void meet_marks(struct verify *h, uint64_t seq)
{
    meet_all(h, &h->marks, seq);
    meet_all(h, &h->anchors, seq);
    struct verify_marks *w = &h->witnessed;
    for (; w->first < w->count && w->list[w->first].end <= seq; w->first++) {
        const struct verify_mark *m = &w->list[w->first];
        if (m->end != seq || !has_root(h, &h->tree, m)) continue;
        h->witnesses[m->witness].end = m->end;
        h->witnesses[m->witness].time_s = m->time_s;
    }
}

/* An anchor has no frontier, and at its base it needs none. */
static void open_anchor(struct verify *h)
{
    if (h->tree.is_known || h->anchors.first == h->anchors.count) return;
    if (h->anchors.list[h->anchors.first].base == h->next)
        h->tree = (struct verify_tree){.is_known = true, .base = h->next, .start = h->next};
}

static void append(struct verify *h, uint64_t seq, const struct sha256 *leaf)
{
    open_marks(h);
    open_anchor(h);
    if (h->tree.is_known) frontier_append(&h->tree.frontier, h->hasher, leaf);
    if (h->other.is_known) frontier_append(&h->other.frontier, h->hasher, leaf);
    h->next = seq + 1;
    meet_marks(h, seq);
}

static void note_hole(struct verify *h, uint64_t first, uint64_t last)
{
    h->tree.is_known = h->other.is_known = false;
    for (size_t i = 0; i < h->removal_count; i++) {
        const struct verify_removal *r = &h->removals[i];
        if (r->has_tree && r->last == last)
            h->tree = (struct verify_tree){true, r->base, last + 1, r->frontier};
    }
    h->next = last + 1;
    uint64_t unread = h->unread_end;
    meet_marks(h, last);
    h->unread_end = unread; /* without its records no anchor can be read */
    if (grow((void **)&h->holes, h->hole_count, &h->hole_room, VERIFY_RANGES_MAX, sizeof *h->holes))
        h->holes[h->hole_count++] = (struct verify_range){first, last};
    else
        find(h, VERIFY_MISSING, first, last, "there are too many holes to remember");
}

void verify_add_aside(struct verify *h, uint64_t seq, const struct sha256 *leaf)
{
    struct verify_asides *a = &h->asides;
    if (seq < h->next) return;
    if (a->first > 0 && a->count == a->room) {
        a->count -= a->first;
        memmove(a->list, a->list + a->first, a->count * sizeof *a->list);
        a->first = 0;
    }
    if (!grow((void **)&a->list, a->count, &a->room, VERIFY_ASIDES_MAX, sizeof *a->list)) {
        find(h, VERIFY_MISSING, seq, seq, "there are too many records in quarantine to remember");
        return;
    }
    size_t at = a->count;
    while (at > a->first && a->list[at - 1].seq > seq) at--;
    memmove(a->list + at + 1, a->list + at, (a->count - at) * sizeof *a->list);
    a->list[at] = (struct verify_aside){seq, *leaf};
    a->count++;
}

/* The first one in quarantine that comes next; NULL: none below `end`. */
static const struct verify_aside *next_aside(struct verify *h, uint64_t end)
{
    struct verify_asides *a = &h->asides;
    while (a->first < a->count && a->list[a->first].seq < h->next) a->first++;
    return a->first < a->count && a->list[a->first].seq < end ? &a->list[a->first] : NULL;
}

/* Up to the record `end` (exclusive), with what is in quarantine; the rest are holes. */
static void fill(struct verify *h, uint64_t end)
{
    const struct verify_aside *near;
    while ((near = next_aside(h, end)) != NULL) {
        if (near->seq > h->next) note_hole(h, h->next, near->seq - 1);
        append(h, near->seq, &near->leaf);
    }
    if (h->next < end) note_hole(h, h->next, end - 1);
}

void verify_add_record(struct verify *h, uint64_t seq, const struct sha256 *leaf)
{
    if (seq < h->next) {
        find(h, VERIFY_ORDER, seq, seq, "the record comes twice, or not in its place");
        return;
    }
    if (seq > h->next) fill(h, seq);
    append(h, seq, leaf);
    h->records++;
}

/* ---- the end ---- */

/* The rest of a hole after the part from its first record on that a note names. */
static uint64_t after_removals(struct verify *h, uint64_t first, uint64_t last)
{
    for (bool moved = true; moved && first <= last;) {
        moved = false;
        for (size_t i = 0; i < h->removal_count && first <= last; i++) {
            const struct verify_removal *r = &h->removals[i];
            if (r->first > first || r->last < first) continue;
            uint64_t to = r->last < last ? r->last : last;
            if (r->is_gap) {
                h->given_up += to - first + 1;
            } else {
                h->dropped += to - first + 1;
                if (to >= h->dropped_last) {
                    memcpy(h->dropped_time, r->time, sizeof h->dropped_time);
                    h->dropped_last = to;
                }
            }
            first = to + 1;
            moved = true;
        }
    }
    return first;
}

/* The next record from `first` on that a note names, or last + 1. */
static uint64_t next_removal(const struct verify *h, uint64_t first, uint64_t last)
{
    uint64_t next = last + 1;
    for (size_t i = 0; i < h->removal_count; i++)
        if (h->removals[i].first > first && h->removals[i].first < next)
            next = h->removals[i].first;
    return next;
}

static void settle_hole(struct verify *h, struct verify_range hole, enum verify_kind kind)
{
    uint64_t first = hole.first;
    while ((first = after_removals(h, first, hole.last)) <= hole.last) {
        uint64_t end = next_removal(h, first, hole.last);
        /* what is from before the first tree, nothing has signed */
        if (h->first_base == 0 || end > h->first_base)
            find(h, kind,
                 first > h->first_base ? first
                 : h->first_base > 0   ? h->first_base
                                       : first,
                 end - 1, "no note of removal names these records");
        first = end;
    }
}

void verify_finish(struct verify *h, uint64_t position)
{
    uint64_t last = position > 0 ? position - 1 : h->last, anchored = 0;
    if (next_aside(h, UINT64_MAX) != NULL) fill(h, h->asides.list[h->asides.count - 1].seq + 1);
    if (h->marks.count > h->marks.first && h->marks.list[h->marks.count - 1].end > last)
        last = h->marks.list[h->marks.count - 1].end;
    if (h->anchors.count > h->anchors.first) anchored = h->anchors.list[h->anchors.count - 1].end;
    if (position > 0 && h->next > position)
        find(h, VERIFY_BEYOND, position, h->next - 1,
             "the stream's position is below these records");
    if (anchored > last && anchored >= h->next)
        find(h, VERIFY_OLDER, h->next, anchored,
             "an anchor names these records, and neither they nor their checkpoint are here");
    for (size_t i = 0; i < h->hole_count; i++) settle_hole(h, h->holes[i], VERIFY_MISSING);
    if (last >= h->next) settle_hole(h, (struct verify_range){h->next, last}, VERIFY_TAIL);
    if (h->unread_end > h->good_end && h->unread_end > h->refuted_end)
        find(h, VERIFY_NO_CHECKPOINT, h->good_end + 1, h->unread_end,
             "an anchor covers these records, and no checkpoint here leads to it");
    uint64_t first = h->next > h->first ? h->first : 0;
    for (size_t i = 0; i < h->witness_count && h->records > 0; i++)
        if (h->witnesses[i].end == 0)
            find(h, VERIFY_NO_WITNESS, first, h->next - 1,
                 "no checkpoint that leads to these records has the signature of the witness");
    if (h->key_count == 0)
        find(h, VERIFY_NO_KEY, first, h->next - 1,
             "no key is registered for this stream: any program may have written it");
    else if (!h->has_signed)
        find(h, VERIFY_NO_CHECKPOINT, first, h->next - 1,
             "a key is registered for this stream, and no checkpoint is here");
}

/* sim_journal.c - the journal's own objects over a disk that loses power.
 *
 *   sim_journal [--seeds N] [--from S] [--lives L] [--verbose]
 *
 * One seed is one data directory and several lives. In each life producers append and seal, the
 * journal writer's steps run in chance order, and the disk dies in a chance operation: by a power cut or by
 * the end of the process alone. Then recovery runs, sometimes dying itself, and what it gives is
 * held against what the producers were told:
 *
 *   - everything of former lives is there, byte for byte, in order, with its seq;
 *   - each producer's records of this life are there as a prefix: none doubled, none invented, none
 *     out of order, none that was not sealed;
 *   - whose durable mark had moved is there after a power cut; whose written mark had moved is
 *     there after a kill;
 *   - what a cursor had given is there;
 *   - a second recovery of the same bytes gives the same, however often the first one died;
 *   - damage to a frame at or below the highest durable seq told on disk is refused; damage above
 *     it costs nothing at or below it, and never invents a record.
 *
 * It ends with what happened how often; a kind that never happened is a failure of this test. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/log.h"
#include "journal/inside.h"
#include "sim/sim_disk.h"

enum { PRODUCERS = 3, SEGMENT = 1 << 20 };

struct told { /* a record that a producer committed in this life */
    uint64_t name, mark;
    bool sealed;
};

struct names {
    uint64_t *all;
    size_t count, capacity;
};

struct producer_story {
    struct told *all;
    size_t count, capacity;
    uint64_t written, durable; /* marks, as they were when the disk died */
};

struct story {
    uint64_t seed;
    struct chance_source chance;
    struct sim_disk *disk;
    struct sim_counts counts;
    uint64_t life, clock_ms, serial;
    bool heavy; /* this life fills segments */

    struct names base; /* records that a former life made sure, by seq - base_first */
    uint64_t base_first;
    uint64_t confirmed;
    struct producer_story producers[PRODUCERS];
    unsigned producer_count;
    struct journal *journal;
    struct names read; /* by the cursor, in this life */
    uint64_t read_first;
};

static struct sums {
    struct sim_counts disk;
    uint64_t records, recoveries, recoveries_cut, cut_tails, damages, refused, harmless, rewrites;
    uint64_t segments, removed, full, starved, clean, claims, read;
} sums;

static _Noreturn void fail(const struct story *t, const char *what)
{
    printf("FAIL seed %" PRIu64 " life %" PRIu64 ": %s\n", t->seed, t->life, what);
    exit(1);
}

static void must(const struct story *t, bool holds, const char *what)
{
    if (!holds) fail(t, what);
}

static void names_add(struct names *n, uint64_t name)
{
    if (n->count == n->capacity) {
        n->capacity = n->capacity == 0 ? 256 : 2 * n->capacity;
        n->all = realloc(n->all, n->capacity * sizeof *n->all);
        check(n->all != NULL);
    }
    n->all[n->count++] = name;
}

static bool names_equal(const struct names *a, const struct names *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->all, b->all, a->count * sizeof *a->all) == 0);
}

/* ---- records: the name is in the first bytes, all others follow from it ---- */

/* name: serial << 20 | producer << 16 | public size */
static uint64_t name_make(uint64_t serial, unsigned producer, size_t size)
{
    return serial << 20 | (uint64_t)producer << 16 | (uint64_t)size;
}

static unsigned name_producer(uint64_t name) { return (unsigned)(name >> 16 & 15); }
static size_t name_public_size(uint64_t name) { return (size_t)(name & 0xFFFF); }
static size_t name_private_size(uint64_t name) { return (size_t)(name >> 20) % 90; }

static void fill_bytes(char *to, size_t size, uint64_t name)
{
    struct chance_source c = {.state = name};
    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = chance_next(&c);
        memcpy(to + at, &word, size - at < 8 ? size - at : 8);
    }
}

static void record_write(char *to, uint64_t name)
{
    size_t size = name_public_size(name);
    memcpy(to, &name, sizeof name);
    fill_bytes(to + sizeof name, size - sizeof name, name);
    fill_bytes(to + size, name_private_size(name), ~name);
}

static uint64_t record_name(const struct story *t, const struct journal_record *r)
{
    static char expected[LIMIT_RECORD_BYTES];
    uint64_t name;
    must(t, r->public_bytes.size >= sizeof name, "a record too short to be ours came back");
    memcpy(&name, r->public_bytes.bytes, sizeof name);
    must(t,
         name_public_size(name) == r->public_bytes.size &&
             name_private_size(name) == r->private_bytes.size,
         "a record came back with another size");
    record_write(expected, name);
    must(t,
         memcmp(expected, r->public_bytes.bytes, r->public_bytes.size) == 0 &&
             memcmp(expected + r->public_bytes.size, r->private_bytes.bytes,
                    r->private_bytes.size) == 0,
         "a record came back with other bytes");
    return name;
}

/* ---- opening ---- */

struct replayed {
    const struct story *story;
    struct names names;
    uint64_t first;
};

static enum err take_record(void *context, const struct journal_record *record)
{
    struct replayed *r = context;
    if (r->names.count == 0) r->first = record->seq;
    must(r->story, record->seq == r->first + r->names.count, "a seq is missing or doubled");
    names_add(&r->names, record_name(r->story, record));
    return ERR_OK;
}

static struct journal_options options_for(const struct story *t, struct sim_disk *disk)
{
    return (struct journal_options){
        .disk = sim_disk_door(disk), .producers = t->producer_count, .segment_bytes = SEGMENT};
}

static enum err open_disk(struct story *t, struct sim_disk *disk, struct replayed *ret,
                          struct journal **ret_journal, struct journal_report *ret_report,
                          struct fault *f)
{
    char epoch[JOURNAL_EPOCH_TEXT];
    for (int i = 0; i < JOURNAL_EPOCH_TEXT; i++)
        epoch[i] = "0123456789abcdef"[chance_below(&t->chance, 16)];
    struct journal_options o = options_for(t, disk);
    ret->story = t;
    ret->names.count = 0;
    ret->first = 0;
    sums.recoveries++;
    return journal_open_driven(&o, epoch, t->clock_ms, take_record, ret, ret_journal, ret_report,
                               f);
}

/* ---- what recovery gave, against what was told ---- */

/* How many of a producer's records were told to be safe. */
static size_t promised(const struct producer_story *s, bool power)
{
    size_t count = 0;
    while (count < s->count && s->all[count].mark <= (power ? s->durable : s->written)) count++;
    return count;
}

/* The records of this life, from got->all[begin] on; `gone` before them were confirmed and removed
 * already: the first ones of each producer, we cannot know how many of which. */
static void must_hold_new(struct story *t, const struct names *got, size_t begin, uint64_t gone,
                          bool power)
{
    size_t next[PRODUCERS], skipped_least = 0, skipped_most = 0;
    bool seen[PRODUCERS] = {false};
    for (size_t i = begin; i < got->count; i++) {
        unsigned p = name_producer(got->all[i]);
        must(t, p < t->producer_count, "a record came back that nobody wrote");
        struct producer_story *s = &t->producers[p];
        if (!seen[p]) {
            for (next[p] = 0;
                 gone > 0 && next[p] < s->count && s->all[next[p]].name != got->all[i];)
                next[p]++;
            must(t, next[p] <= promised(s, true), "a record is gone that was never durable");
            skipped_least += next[p];
            skipped_most += next[p];
            seen[p] = true;
        }
        must(t, next[p] < s->count && s->all[next[p]].name == got->all[i],
             "a record came back that was not written in this life, or not in this order");
        must(t, s->all[next[p]].sealed, "a record came back that was never sealed");
        next[p]++;
    }
    for (unsigned p = 0; p < t->producer_count; p++) {
        size_t safe = promised(&t->producers[p], power);
        if (!seen[p]) {
            skipped_least += gone > 0 ? safe : 0;
            skipped_most += t->producers[p].count;
        }
        if (seen[p] ? next[p] < safe : gone == 0 && safe > 0)
            fail(t, power ? "a record is gone whose durable mark had moved"
                          : "a record is gone in a kill whose written mark had moved");
    }
    must(t, gone == 0 || (skipped_least <= gone && gone <= skipped_most),
         "records went that were not removed");
}

static void must_hold(struct story *t, const struct replayed *r, bool power)
{
    const struct names *got = &r->names;
    uint64_t first = got->count == 0 ? t->base_first : r->first;
    must(t, first >= t->base_first && first <= t->confirmed + 1,
         "records went that nobody had confirmed");
    uint64_t gone = first - t->base_first;
    size_t old_gone = gone < t->base.count ? (size_t)gone : t->base.count,
           old = t->base.count - old_gone;
    must(t, got->count >= old, "a record of a former life is gone");
    must(t, old == 0 || memcmp(got->all, t->base.all + old_gone, old * sizeof *got->all) == 0,
         "a record of a former life has changed its place");
    must_hold_new(t, got, old, gone - old_gone, power);
    for (size_t i = 0; i < t->read.count; i++) {
        uint64_t seq = t->read_first + i;
        if (seq < first) continue;
        must(t, seq - first < got->count && got->all[seq - first] == t->read.all[i],
             "what a cursor gave is gone");
    }
}

/* What came back is what the next lives begin with. */
static void accept(struct story *t, struct replayed *r)
{
    if (r->names.count > 0) t->base_first = r->first;
    sums.records += r->names.count;
    t->base.count = 0;
    for (size_t i = 0; i < r->names.count; i++) names_add(&t->base, r->names.all[i]);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        t->producers[p].count = 0;
        t->producers[p].written = t->producers[p].durable = 0;
    }
    t->read.count = 0;
}

/* ---- damage ---- */

struct place { /* a frame on disk */
    char name[SEGMENT_NAME];
    uint64_t offset;
    struct frame frame;
};

static size_t find_places(struct sim_disk *disk, struct place *to, size_t most)
{
    size_t count = 0;
    for (uint64_t id = 1; id < 4096 && count < most; id++) {
        char name[SEGMENT_NAME];
        uint64_t size;
        segment_write_name(id, name);
        const char *bytes = sim_disk_bytes(disk, name, &size);
        if (bytes == NULL) continue;
        struct place place = {.offset = 0};
        memcpy(place.name, name, sizeof name);
        while (count < most && place.offset + FRAME_HEADER_BYTES <= size &&
               frame_read_header(bytes + place.offset, id, &place.frame) == ERR_OK) {
            to[count++] = place;
            place.offset += frame_size(&place.frame);
        }
    }
    return count;
}

/* Of all headers that are left: a file cut off takes later frames along, and with them their word.
 */
static uint64_t highest_claim(struct sim_disk *disk)
{
    uint64_t claimed = 0;
    for (uint64_t id = 1; id < 4096; id++) {
        char name[SEGMENT_NAME];
        uint64_t size;
        segment_write_name(id, name);
        const char *bytes = sim_disk_bytes(disk, name, &size);
        for (uint64_t at = 0; bytes != NULL && at + FRAME_HEADER_BYTES <= size;
             at += FRAME_ALIGN_BYTES) {
            struct frame f;
            if (frame_read_header(bytes + at, id, &f) == ERR_OK && f.durable_seq > claimed)
                claimed = f.durable_seq;
        }
    }
    return claimed;
}

/* Changes at least one bit of the frame: one bit, a sector of zeros, a sector of noise, the end of
 * the file before its end. */
static void damage_place(struct story *t, struct sim_disk *disk, const struct place *place)
{
    uint64_t size;
    const char *bytes = sim_disk_bytes(disk, place->name, &size);
    size_t frame = frame_size(&place->frame);
    uint64_t at = place->offset + chance_below(&t->chance, frame);
    switch (chance_below(&t->chance, 4)) {
    case 0: {
        char sector[FRAME_ALIGN_BYTES] = {0};
        uint64_t begin = at / FRAME_ALIGN_BYTES * FRAME_ALIGN_BYTES;
        if (memcmp(sector, bytes + begin, sizeof sector) == 0) sector[5] = 1;
        sim_disk_damage(disk, place->name, begin, sector, sizeof sector);
        break;
    }
    case 1: {
        char sector[FRAME_ALIGN_BYTES];
        fill_bytes(sector, sizeof sector, chance_next(&t->chance));
        sim_disk_damage(disk, place->name, at / FRAME_ALIGN_BYTES * FRAME_ALIGN_BYTES, sector,
                        sizeof sector);
        break;
    }
    case 2:
        if (chance_in(&t->chance, 4)) {
            sim_disk_truncate(disk, place->name, at);
            break;
        } /* fall through */
    default: {
        char flipped = (char)(bytes[at] ^ (1 << chance_below(&t->chance, 8)));
        sim_disk_damage(disk, place->name, at, &flipped, 1);
    }
    }
}

/* On copies of the disk as it is now: `whole` is what an undamaged recovery gave. */
static void try_damage(struct story *t, const struct replayed *whole)
{
    static struct place places[4096];
    size_t count = find_places(t->disk, places, sizeof places / sizeof places[0]);
    if (count == 0) return;
    const struct place *place = &places[chance_below(&t->chance, count)];
    struct sim_disk *copy = sim_disk_copy(t->disk);
    damage_place(t, copy, place);
    uint64_t claimed = highest_claim(copy);
    bool is_promised = place->frame.count > 0 && place->frame.first_seq <= claimed;

    struct replayed r = {0};
    struct journal *j = NULL;
    struct journal_report report;
    struct fault f = {0};
    enum err err = open_disk(t, copy, &r, &j, &report, &f);
    sums.damages++;
    if (err != ERR_OK && err != ERR_CORRUPT)
        fail(t, "recovery of a damaged disk ended otherwise than refusing it");
    if (is_promised && err != ERR_CORRUPT) fail(t, "damage below the durable mark was not refused");
    if (err == ERR_CORRUPT)
        sums.refused++;
    else {
        sums.harmless++;
        must(t, r.names.count == 0 || r.first == whole->first,
             "damage above the durable mark took old records");
        must(t, r.names.count <= whole->names.count, "damage invented a record");
        struct names same = {.all = whole->names.all, .count = r.names.count};
        must(t, names_equal(&r.names, &same), "damage changed a record");
        must(t,
             whole->names.count == 0 || claimed < whole->first ||
                 r.names.count >= claimed - whole->first + 1,
             "damage above the durable mark took records below it");
        journal_abandon(j);
    }
    free(r.names.all);
    sim_disk_destroy(copy);
}

/* ---- one life ---- */

static void append(struct story *t, unsigned p)
{
    struct journal_producer *producer = journal_producer(t->journal, p);
    bool large = chance_in(&t->chance, t->heavy ? 4 : 80);
    size_t size =
        large ? 1000 + chance_below(&t->chance, 58000) : 8 + chance_below(&t->chance, 900);
    uint64_t name = name_make(++t->serial, p, size);
    bool closing = chance_in(&t->chance, 5);
    enum err err;
    uint64_t whole = size + name_private_size(name);
    char *to = closing ? journal_reserve_closing(producer, whole, &err)
                       : journal_reserve(producer, whole, &err);
    struct producer_story *s = &t->producers[p];
    uint64_t sealed = atomic_load(&producer->sealed); /* a reserve may have sealed a full block */
    for (size_t i = s->count; i > 0 && !s->all[i - 1].sealed; i--)
        s->all[i - 1].sealed = s->all[i - 1].mark <= sealed;
    if (to == NULL) {
        must(t, err == ERR_FULL || err == ERR_JOURNAL_FULL, "a reserve failed for no good reason");
        if (err == ERR_FULL)
            sums.starved++;
        else
            sums.full++;
        return;
    }
    record_write(to, name);
    journal_commit(producer, size, name_private_size(name), chance_in(&t->chance, 2));
    if (s->count == s->capacity) {
        s->capacity = s->capacity == 0 ? 64 : 2 * s->capacity;
        s->all = realloc(s->all, s->capacity * sizeof *s->all);
        check(s->all != NULL);
    }
    s->all[s->count++] = (struct told){.name = name, .mark = journal_block(producer)};
}

static void seal(struct story *t, unsigned p)
{
    struct producer_story *s = &t->producers[p];
    journal_seal(journal_producer(t->journal, p));
    for (size_t i = s->count; i > 0 && !s->all[i - 1].sealed; i--) s->all[i - 1].sealed = true;
}

static void read_some(struct story *t, struct journal_cursor *c)
{
    struct journal_record record;
    struct fault f;
    enum err err = ERR_OK;
    for (uint64_t n = chance_below(&t->chance, 40); n > 0 && err == ERR_OK; n--) {
        err = journal_cursor_next(c, &record, &f);
        if (err != ERR_OK) break;
        must(t, record.seq == t->read_first + t->read.count,
             "a cursor left out or doubled a record");
        names_add(&t->read, record_name(t, &record));
        sums.read++;
    }
    uint64_t next = t->read_first + t->read.count;
    bool removed = err == ERR_NOT_FOUND && next <= t->confirmed;
    must(t, err == ERR_OK || err == ERR_END || removed || sim_disk_is_dead(t->disk),
         "a cursor failed");
}

/* What the producers had been told at the very moment when the disk died. */
static void note_marks(void *context)
{
    struct story *t = context;
    if (t->journal == NULL) return;
    for (unsigned p = 0; p < t->producer_count; p++)
        journal_progress(journal_producer(t->journal, p), &t->producers[p].written,
                         &t->producers[p].durable);
}

static void confirm(struct story *t)
{
    uint64_t durable = journal_durable_seq(t->journal);
    uint64_t seq = durable - (chance_in(&t->chance, 2) ? 0 : chance_below(&t->chance, durable + 1));
    if (seq > t->confirmed) t->confirmed = seq;
    journal_confirm(t->journal, t->confirmed);
}

static void act(struct story *t, struct journal_cursor *cursor)
{
    struct journal_writer *s = &t->journal->journal_writer;
    unsigned p = (unsigned)chance_below(&t->chance, t->producer_count);
    t->clock_ms += chance_below(&t->chance, 50);
    switch (chance_below(&t->chance, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        for (uint64_t n = 1 + chance_below(&t->chance, 12); n > 0; n--) append(t, p);
        if (chance_in(&t->chance, 2)) seal(t, p);
        break;
    case 6:
    case 7: seal(t, p); break;
    case 8:
    case 9:
    case 10: journal_writer_write_step(s, t->clock_ms); break;
    case 11:
    case 12: journal_writer_sync_step(s); break;
    case 13:
        confirm(t);
        journal_writer_keep_step(s, t->clock_ms);
        break;
    case 14:
        if (journal_writer_claim_step(s, t->clock_ms)) sums.claims++;
        break;
    default:
        if (cursor != NULL) read_some(t, cursor);
    }
}

static void live(struct story *t)
{
    uint64_t actions = chance_below(&t->chance, t->heavy ? 160 : 60);
    struct journal_cursor *cursor = NULL;
    struct fault f;
    uint64_t from = t->base_first + t->base.count;
    t->read_first = from;
    if (chance_in(&t->chance, 2))
        must(t, journal_cursor_open(t->journal, from, &cursor, &f) == ERR_OK,
             "a cursor cannot be opened at the end");
    for (uint64_t i = 0; i < actions && !sim_disk_is_dead(t->disk); i++) act(t, cursor);
    journal_cursor_close(cursor);
    struct journal_totals totals;
    journal_totals(t->journal, &totals);
    sums.segments += totals.segments - 1;
}

/* Opens until one opening lives through it; the disk may die in each. */
static void begin(struct story *t, struct replayed *got)
{
    for (;;) {
        struct journal_report report;
        struct fault f = {0};
        struct journal *j = NULL;
        if (chance_in(&t->chance, 3))
            sim_disk_die_in(t->disk, 1 + chance_below(&t->chance, 12), NULL, NULL);
        enum err err = open_disk(t, t->disk, got, &j, &report, &f);
        if (!sim_disk_is_dead(t->disk)) {
            if (err != ERR_OK) printf("%s\n", f.text);
            must(t, err == ERR_OK, "recovery failed");
            sim_disk_die_in(t->disk, 0, NULL, NULL);
            t->journal = j;
            if (report.cut_bytes > 0) sums.cut_tails++;
            return;
        }
        if (err == ERR_OK) journal_abandon(j);
        sums.recoveries_cut++;
        bool power = chance_in(&t->chance, 2);
        if (power)
            sim_disk_power(t->disk);
        else
            sim_disk_kill(t->disk);
        /* A power cut after a kill also takes what the kill had spared. */
        for (unsigned p = 0; power && p < PRODUCERS; p++)
            t->producers[p].written = t->producers[p].durable;
    }
}

static bool end(struct story *t)
{
    bool clean = !sim_disk_is_dead(t->disk) && chance_in(&t->chance, 6);
    if (clean) {
        for (unsigned p = 0; p < t->producer_count; p++) seal(t, p);
        sim_disk_die_in(t->disk, 0, NULL, NULL);
        journal_close_driven(t->journal, t->clock_ms);
        for (unsigned p = 0; p < t->producer_count; p++)
            t->producers[p].written = t->producers[p].durable = UINT64_MAX;
        sums.clean++;
    } else {
        sim_disk_die(t->disk); /* notes the marks where it was alive */
        journal_abandon(t->journal);
    }
    t->journal = NULL;
    bool power = !chance_in(&t->chance, 5);
    if (power)
        sim_disk_power(t->disk);
    else
        sim_disk_kill(t->disk);
    return power;
}

/* Recovery of a copy of the disk, and of a damaged one. */
static void rehearse(struct story *t, struct replayed *ret, bool power)
{
    struct journal *j = NULL;
    struct journal_report report;
    struct fault f = {0};
    struct sim_disk *copy = sim_disk_copy(t->disk);
    enum err err = open_disk(t, copy, ret, &j, &report, &f);
    if (err != ERR_OK) printf("%s\n", f.text);
    must(t, err == ERR_OK, "recovery refused what no damage had touched");
    journal_abandon(j);
    sim_disk_destroy(copy);
    must_hold(t, ret, power);
    try_damage(t, ret);
}

static void one_life(struct story *t)
{
    sim_disk_die_in(t->disk, chance_in(&t->chance, 8) ? 0 : 1 + chance_below(&t->chance, 40),
                    note_marks, t);
    if (chance_in(&t->chance, 10))
        sim_disk_set_capacity(t->disk, chance_in(&t->chance, 2) ? 3 * SEGMENT : 40 * SEGMENT);
    t->heavy = chance_in(&t->chance, 6);
    live(t);
    bool power = end(t);

    struct replayed expected = {0}, got = {0};
    bool rehearsed = chance_in(&t->chance, 3);
    if (rehearsed) rehearse(t, &expected, power);
    begin(t, &got);
    must_hold(t, &got, power);
    if (rehearsed && power)
        must(t, names_equal(&got.names, &expected.names),
             "a recovery that died in between gave something else");
    accept(t, &got);
    free(expected.names.all);
    free(got.names.all);
}

static void run(uint64_t seed, uint64_t lives)
{
    struct story *t = calloc(1, sizeof *t);
    check(t != NULL);
    t->seed = seed;
    t->chance.state = seed * UINT64_C(0x5851F42D4C957F2D) + 1;
    t->clock_ms = UINT64_C(1767225600000);
    t->base_first = 1;
    t->producer_count = 1 + (unsigned)chance_below(&t->chance, PRODUCERS);
    t->disk = sim_disk_create(chance_next(&t->chance), 40 * SEGMENT, &t->counts);
    struct replayed got = {0};
    begin(t, &got);
    accept(t, &got);
    free(got.names.all);
    for (t->life = 1; t->life <= lives; t->life++) one_life(t);
    journal_abandon(t->journal);
    sim_disk_destroy(t->disk);

    uint64_t *sum = (uint64_t *)&sums.disk, *one = (uint64_t *)&t->counts;
    for (size_t i = 0; i < sizeof sums.disk / sizeof *sum; i++) sum[i] += one[i];
    for (unsigned p = 0; p < PRODUCERS; p++) free(t->producers[p].all);
    free(t->base.all);
    free(t->read.all);
    free(t);
}

static bool tell(const char *what, uint64_t count)
{
    printf("  %-44s %" PRIu64 "%s\n", what, count, count == 0 ? "  FAIL: never happened" : "");
    return count > 0;
}

int main(int count, char **arguments)
{
    uint64_t seeds = 100, lives = 12, from;
    check(getrandom(&from, sizeof from, 0) == sizeof from);
    from %= 1000000000;
    for (int i = 1; i + 1 < count; i += 2) {
        struct str name = str_from(arguments[i]), value = str_from(arguments[i + 1]);
        uint64_t *to = str_equal(name, STR("--seeds"))   ? &seeds
                       : str_equal(name, STR("--from"))  ? &from
                       : str_equal(name, STR("--lives")) ? &lives
                                                         : NULL;
        if (to == NULL || !str_to_u64(value, to)) {
            fprintf(stderr, "usage: sim_journal [--seeds N] [--from S] [--lives L]\n");
            return 2;
        }
    }
    /* Half of the time would go into giving memory back to the kernel and getting it again. */
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    log_init("sim_journal", (enum log_level)(LOG_ERROR + 1)); /* full disks are part of the play */
    printf("seeds %" PRIu64 " to %" PRIu64 ", %" PRIu64 " lives each\n", from, from + seeds - 1,
           lives);
    for (uint64_t seed = from; seed < from + seeds; seed++) run(seed, lives);

    bool all = true;
    all &= tell("power cuts", sums.disk.cuts);
    all &= tell("kills of the process alone", sums.disk.kills);
    all &= tell("unsynced sectors kept", sums.disk.kept);
    all &= tell("unsynced sectors lost", sums.disk.lost);
    all &= tell("unsynced sectors torn", sums.disk.torn);
    all &= tell("sectors kept though an earlier one was lost", sums.disk.reordered);
    all &= tell("changes of the directory lost", sums.disk.names_lost);
    all &= tell("recoveries", sums.recoveries);
    all &= tell("recoveries that died themselves", sums.recoveries_cut);
    all &= tell("tails cut", sums.cut_tails);
    all &= tell("clean ends", sums.clean);
    all &= tell("records that came back", sums.records);
    all &= tell("records read by cursors", sums.read);
    all &= tell("segments filled", sums.segments);
    all &= tell("frames of no records", sums.claims);
    all &= tell("spares refused for want of space", sums.disk.no_space);
    all &= tell("records refused, journal full", sums.full);
    all &= tell("records refused, blocks or room in use", sums.starved);
    all &= tell("damages", sums.damages);
    all &= tell("damages refused", sums.refused);
    all &= tell("damages above the durable mark, cut", sums.harmless);
    return all ? 0 : 1;
}

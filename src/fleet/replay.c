#include "fleet/replay.h"

#include "base/little.h"
#include "base/planted.h"

void log_replay_begin(struct log_replay *r, const struct log_replay *saved)
{
    *r = (struct log_replay){.format = ENTRY_FORMAT_FIRST};
    if (saved == NULL) return;
    *r = *saved;
    r->end = LOG_READS;
    r->stale = 0;
    r->resumes = saved->next > 0;
    if (r->resumes) r->next--;
}

enum log_result log_replay_stop(struct log_replay *r, enum log_end why, uint64_t offset)
{
    if (r->end == LOG_READS) {
        r->end = why;
        r->end_offset = offset;
    }
    return LOG_ENDED;
}

bool log_replay_fits(struct log_replay *r, uint64_t log_end)
{
    if (r->next > log_end) (void)log_replay_stop(r, LOG_END_OFFSET, log_end);
    return r->end == LOG_READS;
}

static bool is_digest(const struct sha256 *a, const struct sha256 *b)
{
    return memcmp(a->bytes, b->bytes, SHA256_BYTES) == 0;
}

static enum log_result left_out(struct log_replay *r)
{
    r->stale++;
    return LOG_STALE;
}

static enum log_result count(struct log_replay *r, const struct entry *e, uint64_t offset)
{
    r->last = (struct entry_point){.term = e->term, .n = e->n, .digest = e->digest};
    r->last_offset = offset;
    if (e->time_ms > r->time_ms) r->time_ms = e->time_ms;
    if (e->format > r->format) r->format = e->format;
    return LOG_COUNTED;
}

static enum log_result step_term(struct log_replay *r, const struct entry *e, uint64_t offset)
{
    bool greater = e->term > r->last.term;
    if (planted("equal_term_accepted")) greater = e->term >= r->last.term;
    if (!greater) return left_out(r);
    if (r->last.term == 0 && !is_digest(&e->previous, &r->last.digest))
        return log_replay_stop(r, LOG_END_SEED, offset);
    r->before = r->last;
    r->leader = e->incarnation;
    return count(r, e, offset);
}

static enum log_result step_records(struct log_replay *r, const struct entry *e, uint64_t offset)
{
    if (e->term < r->last.term && planted("stale_counted")) return LOG_COUNTED;
    if (e->term < r->last.term) return left_out(r);
    if (e->term > r->last.term) return log_replay_stop(r, LOG_END_NO_TERM, offset);
    if (e->n <= r->last.n) return left_out(r);
    if (!incarnation_equal(&e->incarnation, &r->leader))
        return log_replay_stop(r, LOG_END_SENDER, offset);
    if (planted("gap_skipped")) return count(r, e, offset);
    if (e->n != r->last.n + 1) return log_replay_stop(r, LOG_END_GAP, offset);
    if (!is_digest(&e->previous, &r->last.digest))
        return log_replay_stop(r, LOG_END_PREVIOUS, offset);
    /* A TERM begins a chain of its own: its first records tie it to the one before. */
    if (e->n == 1 && !entry_point_equal(&e->before, &r->before) && !planted("history_unchecked"))
        return log_replay_stop(r, LOG_END_HISTORY, offset);
    return count(r, e, offset);
}

/* The newest entry once more; of a copy, the one before that, which it does not remember. */
static enum log_result step_again(struct log_replay *r, const struct sha256 *digest,
                                  uint64_t offset)
{
    if (r->resumes || is_digest(digest, &r->newest)) return LOG_STALE;
    return log_replay_stop(r, LOG_END_RESUMED, offset);
}

enum log_result log_replay_pass(struct log_replay *r, uint64_t offset)
{
    static const struct sha256 none;
    if (r->end != LOG_READS) return LOG_ENDED;
    if (offset + 1 == r->next) return step_again(r, &none, offset);
    if (offset != r->next) return log_replay_stop(r, LOG_END_OFFSET, offset);
    r->next++;
    r->resumes = false;
    r->newest = (struct sha256){{0}}; /* a copy that ends here begins by passing over it again */
    return left_out(r);
}

enum log_result log_replay_step(struct log_replay *r, const struct entry *e, uint64_t offset)
{
    if (r->end != LOG_READS) return LOG_ENDED;
    if (offset + 1 == r->next && e != NULL) return step_again(r, &e->digest, offset);
    if (offset != r->next) return log_replay_stop(r, LOG_END_OFFSET, offset);
    if (e == NULL) return log_replay_stop(r, LOG_END_UNREADABLE, offset);
    r->next++;
    if (r->resumes) {
        r->resumes = false;
        if (!is_digest(&e->digest, &r->newest)) return log_replay_stop(r, LOG_END_RESUMED, offset);
        return LOG_STALE; /* the copy has it */
    }
    r->newest = e->digest;
    switch (e->kind) {
    case ENTRY_TERM: return step_term(r, e, offset);
    case ENTRY_RECORDS: return step_records(r, e, offset);
    case ENTRY_HEARTBEAT: break;
    }
    if (e->heartbeat.applied > offset) return log_replay_stop(r, LOG_END_CUT, offset);
    return LOG_COUNTED;
}

/* ---- as bytes ---- */

enum {
    AT_NEXT = 0,
    AT_NEWEST = 8,
    AT_LAST = 40,
    AT_LAST_OFFSET = 88,
    AT_BEFORE = 96,
    AT_LEADER = 144,
    AT_TIME = 160,
    AT_FORMAT = 168,
};

static void put_point(char *at, const struct entry_point *p)
{
    little_put64(at, p->term);
    little_put64(at + 8, p->n);
    memcpy(at + 16, p->digest.bytes, SHA256_BYTES);
}

static struct entry_point get_point(const char *at)
{
    struct entry_point p = {.term = little_get64(at), .n = little_get64(at + 8)};
    memcpy(p.digest.bytes, at + 16, SHA256_BYTES);
    return p;
}

void log_replay_put(const struct log_replay *r, char to[LOG_REPLAY_BYTES])
{
    memset(to, 0, LOG_REPLAY_BYTES);
    /* a copy that has not compared its newest entry yet has it */
    little_put64(to + AT_NEXT, r->next + (r->resumes ? 1 : 0));
    memcpy(to + AT_NEWEST, r->newest.bytes, SHA256_BYTES);
    put_point(to + AT_LAST, &r->last);
    little_put64(to + AT_LAST_OFFSET, r->last_offset);
    put_point(to + AT_BEFORE, &r->before);
    memcpy(to + AT_LEADER, r->leader.bytes, sizeof r->leader.bytes);
    little_put64(to + AT_TIME, r->time_ms);
    little_put16(to + AT_FORMAT, r->format);
}

void log_replay_get(const char from[LOG_REPLAY_BYTES], struct log_replay *ret)
{
    *ret = (struct log_replay){.next = little_get64(from + AT_NEXT),
                               .last = get_point(from + AT_LAST),
                               .last_offset = little_get64(from + AT_LAST_OFFSET),
                               .before = get_point(from + AT_BEFORE),
                               .time_ms = little_get64(from + AT_TIME),
                               .format = little_get16(from + AT_FORMAT)};
    memcpy(ret->newest.bytes, from + AT_NEWEST, SHA256_BYTES);
    memcpy(ret->leader.bytes, from + AT_LEADER, sizeof ret->leader.bytes);
}

/* journal_source.c - the records of an engine's journal, for the publisher. */
#include <stdlib.h>

#include "base/check.h"
#include "pipeline/publish/record_source.h"

struct journal_reader {
    struct journal *journal;
    struct journal_cursor *cursor; /* NULL: not open */
};

static uint64_t end(const void *state)
{
    return journal_durable_seq(((const struct journal_reader *)state)->journal);
}

static const char *epoch(const void *state)
{
    return journal_epoch(((const struct journal_reader *)state)->journal);
}

static void cursor_drop(struct journal_reader *r)
{
    if (r->cursor != NULL) journal_cursor_close(r->cursor);
    r->cursor = NULL;
}

static enum err go(void *state, uint64_t seq, struct fault *f)
{
    struct journal_reader *r = state;
    cursor_drop(r);
    enum err err = journal_cursor_open(r->journal, seq, &r->cursor, f);
    if (err != ERR_OK) r->cursor = NULL;
    return err;
}

static enum err next(void *state, struct journal_record *ret, struct fault *f)
{
    return journal_cursor_next(((struct journal_reader *)state)->cursor, ret, f);
}

static enum err epoch_is(void *state, uint64_t seq, const char text[JOURNAL_EPOCH_TEXT],
                         bool *ret_same, struct fault *f)
{
    struct journal_cursor *cursor;
    enum err err = journal_cursor_open(((struct journal_reader *)state)->journal, seq, &cursor, f);
    if (err != ERR_OK) return err;
    struct journal_record record;
    err = journal_cursor_next(cursor, &record, f);
    if (err == ERR_OK)
        *ret_same = record.seq == seq && memcmp(record.epoch, text, JOURNAL_EPOCH_TEXT) == 0;
    journal_cursor_close(cursor);
    return err;
}

static uint64_t oldest(const void *state)
{
    struct journal_totals kept;
    journal_totals(((const struct journal_reader *)state)->journal, &kept);
    return kept.oldest_seq;
}

static void confirm(void *state, uint64_t seq)
{
    journal_confirm(((struct journal_reader *)state)->journal, seq);
}

static void destroy(struct record_source *s)
{
    cursor_drop(s->state);
    free(s->state);
}

struct record_source journal_source(struct journal *j)
{
    struct journal_reader *r = calloc(1, sizeof *r);
    check(r != NULL); /* only at boot */
    r->journal = j;
    return (struct record_source){
        .state = r,
        .end = end,
        .epoch = epoch,
        .go = go,
        .next = next,
        .epoch_is = epoch_is,
        .oldest = oldest,
        .confirm = confirm,
        .destroy = destroy,
        .confirmed_gauge = METRIC_PUBLISH_CONFIRMED_SEQ,
        .lag_gauge = METRIC_PUBLISH_LAG,
        .is_journal = true,
        .advice = "start this engine again with a node name of its own, on the same data directory",
    };
}

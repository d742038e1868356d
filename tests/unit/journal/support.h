/* support.h - what the journal's unit tests share: a journal over a simulated disk, driven by hand.
 */
#ifndef TEST_JOURNAL_SUPPORT_H
#define TEST_JOURNAL_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "journal/inside.h"
#include "sim/sim_disk.h"

enum { TEST_SEGMENT = 1 << 20, TEST_NOW = 1000 };

static const char test_epoch[] = "0123456789abcdef";
static const char test_other_epoch[] = "fedcba9876543210";

struct rig {
    struct sim_counts counts;
    struct sim_disk *disk;
    struct journal_options options;
    struct journal *journal;
    struct journal_report report;
    struct fault fault;
    uint64_t replayed, rings, durable_rings;
    char last_public[64];
};

static inline enum err rig_take(void *context, const struct journal_record *record)
{
    struct rig *r = context;
    r->replayed++;
    size_t size = record->public_bytes.size < 63 ? record->public_bytes.size : 63;
    memcpy(r->last_public, record->public_bytes.bytes, size);
    r->last_public[size] = '\0';
    return ERR_OK;
}

static inline void rig_ring(void *context, unsigned producer)
{
    (void)producer;
    ((struct rig *)context)->rings++;
}

static inline void rig_ring_durable(void *context) { ((struct rig *)context)->durable_rings++; }

static inline enum err rig_open(struct rig *r)
{
    r->replayed = 0;
    r->journal = NULL;
    return journal_open_driven(&r->options, test_epoch, TEST_NOW, rig_take, r, &r->journal,
                               &r->report, &r->fault);
}

/* `seed` decides what a power cut takes. */
static inline struct rig *rig_create_seeded(uint64_t seed)
{
    struct rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->disk = sim_disk_create(seed, UINT64_C(1) << 40, &r->counts);
    r->options = (struct journal_options){.disk = sim_disk_door(r->disk),
                                          .producers = 2,
                                          .segment_bytes = TEST_SEGMENT,
                                          .ring = rig_ring,
                                          .ring_durable = rig_ring_durable,
                                          .context = r};
    assert_int_equal(rig_open(r), ERR_OK);
    return r;
}

static inline struct rig *rig_create(void) { return rig_create_seeded(7); }

static inline void rig_destroy(struct rig *r)
{
    journal_abandon(r->journal);
    sim_disk_destroy(r->disk);
    free(r);
}

static inline struct journal_producer *rig_producer(struct rig *r)
{
    return journal_producer(r->journal, 0);
}

/* Commits one record; its private part is "private". */
static inline void rig_append(struct rig *r, const char *text, bool wants_sync)
{
    enum err err;
    size_t size = strlen(text);
    char *to = journal_reserve(rig_producer(r), size + 7, &err);
    assert_non_null(to);
    memcpy(to, text, size);
    memcpy(to + size, "private", 7);
    journal_commit(rig_producer(r), size, 7, wants_sync);
}

static inline void rig_append_size(struct rig *r, size_t size)
{
    enum err err;
    char *to = journal_reserve(rig_producer(r), size, &err);
    assert_non_null(to);
    memset(to, 'x', size);
    journal_commit(rig_producer(r), size, 0, true);
}

static inline void rig_write(struct rig *r)
{
    journal_seal(rig_producer(r));
    assert_true(journal_writer_write_step(&r->journal->journal_writer, TEST_NOW));
}

static inline void rig_sync(struct rig *r)
{
    assert_true(journal_writer_sync_step(&r->journal->journal_writer));
}
static inline void rig_keep(struct rig *r)
{
    journal_writer_keep_step(&r->journal->journal_writer, TEST_NOW);
}

/* One record in a frame of its own, durable. */
static inline void rig_put(struct rig *r, const char *text)
{
    rig_append(r, text, true);
    rig_write(r);
    rig_sync(r);
}

/* The first segment, too. */
static inline struct rig *rig_create_with_segments(uint64_t bytes)
{
    struct rig *r = rig_create();
    rig_put(r, "begun");
    journal_abandon(r->journal);
    sim_disk_kill(r->disk);
    r->options.segment_bytes = bytes;
    assert_int_equal(rig_open(r), ERR_OK);
    return r;
}

static inline void rig_die(struct rig *r, bool power)
{
    sim_disk_die(r->disk);
    journal_abandon(r->journal);
    r->journal = NULL;
    if (power)
        sim_disk_power(r->disk);
    else
        sim_disk_kill(r->disk);
}

static inline void rig_close(struct rig *r)
{
    journal_close_driven(r->journal, TEST_NOW);
    r->journal = NULL;
    sim_disk_kill(r->disk);
}

static const char test_first_segment[] = "0000000000000001.journal";
static const char test_second_segment[] = "0000000000000002.journal";

static inline void rig_flip(struct rig *r, const char *name, uint64_t offset)
{
    uint64_t size;
    const char *bytes = sim_disk_bytes(r->disk, name, &size);
    assert_non_null(bytes);
    char flipped = (char)(bytes[offset] ^ 4);
    assert_true(sim_disk_damage(r->disk, name, offset, &flipped, 1));
}

#endif

/* fuzz_cursor.c - opening and reading back a journal whose files somebody wrote into.
 *
 * A journal of a few records is made on a simulated disk; the input is a list of edits (offset,
 * length, bytes) to its first segment. Then it is opened again. Whatever the edits: it refuses, or
 * a cursor gives the records that were appended, from the first on, in order, byte for byte, and
 * nothing else. Checksums are not put right here: that is fuzz_frame's part. */
#include <stdlib.h>

#include "base/check.h"
#include "journal/inside.h"
#include "sim/sim_disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS = 24, SEGMENT_BYTES = 1 << 20, NOW_MS = 1000, DISK_BYTES = 64 << 20 };

static const char segment_name[] = "0000000000000001.journal";

/* The n-th record's bytes: of differing lengths, so that frames are too. */
static size_t record_write(unsigned n, char *to)
{
    size_t length = 1 + n * 37 % 700;
    for (size_t i = 0; i < length; i++) to[i] = (char)('a' + (n + i) % 26);
    return length;
}

static struct journal *open_on(struct sim_disk *disk, const char *epoch, enum err *ret_err)
{
    struct journal_options options = {
        .disk = sim_disk_door(disk), .producers = 1, .segment_bytes = SEGMENT_BYTES};
    struct journal_report report;
    struct journal *j = NULL;
    struct fault f;
    *ret_err = journal_open_driven(&options, epoch, NOW_MS, NULL, NULL, &j, &report, &f);
    return j;
}

static struct sim_disk *disk_with_records(void)
{
    static struct sim_counts counts;
    struct sim_disk *disk = sim_disk_create(1, DISK_BYTES, &counts);
    enum err err;
    struct journal *j = open_on(disk, "0123456789abcdef", &err);
    check(err == ERR_OK);
    struct journal_producer *p = journal_producer(j, 0);
    for (unsigned n = 0; n < RECORDS; n++) {
        char *to = journal_reserve(p, 1024, &err);
        check(to != NULL);
        journal_commit(p, record_write(n, to), 0, true);
        if (n % 5 != 4) continue;
        journal_seal(p);
        journal_writer_write_step(&j->journal_writer, NOW_MS);
        journal_writer_sync_step(&j->journal_writer);
    }
    journal_seal(p);
    journal_close_driven(j, NOW_MS);
    sim_disk_kill(disk);
    return disk;
}

static void edit(struct sim_disk *disk, const uint8_t *data, size_t size)
{
    while (size >= 4) {
        /* the records lie in the first 64 KiB */
        uint64_t offset = (uint64_t)data[0] << 8 | data[1];
        size_t length = data[2] % 16 + 1u;
        data += 3, size -= 3;
        if (length > size) length = size;
        sim_disk_damage(disk, segment_name, offset, data, length);
        data += length, size -= length;
    }
}

static void read_back(struct journal *j)
{
    struct journal_cursor *c;
    struct journal_record r;
    struct fault f;
    char expected[1024];
    if (journal_cursor_open(j, 1, &c, &f) != ERR_OK) return;
    for (unsigned n = 0; journal_cursor_next(c, &r, &f) == ERR_OK; n++) {
        check(n < RECORDS && r.seq == n + 1u);
        check(str_equal(r.public_bytes, str_of(expected, record_write(n, expected))));
    }
    journal_cursor_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sim_disk *sound;
    if (sound == NULL) sound = disk_with_records();
    struct sim_disk *disk = sim_disk_copy(sound);
    edit(disk, data, size);
    enum err err;
    struct journal *j = open_on(disk, "fedcba9876543210", &err);
    if (err == ERR_OK) {
        read_back(j);
        journal_abandon(j);
    }
    sim_disk_destroy(disk);
    return 0;
}

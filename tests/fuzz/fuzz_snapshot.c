/* fuzz_snapshot.c - any file under a snapshot's name: refused or loaded, never more.
 *
 * The digest at the end is made right, and so is the magic, or nothing beyond them would ever be
 * reached; all else (header, epochs, entries, and what a shard makes of them) is the input's. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "crypto/crypto.h"
#include "pipeline/mirror/state_follower.h"
#include "base/little.h"
#include "snapshot/replay.h"
#include "snapshot/snapshot.h"
#include "shards/shard.h"
#include "sim/sim_disk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum err load(void *context, unsigned slot, struct str entry)
{
    struct shard *s = context;
    struct fault f;
    return replay_entry(&s, 1, slot, entry, &f);
}

/* A header that fits: what the input says of sizes would almost never be right. */
static void mend(char *file, size_t size)
{
    size_t epochs = (unsigned char)file[12] % 4;
    memcpy(file, "writSNP1\x01\0\0\0", 12);
    little_put32(file + 12, (uint32_t)epochs);
    little_put64(file + 16, 7);
    file[SNAPSHOT_HEADER_BYTES - 1] = '\0';
    if (size < SNAPSHOT_HEADER_BYTES + epochs * JOURNAL_EPOCH_TEXT) return;
    little_put64(file + 24, (unsigned char)file[24]);
    little_put64(file + 32, size - SNAPSHOT_HEADER_BYTES - epochs * JOURNAL_EPOCH_TEXT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sim_counts counts = {0};
    struct sim_disk *sim = sim_disk_create(1, 1 << 30, &counts);
    struct disk *d = sim_disk_door(sim);
    struct shard *s = shard_create(&(struct shard_options){
        .count = 1, .tokens_max = 100, .reviews_max = 100, .counters_max = 100});
    struct lineage *past = malloc(sizeof *past);
    char *file = malloc(size + SNAPSHOT_HEADER_BYTES + SHA256_BYTES), name[SNAPSHOT_NAME];
    struct fault f;
    int handle;
    check(s != NULL && past != NULL && file != NULL);
    size_t whole = size < SNAPSHOT_HEADER_BYTES ? SNAPSHOT_HEADER_BYTES : size;
    memset(file, 0, whole);
    if (size > 0) memcpy(file, data, size);
    mend(file, whole);
    struct sha256 digest = sha256_once(str_of(file, whole));
    memcpy(file + whole, digest.bytes, SHA256_BYTES);
    snapshot_write_name(7, name);
    check(d->open(d->state, name, true, &handle) == ERR_OK);
    check(d->fill(d->state, handle, whole + SHA256_BYTES) == ERR_OK);
    check(d->write(d->state, handle, file, whole + SHA256_BYTES, 0) == ERR_OK);
    check(d->sync(d->state, handle) == ERR_OK);
    d->close(d->state, handle);
    (void)snapshot_read(d, load, s, past, &f);
    free(file);
    free(past);
    shard_destroy(s);
    sim_disk_destroy(sim);
    return 0;
}

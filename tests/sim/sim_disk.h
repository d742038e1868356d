/* sim_disk.h - a disk that can lose, tear and reorder what was not synced.
 *
 * Each file has two images: what a process sees (live) and what the medium holds (durable), and
 * the order in which its sectors were written since. A sync makes the sectors durable; a power cut
 * decides for each unsynced sector by chance: kept, lost (old bytes), or torn (some new, some
 * old). The directory is the same: names since its last sync survive as a chance prefix.
 *
 * What a process sees comes through a page cache: a page is there after it was read or written. One
 * that is not, because its file was filled or it was let go, has to be read, also by a write that
 * ends inside it; how often that happens is counted.
 *
 * A cut can be set to happen inside the n-th operation from now. From then on the disk is dead:
 * it says yes to everything and changes nothing, so that the doomed process runs on harmlessly
 * until its driver notices; then sim_disk_power() or sim_disk_kill() begins the next life.
 * One thread. Everything random comes from the seed. */
#ifndef SIM_DISK_H
#define SIM_DISK_H

#include "journal/disk.h"

struct chance_source { /* splitmix64 (Steele, Lea, Flood 2014) */
    uint64_t state;
};

uint64_t chance_next(struct chance_source *c);
/* 0 … below - 1 */
static inline uint64_t chance_below(struct chance_source *c, uint64_t below)
{
    return below == 0 ? 0 : chance_next(c) % below;
}
static inline bool chance_in(struct chance_source *c, unsigned in)
{
    return chance_below(c, in) == 0;
}

struct sim_counts {
    uint64_t cuts, kills;
    uint64_t kept, lost, torn,
        reordered;       /* sectors; reordered: kept, though an earlier one was lost */
    uint64_t names_lost; /* unsynced changes of the directory */
    uint64_t no_space;   /* fills refused */
    uint64_t pages_read; /* from the medium, to be read or written in part */
};

struct sim_disk;

struct sim_disk *sim_disk_create(uint64_t seed, uint64_t capacity_bytes, struct sim_counts *counts);
void sim_disk_destroy(struct sim_disk *s);
struct sim_disk *sim_disk_copy(const struct sim_disk *s); /* the same bytes, no open files, alive */
struct disk *sim_disk_door(struct sim_disk *s);

/* Dies inside the `operations`-th change from now (1 is the next); 0: not. `died` is called then.
 */
void sim_disk_die_in(struct sim_disk *s, uint64_t operations, void (*died)(void *context),
                     void *context);
void sim_disk_die(struct sim_disk *s); /* now, between operations */
bool sim_disk_is_dead(const struct sim_disk *s);

/* The next life after a power cut, or after the process alone was killed. No file is open. */
void sim_disk_power(struct sim_disk *s);
void sim_disk_kill(struct sim_disk *s);

/* Damage to what both images hold; false: no such file or offset. */
bool sim_disk_damage(struct sim_disk *s, const char *name, uint64_t offset, const void *bytes,
                     size_t size);
bool sim_disk_truncate(struct sim_disk *s, const char *name, uint64_t size);
bool sim_disk_forget(struct sim_disk *s, const char *name); /* the file is gone */
void sim_disk_set_capacity(struct sim_disk *s, uint64_t bytes);
/* The live bytes, or NULL. */
const char *sim_disk_bytes(const struct sim_disk *s, const char *name, uint64_t *ret_size);

#endif

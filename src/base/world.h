/* world.h - the only access to clocks and randomness.
 *
 * Pure code takes `now_ms` and random bytes as arguments; the outer layers get them here. Time
 * is REALTIME at the first call plus BOOTTIME since, so it never goes back while the process
 * lives; world_time_floor() keeps it from going behind what an earlier process wrote. The
 * program's clock follows a stepped wall clock slowly: forward at most 1 ms in 10, backward at
 * half speed. Any thread. */
#ifndef BASE_WORLD_H
#define BASE_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t world_now_ms(void);       /* milliseconds since 1970 UTC, never decreasing */
uint64_t world_monotonic_ns(void); /* for durations only */
uint64_t world_boot_ms(void);      /* CLOCK_BOOTTIME, read now; also rises in standby */
/* The time for deadlines that another machine's clock has set: the wall clock's, if that was
 * ahead of ours when it was last read. Only for results that become stricter by it, and that are
 * not recorded. */
uint64_t world_expiry_ms(uint64_t now_ms);
/* The wall clock itself, for comparison with other machines' clocks: it may go back. */
uint64_t world_wall_ns(void);
void world_time_floor(uint64_t not_before_ms);
/* Reads the wall clock and sets the slew; call about once a second, from any thread. */
void world_time_discipline(void);
/* The text in /healthz about a clock that was set by more than a minute, until our clock has
 * caught up; false: no text. */
enum { CLOCK_TROUBLE_TEXT = 200 };
bool world_clock_trouble(char to[CLOCK_TROUBLE_TEXT]);

/* Cryptographic randomness from the kernel; ends the process if there is none. */
void world_random(void *bytes, size_t size);

/* A buffer of randomness, so that an id costs no system call. Owned by one thread. A zeroed one
 * is filled by the kernel; `refill` (usually crypto_random) may fill it at less cost. */
struct chance {
    uint8_t pool[4096];
    size_t left;
    void (*refill)(void *bytes, size_t size);
};
void chance_take(struct chance *c, void *bytes, size_t size); /* size <= 64 */

#endif

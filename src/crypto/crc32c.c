/* crc32c.c - CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected 0x82F63B78; RFC 3720 B.4).
 *
 * The SSE4.2 instruction takes eight bytes at a time. If the processor lacks it, eight tables
 * replace it (slicing by eight: Kounavis and Berry 2005). The choice is made once, at load.
 *
 * The instruction has a latency of three cycles but one can begin in each cycle, so a single
 * chain leaves the processor idle for two cycles of three. Long inputs are therefore taken as
 * three lanes of LANE_BYTES side by side. A CRC is linear: the sum of a text is that of its
 * first part, carried over as many zero bytes as the rest has, XOR that of the rest begun at 0.
 * Four tables carry a sum over one lane of zeros. */
#include "crypto/crypto.h"

#include <pthread.h>

#define POLYNOMIAL 0x82F63B78u

enum { LANE_BYTES = 1024 };

static uint32_t table[8][256];
static uint32_t over_lane[4][256]; /* of byte 0 … 3 of a sum: its value after LANE_BYTES zeros */
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

static void table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++)
            table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 255];

    for (int byte = 0; byte < 4; byte++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = i << (8 * byte);
            for (int zeros = 0; zeros < LANE_BYTES; zeros++) crc = crc >> 8 ^ table[0][crc & 255];
            over_lane[byte][i] = crc;
        }
}

static uint32_t crc_by_table(uint32_t crc, const uint8_t *at, size_t size)
{
    pthread_once(&table_made, table_make);
    for (; size >= 8; at += 8, size -= 8) {
        crc ^=
            (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        crc = table[7][crc & 255] ^ table[6][crc >> 8 & 255] ^ table[5][crc >> 16 & 255] ^
              table[4][crc >> 24] ^ table[3][at[4]] ^ table[2][at[5]] ^ table[1][at[6]] ^
              table[0][at[7]];
    }
    while (size-- > 0) crc = crc >> 8 ^ table[0][(crc ^ *at++) & 255];
    return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>

static uint32_t carry_over_lane(uint64_t crc)
{
    return over_lane[0][crc & 255] ^ over_lane[1][crc >> 8 & 255] ^ over_lane[2][crc >> 16 & 255] ^
           over_lane[3][crc >> 24 & 255];
}

__attribute__((target("sse4.2"))) static uint32_t crc_of_three_lanes(uint32_t seed,
                                                                     const uint8_t *at)
{
    uint64_t first = seed, second = 0, third = 0;
    for (const uint8_t *end = at + LANE_BYTES; at < end; at += 8) {
        uint64_t words[3];
        memcpy(&words[0], at, 8);
        memcpy(&words[1], at + LANE_BYTES, 8);
        memcpy(&words[2], at + 2 * LANE_BYTES, 8);
        first = _mm_crc32_u64(first, words[0]);
        second = _mm_crc32_u64(second, words[1]);
        third = _mm_crc32_u64(third, words[2]);
    }
    second ^= carry_over_lane(first);
    return (uint32_t)third ^ carry_over_lane(second);
}

__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t seed,
                                                                     const uint8_t *at, size_t size)
{
    if (size >= 3 * LANE_BYTES) pthread_once(&table_made, table_make);
    for (; size >= 3 * LANE_BYTES; at += 3 * LANE_BYTES, size -= 3 * LANE_BYTES)
        seed = crc_of_three_lanes(seed, at);
    uint64_t crc = seed, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    uint32_t last = (uint32_t)crc;
    while (size-- > 0) last = _mm_crc32_u8(last, *at++);
    return last;
}

static bool has_instruction(void) { return __builtin_cpu_supports("sse4.2") != 0; }
#else
static uint32_t crc_by_instruction(uint32_t seed, const uint8_t *at, size_t size)
{
    return crc_by_table(seed, at, size);
}

static bool has_instruction(void) { return false; }
#endif

uint32_t crc32c(uint32_t seed, const void *bytes, size_t size)
{
    if (has_instruction()) return ~crc_by_instruction(~seed, bytes, size);
    return ~crc_by_table(~seed, bytes, size);
}

uint32_t crc32c_portable(uint32_t seed, const void *bytes, size_t size)
{
    return ~crc_by_table(~seed, bytes, size);
}

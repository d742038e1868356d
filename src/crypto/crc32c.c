/* crc32c.c - CRC-32C (Castagnoli polynomial 0x1EDC6F41, reflected 0x82F63B78; RFC 3720 B.4).
 *
 * The SSE4.2 instruction takes eight bytes at a time; where the processor lacks it, eight tables
 * do (slicing by eight: Kounavis and Berry 2005). Which one is found out once, at load. */
#include "crypto/crypto.h"

#include <pthread.h>

#define POLYNOMIAL 0x82F63B78u

static uint32_t table[8][256];
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

__attribute__((target("sse4.2"))) static uint32_t crc_by_instruction(uint32_t seed,
                                                                     const uint8_t *at, size_t size)
{
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

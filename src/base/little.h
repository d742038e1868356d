/* little.h - numbers in little-endian bytes, at any alignment. Pure. */
#ifndef BASE_LITTLE_H
#define BASE_LITTLE_H

#include <stdint.h>

static inline void little_put(char *to, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) to[i] = (char)(unsigned char)(value >> (8 * i));
}

static inline uint64_t little_get(const char *from, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = bytes; i-- > 0;) value = value << 8 | (unsigned char)from[i];
    return value;
}

static inline void little_put16(char *to, uint16_t value) { little_put(to, value, 2); }
static inline void little_put32(char *to, uint32_t value) { little_put(to, value, 4); }
static inline void little_put64(char *to, uint64_t value) { little_put(to, value, 8); }
static inline uint16_t little_get16(const char *from) { return (uint16_t)little_get(from, 2); }
static inline uint32_t little_get32(const char *from) { return (uint32_t)little_get(from, 4); }
static inline uint64_t little_get64(const char *from) { return little_get(from, 8); }

#endif

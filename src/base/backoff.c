#include "base/backoff.h"

#include "base/world.h"

uint32_t backoff_ms(const struct backoff *b, uint64_t failures)
{
    uint32_t chance, most = b->first_ms;
    for (uint64_t i = 1; i < failures && most < b->most_ms; i++) most *= 2;
    if (most > b->most_ms) most = b->most_ms;
    world_random(&chance, sizeof chance);
    return most / 2 + chance % (most - most / 2 + 1);
}

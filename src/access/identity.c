#include "access/identity.h"

bool identity_copy(const struct identity *from, struct arena *arena, struct identity *ret)
{
    *ret = (struct identity){.provider = arena_copy(arena, from->provider),
                             .subject = arena_copy(arena, from->subject),
                             .person = arena_copy(arena, from->person),
                             .tenant = arena_copy(arena, from->tenant),
                             .roles = from->roles,
                             .claims = arena_array(arena, struct claim, from->claim_count),
                             .claim_count = from->claim_count,
                             .expires_at = from->expires_at};
    if (arena->overflow) return false;
    for (size_t i = 0; i < from->claim_count; i++)
        ret->claims[i] = (struct claim){.name = arena_copy(arena, from->claims[i].name),
                                        .value = arena_copy(arena, from->claims[i].value)};
    return !arena->overflow;
}

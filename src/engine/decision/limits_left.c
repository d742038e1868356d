#include "engine/decision/limits_left.h"

#include "base/check.h"
#include "base/limits.h"
#include "json/json.h"

enum { LEFT_BYTES_MAX = 320 }; /* of one limit */

static void put_left(struct buf *b, const struct policy_limit *l, const struct limit_used *used,
                     bool is_camel)
{
    buf_put_literal(b, "{\"policy\":");
    json_put_string(b, l->policy_name);
    buf_put_literal(b, ",\"rule\":");
    json_put_string(b, l->rule_id);
    buf_printf(b, ",\"per\":\"%s\"", limit_per_name(l->per));
    if (l->count_max != 0) {
        buf_put_literal(b, ",\"left\":");
        buf_put_u64(b, used->count < l->count_max ? l->count_max - used->count : 0);
    }
    if (l->has_max) {
        int64_t left = used->sum < l->amount_max ? l->amount_max - used->sum : 0;
        buf_put(b, is_camel ? STR(",\"leftSum\":") : STR(",\"left_sum\":"));
        json_put_number(b, (double)left / AMOUNT_SCALE);
    }
    buf_put_byte(b, '}');
}

struct str limits_left_json(const struct policy_limit *limits, const struct limit_told *told,
                            size_t count, bool is_camel, struct arena *arena)
{
    check(count <= LIMIT_LIMITS_PER_REQUEST);
    const size_t most = count * LEFT_BYTES_MAX + 2;
    char *bytes = arena_bytes(arena, most);
    if (bytes == NULL) return (struct str){0};
    struct buf b = buf_over(bytes, most);
    buf_put_byte(&b, '[');
    for (size_t i = 0; i < count; i++) {
        if (i > 0) buf_put_byte(&b, ',');
        put_left(&b, &limits[i], &told[i].used, is_camel);
    }
    buf_put_byte(&b, ']');
    return b.overflow ? (struct str){0} : buf_view(&b);
}

#include "pipeline/topic/topic.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/id.h"
#include "base/limits.h"
#include "json/json.h"

/* ---- places ---- */

static uint64_t fnv(uint64_t hash, struct str bytes)
{
    for (size_t i = 0; i < bytes.size; i++)
        hash = (hash ^ (unsigned char)bytes.bytes[i]) * 0x100000001b3;
    return hash;
}

uint32_t topic_partition(struct str node, struct str journal, uint32_t partitions)
{
    check(partitions > 0);
    uint64_t hash = fnv(fnv(fnv(0xcbf29ce484222325, node), str_of("\0", 1)), journal);
    return (uint32_t)((hash ^ hash >> 32) & 0xffffffff) % partitions;
}

static bool is_name(struct str s)
{
    size_t bad;
    return s.size > 0 && s.size <= LIMIT_ID_CHARACTERS && memchr(s.bytes, 0, s.size) == NULL &&
           str_is_utf8(s, &bad);
}

bool topic_position_read(const struct topic_headers *h, struct topic_position *ret,
                         const char **ret_why)
{
    uint64_t seq = 0;
    const char *why = NULL;
    if (!str_equal(h->schema, STR(TOPIC_SCHEMA)))
        why = "header schema is not " TOPIC_SCHEMA;
    else if (!is_name(h->node))
        why = "header node is missing or not a name";
    else if (!is_name(h->journal))
        why = "header journal is missing or not a name";
    else if (!str_to_u64_hex(h->epoch, &(uint64_t){0}))
        why = "header epoch is missing or not 16 hex digits";
    else if (!str_to_u64(h->seq, &seq) || seq == 0 || seq > INT64_MAX / 2)
        why = "header seq is missing or not a number";
    if (why != NULL) {
        *ret_why = why;
        return false;
    }
    *ret = (struct topic_position){
        .node = h->node, .journal = h->journal, .epoch = h->epoch, .seq = seq};
    return true;
}

/* ---- the event's own members ----
 *
 *   object = "{" [ member *("," member) ] "}"     member = string ":" value
 *   value  = string | ("{" | "[") … its closing one | everything up to "," or "}"
 *
 * Canonical JSON has no space between tokens, so a text with a space there is not one of our
 * events. Strings are skipped as a whole. Inside a nested value only the depth is counted. */

static bool skip_string(struct str s, size_t *at, bool *ret_escaped)
{
    if (*at >= s.size || s.bytes[*at] != '"') return false;
    for (size_t i = *at + 1; i < s.size; i++) {
        if (s.bytes[i] == '\\') {
            *ret_escaped = true;
            i++;
        } else if (s.bytes[i] == '"') {
            *at = i + 1;
            return true;
        }
    }
    return false;
}

static bool skip_nested(struct str s, size_t *at)
{
    size_t depth = 0;
    bool ignored = false;
    while (*at < s.size) {
        char c = s.bytes[*at];
        if (c == '"') {
            if (!skip_string(s, at, &ignored)) return false;
            continue;
        }
        if (c == '{' || c == '[') depth++;
        if (c == '}' || c == ']') depth--;
        ++*at;
        if (depth == 0) return true;
    }
    return false;
}

static bool skip_value(struct str s, size_t *at, bool *ret_escaped)
{
    if (*at >= s.size) return false;
    char c = s.bytes[*at];
    if (c == '"') return skip_string(s, at, ret_escaped);
    if (c == '{' || c == '[') return skip_nested(s, at);
    size_t from = *at;
    while (*at < s.size && s.bytes[*at] != ',' && s.bytes[*at] != '}') ++*at;
    return *at > from;
}

static struct str unescape(struct str quoted, struct arena *arena)
{
    struct json *v;
    struct fault ignored;
    if (json_read(quoted, &(struct json_options){.nul_anywhere = true}, arena, &v, &ignored) !=
        ERR_OK)
        return (struct str){0};
    return v->string;
}

static struct str *wanted(struct topic_event *e, struct str name)
{
    if (str_equal(name, STR("event_id"))) return &e->event_id;
    if (str_equal(name, STR("kind"))) return &e->kind;
    if (str_equal(name, STR("tenant_id"))) return &e->tenant_id;
    if (str_equal(name, STR("trace_id"))) return &e->trace_id;
    return NULL;
}

static bool find_members(struct str s, struct arena *arena, struct topic_event *ret)
{
    size_t at = 1;
    if (s.size < 2 || s.bytes[0] != '{') return false;
    if (s.bytes[1] == '}') return s.size == 2;
    for (;;) {
        bool escaped = false, ignored = false;
        size_t name = at;
        if (!skip_string(s, &at, &ignored) || at >= s.size || s.bytes[at] != ':') return false;
        struct str *to = wanted(ret, str_of(s.bytes + name + 1, at - name - 2));
        size_t value = ++at;
        if (!skip_value(s, &at, &escaped) || at >= s.size) return false;
        if (to != NULL && s.bytes[value] == '"') {
            *to = str_of(s.bytes + value + 1, at - value - 2);
            if (escaped) *to = unescape(str_of(s.bytes + value, at - value), arena);
        }
        char after = s.bytes[at++];
        if (after == '}') return at == s.size;
        if (after != ',') return false;
    }
}

bool topic_event_find(struct str json, struct arena *arena, struct topic_event *ret)
{
    *ret = (struct topic_event){0};
    if (find_members(json, arena, ret)) return true;
    *ret = (struct topic_event){0};
    return false;
}

bool topic_traceparent(const struct topic_event *e, char to[TOPIC_TRACEPARENT_TEXT])
{
    static const uint8_t zeros[16];
    uint8_t trace[sizeof zeros];
    struct id id;
    if (e->trace_id.size != 2 * sizeof trace || !hex_read(e->trace_id.bytes, trace, sizeof trace))
        return false;
    if (memcmp(trace, zeros, sizeof trace) == 0 || !id_read("evt_", e->event_id, &id)) return false;
    struct buf b = buf_over(to, TOPIC_TRACEPARENT_TEXT);
    buf_put_literal(&b, "00-");
    buf_put(&b, e->trace_id);
    buf_put_byte(&b, '-');
    buf_put_hex(&b, id.bytes + ID_BYTES - 8, 8);
    buf_put_literal(&b, "-00");
    check(b.size == TOPIC_TRACEPARENT_TEXT);
    return true;
}

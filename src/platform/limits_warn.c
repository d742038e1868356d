#include "platform/limits_warn.h"

#include "base/limits.h"
#include "base/world.h"
#include "store/policy_store.h"

void limits_warn(struct store *s, struct str tenant, const struct policy_document *next,
                 struct policy_problems *problems)
{
    struct arena arena;
    struct buf stored;
    struct json *root;
    struct fault ignored;
    struct policy_problems of_stored;
    struct policy_document *before;
    char etag[POLICY_ETAG_TEXT];
    struct str name = policy_document_name(next);
    if (!policy_document_has_limits(next)) return;
    arena_init(&arena, 64 << 10, 16 * LIMIT_POLICY_BODY_BYTES);
    buf_init(&stored, 4 << 10, 8 * LIMIT_POLICY_BODY_BYTES);
    bool there = policy_store_get(s, tenant, name, &stored, etag, &ignored) == ERR_OK &&
                 json_read(buf_view(&stored), NULL, &arena, &root, &ignored) == ERR_OK;
    const struct json *active = there ? json_get(root, STR("is_active")) : NULL;
    if (json_is_bool(active) && active->type == JSON_TRUE &&
        policy_load_untested(name, json_text(root, STR("content")), &before, &of_stored) ==
            ERR_OK) {
        policy_limit_changes(before, next, world_now_ms(), problems);
        policy_document_release(before);
    }
    buf_fini(&stored);
    arena_fini(&arena);
}

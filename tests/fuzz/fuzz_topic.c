/* fuzz_topic.c - what a message of the topic says, and the members that headers
 * repeat. First byte: which. */
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "json/json.h"
#include "pipeline/topic/topic.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where the strict reader takes the text, both see the same members. */
static void compare(struct str text, struct arena *arena, const struct topic_event *e)
{
    struct json *root;
    struct fault ignored;
    if (json_read(text, &(struct json_options){.nul_anywhere = true}, arena, &root, &ignored) !=
            ERR_OK ||
        !json_is_object(root))
        return;
    char bytes[1 << 16];
    struct buf canonical = buf_over(bytes, sizeof bytes);
    json_put_canonical(&canonical, root);
    if (canonical.overflow || !str_equal(buf_view(&canonical), text)) return;
    check(str_equal(e->event_id, json_text(root, STR("event_id"))) &&
          str_equal(e->kind, json_text(root, STR("kind"))));
    check(str_equal(e->tenant_id, json_text(root, STR("tenant_id"))) &&
          str_equal(e->trace_id, json_text(root, STR("trace_id"))));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct str text = str_of((const char *)data + 1, size - 1);
    struct arena arena;
    arena_init(&arena, 1 << 10, 1 << 20);
    if (data[0] % 2 == 0) {
        struct topic_event e;
        if (topic_event_find(text, &arena, &e)) compare(text, &arena, &e);
    } else {
        struct topic_headers h = {0};
        struct str *const parts[] = {&h.schema, &h.node, &h.journal, &h.epoch, &h.seq};
        for (size_t i = 0; i < 5 && !str_is_absent(text); i++) str_split(&text, '\n', parts[i]);
        struct topic_position p;
        const char *why = NULL;
        if (topic_position_read(&h, &p, &why))
            check(p.seq > 0 && p.epoch.size == 16 && topic_partition(p.node, p.journal, 7) < 7);
        else
            check(why != NULL);
    }
    arena_fini(&arena);
    return 0;
}

/* fuzz_event.c - the audit event's reader and writer.
 *
 * What must hold for any bytes: an event that was read is written in canonical form, and what was
 * written is read again to the same bytes; a fault's texts are UTF-8. */
#include "base/check.h"
#include "base/limits.h"
#include "event/event.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void event_is_canonical(struct str text, struct arena *arena)
{
    static char bytes[LIMIT_EVENT_BYTES * 8];
    static const struct json_options options = {.nul_anywhere = true};
    struct buf out = buf_over(bytes, sizeof bytes);
    struct json *root;
    check(json_read(text, &options, arena, &root, NULL) == ERR_OK);
    json_put_canonical(&out, root);
    check(!out.overflow && str_equal(buf_view(&out), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char once_bytes[LIMIT_EVENT_BYTES * 8], twice_bytes[LIMIT_EVENT_BYTES * 8];
    static struct arena arena;
    if (arena.first == NULL) arena_init(&arena, 1 << 16, 64 << 20);
    arena_reset(&arena);
    struct event e, again;
    struct fault f;
    size_t wrong;
    enum err err = event_read(str_of((const char *)data, size), &arena, &e, &f);
    if (err != ERR_OK) {
        check(f.err == err && f.text[0] != '\0');
        check(str_is_utf8(str_from(f.text), &wrong) && str_is_utf8(str_from(f.field), &wrong));
        return 0;
    }
    struct buf once = buf_over(once_bytes, sizeof once_bytes),
               twice = buf_over(twice_bytes, sizeof twice_bytes);
    event_put(&once, &e);
    check(!once.overflow);
    event_is_canonical(buf_view(&once), &arena);
    if (once.size > LIMIT_EVENT_BYTES)
        return 0; /* canonical numbers can be longer than they came */
    check(event_read_posted(buf_view(&once), &arena, &again, NULL) == ERR_OK);
    event_put(&twice, &again);
    check(str_equal(buf_view(&once), buf_view(&twice)));
    struct event_outcome outcome;
    twice.size = 0;
    event_put_told(&twice, &again, &outcome);
    check(str_equal(buf_view(&once), buf_view(&twice)));
    twice.size = 0;
    event_put_outcome(&twice, buf_view(&once), &outcome);
    event_is_canonical(buf_view(&twice), &arena);
    return 0;
}

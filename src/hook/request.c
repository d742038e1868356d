#include "hook/request.h"

#include "base/check.h"
#include "crypto/crypto.h"

static const struct {
    size_t text_bytes, head_bytes;
} sizes[] = {[HOOK_PROJECT_LARGE] = {HOOK_TEXT_BYTES, HOOK_HEAD_BYTES},
             [HOOK_PROJECT_SHORT] = {HOOK_SHORT_TEXT_BYTES, HOOK_SHORT_HEAD_BYTES},
             [HOOK_PROJECT_WHOLE] = {0, HOOK_HEAD_BYTES}};

enum { PATH_BYTES = 8 << 10, INPUT_BYTES_MAX = 256 << 20 };

/* ---- projections ---- */

/* In canonical form, so that it can be compared with what comes back. */
static void put_projection(struct buf *out, struct str bytes, size_t head_bytes, bool is_json)
{
    char hex[SHA256_HEX];
    sha256_write_hex(sha256_once(bytes), hex);
    buf_put_literal(out, "{\"bytes\":");
    buf_put_u64(out, bytes.size);
    buf_put_literal(out, ",\"head\":");
    json_put_string(out, str_cut(bytes, head_bytes));
    if (is_json) buf_put_literal(out, ",\"json\":true");
    buf_put_literal(out, ",\"sha256\":\"");
    buf_put(out, str_of(hex, sizeof hex));
    buf_put_literal(out, "\"}");
}

struct writer {
    enum hook_projection projection;
    struct buf *out;
    struct buf path;    /* of the value, as a JSON pointer */
    struct buf *places; /* the pointers of what was projected */
    size_t projected;
};

static void path_add(struct buf *path, struct str name)
{
    buf_put_byte(path, '/');
    for (size_t i = 0; i < name.size; i++) {
        if (name.bytes[i] == '~')
            buf_put_literal(path, "~0");
        else if (name.bytes[i] == '/')
            buf_put_literal(path, "~1");
        else
            buf_put_byte(path, name.bytes[i]);
    }
}

static bool is_projected(enum hook_projection projection, const struct json *v)
{
    return json_is_string(v) && v->string.size > sizes[projection].text_bytes;
}

static void put_place(struct writer *w)
{
    if (w->projected++ > 0) buf_put_byte(w->places, ',');
    json_put_string(w->places, buf_view(&w->path));
}

static void put_value(struct writer *w, const struct json *v);

static void put_children(struct writer *w, const struct json *v)
{
    bool is_object = json_is_object(v);
    size_t length = w->path.size, index = 0;
    buf_put_byte(w->out, is_object ? '{' : '[');
    for (const struct json *m = v->child; m != NULL; m = m->next, index++) {
        char digits[U64_DIGITS];
        if (index > 0) buf_put_byte(w->out, ',');
        if (is_object) {
            json_put_string(w->out, m->key);
            buf_put_byte(w->out, ':');
        }
        path_add(&w->path, is_object ? m->key : str_of_u64(index, digits));
        put_value(w, m);
        w->path.size = length;
    }
    buf_put_byte(w->out, is_object ? '}' : ']');
}

static void put_value(struct writer *w, const struct json *v)
{
    if (is_projected(w->projection, v)) {
        put_place(w);
        put_projection(w->out, v->string, sizes[w->projection].head_bytes, false);
    } else if (json_is_object(v) || json_is_array(v)) {
        put_children(w, v);
    } else {
        json_put_canonical(w->out, v);
    }
}

/* ---- the request ---- */

static void put_whole(struct writer *w, const struct json *args)
{
    struct buf text;
    buf_init(&text, 4 << 10, INPUT_BYTES_MAX);
    json_put_canonical(&text, args);
    put_place(w);
    if (text.overflow)
        w->out->overflow = true;
    else
        put_projection(w->out, buf_view(&text), sizes[HOOK_PROJECT_WHOLE].head_bytes, true);
    buf_fini(&text);
}

/* The input without what the request leaves out, as a tree that shares the children's values. */
static const struct json *args_of(const struct hook_agent *agent, const struct hook_call *call,
                                  struct arena *arena)
{
    struct json *args = arena_new(arena, struct json);
    if (args == NULL) return NULL;
    args->type = JSON_OBJECT;
    struct json **end = &args->child;
    for (const struct json *m = call->input->child; m != NULL; m = m->next) {
        if (hook_agent_leaves_out(agent, call->tool, m->key)) continue;
        struct json *copy = arena_new(arena, struct json);
        if (copy == NULL) return NULL;
        *copy = *m;
        copy->next = NULL;
        *end = copy;
        end = &copy->next;
        args->count++;
    }
    return args;
}

static void put_member(struct buf *out, const char *name, struct str text)
{
    if (str_is_absent(text)) return;
    buf_put_literal(out, ",\"");
    buf_put(out, str_from(name));
    buf_put_literal(out, "\":");
    json_put_string(out, text);
}

static void put_request(const struct hook_agent *agent, const struct hook_call *call,
                        struct str actor, struct str scope, const struct json *args,
                        struct buf *out, struct buf *places, struct hook_request *ret)
{
    char path[PATH_BYTES];
    struct writer w = {.projection = ret->projection,
                       .out = out,
                       .path = buf_over(path, sizeof path),
                       .places = places};
    buf_put_literal(out, "{\"action\":");
    json_put_string(out, call->tool);
    put_member(out, "actor", actor);
    buf_put_literal(out, ",\"args\":");
    if (ret->projection == HOOK_PROJECT_WHOLE)
        put_whole(&w, args);
    else
        put_value(&w, args);
    if (w.path.overflow) out->overflow = true;
    buf_put_literal(out, ",\"context\":{\"agent\":");
    json_put_string(out, str_from(agent->name));
    put_member(out, "cwd", call->cwd);
    if (w.projected > 0) {
        buf_put_literal(out, ",\"projected\":[");
        buf_put(out, buf_view(places));
        buf_put_byte(out, ']');
    }
    buf_put_byte(out, '}');
    put_member(out, "conversation_id", call->session_id);
    if (!str_is_absent(scope)) {
        buf_put_literal(out, ",\"scope\":[");
        json_put_string(out, scope);
        buf_put_byte(out, ']');
    }
    put_member(out, "tool_call_id", call->call_id);
    buf_put_byte(out, '}');
    ret->projected = w.projected;
    if (places->overflow) out->overflow = true;
}

enum err hook_request_make(const struct hook_agent *agent, const struct hook_call *call,
                           struct str actor, struct str scope, struct arena *arena,
                           struct hook_request *ret, struct fault *f)
{
    char *body = arena_bytes(arena, HOOK_REQUEST_BYTES),
         *pointers = arena_bytes(arena, HOOK_REQUEST_BYTES);
    const struct json *args = args_of(agent, call, arena);
    if (body == NULL || pointers == NULL || args == NULL) return fault_plain(f, ERR_FULL);
    for (enum hook_projection p = HOOK_PROJECT_LARGE; p < HOOK_PROJECTIONS; p++) {
        struct buf out = buf_over(body, HOOK_REQUEST_BYTES),
                   places = buf_over(pointers, HOOK_REQUEST_BYTES);
        *ret = (struct hook_request){.projection = p};
        put_request(agent, call, actor, scope, args, &out, &places, ret);
        if (out.overflow) continue;
        ret->body = buf_view(&out);
        return ERR_OK;
    }
    return fault_set(f, ERR_BODY_TOO_LARGE, "", "the call does not fit into a request of %d bytes",
                     HOOK_REQUEST_BYTES);
}

/* ---- the safe call ---- */

struct rewriter {
    enum hook_projection projection;
    struct buf *out;
    size_t restored;
    bool changed; /* a projection came back with another value */
};

static const struct json *counterpart(const struct json *of, const struct json *child, size_t index)
{
    if (json_is_object(of)) return json_get(of, child->key);
    const struct json *m = json_is_array(of) ? of->child : NULL;
    while (m != NULL && index-- > 0) m = m->next;
    return m;
}

static bool is_the_projection(const struct rewriter *r, const struct json *safe, struct str text)
{
    char expected[HOOK_HEAD_BYTES * 6 + 256], given[sizeof expected];
    struct buf a = buf_over(expected, sizeof expected), b = buf_over(given, sizeof given);
    put_projection(&a, text, sizes[r->projection].head_bytes, false);
    json_put_canonical(&b, safe);
    return !a.overflow && !b.overflow && str_equal(buf_view(&a), buf_view(&b));
}

static void put_safe(struct rewriter *r, const struct json *safe, const struct json *original)
{
    if (original != NULL && is_projected(r->projection, original)) {
        if (is_the_projection(r, safe, original->string)) {
            r->restored++;
            buf_put(r->out, original->raw);
            return;
        }
        r->changed = true;
    }
    if (!json_is_object(safe) && !json_is_array(safe)) {
        json_put_canonical(r->out, safe);
        return;
    }
    bool is_object = json_is_object(safe);
    size_t index = 0;
    buf_put_byte(r->out, is_object ? '{' : '[');
    for (const struct json *m = safe->child; m != NULL; m = m->next, index++) {
        if (index > 0) buf_put_byte(r->out, ',');
        if (is_object) {
            json_put_string(r->out, m->key);
            buf_put_byte(r->out, ':');
        }
        put_safe(r, m, original == NULL ? NULL : counterpart(original, m, index));
    }
    buf_put_byte(r->out, is_object ? '}' : ']');
}

/* What the request left out explains the call or bounds its time: the tool may require it. */
static void put_left_out(const struct hook_agent *agent, const struct hook_call *call,
                         const struct json *safe_args, struct buf *out)
{
    check(out->overflow || out->bytes[out->size - 1] == '}');
    if (out->overflow) return;
    for (const struct json *m = call->input->child; m != NULL; m = m->next) {
        if (!hook_agent_leaves_out(agent, call->tool, m->key) ||
            json_get(safe_args, m->key) != NULL)
            continue;
        out->size--;
        if (out->bytes[out->size - 1] != '{') buf_put_byte(out, ',');
        json_put_string(out, m->key);
        buf_put_byte(out, ':');
        buf_put(out, m->raw);
        buf_put_byte(out, '}');
    }
}

enum err hook_rewrite_make(const struct hook_agent *agent, const struct hook_call *call,
                           const struct hook_request *request, struct str safe_tool,
                           const struct json *safe_args, struct buf *out, struct fault *f)
{
    if (!str_equal(safe_tool, call->tool))
        return fault_set(f, ERR_BAD_VALUE, "", "the agent cannot be made to call another tool");
    if (!json_is_object(safe_args))
        return fault_set(f, ERR_BAD_VALUE, "", "the safe call has no arguments");
    if (request->projection == HOOK_PROJECT_WHOLE)
        return fault_set(f, ERR_BAD_VALUE, "", "the call is too large to be changed");
    struct str only = str_from(agent->only_rewritten);
    if (!str_is_absent(only) &&
        (safe_args->count != 1 || !json_is_string(json_get(safe_args, only)) ||
         call->input->count != 1 || json_get(call->input, only) == NULL))
        return fault_set(f, ERR_BAD_VALUE, "", "%s can only change an input that is %s alone",
                         agent->title, agent->only_rewritten);
    struct rewriter r = {.projection = request->projection, .out = out};
    put_safe(&r, safe_args, call->input);
    if (r.changed || r.restored != request->projected)
        return fault_set(
            f, ERR_BAD_VALUE, "",
            "the safe call changes a text of which the engine has seen the digest only");
    put_left_out(agent, call, safe_args, out);
    return out->overflow ? fault_plain(f, ERR_FULL) : ERR_OK;
}

/* cel_conformance.c - the tests of the CEL specification as lines of JSON, answered line by line.
 *
 *   in:  {"expr": "x + 1", "container": "", "disable_check": false, "check_only": false,
 *         "vars": {"x": "int"}, "bindings": {"x": {"int64_value": "41"}}, …}
 *   out: {"value": {"int64_value": "42"}}   {"type": "int"} (check_only)   {"error": "no such key:
 * x"}
 *
 * A value has one member: null_value bool_value int64_value uint64_value double_value string_value
 * bytes_value (base64) list_value map_value ([[key, value], …]) type_value timestamp_value and
 * duration_value ({seconds, nanos}). */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include <stdio.h>

#include "cel/value.h"

enum { LINE_MAX_BYTES = 4 << 20, VARIABLES_MAX = 256, RUN_ARENA = 64 << 20, DEPTH_MAX = 64 };

struct session {
    struct arena arena;     /* of one line */
    struct cel_meter meter; /* for the values of bindings */
    struct buf out;
};

/* ---- values in ---- */

static bool value_in(struct session *s, const struct json *v, struct cel_value *ret);

static int64_t signed_number(const struct json *v)
{
    char text[32];
    if (json_is_number(v) && v->number_kind == JSON_INT64) return v->int64;
    if (!json_is_string(v)) return json_is_number(v) ? (int64_t)v->number : 0;
    snprintf(text, sizeof text, "%.*s", STR_FORMAT(v->string));
    return strtoll(text, NULL, 10);
}

static bool base64_in(struct session *s, struct str text, struct cel_value *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = arena_bytes(&s->arena, text.size + 1);
    size_t size = 0;
    uint32_t group = 0, bits = 0;
    for (size_t i = 0; to != NULL && i < text.size && text.bytes[i] != '='; i++) {
        const char *digit = text.bytes[i] == '\0' ? NULL : strchr(digits, text.bytes[i]);
        if (digit == NULL) return false;
        group = group << 6 | (uint32_t)(digit - digits);
        bits += 6;
        if (bits >= 8) to[size++] = (char)(group >> (bits -= 8));
    }
    *ret = cel_bytes(to, size);
    return to != NULL;
}

static bool many_in(struct session *s, const struct json *v, bool is_map, struct cel_value *ret)
{
    struct cel_value *items = cel_take_values(&s->meter, 2 * (size_t)v->count + 1);
    size_t at = 0;
    if (items == NULL || !json_is_array(v)) return false;
    for (const struct json *e = v->child; e != NULL; e = e->next) {
        if (is_map && (!json_is_array(e) || e->count != 2 || !value_in(s, e->child, &items[at++])))
            return false;
        if (!value_in(s, is_map ? e->child->next : e, &items[at++])) return false;
    }
    *ret = is_map ? cel_map_make(&s->meter, items, v->count) : cel_list(items, at);
    return !cel_is_error(*ret);
}

static double double_in(const struct json *v)
{
    if (!json_is_string(v)) return v->number;
    if (str_equal(v->string, STR("NaN"))) return NAN;
    if (str_equal(v->string, STR("-0"))) return -0.0;
    return str_equal(v->string, STR("Infinity")) ? INFINITY : -INFINITY;
}

static bool type_in(struct str name, struct cel_value *ret)
{
    for (unsigned kind = CEL_NULL; kind <= CEL_TYPE; kind++)
        if (str_equal(name, str_from(cel_kind_name(kind)))) {
            *ret = cel_type_value(kind);
            return true;
        }
    return false;
}

static bool duration_in(const struct json *v, struct cel_value *ret)
{
    int64_t seconds = signed_number(json_get(v, STR("seconds"))),
            nanos = signed_number(json_get(v, STR("nanos"))), ns;
    if (__builtin_mul_overflow(seconds, (int64_t)1000000000, &ns) ||
        __builtin_add_overflow(ns, nanos, &ns))
        return false;
    *ret = cel_duration(ns);
    return true;
}

static bool value_in(struct session *s, const struct json *v, struct cel_value *ret)
{
    char text[32];
    if (!json_is_object(v) || v->count != 1) return false;
    const struct json *of = v->child;
    struct str kind = of->key;
    if (str_equal(kind, STR("null_value")))
        *ret = cel_null();
    else if (str_equal(kind, STR("bool_value")))
        *ret = cel_bool(of->type == JSON_TRUE);
    else if (str_equal(kind, STR("int64_value")))
        *ret = cel_int(signed_number(of));
    else if (str_equal(kind, STR("uint64_value"))) {
        snprintf(text, sizeof text, "%.*s", json_is_string(of) ? (int)of->string.size : 0,
                 json_is_string(of) ? of->string.bytes : "");
        *ret = cel_uint(strtoull(text, NULL, 10));
    } else if (str_equal(kind, STR("double_value")))
        *ret = cel_double(double_in(of));
    else if (str_equal(kind, STR("string_value")) && json_is_string(of))
        *ret = cel_of_str(of->string);
    else if (str_equal(kind, STR("bytes_value")) && json_is_string(of))
        return base64_in(s, of->string, ret);
    else if (str_equal(kind, STR("list_value")))
        return many_in(s, of, false, ret);
    else if (str_equal(kind, STR("map_value")))
        return many_in(s, of, true, ret);
    else if (str_equal(kind, STR("type_value")) && json_is_string(of))
        return type_in(of->string, ret);
    else if (str_equal(kind, STR("timestamp_value")))
        *ret = cel_timestamp(signed_number(json_get(of, STR("seconds"))),
                             (uint32_t)signed_number(json_get(of, STR("nanos"))));
    else if (str_equal(kind, STR("duration_value")))
        return duration_in(of, ret);
    else
        return false;
    return true;
}

/* ---- values out ---- */

static void value_out(struct session *s, struct cel_value v, unsigned depth);

static void bytes_out(struct session *s, struct cel_value v)
{
    struct json *text;
    if (cel_to_json(v, 1, &s->arena, &text) == ERR_OK) json_put_string(&s->out, text->string);
}

static void double_out(struct buf *out, double number)
{
    if (isnan(number))
        buf_put_literal(out, "\"NaN\"");
    else if (isinf(number))
        buf_put(out, number < 0 ? STR("\"-Infinity\"") : STR("\"Infinity\""));
    else if (number == 0 && signbit(number))
        buf_put_literal(out, "\"-0\"");
    else
        json_put_number(out, number);
}

static void many_out(struct session *s, struct cel_value v, unsigned depth)
{
    struct buf *out = &s->out;
    struct cel_value key, item;
    buf_put_byte(out, '[');
    for (struct cel_walk walk = cel_walk_start(v);
         !out->overflow && cel_walk_next(&walk, &key, &item);) {
        if (walk.at > 1) buf_put_byte(out, ',');
        if (v.kind == CEL_MAP) {
            buf_put_byte(out, '[');
            value_out(s, key, depth + 1);
            buf_put_byte(out, ',');
        }
        value_out(s, item, depth + 1);
        if (v.kind == CEL_MAP) buf_put_byte(out, ']');
    }
    buf_put_byte(out, ']');
}

static void value_out(struct session *s, struct cel_value v, unsigned depth)
{
    struct buf *out = &s->out;
    int64_t seconds = v.integer / 1000000000, nanos = v.integer % 1000000000;
    if (depth > DEPTH_MAX) out->overflow = true;
    if (out->overflow) return;
    buf_put_byte(out, '{');
    switch ((enum cel_kind)v.kind) {
    case CEL_NULL: buf_put_literal(out, "\"null_value\":null"); break;
    case CEL_BOOL: buf_printf(out, "\"bool_value\":%s", v.boolean ? "true" : "false"); break;
    case CEL_INT: buf_printf(out, "\"int64_value\":\"%" PRId64 "\"", v.integer); break;
    case CEL_UINT: buf_printf(out, "\"uint64_value\":\"%" PRIu64 "\"", v.natural); break;
    case CEL_DOUBLE:
        buf_put_literal(out, "\"double_value\":");
        double_out(out, v.number);
        break;
    case CEL_STRING:
        buf_put_literal(out, "\"string_value\":");
        json_put_string(out, cel_text(v));
        break;
    case CEL_BYTES:
        buf_put_literal(out, "\"bytes_value\":");
        bytes_out(s, v);
        break;
    case CEL_LIST:
    case CEL_MAP:
        buf_put(out, v.kind == CEL_LIST ? STR("\"list_value\":") : STR("\"map_value\":"));
        many_out(s, v, depth);
        break;
    case CEL_TIMESTAMP:
        buf_printf(out, "\"timestamp_value\":{\"seconds\":\"%" PRId64 "\",\"nanos\":%u}", v.integer,
                   v.size);
        break;
    case CEL_DURATION:
        buf_printf(out, "\"duration_value\":{\"seconds\":\"%" PRId64 "\",\"nanos\":%d}", seconds,
                   (int)nanos);
        break;
    case CEL_TYPE:
        buf_printf(out, "\"type_value\":\"%s\"", cel_kind_name((enum cel_kind)v.integer));
        break;
    default: buf_printf(out, "\"other_value\":\"%s\"", cel_kind_name((enum cel_kind)v.kind)); break;
    }
    buf_put_byte(out, '}');
}

/* ---- one test ---- */

static void error_out(struct session *s, struct str text)
{
    buf_clear(&s->out);
    buf_put_literal(&s->out, "{\"error\":");
    json_put_string(&s->out, text);
    buf_put_byte(&s->out, '}');
}

static bool is_on(const struct json *test, struct str name)
{
    const struct json *v = json_get(test, name);
    return v != NULL && v->type == JSON_TRUE;
}

/* Every name of `vars` and of `bindings`; one that is bound only is dyn. */
static bool variables_in(struct session *s, const struct json *test, struct cel_variable *variables,
                         struct cel_value *values, size_t *ret_count)
{
    const struct json *declared = json_get(test, STR("vars")),
                      *bound = json_get(test, STR("bindings"));
    size_t count = 0;
    for (const struct json *v = declared == NULL ? NULL : declared->child;
         v != NULL && count < VARIABLES_MAX; v = v->next) {
        const struct cel_type *type =
            json_is_string(v) ? cel_type_read(v->string, &s->arena) : NULL;
        if (type == NULL) return false;
        variables[count] = (struct cel_variable){v->key, type};
        values[count++] = (struct cel_value){0};
    }
    for (const struct json *v = bound == NULL ? NULL : bound->child; v != NULL; v = v->next) {
        size_t at = 0;
        while (at < count && !str_equal(variables[at].name, v->key)) at++;
        if (at == VARIABLES_MAX) return false;
        if (at == count)
            variables[count++] =
                (struct cel_variable){v->key, cel_type_read(STR("dyn"), &s->arena)};
        if (!value_in(s, v, &values[at])) return false;
    }
    *ret_count = count;
    return true;
}

static void answer_program(struct session *s, const struct cel_program *program,
                           const struct cel_value *values, bool check_only)
{
    struct cel_value value;
    buf_clear(&s->out);
    if (check_only) {
        buf_put_literal(&s->out, "{\"type\":\"");
        cel_put_type(&s->out, cel_program_type(program));
        buf_put_literal(&s->out, "\"}");
        return;
    }
    if (cel_run(program, values, &s->arena, NULL, &value)) {
        buf_put_literal(&s->out, "{\"value\":");
        value_out(s, value, 0);
        buf_put_byte(&s->out, '}');
        if (s->out.overflow) error_out(s, STR("the value is too large to be shown"));
        return;
    }
    char text[512];
    struct buf out = buf_over(text, sizeof text);
    cel_put_error(&out, value);
    error_out(s, buf_view(&out));
}

static void answer(struct session *s, struct str line)
{
    const struct json_options options = {.depth_max = JSON_DEPTH_CAP, .nul_anywhere = true};
    struct cel_variable variables[VARIABLES_MAX];
    struct cel_value values[VARIABLES_MAX];
    struct json *test;
    struct fault f;
    size_t count;
    if (json_read(line, &options, &s->arena, &test, &f) != ERR_OK) {
        error_out(s, str_from(f.text));
        return;
    }
    struct str expression = json_text(test, STR("expr"));
    if (str_is_absent(expression) || !variables_in(s, test, variables, values, &count)) {
        error_out(s, STR("the test has a type or a value that is not known here"));
        return;
    }
    struct cel_environment environment = {.variables = variables,
                                          .count = count,
                                          .container = json_text(test, STR("container")),
                                          .unchecked = is_on(test, STR("disable_check")),
                                          .is_strict = true};
    struct cel_problems problems = {0};
    struct cel_program *program = NULL;
    enum err e = cel_compile(expression, &environment, &s->arena, &program, &problems);
    if (e == ERR_OK)
        answer_program(s, program, values, is_on(test, STR("check_only")));
    else
        error_out(s, str_from(problems.count > 0 ? problems.list[0].message : err_sentence(e)));
    cel_program_fini(program);
}

int main(void)
{
    static struct session s;
    char *line = NULL;
    size_t room = 0;
    ssize_t size;
    arena_init(&s.arena, 1 << 20, RUN_ARENA);
    buf_init(&s.out, 4096, LINE_MAX_BYTES);
    while ((size = getline(&line, &room, stdin)) > 0) {
        arena_reset(&s.arena);
        s.meter = (struct cel_meter){
            .arena = &s.arena, .cost_left = UINT64_MAX, .memory_left = RUN_ARENA};
        answer(&s, str_of(line, (size_t)size));
        fwrite(s.out.bytes, 1, s.out.size, stdout);
        fputc('\n', stdout);
        fflush(stdout);
    }
    free(line);
    buf_fini(&s.out);
    arena_fini(&s.arena);
    return 0;
}

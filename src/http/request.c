/* request.c - from a whole head to an exchange with a route, or to an error.
 *
 * The order of the checks is fixed. Syntax and framing come first: after an error there, the
 * start of the next request is unknown, so these errors close the connection. Then the target is
 * read, then the headers about the body are checked. If the head is the same as the previous one
 * of this connection, all but the last step is skipped (memo.h). */
#include "base/limits.h"
#include "http/connection.h"
#include "http/target.h"

static enum http_method method_of(struct str text)
{
    if (str_equal(text, STR("POST"))) return HTTP_POST;
    if (str_equal(text, STR("GET"))) return HTTP_GET;
    if (str_equal(text, STR("HEAD"))) return HTTP_HEAD;
    if (str_equal(text, STR("PUT"))) return HTTP_PUT;
    if (str_equal(text, STR("DELETE"))) return HTTP_DELETE;
    return HTTP_OTHER;
}

/* "application/json; charset=utf-8" is application/json. */
static bool media_is(struct str value, struct str type)
{
    value.size = str_find(value, ';');
    while (value.size > 0 &&
           (value.bytes[value.size - 1] == ' ' || value.bytes[value.size - 1] == '\t'))
        value.size--;
    return str_equal_ignoring_case(value, type);
}

static bool media_fits(enum http_body body, struct str type)
{
    if (body == HTTP_BODY_NONE) return true;
    if (str_equal(type, STR("application/json"))) return true; /* the usual spelling */
    if (str_is_absent(type)) return false;
    if (media_is(type, STR("application/json"))) return true;
    if (body == HTTP_BODY_NDJSON) return media_is(type, STR("application/x-ndjson"));
    if (body == HTTP_BODY_FORM_OR_JSON)
        return media_is(type, STR("application/x-www-form-urlencoded"));
    return false;
}

static bool is_as_it_is(struct str coding)
{
    return str_is_absent(coding) || str_equal_ignoring_case(coding, STR("identity"));
}

enum err request_judge_type(const struct http_connection *c, struct fault *f)
{
    const struct http_server *s = c->server;
    struct str type = s->content_type;
    enum http_body body = s->exchange.route->body;
    if (media_fits(body, type)) {
        if (body == HTTP_BODY_NONE || is_as_it_is(s->content_encoding)) return ERR_OK;
        return fault_set(f, ERR_UNSUPPORTED_MEDIA_TYPE, "",
                         "Content-Encoding: no coding is supported; send the body without one");
    }
    if (str_is_absent(type))
        return fault_set(f, ERR_UNSUPPORTED_MEDIA_TYPE, "",
                         "Content-Type is missing: it must be application/json");
    return fault_plain(f, ERR_UNSUPPORTED_MEDIA_TYPE);
}

static enum err find_route(struct http_server *s, struct http_exchange *x, struct fault *f)
{
    struct str path;
    enum err err = target_decode_path(x->path, s->arena, &path, f);
    if (err != ERR_OK) return err;
    const struct route_path *found = routes_find(s->routes, path, x->params);
    if (found == NULL) return fault_set(f, ERR_NOT_FOUND, "", "there is nothing at this path");
    if (found->by_method[x->method] == NULL) {
        x->allow = found->allow;
        return fault_plain(f, ERR_METHOD_NOT_ALLOWED);
    }
    x->route = found->by_method[x->method];
    for (size_t i = 0; i < HTTP_PARAMS_MAX; i++) target_put_slashes(x->params[i]);
    return ERR_OK;
}

static enum err judge_parameters(struct http_server *s, const struct http_exchange *x,
                                 struct fault *f)
{
    if (x->route->parameters == NULL) return ERR_OK;
    struct str query = x->query, name, value;
    while (query_next(&query, &name, &value)) {
        struct str decoded;
        enum err err = query_decode(name, s->arena, &decoded, f);
        if (err != ERR_OK) return err;
        if (!route_knows_parameter(x->route, decoded))
            return fault_set(f, ERR_UNKNOWN_PARAMETER, "",
                             "%.*s: this route has no such query parameter",
                             (int)(decoded.size > 100 ? 100 : decoded.size), decoded.bytes);
        /* Not taken for "all": it may come from a variable that is not set. */
        if (str_is_empty(value))
            return fault_set(f, ERR_BAD_PARAMETER, "",
                             "%.*s: is empty; leave it out, or give it a value",
                             STR_FORMAT(decoded));
    }
    return ERR_OK;
}

static enum err judge_body(struct http_connection *c, struct str expect, bool is_http_1_0,
                           struct fault *f)
{
    if (!str_is_absent(expect) && !is_http_1_0) {
        if (!str_equal_ignoring_case(expect, STR("100-continue")))
            return fault_plain(f, ERR_EXPECTATION_FAILED);
        c->expects_continue = true;
    }
    if (c->length > 0) {
        enum err err = request_judge_type(c, f);
        if (err != ERR_OK) return err;
    }
    if (c->length > c->body_max)
        return fault_set(f, ERR_BODY_TOO_LARGE, "",
                         "the body is over this route's limit of %u bytes", c->body_max);
    return ERR_OK;
}

static void exchange_begin(struct http_connection *c)
{
    struct http_server *s = c->server;
    arena_reset(s->arena);
    s->understood = c;
    s->exchange = (struct http_exchange){.method = HTTP_OTHER,
                                         .method_text = STR(""),
                                         .target = STR(""),
                                         .path = STR(""),
                                         .headers = s->head.fields,
                                         .client = c->client,
                                         .notes = &c->notes,
                                         .arena = s->arena,
                                         .connection = c};
    c->head_only = c->expects_continue = false;
    c->persistence = PERSIST_NOT;
    c->framing = FRAMING_UNKNOWN;
    c->length = 0;
    c->body_max = LIMIT_BODY_BYTES;
}

void request_blank(struct http_connection *c)
{
    exchange_begin(c);
    c->server->exchange.header_count = 0;
}

static void set_body_max(struct http_connection *c)
{
    uint32_t own = c->server->exchange.route->body_max;
    c->body_max = own == 0 ? LIMIT_BODY_BYTES : own;
}

/* Most heads equal the previous one: the checks of that head still hold. Only the body is
 * checked again, because its length differs. */
static enum err recall(struct http_connection *c, struct fault *f)
{
    struct http_server *s = c->server;
    const struct meaning *m = memo_meaning(c->memo);
    arena_reset(s->arena);
    s->understood = c;
    s->content_type = m->content_type;
    s->content_encoding = m->content_encoding;
    s->exchange = m->exchange;
    s->exchange.arena = s->arena;
    s->exchange.connection = c;
    c->head_only = m->exchange.method == HTTP_HEAD;
    c->persistence = m->http_1_0 ? PERSIST_SAID : PERSIST;
    c->framing = m->chunked ? FRAMING_CHUNKED : FRAMING_LENGTH;
    c->expects_continue = false;
    c->length = m->length;
    set_body_max(c);
    return judge_body(c, m->expect, m->http_1_0, f);
}

/* Not if a view points elsewhere: at a path that had to be decoded, or that the target did not
 * have. */
static bool is_memorable(const struct http_exchange *x)
{
    return str_starts(x->target, STR("/")) && str_find(x->path, '%') == x->path.size;
}

static uint64_t missing_names(const struct http_exchange *x)
{
    uint64_t there = 0;
    for (size_t i = 0; i < x->header_count; i++) there |= http_header_bit(x->headers[i].name);
    return ~there;
}

static void remember(struct http_connection *c)
{
    struct http_server *s = c->server;
    const struct head *h = &s->head;
    s->exchange.missing = missing_names(&s->exchange);
    const struct meaning meaning = {.exchange = s->exchange,
                                    .content_type = h->content_type,
                                    .content_encoding = h->content_encoding,
                                    .expect = h->expect,
                                    .length = h->length,
                                    .chunked = h->chunked,
                                    .http_1_0 = h->minor == 0};
    if (c->persistence == PERSIST_NOT || !is_memorable(&s->exchange)) return;
    const char *bytes = c->in.bytes + c->in.from;
    c->recalled = memo_take(&c->memo, bytes, c->head_size, &meaning);
    if (c->recalled) s->exchange.kept = memo_meaning(c->memo)->exchange.kept;
}

static enum err read_anew(struct http_connection *c, struct fault *f)
{
    struct http_server *s = c->server;
    struct head *h = &s->head;
    struct http_exchange *x = &s->exchange;
    exchange_begin(c);

    enum err err = head_parse_request(c->in.bytes + c->in.from, c->head_size, h, f);
    s->content_type = h->content_type;
    s->content_encoding = h->content_encoding;
    if (!str_is_absent(h->method)) x->method_text = h->method;
    if (!str_is_absent(h->target)) x->target = h->target;
    x->method = method_of(x->method_text);
    x->header_count = h->field_count;
    c->head_only = x->method == HTTP_HEAD;
    if (err != ERR_OK) return err;

    c->persistence = !h->keep_alive ? PERSIST_NOT : h->minor == 0 ? PERSIST_SAID : PERSIST;
    if (x->target.size > LIMIT_TARGET_BYTES)
        return fault_set(f, ERR_TARGET_TOO_LONG, "", "the request target is over %d bytes",
                         LIMIT_TARGET_BYTES);
    err = target_split(x->target, &x->path, &x->query, f);
    if (err != ERR_OK) return err;

    /* From here on the end of the request is known: if all of it has arrived, the connection
     * stays open. */
    c->framing = h->chunked ? FRAMING_CHUNKED : FRAMING_LENGTH;
    c->length = h->length;
    err = client_address_forwarded(s->limits.proxies, x->headers, x->header_count, &x->client, f);
    if (err != ERR_OK) return err;
    err = find_route(s, x, f);
    if (err != ERR_OK) return err;
    set_body_max(c);
    err = judge_parameters(s, x, f);
    return err == ERR_OK ? judge_body(c, h->expect, h->minor == 0, f) : err;
}

enum err request_understand(struct http_connection *c, struct fault *f)
{
    if (c->recalled) return recall(c, f);
    enum err err = read_anew(c, f);
    if (err == ERR_OK) remember(c);
    return err;
}

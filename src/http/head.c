/* head.c - llhttp in strict mode, and the checks that it lacks.
 *
 * llhttp is given a whole head at once and nothing after it: bodies are framed by the caller
 * (Content-Length by counting, chunks by chunk.c). So every view lies in one piece, and each line
 * that decides about framing is checked in one place. Compared with feeding llhttp as bytes arrive,
 * this costs one memchr() per line and saves all state between reads.
 *
 * Strict llhttp 8.1 accepts the following, and we refuse it: a bare LF after the request line or
 * before the body, obs-fold (RFC 9112 5.2), an empty header name, several blanks around the
 * target, RTSP and ICE versions, HTTP/0.9, a malformed Host (host.c), two Hosts, a transfer
 * coding beside chunked, chunked in HTTP/1.0, two lines of a header that has one value. Connection
 * is read here, since llhttp accepts no tab in its list. */
#include "http/head.h"

#include <llhttp.h>

#include "http/byte.h"
#include "http/host.h"

enum head_state head_scan(struct head_scan *h, const char *bytes, size_t size, size_t *ret_size)
{
    for (;;) {
        const char *lf = memchr(bytes + h->seen, '\n', size - h->seen);
        if (lf == NULL) {
            h->seen = (uint32_t)size;
            /* A client of another protocol (TLS, for example) is refused at once. */
            if (h->lines == 0 && size > 0 && (bytes[0] < 'A' || bytes[0] > 'Z')) return SCAN_BAD;
            return SCAN_MORE;
        }
        const char *line = bytes + h->line;
        if (lf == line || lf[-1] != '\r') return SCAN_BAD;
        h->line = h->seen = (uint32_t)(lf + 1 - bytes);
        if (lf == line + 1) {
            *ret_size = h->line;
            return SCAN_WHOLE;
        }
        /* obs-fold would begin with a blank, an empty name with the colon. */
        if (h->lines > 0 && (*line == ' ' || *line == '\t' || *line == ':')) return SCAN_BAD;
        h->lines++;
    }
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static size_t size_before_blanks(const char *bytes, size_t size)
{
    while (size > 0 && is_blank(bytes[size - 1])) size--;
    return size;
}

/* The values that llhttp reports, gathered. */
struct reading {
    struct head *head;
    struct str url;
    bool too_many;
};

static int on_url(llhttp_t *p, const char *at, size_t size)
{
    ((struct reading *)p->data)->url = str_of(at, size);
    return 0;
}

static int on_field(llhttp_t *p, const char *at, size_t size)
{
    struct reading *r = p->data;
    struct head *h = r->head;
    if (h->field_count == HTTP_HEADERS_MAX) {
        r->too_many = true;
        return -1;
    }
    h->fields[h->field_count++] =
        (struct http_header){.name = str_of(at, size), .value = str_of(at + size, 0)};
    return 0;
}

/* llhttp calls this once more, with an empty text, for a value whose trailing blanks were left
 * out. */
static int on_value(llhttp_t *p, const char *at, size_t size)
{
    struct reading *r = p->data;
    struct str *value = &r->head->fields[r->head->field_count - 1].value;
    if (size > 0 || value->size == 0) *value = str_of(at, size_before_blanks(at, size));
    return 0;
}

static int on_head_complete(llhttp_t *p)
{
    (void)p;
    return 1; /* no body for llhttp: see above */
}

static const llhttp_settings_t settings = {
    .on_url = on_url,
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_headers_complete = on_head_complete,
};

/* The blanks and tabs that end a header's line are not part of its value (RFC 9110, 5.5). But
 * llhttp counts a trailing tab as part of the values that it reads itself. If a head has a tab,
 * each line is given to llhttp without its trailing blanks. */
static llhttp_errno_t read_head(llhttp_t *p, const char *bytes, size_t size)
{
    if (memchr(bytes, '\t', size) == NULL) return llhttp_execute(p, bytes, size);
    const char *end = bytes + size, *lf = memchr(bytes, '\n', size);
    size_t first = lf == NULL ? size : (size_t)(lf + 1 - bytes); /* no trailing blanks there */
    llhttp_errno_t outcome = llhttp_execute(p, bytes, first);
    const char *from = bytes + first;
    while (outcome == HPE_OK && from < end) {
        lf = memchr(from, '\n', (size_t)(end - from));
        const char *next = lf == NULL ? end : lf + 1;
        const char *tail = lf == NULL || lf == from || lf[-1] != '\r' ? next : lf - 1;
        size_t kept = size_before_blanks(from, (size_t)(tail - from));
        if (kept > 0) outcome = llhttp_execute(p, from, kept);
        if (outcome == HPE_OK) outcome = llhttp_execute(p, tail, (size_t)(next - tail));
        from = next;
    }
    return outcome;
}

/* llhttp does not know the method: either we do not support it, or it is not a method. */
static enum err judge_method(const char *bytes, size_t size, struct fault *f)
{
    size_t at = 0;
    while (at < size && byte_is_token(bytes[at])) at++;
    if (at > 0 && at < size && bytes[at] == ' ')
        return fault_set(f, ERR_NOT_IMPLEMENTED, "", "the method %.*s is not supported",
                         (int)(at > 40 ? 40 : at), bytes);
    return fault_set(f, ERR_BAD_REQUEST, "", "the request line does not begin with a method");
}

/* Exactly one blank on either side of the target, and a version of the right form. */
static enum err judge_request_line(const char *bytes, size_t size, const struct reading *r,
                                   struct head *h, struct fault *f)
{
    const char *blank = memchr(bytes, ' ', (size_t)(r->url.bytes - bytes));
    if (blank == NULL || blank + 1 != r->url.bytes)
        return fault_set(f, ERR_BAD_REQUEST, "", "the request line has stray blanks");
    h->method = str_of(bytes, (size_t)(blank - bytes));
    h->target = r->url;

    const char *version = r->url.bytes + r->url.size;
    bool whole = (size_t)(bytes + size - version) >= sizeof " HTTP/1.1\r\n\r\n" - 1;
    if (!whole || memcmp(version, " HTTP/", 6) != 0 || version[7] != '.' || version[9] != '\r')
        return fault_set(f, ERR_BAD_REQUEST, "", "the request line does not end with HTTP/1.1");
    if (version[6] != '1' || (version[8] != '0' && version[8] != '1'))
        return fault_plain(f, ERR_VERSION_UNSUPPORTED);
    h->minor = version[8] - '0';
    return ERR_OK;
}

/* The headers that frame and steer a message, by length first: most need one comparison. */
struct special {
    unsigned hosts, lengths, codings;
    struct str host, length, coding;
    struct str idempotency_key, request_id;
    bool says_close, says_keep_alive;
    /* The first header that has one value and two lines, by its usual spelling. A proxy, or we,
     * might use either line. */
    const char *repeated;
};

static bool named(struct str name, const char *lower)
{
    for (size_t i = 0; i < name.size; i++)
        if ((name.bytes[i] | 0x20) != lower[i]) return false;
    return true;
}

/* Connection is a list (RFC 9110, 5.6.1 and 7.6.1); several Connection lines are one list. */
static void read_connection(struct special *s, struct str value)
{
    struct str option;
    while (str_split(&value, ',', &option)) {
        while (option.size > 0 && is_blank(option.bytes[0])) option = str_skip(option, 1);
        option.size = size_before_blanks(option.bytes, option.size);
        if (str_equal_ignoring_case(option, STR("close"))) s->says_close = true;
        if (str_equal_ignoring_case(option, STR("keep-alive"))) s->says_keep_alive = true;
    }
}

/* A header that has one value. */
static void read_single(struct special *s, const char *name, struct str value, struct str *to)
{
    if (str_is_absent(*to))
        *to = value;
    else if (s->repeated == NULL)
        s->repeated = name;
}

static void find_special(struct head *h, struct special *s)
{
    for (size_t i = 0; i < h->field_count; i++) {
        struct str name = h->fields[i].name, value = h->fields[i].value;
        switch (name.size) {
        case 4:
            if (named(name, "host")) s->hosts++, s->host = value;
            break;
        case 6:
            if (named(name, "expect")) read_single(s, "Expect", value, &h->expect);
            break;
        case 10:
            if (named(name, "connection")) read_connection(s, value);
            break;
        case 12:
            if (named(name, "content-type"))
                read_single(s, "Content-Type", value, &h->content_type);
            else if (named(name, "x-request-id"))
                read_single(s, "X-Request-ID", value, &s->request_id);
            break;
        case 14:
            if (named(name, "content-length")) s->lengths++, s->length = value;
            break;
        case 15:
            if (named(name, "idempotency-key"))
                read_single(s, "Idempotency-Key", value, &s->idempotency_key);
            break;
        case 16:
            if (named(name, "content-encoding"))
                read_single(s, "Content-Encoding", value, &h->content_encoding);
            break;
        case 17:
            if (named(name, "transfer-encoding")) s->codings++, s->coding = value;
            break;
        default: break;
        }
    }
}

static enum err fault_ambiguous(struct fault *f)
{
    return fault_set(f, ERR_BAD_REQUEST, "",
                     "Content-Length and Transfer-Encoding: send only one of them, and only once");
}

static enum err fault_coding(struct fault *f)
{
    return fault_set(f, ERR_NOT_IMPLEMENTED, "",
                     "chunked is the only transfer coding that is supported");
}

static enum err judge_llhttp(const char *bytes, size_t size, const struct reading *r, llhttp_t *p,
                             struct fault *f)
{
    if (r->too_many)
        return fault_set(f, ERR_HEADERS_TOO_LARGE, "", "there are more than %d headers",
                         HTTP_HEADERS_MAX);
    struct special s = {0};
    switch (p->error) {
    case HPE_INVALID_METHOD: return judge_method(bytes, size, f);
    case HPE_INVALID_TRANSFER_ENCODING:
        find_special(r->head, &s);
        return s.codings > 1 || s.lengths > 0 ? fault_ambiguous(f) : fault_coding(f);
    case HPE_INVALID_URL:
        return fault_set(f, ERR_BAD_REQUEST, "",
                         "the request target has a byte that is not allowed there");
    case HPE_UNEXPECTED_CONTENT_LENGTH: return fault_ambiguous(f);
    case HPE_INVALID_CONTENT_LENGTH:
        return fault_set(f, ERR_BAD_REQUEST, "", "Content-Length is not a number of bytes");
    case HPE_INVALID_HEADER_TOKEN:
        return fault_set(f, ERR_BAD_REQUEST, "", "a header has a byte that is not allowed there");
    default: return fault_plain(f, ERR_BAD_REQUEST);
    }
}

/* RFC 9112 6: the length of the body. A head that two readers could read in two ways is refused,
 * because request smuggling relies on such heads. */
static enum err judge_framing(struct head *h, const struct special *s, struct fault *f)
{
    if (s->lengths > 1 || s->codings > 1 || (s->lengths > 0 && s->codings > 0))
        return fault_ambiguous(f);
    if (s->codings == 1) {
        if (!str_equal_ignoring_case(s->coding, STR("chunked"))) return fault_coding(f);
        if (h->minor == 0)
            return fault_set(f, ERR_BAD_REQUEST, "", "HTTP/1.0 has no Transfer-Encoding");
        h->chunked = true;
    }
    if (s->lengths == 1) {
        if (!str_to_u64(s->length, &h->length))
            return fault_set(f, ERR_BAD_REQUEST, "", "Content-Length is not a number of bytes");
        h->has_length = true;
    }
    return ERR_OK;
}

static bool keeps_alive(const struct special *s, int minor)
{
    return !s->says_close && (minor == 1 || s->says_keep_alive);
}

static void head_clear(struct head *h)
{
    /* Not the fields: two KiB that field_count makes unreachable. */
    memset(h, 0, offsetof(struct head, fields));
    h->field_count = 0;
}

enum err head_parse_request(const char *bytes, size_t size, struct head *ret, struct fault *f)
{
    head_clear(ret);
    struct reading r = {.head = ret};
    llhttp_t parser;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    parser.data = &r;
    llhttp_errno_t outcome = read_head(&parser, bytes, size);

    /* The line first: a fault in it explains a later error of llhttp. */
    if (!str_is_absent(r.url)) {
        enum err err = judge_request_line(bytes, size, &r, ret, f);
        if (err != ERR_OK) return err;
    }
    /* An offer to upgrade is ignored; the request is answered as HTTP/1.1. */
    if (outcome != HPE_OK && outcome != HPE_PAUSED_UPGRADE)
        return judge_llhttp(bytes, size, &r, &parser, f);
    if (str_is_absent(r.url)) return fault_plain(f, ERR_BAD_REQUEST);

    struct special s = {0};
    find_special(ret, &s);
    if (s.hosts > 1) return fault_set(f, ERR_BAD_REQUEST, "", "Host is given twice");
    if (s.hosts == 0 && ret->minor == 1)
        return fault_set(f, ERR_BAD_REQUEST, "", "Host is missing");
    const char *wrong = host_judge(s.host);
    if (wrong != NULL)
        return fault_set(f, ERR_BAD_REQUEST, "", "Host %s: expected host or host:port", wrong);
    if (s.repeated != NULL)
        return fault_set(f, ERR_BAD_HEADER, "", "%s: is given twice; send it once", s.repeated);
    ret->keep_alive = keeps_alive(&s, ret->minor);
    return judge_framing(ret, &s, f);
}

enum err head_parse_answer(const char *bytes, size_t size, struct head *ret, struct fault *f)
{
    head_clear(ret);
    struct reading r = {.head = ret};
    llhttp_t parser;
    llhttp_init(&parser, HTTP_RESPONSE, &settings);
    parser.data = &r;
    llhttp_errno_t outcome = read_head(&parser, bytes, size);
    if (r.too_many)
        return fault_set(f, ERR_HEADERS_TOO_LARGE, "", "the answer has more than %d headers",
                         HTTP_HEADERS_MAX);
    if (outcome != HPE_OK && outcome != HPE_PAUSED_UPGRADE)
        return fault_set(f, ERR_BAD_REQUEST, "", "the answer is not well-formed HTTP/1.1");
    if (parser.http_major != 1 || parser.http_minor > 1)
        return fault_set(f, ERR_BAD_REQUEST, "", "the answer's version is not HTTP/1.0 or 1.1");
    if (parser.status_code < 100 || parser.status_code > 599)
        return fault_set(f, ERR_BAD_REQUEST, "", "the answer's status %d is not an HTTP status",
                         (int)parser.status_code);

    ret->status = parser.status_code;
    ret->minor = parser.http_minor;
    struct special s = {0};
    find_special(ret, &s);
    ret->keep_alive = keeps_alive(&s, ret->minor);
    return judge_framing(ret, &s, f);
}

/* reply.c - status line, headers and body, by copies in place and words at a time: this runs once
 * per decision. */
#include "http/reply.h"

#include "base/buf.h"
#include "base/check.h"

#define STATUS(number, reason)                                                                     \
    case number: return STR("HTTP/1.1 " #number " " reason "\r\n")

static struct str status_line(int status)
{
    switch (status) {
        STATUS(200, "OK");
        STATUS(201, "Created");
        STATUS(202, "Accepted");
        STATUS(204, "No Content");
        STATUS(302, "Found");
        STATUS(303, "See Other");
        STATUS(304, "Not Modified");
        STATUS(400, "Bad Request");
        STATUS(401, "Unauthorized");
        STATUS(403, "Forbidden");
        STATUS(404, "Not Found");
        STATUS(405, "Method Not Allowed");
        STATUS(408, "Request Timeout");
        STATUS(409, "Conflict");
        STATUS(412, "Precondition Failed");
        STATUS(413, "Content Too Large");
        STATUS(414, "URI Too Long");
        STATUS(415, "Unsupported Media Type");
        STATUS(417, "Expectation Failed");
        STATUS(422, "Unprocessable Content");
        STATUS(429, "Too Many Requests");
        STATUS(431, "Request Header Fields Too Large");
        STATUS(500, "Internal Server Error");
        STATUS(501, "Not Implemented");
        STATUS(502, "Bad Gateway");
        STATUS(503, "Service Unavailable");
        STATUS(504, "Gateway Timeout");
        STATUS(505, "HTTP Version Not Supported");
    default: return (struct str){0};
    }
}

static char *put(char *to, struct str s) { return buf_copy(to, s.bytes, s.size); }

#define put_literal(to, literal)                                                                   \
    ((char *)memcpy((to), "" literal, sizeof(literal) - 1) + sizeof(literal) - 1)

static char *put_number(char *to, size_t value)
{
    char digits[U64_DIGITS];
    struct str text = str_of_u64(value, digits);
    return (char *)memcpy(to, text.bytes, text.size) + text.size;
}

static char *put_two(char *to, uint64_t value)
{
    *to++ = (char)('0' + value / 10);
    *to++ = (char)('0' + value % 10);
    return to;
}

void reply_write_date(uint64_t ms, char *to)
{
    static const char days[] = "ThuFriSatSunMonTueWed";
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    uint64_t seconds = ms / 1000, day = seconds / 86400, second = seconds % 86400;

    /* The civil calendar counted from 1 March of year 0, so that the leap day comes last in its
     * year (the method of H. Hinnant, "chrono-Compatible Low-Level Date Algorithms"). */
    uint64_t shifted = day + 719468, era = shifted / 146097, of_era = shifted % 146097;
    uint64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    uint64_t march_month = (5 * of_year + 2) / 153;
    uint64_t of_month = of_year - (153 * march_month + 2) / 5 + 1;
    uint64_t month = march_month < 10 ? march_month + 2 : march_month - 10;
    uint64_t year = era * 400 + year_of_era + (month < 2);

    char *at = put_literal(to, "Date: ");
    at = put(at, str_of(days + day % 7 * 3, 3));
    at = put_literal(at, ", ");
    at = put_two(at, of_month);
    *at++ = ' ';
    at = put(at, str_of(months + month * 3, 3));
    *at++ = ' ';
    at = put_two(at, year / 100 % 100);
    at = put_two(at, year % 100);
    *at++ = ' ';
    at = put_two(at, second / 3600);
    *at++ = ':';
    at = put_two(at, second / 60 % 60);
    *at++ = ':';
    at = put_two(at, second % 60);
    at = put_literal(at, " GMT\r\n");
    check(at == to + HTTP_DATE_BYTES);
}

enum { WORD = sizeof(uint64_t) };

/* 0: no byte of the word is below a blank, and none is 0x7f, which the XOR makes zero (Warren,
 * Hacker's Delight, 6-1). A borrow may flag the byte after a flagged one; it never hides one. */
static inline uint64_t suspects_of(const char *bytes)
{
    const uint64_t each = UINT64_C(0x0101010101010101);
    uint64_t word;
    memcpy(&word, bytes, WORD);
    uint64_t turned = word ^ each * 0x7f;
    uint64_t below = (word - each * 0x20) & ~word, zero = (turned - each) & ~turned;
    return (below | zero) & each * 0x80;
}

/* Echoed values come from clients, and one with a line end in it would add headers. Most values
 * are cleared word by word; the last word may overlap the one before. Suspect or short values
 * are checked byte by byte, where a tab is allowed. */
static bool is_one_line(struct str value)
{
    uint64_t suspects = value.size < WORD;
    for (size_t at = 0; at + WORD <= value.size; at += WORD)
        suspects |= suspects_of(value.bytes + at);
    if (value.size >= WORD) suspects |= suspects_of(value.bytes + value.size - WORD);
    if (suspects == 0) return true;
    for (size_t i = 0; i < value.size; i++) {
        unsigned char c = (unsigned char)value.bytes[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

size_t reply_bytes_max(const struct http_reply *r)
{
    enum { STATUS_LINE = 64, LENGTH_LINE = 40, CONNECTION_LINE = 32, TYPE_LINE = 40, END = 2 };
    size_t size = STATUS_LINE + LENGTH_LINE + CONNECTION_LINE + TYPE_LINE + END + HTTP_DATE_BYTES;
    size += r->content_type.size + r->body.size;
    check(r->header_count <= HTTP_REPLY_HEADERS_MAX);
    for (size_t i = 0; i < r->header_count; i++)
        size += r->headers[i].name.size + r->headers[i].value.size + 4;
    return size;
}

static char *put_status(char *to, int status)
{
    struct str line = status_line(status);
    if (!str_is_absent(line)) return put(to, line);
    check(status >= 200 && status <= 599);
    to = put_literal(to, "HTTP/1.1 ");
    to = put_number(to, (size_t)status);
    return put_literal(to, " Unknown\r\n");
}

static char *put_headers(char *to, const struct http_reply *r)
{
    for (size_t i = 0; i < r->header_count; i++) {
        if (!is_one_line(r->headers[i].value)) continue;
        to = put(to, r->headers[i].name);
        to = put_literal(to, ": ");
        to = put(to, r->headers[i].value);
        to = put_literal(to, "\r\n");
    }
    return to;
}

char *reply_write(const struct http_reply *r, bool head_only, enum persistence persistence,
                  const char date[HTTP_DATE_BYTES], char *to)
{
    to = put_status(to, r->status);
    /* 204 and 304 end with their head, without headers about a body (RFC 9110 8.6). */
    bool bodiless = r->status == 204 || r->status == 304;
    if (!bodiless) {
        if (str_is_absent(r->content_type)) {
            if (r->body.size > 0) to = put_literal(to, "Content-Type: application/json\r\n");
        } else if (is_one_line(r->content_type)) {
            to = put_literal(to, "Content-Type: ");
            to = put(to, r->content_type);
            to = put_literal(to, "\r\n");
        }
        to = put_literal(to, "Content-Length: ");
        to = put_number(to, r->body.size);
        to = put_literal(to, "\r\n");
    }
    memcpy(to, date, HTTP_DATE_BYTES);
    to += HTTP_DATE_BYTES;
    if (persistence == PERSIST_NOT)
        to = put_literal(to, "Connection: close\r\n");
    else if (persistence == PERSIST_SAID)
        to = put_literal(to, "Connection: keep-alive\r\n");
    to = put_headers(to, r);
    to = put_literal(to, "\r\n");
    return bodiless || head_only ? to : put(to, r->body);
}

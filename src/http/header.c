/* header.c - finding a header, and a token in its list. */
#include "http/header.h"

struct str http_header_find(const struct http_header *headers, size_t count, struct str name)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal_ignoring_case(headers[i].name, name)) return headers[i].value;
    return (struct str){0};
}

static struct str without_blanks(struct str s)
{
    while (s.size > 0 && (s.bytes[0] == ' ' || s.bytes[0] == '\t')) s = str_skip(s, 1);
    while (s.size > 0 && (s.bytes[s.size - 1] == ' ' || s.bytes[s.size - 1] == '\t')) s.size--;
    return s;
}

bool http_list_has(struct str list, struct str token)
{
    struct str member;
    while (str_split(&list, ',', &member))
        if (str_equal_ignoring_case(without_blanks(member), token)) return true;
    return false;
}

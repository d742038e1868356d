#include "outbound/url.h"

bool url_is_printable(struct str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (text.bytes[i] <= ' ' || text.bytes[i] >= 0x7F ||
            strchr("\"<>\\^`{|}", text.bytes[i]) != NULL)
            return false;
    return text.size > 0;
}

struct str url_host(struct str url, size_t scheme_size)
{
    struct str host = str_skip(url, scheme_size);
    for (size_t i = 0; i < host.size; i++)
        if (strchr("/?#", host.bytes[i]) != NULL) host.size = i;
    return host.size == 0 || str_find(host, '@') < host.size ? (struct str){0} : host;
}

bool url_host_is_loopback(struct str host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct str name = str_from(names[i]);
        if (!str_starts(host, name)) continue;
        struct str port = str_skip(host, name.size);
        if (port.size == 0 || port.bytes[0] == ':') return true;
    }
    return false;
}

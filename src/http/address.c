/* address.c - reading peers' addresses, and looking them up. */
#include "http/address.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/un.h>

#include "base/shown.h"

static enum err bad_address(struct str text, struct fault *f)
{
    struct str shown = shown_address(text);
    return fault_set(f, ERR_BAD_VALUE, "",
                     "\"%.*s\" is not an address like http://host:port, https://host:port or "
                     "unix:/path",
                     (int)(shown.size > 100 ? 100 : shown.size), shown.bytes);
}

static bool keep(char *to, size_t capacity, struct str text)
{
    if (text.size == 0 || text.size >= capacity || memchr(text.bytes, '\0', text.size) != NULL)
        return false;
    memcpy(to, text.bytes, text.size);
    to[text.size] = '\0';
    return true;
}

static bool host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_' || c == ':';
}

static bool keep_port(struct address *a, struct str text)
{
    uint64_t number;
    return str_to_u64(text, &number) && number > 0 && number < 65536 &&
           keep(a->port, sizeof a->port, text);
}

static enum err address_read(struct str text, struct address *ret, struct fault *f)
{
    struct address a = {0};
    if (str_starts(text, STR("unix:"))) {
        struct str path = str_skip(text, 5);
        if (path.size >= sizeof((struct sockaddr_un *)0)->sun_path || !str_starts(path, STR("/")) ||
            !keep(a.host, sizeof a.host, path))
            return bad_address(text, f);
        a.is_unix = true;
        *ret = a;
        return ERR_OK;
    }
    a.is_tls = str_starts(text, STR("https://"));
    if (!a.is_tls && !str_starts(text, STR("http://"))) return bad_address(text, f);
    struct str rest = str_skip(text, a.is_tls ? 8 : 7), host;
    struct str port = a.is_tls ? STR("443") : STR("80");
    if (rest.size > 0 && rest.bytes[rest.size - 1] == '/') rest.size--;
    bool bracketed = str_starts(rest, STR("["));
    size_t end = str_find(rest, bracketed ? ']' : ':');
    host = bracketed ? str_of(rest.bytes + 1, end - 1) : str_of(rest.bytes, end);
    if (bracketed) {
        if (end == rest.size) return bad_address(text, f);
        end++;
    }
    if (end < rest.size) {
        if (rest.bytes[end] != ':') return bad_address(text, f);
        port = str_skip(rest, end + 1);
    }
    for (size_t i = 0; i < host.size; i++)
        if (!host_byte(host.bytes[i])) return bad_address(text, f);
    if (!keep(a.host, sizeof a.host, host) || !keep_port(&a, port)) return bad_address(text, f);
    *ret = a;
    return ERR_OK;
}

static struct place unix_place(const struct address *a)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path, a->host, strnlen(a->host, sizeof at.sun_path - 1));
    struct place p = {.size = sizeof at};
    memcpy(&p.at, &at, sizeof at);
    return p;
}

static void keep_places(struct http_peer *to, const struct addrinfo *found)
{
    to->place_count = 0;
    for (const struct addrinfo *one = found; one != NULL && to->place_count < ADDRESS_PLACES;
         one = one->ai_next) {
        struct place *p = &to->places[to->place_count];
        if (one->ai_addrlen > sizeof p->at) continue;
        *p = (struct place){.size = one->ai_addrlen};
        memcpy(&p->at, one->ai_addr, one->ai_addrlen);
        to->place_count++;
    }
}

enum err http_peer_read(struct str text, struct tls *tls, struct http_peer *ret, struct fault *f)
{
    struct http_peer p = {0};
    const struct address *a = &p.address;
    enum err err = address_read(text, &p.address, f);
    if (err != ERR_OK) return err;
    if (a->is_tls && tls == NULL)
        return fault_set(f, ERR_BAD_VALUE, "", "https:// cannot be used here: TLS is not set up");
    p.tls = a->is_tls ? tls : NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found;
    if (a->is_unix) {
        p.places[p.place_count++] = unix_place(a);
    } else if (getaddrinfo(a->host, a->port, &hints, &found) == 0) {
        keep_places(&p, found);
        freeaddrinfo(found);
    }
    p.is_fixed = p.place_count > 0;
    *ret = p;
    return ERR_OK;
}

struct lookup *http_peer_ask(const struct http_peer *p)
{
    return lookup_start(p->address.host, p->address.port, 0);
}

enum err http_peer_take(struct http_peer *to, struct lookup **l, struct fault *f)
{
    bool is_over = lookup_is_over(*l);
    const char *why = is_over ? "no such host" : gai_strerror(EAI_AGAIN);
    const struct addrinfo *found = is_over ? lookup_found(*l, &why) : NULL;
    const struct place first = to->places[0];
    if (found != NULL) keep_places(to, found);
    http_peer_prefer(to, &first);
    if (is_over) {
        lookup_leave(*l);
        *l = NULL;
    }
    return found != NULL ? ERR_OK : fault_set(f, ERR_CLOSED, "", "%s: %s", to->address.host, why);
}

void http_peer_prefer(struct http_peer *to, const struct place *first)
{
    if (first == NULL) return;
    const struct place preferred = *first;
    for (size_t i = 1; i < to->place_count; i++) {
        const struct place *p = &to->places[i];
        if (p->size != preferred.size || memcmp(&p->at, &preferred.at, p->size) != 0) continue;
        memmove(&to->places[1], &to->places[0], i * sizeof to->places[0]);
        to->places[0] = preferred;
        return;
    }
}

struct str address_authority(const struct address *a, char *to)
{
    enum { CAPACITY = ADDRESS_HOST + 10 };
    if (a->is_unix) return STR("localhost");
    bool bare = strchr(a->host, ':') == NULL;
    int size = snprintf(to, CAPACITY, bare ? "%s:%s" : "[%s]:%s", a->host, a->port);
    return str_of(to, (size_t)size);
}

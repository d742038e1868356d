/* fuzz_url.c - any text as a URL, an address and a range: what is taken has a plain form that is
 * read again to the same parts; no part has what the rules of url.h keep out; a host that inet_aton
 * or inet_pton reads as an address is given as that address. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "base/check.h"
#include "cel/address.h"
#include "cel/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(struct str text)
{
    char shown[ADDRESS_TEXT + 8];
    struct buf out = buf_over(shown, sizeof shown);
    struct cel_cidr a, again;
    if (cel_address_read(text, &a)) {
        cel_address_put(&out, &a);
        check(!out.overflow && cel_address_read(buf_view(&out), &again));
        check(memcmp(&a, &again, sizeof a) == 0);
        check(!cel_address_is_loopback(&a) || cel_address_is_private(&a));
        check(!cel_address_is_link_local_unicast(&a) || cel_address_is_private(&a));
        check(!cel_address_is_unspecified(&a) || cel_address_is_private(&a));
    }
    buf_clear(&out);
    if (!cel_cidr_read(text, &a)) return;
    cel_cidr_put(&out, &a);
    check(!out.overflow && cel_cidr_read(buf_view(&out), &again));
    check(memcmp(&a, &again, sizeof a) == 0 && cel_cidr_contains(&a, again));
}

/* What the C library makes of a name before it asks anybody for it. */
static void check_host(struct str hostname)
{
    char copy[300];
    struct in_addr four;
    struct cel_cidr a;
    check(hostname.size < sizeof copy);
    memcpy(copy, hostname.bytes, hostname.size);
    copy[hostname.size] = '\0';
    bool is_address = cel_address_read(hostname, &a);
    if (inet_aton(copy, &four) != 0)
        check(is_address && a.family == 4 && memcmp(a.bytes, &four, 4) == 0);
    check(is_address || !cel_address_is_number(hostname));
    for (size_t i = 0; i < hostname.size; i++)
        check(hostname.bytes[i] > ' ' && hostname.bytes[i] < 0x7F &&
              strchr("@/?#%[]\\", hostname.bytes[i]) == NULL &&
              (hostname.bytes[i] < 'A' || hostname.bytes[i] > 'Z'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *own = malloc(size + 1), *room = malloc(size + URL_MORE_BYTES);
    check(own != NULL && room != NULL);
    if (size > 0) memcpy(own, data, size);
    struct str text = str_of(own, size);
    struct cel_url url, again;
    check_address(text);
    if (cel_url_read(text, room, &url)) {
        char *second = malloc(url.text.size + URL_MORE_BYTES);
        check(second != NULL && cel_url_read(url.text, second, &again));
        check(str_equal(url.text, again.text) && str_equal(url.scheme, again.scheme) &&
              str_equal(url.host, again.host) && str_equal(url.hostname, again.hostname) &&
              str_equal(url.port, again.port) && str_equal(url.path, again.path) &&
              str_equal(url.query, again.query));
        check_host(url.hostname);
        check(cel_url_unescape(url.query, second) <= url.query.size);
        free(second);
    }
    free(own);
    free(room);
    return 0;
}

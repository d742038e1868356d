/* address.h - parses and classifies IPv4 and IPv6 addresses and ranges; this room only. Pure, any
 * thread. */
#ifndef CEL_ADDRESS_H
#define CEL_ADDRESS_H

#include "base/buf.h"
#include "cel/value.h"

enum { ADDRESS_TEXT = 48 }; /* bytes of the longest address as text, without a range */

/* One address: 10.0.0.1, 2001:db8::1. An IPv4 address that is written as IPv6 (::ffff:10.0.0.1) is
 * the IPv4 address, so that another spelling does not escape a range. Zones (%eth0), ports, blanks,
 * leading zeros and the short forms of inet_aton (10.1, 0x7f.1) are refused. */
bool cel_address_read(struct str text, struct cel_cidr *ret);
/* In the form of RFC 5952. */
void cel_address_put(struct buf *out, const struct cel_cidr *address);

/* A host of a URL that ends in a number, as browsers and curl read it: one to four parts, decimal
 * or hexadecimal (2130706433, 0x7f.1). False: it is no such host, or programs read it differently
 * (a leading zero is octal to some and decimal to others). */
bool cel_address_read_host(struct str host, struct cel_cidr *ret);
/* Whether a host ends in a number, so that it is an IPv4 address or nothing. */
bool cel_address_is_number(struct str host);

/* "10.0.0.0/8", "2001:db8::/48", or one address. Bits after the prefix are cleared. */
bool cel_cidr_read(struct str text, struct cel_cidr *ret);
/* The same, and whether such bits were set: "10.1.2.3/8" is the range 10.0.0.0/8. */
bool cel_cidr_read_telling(struct str text, struct cel_cidr *ret, bool *ret_had_more);
void cel_cidr_put(struct buf *out, const struct cel_cidr *range);
bool cel_cidr_contains(const struct cel_cidr *range, struct cel_cidr inner);

/* The kind of an address, for the functions of the same names. */
bool cel_address_is_unspecified(const struct cel_cidr *a);
bool cel_address_is_loopback(const struct cel_cidr *a);
bool cel_address_is_link_local_unicast(const struct cel_cidr *a);
bool cel_address_is_link_local_multicast(const struct cel_cidr *a);
bool cel_address_is_global_unicast(const struct cel_cidr *a);
/* Not reachable from the public Internet, by IANA's registries of special addresses (RFC 6890). An
 * IPv6 address that contains an IPv4 address (NAT64, 6to4, IPv4-compatible) counts as that one. */
bool cel_address_is_private(const struct cel_cidr *a);

#endif

/* target.h - request targets: path, query, percent-encoding (RFC 3986, RFC 9112 3.2).
 *
 * Pure functions over views; decoded texts go to the arena. Any thread. */
#ifndef HTTP_TARGET_H
#define HTTP_TARGET_H

#include "base/arena.h"
#include "base/fault.h"

/* Origin form ("/path?query"), absolute form ("http://host/path", RFC 9112 3.2.2: its host is
 * ignored) and "*". Only visible ASCII, no fragment. *ret_query is absent without a `?`.
 * ERR_BAD_REQUEST. */
enum err target_split(struct str target, struct str *ret_path, struct str *ret_query,
                      struct fault *f);

/* The path without percent-encoding: `path` itself if it has none. ERR_BAD_REQUEST for bad
 * encoding, a NUL, or bytes that are not UTF-8; ERR_FULL if the arena is full. An encoded `/`
 * belongs to its segment and is not a separator. It becomes TARGET_SLASH, a byte that no other
 * text decodes to, until the segments are split; then target_put_slashes() makes it a `/` again. */
enum { TARGET_SLASH = '\0' };
enum err target_decode_path(struct str path, struct arena *arena, struct str *ret, struct fault *f);

/* `segment` is part of a path that was decoded into an arena, or has no TARGET_SLASH in it. */
void target_put_slashes(struct str segment);

/* Takes the next "name=value" off the front of *query; false at the end. Empty pieces are
 * skipped. The value is absent if there is no `=`. */
bool query_next(struct str *query, struct str *ret_name, struct str *ret_value);

/* Decodes percent-encoding, and `+` as a blank. ERR_BAD_PARAMETER: bad encoding, NUL, not UTF-8;
 * ERR_FULL. f may be NULL. */
enum err query_decode(struct str text, struct arena *arena, struct str *ret, struct fault *f);

#endif

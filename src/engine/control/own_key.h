/* own_key.h - the API key of this engine, from platform.key_file: for the platform, and for the other
 * engines of a fleet. */
#ifndef ENGINE_OWN_KEY_H
#define ENGINE_OWN_KEY_H

#include "base/fault.h"
#include "config/config.h"

enum { OWN_KEY_TEXT = 128 };

/* As the value of the header Authorization. Read again for each use, so that a rotated key needs no
 * restart. ERR_BAD_VALUE: there is none, with what to do. The caller wipes `to`. */
enum err own_key_read(const struct config *c, char to[OWN_KEY_TEXT], struct fault *f);

#endif

/* key_row.h - the row of a key: its JSON; inside this room only. */
#ifndef STORE_KEY_ROW_H
#define STORE_KEY_ROW_H

#include "access/key.h"

/* The caller owns the key. ERR_CORRUPT: the text is not a key. */
enum err key_row_read(struct str text, struct key **ret, struct fault *f);

#endif

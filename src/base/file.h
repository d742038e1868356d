/* file.h - small files, read and written whole.
 *
 * Blocking; any thread. Where a call is false, errno says why. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/str.h"

/* From where the descriptor stands to the end of the file, but at most `capacity` bytes. */
bool file_read(int fd, char *to, size_t capacity, size_t *ret_size);

/* All of them, from where the descriptor stands. */
bool file_write(int fd, struct str bytes);

/* A new file of mode 0600 with these bytes, synced; its name is safe only after folder_sync().
 * False leaves no new file; EEXIST: there is one already. */
bool file_make(const char *path, struct str bytes);

/* What was made, renamed or removed in the folder is so after a power cut, too. */
bool folder_sync(const char *path);

#endif

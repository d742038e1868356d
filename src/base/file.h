/* file.h - small files, read and written whole.
 *
 * Blocking; any thread. If a call returns false, errno has the cause. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/str.h"

/* From the descriptor's position to the end of the file, but at most `capacity` bytes. */
bool file_read(int fd, char *to, size_t capacity, size_t *ret_size);

/* All of them, at the descriptor's position. */
bool file_write(int fd, struct str bytes);

/* A new file of mode 0600 with these bytes, synced; its name is safe only after folder_sync().
 * False leaves no new file; EEXIST: a file has that name already. */
bool file_make(const char *path, struct str bytes);

/* Syncs the folder, so that its new, renamed and removed files survive a power failure. */
bool folder_sync(const char *path);

#endif

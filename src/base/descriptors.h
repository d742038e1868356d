/* descriptors.h - how many files and sockets this process may have, and how they are divided. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

/* If the program was started with a standard stream closed, the next file or connection would
 * take its number. Then printed or logged lines would go into that file: into an export, or into
 * the journal. So these numbers are taken by descriptors that fail as a closed stream does.
 * False: the numbers could not be taken. First call in main(). */
bool descriptors_take_standard(void);

/* Raises the limit of descriptors as far as it is allowed and wanted, and lowers the number of
 * client connections to those that fit; the lowering is logged. The rest is reserved for the
 * program, since clients must not take the descriptor that the next journal segment needs: a
 * quarter of the limit, and 128 to 1024 (but no more than half), and no less than `needed`.
 * ERR_BAD_VALUE: fewer than 8 are left for clients. Once, at boot, before anything is opened. */
enum err descriptors_for_clients(uint64_t needed, uint64_t *connections, struct fault *f);

#endif

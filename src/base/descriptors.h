/* descriptors.h - how many files and sockets this process may have, and who gets them. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fault.h"

/* Where who started this program closed one of the standard streams, the next file or connection
 * would take its number, and what is printed or logged would go into that: into the export that is
 * written, or the journal. What takes the number here refuses as a closed stream does. False: the
 * numbers could not be taken. First thing in main(). */
bool descriptors_take_standard(void);

/* Raises the limit as far as that is allowed and wanted, and lowers the client connections to those
 * that it leaves room for; that is logged. The rest is for the program's own, since clients must not
 * be able to take the descriptor that the next journal segment needs: a quarter of the limit, and
 * 128 to 1024 (but no more than half), and no less than what is `needed`. ERR_BAD_VALUE: that leaves
 * fewer than 8 for clients. Once, at boot, before anything is opened. */
enum err descriptors_for_clients(uint64_t needed, uint64_t *connections, struct fault *f);

#endif

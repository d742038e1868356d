/* descriptors.h - how many files and sockets this process may have, and who gets them. */
#ifndef BASE_DESCRIPTORS_H
#define BASE_DESCRIPTORS_H

#include <stdbool.h>
#include <stdint.h>

/* Where who started this program closed one of the standard streams, the next file or connection
 * would take its number, and what is printed or logged would go into that: into the export that is
 * written, or the journal. What takes the number here refuses as a closed stream does. False: the
 * numbers could not be taken. First thing in main(). */
bool descriptors_take_standard(void);

/* Raises the limit as far as that is allowed and wanted, and gives how many client connections of
 * those `wanted` it leaves room for, at least 1; fewer than wanted is logged. The rest, a quarter
 * of the limit and 128 to 1024, is for the program's own: clients must not be able to take the
 * descriptor that the next journal segment needs. Once, at boot. */
uint64_t descriptors_for_clients(uint64_t wanted);

#endif

/* number.h - numbers as text, as CEL reads and writes them; this room only. */
#ifndef CEL_NUMBER_H
#define CEL_NUMBER_H

#include "base/buf.h"

bool number_read_int(struct str text, int64_t *ret); /* [+-]digits */
bool number_read_double(struct str text,
                        double *ret); /* decimal, or inf, infinity, nan in any case */

void number_put_int(struct buf *out, int64_t number);
/* The shortest digits that read back: 1e+06 from a million on, 1e-05 below a ten-thousandth, +Inf,
 * NaN: the reference implementation's string(double). */
void number_put_double(struct buf *out, double number);
/* The same digits without an exponent: the result of %s for a double. */
void number_put_decimal(struct buf *out, double number);

#endif

/* number.h - JSON number literals to values and back; inside this room only.
 *
 * Both directions have a fast path that is proved exact (see number.c). Other numbers use the
 * C++ library's correctly rounded conversions, which number.cc offers as C functions. */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include "json/json.h"

enum number_result {
    NUMBER_OK,
    NUMBER_SYNTAX,  /* *ret_at is the wrong byte (or the end: one is missing) */
    NUMBER_TOO_BIG, /* not finite, or an integer that neither a double nor 64 bits hold */
};

/* Reads the whole of `literal` into v->number, number_kind and int64 or uint64. */
enum number_result number_read(struct str literal, struct json *v, size_t *ret_at);

enum { NUMBER_TEXT = 32 }; /* room that number_write needs */

/* ECMAScript Number::toString of a finite double; the count of bytes written. */
size_t number_write(double number, char to[NUMBER_TEXT]);

/* ---- number.cc ---- */

enum { NUMBER_SCIENTIFIC_TEXT = 32, NUMBER_FIXED_TEXT = 320 };

/* The nearest double; false if the magnitude is too large or too small for a double. */
bool number_nearest(const char *bytes, size_t size, double *ret_number);
/* The shortest digits that read back as `number`: "d.ddde+xx"; the count of bytes written. */
size_t number_shortest(double number, char to[NUMBER_SCIENTIFIC_TEXT]);
/* Every digit of an integral double, no exponent; the count of bytes written. */
size_t number_digits(double number, char to[NUMBER_FIXED_TEXT]);

#endif

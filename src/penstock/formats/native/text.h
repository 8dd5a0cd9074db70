/* Text to values: numbers, dates and times, for JSON and CSV. A result is exact, or an error.
 *
 * Every function takes the text as pointer and length and reads nothing outside of it. Time is linear in the text, the
 * stack is bounded, and the process's locale has no effect.
 */
#ifndef PENSTOCK_FORMATS_TEXT_H
#define PENSTOCK_FORMATS_TEXT_H

#include <stdint.h>

#include "columns.h"

typedef struct {
    const uint8_t *digits; /* the first digit: digits and at most one point follow */
    const uint8_t *digits_end;
    uint64_t mantissa;    /* the first 19 significant digits */
    int64_t digit_count;  /* significant digits, without leading zeros */
    int64_t exponent;     /* power of ten of the last digit, saturated */
    int is_negative;
    int is_float; /* written with a point or an exponent */
} Number;

enum { STRICT_JSON, LENIENT };

/* Reads a number at `at`; returns its end, or NULL without a number. */
const uint8_t *scan_number(const uint8_t *at, const uint8_t *end, int mode, Number *number);

int number_to_int64(const Number *number, int64_t *value);
int number_to_decimal(const Number *number, int precision, int scale, __int128 *value);
int number_to_double(const Number *number, double *value);
int number_to_float(const Number *number, float *value);

int append_number(Column *column, const Number *number);
/* Converts text to any scalar kind but strings and binaries. `separator` is the character between date and time. */
int append_text(Column *column, const uint8_t *text, int64_t length, int separator);
int append_base64(Column *column, const uint8_t *text, int64_t length);

/* Returns how many bytes at the beginning are whole characters: all bytes of a text in UTF-8. */
int64_t utf8_length(const uint8_t *text, int64_t length);
static inline int is_utf8(const uint8_t *text, int64_t length) { return utf8_length(text, length) == length; }
int text_start(void);
/* Lets this thread print and read numbers without the process's locale. */
void use_c_locale(int is_on);

#endif

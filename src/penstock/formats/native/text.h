/* Text to values: numbers, dates and times, as JSON and CSV share them. Exact, or an error.
 *
 * Every function takes the text as pointer and length, reads nothing outside of it, takes time linear in it
 * and a bounded amount of stack, and knows nothing of the process's locale.
 */
#ifndef PENSTOCK_FORMATS_TEXT_H
#define PENSTOCK_FORMATS_TEXT_H

#include <stdint.h>

#include "columns.h"

typedef struct {
    const uint8_t *digits; /* where the digits begin: digits and at most one point */
    const uint8_t *digits_end;
    uint64_t mantissa;    /* the first 19 significant digits */
    int64_t digit_count;  /* significant digits, leading zeros left out */
    int64_t exponent;     /* power of ten of the last digit, saturated */
    int is_negative;
    int is_float; /* written with a point or an exponent */
} Number;

enum { STRICT_JSON, LENIENT };

/* Reads a number at `at`; returns its end, or NULL where there is none. */
const uint8_t *scan_number(const uint8_t *at, const uint8_t *end, int mode, Number *number);

int number_to_int64(const Number *number, int64_t *value);
int number_to_decimal(const Number *number, int precision, int scale, __int128 *value);
int number_to_double(const Number *number, double *value);
int number_to_float(const Number *number, float *value);

int append_number(Column *column, const Number *number);
/* Converts text to any scalar kind but strings and binaries; `separator` stands between date and time. */
int append_text(Column *column, const uint8_t *text, int64_t length, int separator);
int append_base64(Column *column, const uint8_t *text, int64_t length);

/* How many bytes at the beginning are whole characters: all of them where the text is UTF-8. */
int64_t utf8_length(const uint8_t *text, int64_t length);
static inline int is_utf8(const uint8_t *text, int64_t length) { return utf8_length(text, length) == length; }
int text_start(void);
/* Lets this thread print and read numbers without the process's locale. */
void use_c_locale(int is_on);

#endif

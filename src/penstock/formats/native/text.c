#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "text.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

/* strtod must not use the decimal comma of a process's locale. */
static locale_t c_locale;

int text_start(void) {
    if (!c_locale) c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return c_locale ? OK : NO_MEMORY;
}

void use_c_locale(int is_on) {
    static _Thread_local locale_t before;
    if (is_on) {
        before = uselocale(c_locale);
    } else {
        uselocale(before);
    }
}

/* -- numbers ------------------------------------------------------------------------------------------- */

#define EXPONENT_LIMIT 1000000000000LL
#define MANTISSA_DIGITS 19

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') <= 9; }

static const uint8_t *scan_exponent(const uint8_t *at, const uint8_t *end, int64_t *exponent) {
    int is_negative = 0;
    if (at < end && (*at == '+' || *at == '-')) is_negative = *at++ == '-';
    if (at >= end || !is_digit(*at)) return NULL;
    int64_t value = 0;
    for (; at < end && is_digit(*at); at++) {
        if (value < EXPONENT_LIMIT) value = value * 10 + (*at - '0');
    }
    *exponent += is_negative ? -value : value;
    return at;
}

const uint8_t *scan_number(const uint8_t *at, const uint8_t *end, int mode, Number *number) {
    number->is_float = 0;
    number->is_negative = 0;
    if (at < end && (*at == '-' || (mode == LENIENT && *at == '+'))) number->is_negative = *at++ == '-';
    const uint8_t *digits = at;
    uint64_t mantissa = 0;
    int64_t count = 0, exponent = 0;
    while (at < end && is_digit(*at)) {
        if (count < MANTISSA_DIGITS) mantissa = mantissa * 10 + (uint64_t)(*at - '0');
        count += (count != 0 || *at != '0');
        at++;
    }
    int64_t whole = at - digits;
    if (mode == STRICT_JSON && (whole == 0 || (whole > 1 && *digits == '0'))) return NULL;
    int64_t fraction = 0;
    if (at < end && *at == '.') {
        const uint8_t *point = at++;
        while (at < end && is_digit(*at)) {
            if (count < MANTISSA_DIGITS) mantissa = mantissa * 10 + (uint64_t)(*at - '0');
            count += (count != 0 || *at != '0');
            at++;
        }
        fraction = at - point - 1;
        if (mode == STRICT_JSON && fraction == 0) return NULL;
        number->is_float = 1;
        exponent = -fraction;
    }
    if (whole + fraction == 0) return NULL;
    number->digits = digits;
    number->digits_end = at;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at = scan_exponent(at + 1, end, &exponent);
        number->is_float = 1;
        if (!at) return NULL;
    }
    number->mantissa = mantissa;
    number->digit_count = count;
    number->exponent = exponent;
    return at;
}

static const uint8_t *first_significant(const Number *number) {
    const uint8_t *at = number->digits;
    while (at < number->digits_end && (*at == '0' || *at == '.')) at++;
    return at;
}

#define DECIMAL_DIGITS_MAX 38

/* Sets *value to value * 10^scale. Further digits are rounded half up, or are an error with `is_exact`. */
static int scaled_integer(const Number *number, int scale, int is_exact, unsigned __int128 *value) {
    *value = 0;
    if (number->digit_count == 0) return OK;
    int64_t shift = number->exponent + scale;
    int64_t kept = number->digit_count + (shift < 0 ? shift : 0);
    if (number->digit_count + shift > DECIMAL_DIGITS_MAX) return OUT_OF_RANGE;
    unsigned __int128 total = 0;
    int64_t index = 0;
    int rounds_up = 0, lost = 0;
    for (const uint8_t *at = first_significant(number); at < number->digits_end; at++) {
        if (*at == '.') continue;
        if (index < kept) {
            total = total * 10 + (unsigned)(*at - '0');
        } else {
            if (index == kept && *at >= '5') rounds_up = 1;
            if (*at != '0') lost = 1;
        }
        index++;
    }
    if (is_exact && lost) return NOT_INTEGRAL;
    for (int64_t i = 0; i < shift; i++) total *= 10;
    *value = total + (unsigned)rounds_up;
    return OK;
}

int number_to_int64(const Number *number, int64_t *value) {
    unsigned __int128 magnitude;
    if (!number->is_float && number->digit_count <= 18) {
        *value = number->is_negative ? -(int64_t)number->mantissa : (int64_t)number->mantissa;
        return OK;
    }
    int status = scaled_integer(number, 0, 1, &magnitude);
    if (status) return status;
    unsigned __int128 limit = (unsigned __int128)INT64_MAX + (number->is_negative ? 1 : 0);
    if (magnitude > limit) return OUT_OF_RANGE;
    *value = number->is_negative ? (int64_t)(-(__int128)magnitude) : (int64_t)magnitude;
    return OK;
}

int number_to_decimal(const Number *number, int precision, int scale, __int128 *value) {
    unsigned __int128 magnitude, limit = 1;
    int status = scaled_integer(number, scale, 0, &magnitude);
    if (status) return status;
    for (int i = 0; i < precision; i++) limit *= 10;
    if (magnitude >= limit) return OUT_OF_RANGE;
    *value = number->is_negative ? -(__int128)magnitude : (__int128)magnitude;
    return OK;
}

static const double POWERS_OF_TEN[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Further digits change a double only if one of them is not zero. */
#define DOUBLE_DIGITS_MAX 770

static void canonical_number(const Number *number, char *text) {
    char *out = text;
    int64_t written = 0, exponent = number->exponent;
    int sticky = 0;
    for (const uint8_t *at = first_significant(number); at < number->digits_end; at++) {
        if (*at == '.') continue;
        if (written < DOUBLE_DIGITS_MAX) {
            *out++ = (char)*at;
            written++;
        } else {
            exponent++;
            sticky |= *at != '0';
        }
    }
    if (sticky) {
        *out++ = '1';
        exponent--;
    }
    if (exponent > 1000000) exponent = 1000000;
    if (exponent < -1000000) exponent = -1000000;
    snprintf(out, 16, "e%lld", (long long)exponent);
}

int number_to_double(const Number *number, double *value) {
    double magnitude;
    if (number->digit_count <= MANTISSA_DIGITS && number->mantissa <= (1ULL << 53) && number->exponent >= -22 &&
        number->exponent <= 22) {
        /* Both factors are exact, so one rounding gives the nearest double. */
        magnitude = (double)number->mantissa;
        if (number->exponent < 0) {
            magnitude /= POWERS_OF_TEN[-number->exponent];
        } else {
            magnitude *= POWERS_OF_TEN[number->exponent];
        }
    } else if (number->digit_count == 0) {
        magnitude = 0;
    } else {
        char text[DOUBLE_DIGITS_MAX + 24];
        canonical_number(number, text);
        magnitude = strtod_l(text, NULL, c_locale);
        if (isinf(magnitude)) return OUT_OF_RANGE;
    }
    *value = number->is_negative ? -magnitude : magnitude;
    return OK;
}

int number_to_float(const Number *number, float *value) {
    float magnitude;
    if (number->digit_count <= MANTISSA_DIGITS && number->mantissa <= (1ULL << 24) && number->exponent >= -10 &&
        number->exponent <= 10) {
        magnitude = (float)number->mantissa;
        if (number->exponent < 0) {
            magnitude /= (float)POWERS_OF_TEN[-number->exponent];
        } else {
            magnitude *= (float)POWERS_OF_TEN[number->exponent];
        }
    } else if (number->digit_count == 0) {
        magnitude = 0;
    } else {
        char text[DOUBLE_DIGITS_MAX + 24];
        canonical_number(number, text);
        magnitude = strtof_l(text, NULL, c_locale);
        if (isinf(magnitude)) return OUT_OF_RANGE;
    }
    *value = number->is_negative ? -magnitude : magnitude;
    return OK;
}

int append_number(Column *column, const Number *number) {
    int status;
    switch (column->kind) {
    case KIND_INT8:
    case KIND_INT16:
    case KIND_INT32:
    case KIND_INT64: {
        int64_t value;
        status = number_to_int64(number, &value);
        return status ? status : column_append_integer(column, value);
    }
    case KIND_DOUBLE: {
        double value;
        status = number_to_double(number, &value);
        return status ? status : column_append_double(column, value);
    }
    case KIND_FLOAT: {
        float value;
        status = number_to_float(number, &value);
        return status ? status : column_append_float(column, value);
    }
    case KIND_DECIMAL: {
        __int128 value;
        status = number_to_decimal(number, column->precision, column->scale, &value);
        return status ? status : column_append_i128(column, value);
    }
    default:
        return WRONG_TYPE;
    }
}

/* -- dates and times ----------------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

static int two_digits(Cursor *cursor, int max, int *value) {
    if (cursor->end - cursor->at < 2 || !is_digit(cursor->at[0]) || !is_digit(cursor->at[1])) return 0;
    *value = (cursor->at[0] - '0') * 10 + (cursor->at[1] - '0');
    cursor->at += 2;
    return *value <= max;
}

static int expect(Cursor *cursor, int c) {
    if (cursor->at >= cursor->end || *cursor->at != c) return 0;
    cursor->at++;
    return 1;
}

static int64_t days_from_civil(int64_t year, int month, int day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t year_of_era = year - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static int days_of_month(int64_t year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && is_leap ? 29 : days[month - 1];
}

/* ISO_LOCAL_DATE: four digits of year, or a sign and four to nine. */
static int scan_date(Cursor *cursor, int64_t *days) {
    int sign = 0, digits = 0, month, day;
    int64_t year = 0;
    if (cursor->at < cursor->end && (*cursor->at == '+' || *cursor->at == '-')) sign = *cursor->at++;
    while (cursor->at < cursor->end && is_digit(*cursor->at) && digits < 10) {
        year = year * 10 + (*cursor->at++ - '0');
        digits++;
    }
    if (digits < 4 || digits > 9 || (digits > 4 && !sign)) return 0;
    if (sign == '-') year = -year;
    if (!expect(cursor, '-') || !two_digits(cursor, 12, &month) || month < 1) return 0;
    if (!expect(cursor, '-') || !two_digits(cursor, 31, &day) || day < 1) return 0;
    if (day > days_of_month(year, month)) return 0;
    *days = days_from_civil(year, month, day);
    return 1;
}

/* HH:mm:ss and up to nine digits of fraction; seconds may be left out where `may_omit_seconds`. */
static int scan_time(Cursor *cursor, int may_omit_seconds, int64_t *nanos) {
    int hour, minute, second = 0;
    int64_t fraction = 0;
    if (!two_digits(cursor, 23, &hour) || !expect(cursor, ':') || !two_digits(cursor, 59, &minute)) return 0;
    if (cursor->at < cursor->end && *cursor->at == ':') {
        cursor->at++;
        if (!two_digits(cursor, 59, &second)) return 0;
        if (cursor->at < cursor->end && *cursor->at == '.') {
            int digits = 0;
            for (cursor->at++; cursor->at < cursor->end && is_digit(*cursor->at); cursor->at++, digits++) {
                fraction = fraction * 10 + (*cursor->at - '0');
                if (digits == 9) return 0;
            }
            for (; digits < 9; digits++) fraction *= 10;
        }
    } else if (!may_omit_seconds) {
        return 0;
    }
    *nanos = ((hour * 60LL + minute) * 60 + second) * 1000000000LL + fraction;
    return 1;
}

/* Z, or an offset +hh:mm; in seconds. */
static int scan_zone(Cursor *cursor, int64_t *offset) {
    int hours, minutes;
    *offset = 0;
    if (expect(cursor, 'Z')) return 1;
    if (cursor->at >= cursor->end || (*cursor->at != '+' && *cursor->at != '-')) return 0;
    int sign = *cursor->at++ == '-' ? -1 : 1;
    if (!two_digits(cursor, 18, &hours) || !expect(cursor, ':') || !two_digits(cursor, 59, &minutes)) return 0;
    *offset = sign * (hours * 3600LL + minutes * 60LL);
    return 1;
}

static const int64_t NANOS_OF_UNIT[] = {1000000000, 0, 0, 1000000, 0, 0, 1000, 0, 0, 1};
static const int64_t UNITS_OF_SECOND[] = {1, 0, 0, 1000, 0, 0, 1000000, 0, 0, 1000000000};

static int append_date(Column *column, Cursor cursor) {
    int64_t days;
    if (!scan_date(&cursor, &days) || cursor.at != cursor.end) return BAD_DATE;
    return column_append_integer(column, days);
}

static int append_time(Column *column, Cursor cursor) {
    int64_t nanos;
    if (!scan_time(&cursor, 0, &nanos) || cursor.at != cursor.end) return BAD_TIME;
    return column_append_integer(column, nanos / NANOS_OF_UNIT[column->fraction_digits]);
}

static int append_timestamp(Column *column, Cursor cursor, int separator) {
    int64_t days, nanos, offset = 0;
    if (!scan_date(&cursor, &days) || !expect(&cursor, separator)) return BAD_TIMESTAMP;
    if (!scan_time(&cursor, separator == 'T', &nanos)) return BAD_TIMESTAMP;
    if (column->is_zoned && !scan_zone(&cursor, &offset)) return BAD_TIMESTAMP;
    if (cursor.at != cursor.end) return BAD_TIMESTAMP;
    __int128 value = (__int128)(days * 86400 - offset) * UNITS_OF_SECOND[column->fraction_digits];
    value += nanos / NANOS_OF_UNIT[column->fraction_digits];
    if (value < INT64_MIN || value > INT64_MAX) return OUT_OF_RANGE;
    return column_append_i64(column, (int64_t)value);
}

/* -- scalars in text ----------------------------------------------------------------------------------- */

static int equals(Cursor text, const char *word) {
    size_t length = strlen(word);
    return (size_t)(text.end - text.at) == length && memcmp(text.at, word, length) == 0;
}

static int equals_ignoring_case(Cursor text, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(text.end - text.at) != length) return 0;
    for (size_t i = 0; i < length; i++) {
        if ((text.at[i] | 0x20) != word[i]) return 0;
    }
    return 1;
}

static Cursor trimmed(Cursor text) {
    while (text.at < text.end && *text.at <= ' ') text.at++;
    while (text.at < text.end && text.end[-1] <= ' ') text.end--;
    return text;
}

static int append_special(Column *column, Cursor text) {
    double value;
    if (equals(text, "NaN")) {
        value = NAN;
    } else if (equals(text, "Infinity") || equals(text, "+Infinity")) {
        value = INFINITY;
    } else if (equals(text, "-Infinity")) {
        value = -INFINITY;
    } else {
        return BAD_NUMBER;
    }
    if (column->kind == KIND_DOUBLE) return column_append_double(column, value);
    if (column->kind == KIND_FLOAT) return column_append_float(column, (float)value);
    return BAD_NUMBER;
}

static int append_number_text(Column *column, Cursor text) {
    Number number;
    if (scan_number(text.at, text.end, LENIENT, &number) != text.end) return append_special(column, text);
    int is_integer = column->kind <= KIND_INT64;
    return is_integer && number.is_float ? BAD_NUMBER : append_number(column, &number);
}

int append_text(Column *column, const uint8_t *text, int64_t length, int separator) {
    Cursor whole = {text, text + length};
    Cursor inner = trimmed(whole);
    switch (column->kind) {
    case KIND_BOOL:
        if (equals_ignoring_case(inner, "true")) return column_append_bool(column, 1);
        if (equals_ignoring_case(inner, "false")) return column_append_bool(column, 0);
        return BAD_BOOLEAN;
    case KIND_DATE:
        return append_date(column, whole);
    case KIND_TIME32:
    case KIND_TIME64:
        return append_time(column, whole);
    case KIND_TIMESTAMP:
        return append_timestamp(column, whole, separator);
    case KIND_INT8:
    case KIND_INT16:
    case KIND_INT32:
    case KIND_INT64:
    case KIND_FLOAT:
    case KIND_DOUBLE:
    case KIND_DECIMAL:
        return append_number_text(column, inner);
    default:
        return WRONG_TYPE;
    }
}

static int base64_digit(uint8_t c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    if (c == '/') return 63;
    return -1;
}

int append_base64(Column *column, const uint8_t *text, int64_t length) {
    uint8_t *out;
    int status = column_make_room(column);
    if (status) return status;
    status = column_bytes_room(column, length / 4 * 3 + 3, &out);
    if (status) return status;
    uint8_t *start = out;
    uint32_t bits = 0;
    int count = 0, padding = 0;
    for (int64_t i = 0; i < length; i++) {
        if (text[i] <= ' ') continue; /* line breaks, as MIME has them */
        int digit = text[i] == '=' ? 0 : base64_digit(text[i]);
        if (digit < 0 || (padding && text[i] != '=')) return BAD_BASE64;
        padding += text[i] == '=';
        bits = bits << 6 | (uint32_t)digit;
        if (++count == 4) {
            if (padding > 2) return BAD_BASE64;
            /* The unused bits before padding must be zero, or two texts would mean the same value. */
            if ((padding == 1 && (bits & 0xff)) || (padding == 2 && (bits & 0xffff))) return BAD_BASE64;
            *out++ = (uint8_t)(bits >> 16);
            if (padding < 2) *out++ = (uint8_t)(bits >> 8);
            if (padding < 1) *out++ = (uint8_t)bits;
            bits = 0;
            count = 0;
            if (padding) count = INT32_MIN; /* only spaces may follow */
        } else if (count < 0) {
            return BAD_BASE64;
        }
    }
    if (count > 0) return BAD_BASE64;
    column_finish_bytes(column, out - start);
    return OK;
}

/* -- UTF-8 --------------------------------------------------------------------------------------------- */

static inline int is_continuation(uint8_t c) { return (c & 0xc0) == 0x80; }

int64_t utf8_length(const uint8_t *text, int64_t length) {
    const uint8_t *at = text, *end = text + length;
    while (at < end) {
        while (end - at >= 8) {
            uint64_t word;
            memcpy(&word, at, 8);
            if (word & 0x8080808080808080ULL) break;
            at += 8;
        }
        if (at >= end) break;
        uint8_t c = *at;
        if (c < 0x80) {
            at++;
        } else if (c < 0xc2) {
            return at - text;
        } else if (c < 0xe0) {
            if (end - at < 2 || !is_continuation(at[1])) return at - text;
            at += 2;
        } else if (c < 0xf0) {
            if (end - at < 3 || !is_continuation(at[1]) || !is_continuation(at[2])) return at - text;
            if ((c == 0xe0 && at[1] < 0xa0) || (c == 0xed && at[1] >= 0xa0)) return at - text;
            at += 3;
        } else if (c < 0xf5) {
            if (end - at < 4 || !is_continuation(at[1]) || !is_continuation(at[2]) || !is_continuation(at[3])) return at - text;
            if ((c == 0xf0 && at[1] < 0x90) || (c == 0xf4 && at[1] >= 0x90)) return at - text;
            at += 4;
        } else {
            return at - text;
        }
    }
    return length;
}

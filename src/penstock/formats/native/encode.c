#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "encode.h"

#include "blocks.h"

#include <math.h>
#include <stdio.h>

View *view_new(int kind) {
    View *view = calloc(1, sizeof(View));
    if (view) {
        view->kind = kind;
        view->branch = -1;
    }
    return view;
}

void view_free(View *view) {
    if (!view) return;
    for (int i = 0; i < view->child_count; i++) view_free(view->children[i]);
    free(view->children);
    free((void *)view->label);
    free(view);
}

void writer_free(Writer *writer) {
    block_free(writer->bytes);
    block_free(writer->offsets);
    memset(writer, 0, sizeof(*writer));
}

int writer_start(Writer *writer, int64_t row_count) {
    writer->offsets = block_resize(NULL, (row_count + 1) * (int64_t)sizeof(int32_t));
    if (!writer->offsets) return NO_MEMORY;
    writer->offsets[0] = 0;
    return writer_grow(writer, 64 * row_count + 64) == OK ? OK : NO_MEMORY;
}

int writer_grow(Writer *writer, int64_t count) {
    int64_t needed = writer->used + count;
    if (needed > INT32_MAX) return OUT_OF_RANGE; /* the limit of Arrow's 32-bit offsets */
    int64_t capacity = writer->capacity * 2 > needed ? writer->capacity * 2 : needed;
    uint8_t *larger = block_resize(writer->bytes, capacity);
    if (!larger) return NO_MEMORY;
    writer->bytes = larger;
    writer->capacity = capacity;
    return OK;
}

/* -- numbers ------------------------------------------------------------------------------------------- */

static char *put_unsigned(char *end, unsigned __int128 value) {
    do {
        *--end = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value);
    return end;
}

int write_integer(Writer *writer, int64_t value) {
    char text[24], *end = text + sizeof(text), *at = end;
    uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do {
        *--at = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude);
    if (value < 0) *--at = '-';
    return write_bytes(writer, at, end - at);
}

static int write_special(Writer *writer, double value) {
    const char *word = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
    return write_bytes(writer, word, (int64_t)strlen(word));
}

/* Writes ".0" after a text such as "12", so that it reads back as a double. */
static int write_floating_text(Writer *writer, const char *text) {
    int status = write_bytes(writer, text, (int64_t)strlen(text));
    if (status || strpbrk(text, ".e")) return status;
    return write_bytes(writer, ".0", 2);
}

#define PLACES_MAX 6

/* Writes a double that equals some n / 10^places, as most prices do; returns DOES_NOT_FIT for others. A reader does
 * the same correctly rounded division, so the text reads back as the same double. */
enum { DOES_NOT_FIT = -1 };

static int write_short_double(Writer *writer, double value) {
    double magnitude = fabs(value), power = 10;
    if (!(magnitude >= 1e-3 && magnitude < 1e9)) return DOES_NOT_FIT;
    for (int places = 1; places <= PLACES_MAX; places++, power *= 10) {
        int64_t scaled = (int64_t)(magnitude * power + 0.5);
        if ((double)scaled / power != magnitude) continue;
        char text[32], *end = text + sizeof(text), *at = end;
        for (int i = 0; i < places || scaled; i++, scaled /= 10) {
            if (i == places) *--at = '.';
            *--at = (char)('0' + scaled % 10);
        }
        if (end - at == places) {
            *--at = '.';
            *--at = '0';
        }
        if (value < 0) *--at = '-';
        return write_bytes(writer, at, end - at);
    }
    return DOES_NOT_FIT;
}

int write_double(Writer *writer, double value) {
    char text[40];
    if (!isfinite(value)) return write_special(writer, value);
    if (fabs(value) < 1e15 && value == (double)(int64_t)value && !(value == 0 && signbit(value))) {
        int status = write_integer(writer, (int64_t)value);
        return status ? status : write_bytes(writer, ".0", 2);
    }
    int short_status = write_short_double(writer, value);
    if (short_status != DOES_NOT_FIT) return short_status;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return write_floating_text(writer, text);
}

int write_float(Writer *writer, float value) {
    char text[40];
    if (!isfinite(value)) return write_special(writer, value);
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return write_floating_text(writer, text);
}

static int write_zeros(Writer *writer, int64_t count) {
    int status = writer_room(writer, count);
    if (status) return status;
    memset(writer->bytes + writer->used, '0', (size_t)count);
    writer->used += count;
    return OK;
}

static int write_plain_decimal(Writer *writer, const char *digits, int64_t count, int scale) {
    int status;
    if (scale <= 0) {
        if ((status = write_bytes(writer, digits, count))) return status;
        return write_zeros(writer, -scale);
    }
    if (count > scale) {
        if ((status = write_bytes(writer, digits, count - scale))) return status;
        if ((status = write_byte(writer, '.'))) return status;
        return write_bytes(writer, digits + count - scale, scale);
    }
    if ((status = write_bytes(writer, "0.", 2))) return status;
    if ((status = write_zeros(writer, scale - count))) return status;
    return write_bytes(writer, digits, count);
}

/* Plain: with all digits of the scale. Else as Java's BigDecimal prints the number without trailing zeros. Flink has
 * both. */
int write_decimal(Writer *writer, __int128 value, int scale, int is_plain) {
    char text[48], exponent[16], *end = text + sizeof(text);
    int status;
    if (value == 0 && !is_plain) return write_byte(writer, '0');
    unsigned __int128 magnitude = value < 0 ? -(unsigned __int128)value : (unsigned __int128)value;
    while (!is_plain && magnitude % 10 == 0) {
        magnitude /= 10;
        scale--;
    }
    const char *digits = put_unsigned(end, magnitude);
    int64_t count = end - digits;
    int adjusted = (int)count - 1 - scale;
    if (value < 0 && (status = write_byte(writer, '-'))) return status;
    if (is_plain || (scale >= 0 && adjusted >= -6)) return write_plain_decimal(writer, digits, count, scale);
    if ((status = write_byte(writer, digits[0]))) return status;
    if (count > 1) {
        if ((status = write_byte(writer, '.'))) return status;
        if ((status = write_bytes(writer, digits + 1, count - 1))) return status;
    }
    int length = snprintf(exponent, sizeof(exponent), "E%+d", adjusted);
    return write_bytes(writer, exponent, length);
}

/* -- dates and times ----------------------------------------------------------------------------------- */

static void civil_from_days(int64_t days, int64_t *year, int *month, int *day) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t day_of_era = days - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted = (5 * day_of_year + 2) / 153;
    *day = (int)(day_of_year - (153 * shifted + 2) / 5 + 1);
    *month = (int)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

static inline void put_two(char *at, int value) {
    at[0] = (char)('0' + value / 10);
    at[1] = (char)('0' + value % 10);
}

int write_date(Writer *writer, int64_t days) {
    char text[40];
    int64_t year;
    int month, day;
    civil_from_days(days, &year, &month, &day);
    if (year >= 0 && year <= 9999) {
        put_two(text, (int)(year / 100));
        put_two(text + 2, (int)(year % 100));
        text[4] = text[7] = '-';
        put_two(text + 5, month);
        put_two(text + 8, day);
        return write_bytes(writer, text, 10);
    }
    const char *sign = year < 0 ? "-" : "+";
    int length = snprintf(text, sizeof(text), "%s%04lld-%02d-%02d", sign, (long long)(year < 0 ? -year : year), month, day);
    return write_bytes(writer, text, length);
}

int write_time(Writer *writer, int64_t value, int fraction_digits) {
    static const int64_t units[] = {1, 0, 0, 1000, 0, 0, 1000000, 0, 0, 1000000000};
    char text[40];
    int64_t seconds = value / units[fraction_digits], fraction = value % units[fraction_digits];
    if (value < 0 || seconds >= 86400) return OUT_OF_RANGE;
    int length = 8;
    put_two(text, (int)(seconds / 3600));
    put_two(text + 3, (int)(seconds / 60 % 60));
    put_two(text + 6, (int)(seconds % 60));
    text[2] = text[5] = ':';
    if (fraction) {
        text[length++] = '.';
        for (int i = fraction_digits - 1; i >= 0; i--, fraction /= 10) text[length + i] = (char)('0' + fraction % 10);
        length += fraction_digits;
        while (text[length - 1] == '0') length--;
    }
    return write_bytes(writer, text, length);
}

int write_timestamp(Writer *writer, int64_t value, int fraction_digits, int separator, int is_zoned) {
    static const int64_t units[] = {1, 0, 0, 1000, 0, 0, 1000000, 0, 0, 1000000000};
    int64_t per_day = 86400 * units[fraction_digits];
    int64_t days = value / per_day - (value % per_day < 0);
    int status;
    /* days * per_day may be outside of 64 bits although the value is not. */
    if ((status = write_date(writer, days))) return status;
    if ((status = write_byte(writer, separator))) return status;
    if ((status = write_time(writer, (int64_t)(value - (__int128)days * per_day), fraction_digits))) return status;
    return is_zoned ? write_byte(writer, 'Z') : OK;
}

int write_base64(Writer *writer, const uint8_t *bytes, int64_t length) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    int status = writer_room(writer, (length + 2) / 3 * 4);
    if (status) return status;
    uint8_t *out = writer->bytes + writer->used;
    for (int64_t i = 0; i < length; i += 3) {
        uint32_t bits = (uint32_t)bytes[i] << 16;
        if (i + 1 < length) bits |= (uint32_t)bytes[i + 1] << 8;
        if (i + 2 < length) bits |= bytes[i + 2];
        *out++ = (uint8_t)digits[bits >> 18];
        *out++ = (uint8_t)digits[bits >> 12 & 63];
        *out++ = (uint8_t)(i + 1 < length ? digits[bits >> 6 & 63] : '=');
        *out++ = (uint8_t)(i + 2 < length ? digits[bits & 63] : '=');
    }
    writer->used = out - writer->bytes;
    return OK;
}

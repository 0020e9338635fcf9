/* Writes what was seen: fields of one JSON object, and code objects as files. */
#define _GNU_SOURCE
#include "stub.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool fail(struct reason *reason, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(reason->text, sizeof reason->text, format, values);
    va_end(values);
    return false;
}

void put_bytes(FILE *out, struct bytes bytes) {
    putc('"', out);
    for (size_t i = 0; i < bytes.size; i++) {
        uint8_t byte = bytes.at[i];
        if (byte < 0x20 || byte >= 0x7f || byte == '"' || byte == '\\')
            fprintf(out, "\\u%04x", byte);
        else
            putc(byte, out);
    }
    putc('"', out);
}

void field_text(FILE *out, const char *key, struct bytes bytes) {
    fprintf(out, ",\"%s\":", key);
    put_bytes(out, bytes);
}

void field_number(FILE *out, const char *key, uint64_t number) {
    fprintf(out, ",\"%s\":%llu", key, (unsigned long long)number);
}

void field_hex(FILE *out, const char *key, struct bytes bytes) {
    fprintf(out, ",\"%s\":\"", key);
    for (size_t i = 0; i < bytes.size; i++) fprintf(out, "%02x", bytes.at[i]);
    putc('"', out);
}

bool save_code_object(FILE *out, unsigned number, const uint8_t *data, uint64_t size, struct reason *reason) {
    const char *directory = getenv("STUB_HIP_OBJECTS");
    if (!directory) return fail(reason, "STUB_HIP_OBJECTS is not set");
    char path[PATH_LIMIT];
    if (snprintf(path, sizeof path, "%s/%u.hsaco", directory, number) >= (int)sizeof path)
        return fail(reason, "STUB_HIP_OBJECTS is too long");
    FILE *file = fopen(path, "wbxe"); /* never over another object */
    if (!file) return fail(reason, "cannot create %s", path);
    bool whole = fwrite(data, 1, size, file) == size;
    if (fclose(file) != 0 || !whole) return fail(reason, "cannot write %s", path);
    field_text(out, "code_object", text_bytes(path));
    return true;
}

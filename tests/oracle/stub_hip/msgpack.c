/* A small MessagePack decoder: every read is bounded by the cursor, nesting costs no stack. */
#include "stub.h"

#include <string.h>

bool same_bytes(struct bytes left, struct bytes right) {
    return left.size == right.size && memcmp(left.at, right.at, left.size) == 0;
}

struct bytes text_bytes(const char *text) { return (struct bytes){(const uint8_t *)text, strlen(text)}; }

static bool take(struct bytes *cursor, uint64_t size, struct bytes *taken) {
    if (size > cursor->size) return false;
    *taken = (struct bytes){cursor->at, size};
    cursor->at += size;
    cursor->size -= size;
    return true;
}

static bool take_number(struct bytes *cursor, unsigned size, uint64_t *number) {
    struct bytes taken;
    if (!take(cursor, size, &taken)) return false;
    *number = 0;
    for (unsigned i = 0; i < size; i++) *number = *number << 8 | taken.at[i];
    return true;
}

static bool take_text(struct bytes *cursor, enum kind kind, uint64_t size, struct value *value) {
    value->kind = kind;
    return take(cursor, size, &value->bytes);
}

static bool take_sized_text(struct bytes *cursor, enum kind kind, unsigned width, struct value *value) {
    uint64_t size;
    return take_number(cursor, width, &size) && take_text(cursor, kind, size, value);
}

static bool take_extension(struct bytes *cursor, uint64_t size, struct value *value) {
    return take_text(cursor, KIND_EXT, size + 1, value); /* one byte of type precedes the data */
}

static bool take_integer(struct bytes *cursor, uint8_t tag, struct value *value) {
    unsigned width = 1u << (tag & 3);
    value->kind = KIND_INT;
    if (!take_number(cursor, width, &value->number)) return false;
    bool is_signed = tag >= 0xd0;
    value->negative = is_signed && (value->number >> (8 * width - 1) & 1);
    return true;
}

static bool container(struct value *value, enum kind kind, uint64_t count) {
    value->kind = kind;
    value->count = count;
    return true;
}

static bool take_sized_container(struct bytes *cursor, enum kind kind, unsigned width, struct value *value) {
    uint64_t count;
    return take_number(cursor, width, &count) && container(value, kind, count);
}

bool msgpack_read(struct bytes *cursor, struct value *value) {
    struct bytes tag_byte;
    if (!take(cursor, 1, &tag_byte)) return false;
    uint8_t tag = tag_byte.at[0];
    memset(value, 0, sizeof *value);
    if (tag <= 0x7f || tag >= 0xe0) {
        value->kind = KIND_INT;
        value->number = tag;
        value->negative = tag >= 0xe0;
        return true;
    }
    if (tag <= 0x8f) return container(value, KIND_MAP, tag & 15);
    if (tag <= 0x9f) return container(value, KIND_ARRAY, tag & 15);
    if (tag <= 0xbf) return take_text(cursor, KIND_STR, tag & 31, value);
    uint64_t ignored;
    switch (tag) {
        case 0xc0: value->kind = KIND_NIL; return true;
        case 0xc2: case 0xc3: value->kind = KIND_BOOL; value->number = tag & 1; return true;
        case 0xc4: case 0xc5: case 0xc6: return take_sized_text(cursor, KIND_BIN, 1u << (tag - 0xc4), value);
        case 0xc7: case 0xc8: case 0xc9:
            return take_number(cursor, 1u << (tag - 0xc7), &ignored) && take_extension(cursor, ignored, value);
        case 0xca: value->kind = KIND_FLOAT; return take_number(cursor, 4, &ignored);
        case 0xcb: value->kind = KIND_FLOAT; return take_number(cursor, 8, &ignored);
        case 0xcc: case 0xcd: case 0xce: case 0xcf: case 0xd0: case 0xd1: case 0xd2: case 0xd3:
            return take_integer(cursor, tag, value);
        case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8:
            return take_extension(cursor, 1u << (tag - 0xd4), value);
        case 0xd9: case 0xda: case 0xdb: return take_sized_text(cursor, KIND_STR, 1u << (tag - 0xd9), value);
        case 0xdc: case 0xdd: return take_sized_container(cursor, KIND_ARRAY, 2u << (tag - 0xdc), value);
        case 0xde: case 0xdf: return take_sized_container(cursor, KIND_MAP, 2u << (tag - 0xde), value);
        default: return false; /* 0xc1 is never used */
    }
}

bool msgpack_skip(struct bytes *cursor) {
    /* Values still to be read. Each takes a byte at least, so more than the bytes left is a lie. */
    for (uint64_t left = 1; left > 0; left--) {
        struct value value;
        if (left > cursor->size || !msgpack_read(cursor, &value)) return false;
        left += value.kind == KIND_MAP ? 2 * value.count : value.count;
    }
    return true;
}

bool msgpack_find(struct bytes map, struct bytes key, struct bytes *found) {
    struct value header;
    if (!msgpack_read(&map, &header) || header.kind != KIND_MAP) return false;
    for (uint64_t i = 0; i < header.count; i++) {
        struct bytes key_start = map;
        struct value name;
        if (!msgpack_read(&map, &name)) return false;
        if (name.kind == KIND_STR && same_bytes(name.bytes, key)) {
            *found = map;
            return map.size > 0;
        }
        map = key_start;
        if (!msgpack_skip(&map) || !msgpack_skip(&map)) return false;
    }
    return false;
}

bool msgpack_find_value(struct bytes map, const char *key, struct value *value) {
    struct bytes at;
    return msgpack_find(map, text_bytes(key), &at) && msgpack_read(&at, value);
}

bool msgpack_find_number(struct bytes map, const char *key, uint64_t *number) {
    struct value value;
    if (!msgpack_find_value(map, key, &value) || value.kind != KIND_INT || value.negative) return false;
    *number = value.number;
    return true;
}

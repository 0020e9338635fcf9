/* A stand-in for AMD's HIP runtime (libamdhip64), for tests on machines without a GPU.
 *
 * It finds device code the way the runtime does when a library registers its wrappers, and writes down
 * what it found. It runs no kernel. Written from the description of the formats alone. */
#ifndef STUB_HIP_H
#define STUB_HIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PATH_LIMIT 8192

/* Bytes that belong to somebody else. */
struct bytes {
    const uint8_t *at;
    size_t size;
};

struct reason {
    char text[PATH_LIMIT + 512];
};

/* Always false, so that a failing function can end in `return fail(...)`. */
bool fail(struct reason *reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- msgpack.c: values are read in order from a cursor; nothing is allocated ---- */
enum kind { KIND_NIL, KIND_BOOL, KIND_INT, KIND_FLOAT, KIND_STR, KIND_BIN, KIND_ARRAY, KIND_MAP, KIND_EXT };

struct value {
    enum kind kind;
    bool negative;       /* KIND_INT below zero; `number` is then meaningless */
    uint64_t number;     /* KIND_INT, KIND_BOOL */
    struct bytes bytes;  /* KIND_STR, KIND_BIN */
    uint64_t count;      /* KIND_ARRAY: elements; KIND_MAP: pairs */
};

bool msgpack_read(struct bytes *cursor, struct value *value);
bool msgpack_skip(struct bytes *cursor);
/* `map` stands at a map; on success `found` stands at the value of `key`. */
bool msgpack_find(struct bytes map, struct bytes key, struct bytes *found);
bool msgpack_find_value(struct bytes map, const char *key, struct value *value);
bool msgpack_find_number(struct bytes map, const char *key, uint64_t *number);
bool same_bytes(struct bytes left, struct bytes right);
struct bytes text_bytes(const char *text);

/* ---- memory.c ---- */
/* Bytes of this process that could be read; fewer than asked for where the mapping ends. Never faults. */
size_t read_memory(uint64_t address, void *to, size_t size);
/* The file mapped at the address, as the kernel names it: links in the path are resolved, hard links are not. */
bool mapped_file(uint64_t address, char path[PATH_LIMIT]);

/* ---- isa.c ---- */
#define MOST_FEATURES 6
#define MOST_VARIANTS (1 << MOST_FEATURES)
#define ISA_LIMIT 128

struct variants {
    int count;
    char name[MOST_VARIANTS][ISA_LIMIT];  /* most specific first */
};

bool isa_variants(const char *isa, size_t length, struct variants *variants);

/* ---- zstd.c ---- */
bool zstd_exact(struct bytes frames, uint8_t *to, uint64_t exact_size, struct reason *reason);
uint64_t zstd_first_frame_size(struct bytes data);

/* ---- archive.c ---- */
struct archive {
    struct bytes file;  /* mapped read-only */
    struct bytes toc;
};

struct entry {
    const char *arch;
    uint64_t ordinal;
    uint64_t original_size;
};

enum lookup { FOUND, ABSENT, BROKEN };

bool archive_exists(const char *path);
bool archive_open(struct archive *archive, const char *path, struct reason *reason);
void archive_close(struct archive *archive);
enum lookup archive_find(const struct archive *archive, struct bytes key, const struct variants *variants,
                         struct entry *entry, struct reason *reason);
/* The code object, to be freed by the caller; NULL with a reason. */
uint8_t *archive_read(const struct archive *archive, const struct entry *entry, struct reason *reason);

/* ---- record.c: fields of the JSON object being written; bytes become one character each (latin-1) ---- */
void put_bytes(FILE *out, struct bytes bytes);
void field_text(FILE *out, const char *key, struct bytes bytes);
void field_number(FILE *out, const char *key, uint64_t number);
void field_hex(FILE *out, const char *key, struct bytes bytes);
/* Write `<directory>/<number>.hsaco` and its field. */
bool save_code_object(FILE *out, unsigned number, const uint8_t *data, uint64_t size, struct reason *reason);

/* ---- marker.c, bundle.c: what the two magics lead to ---- */
bool follow_marker(FILE *out, unsigned number, uint64_t address, uint32_t index, struct reason *reason);
bool follow_bundle(FILE *out, unsigned number, uint64_t address, struct reason *reason);

/* ---- register.c ---- */
void **stub_register_fat_binary(const void *wrapper);

#endif

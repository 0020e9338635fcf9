/* Picks the code object out of a fat bundle, raw or compressed, to be compared with a split one. */
#include "stub.h"

#include <stdlib.h>
#include <string.h>

#define RAW_MAGIC "__CLANG_OFFLOAD_BUNDLE__"
#define MOST_ENTRIES 4096
#define TRIPLE_LIMIT 1024
#define LARGEST (UINT64_C(1) << 32)

/* Bundle bytes: still in the mapped library, or decompressed into `data`. */
struct source {
    uint64_t address;
    struct bytes data;
};

struct choice {
    uint64_t offset, size, extent;
    int isa, variant; /* smaller is better; isa < 0: nothing chosen */
    char arch[ISA_LIMIT];
};

static bool read_at(const struct source *source, uint64_t offset, void *to, uint64_t size) {
    if (!source->data.at)
        return offset <= UINT64_MAX - source->address && read_memory(source->address + offset, to, size) == size;
    if (offset > source->data.size || size > source->data.size - offset) return false;
    memcpy(to, source->data.at + offset, size);
    return true;
}

static uint64_t little_endian(const uint8_t *at, unsigned size) {
    uint64_t number = 0;
    for (unsigned i = size; i-- > 0;) number = number << 8 | at[i];
    return number;
}

/* The text after the last "--" of a device triple; NULL for the host. */
static const char *device_arch(const char *triple) {
    const char *arch = NULL;
    if (strncmp(triple, "hip", 3) != 0) return NULL;
    for (const char *at = strstr(triple, "--"); at; at = strstr(at + 1, "--")) arch = at + 2;
    return arch;
}

static void consider(struct choice *choice, const char *arch, uint64_t offset, uint64_t size) {
    const char *isas = getenv("STUB_HIP_ISA");
    for (int isa = 0; isas && *isas; isa++) {
        struct variants variants;
        size_t length = strcspn(isas, ",");
        if (!isa_variants(isas, length, &variants)) return;
        for (int k = 0; k < variants.count; k++) {
            bool better = choice->isa < 0 || isa < choice->isa || (isa == choice->isa && k < choice->variant);
            if (!better || strcmp(variants.name[k], arch) != 0) continue;
            choice->isa = isa, choice->variant = k, choice->offset = offset, choice->size = size;
            strcpy(choice->arch, arch);
        }
        isas += length + (isas[length] == ',');
    }
}

static bool read_entry(FILE *out, const struct source *source, uint64_t *position, struct choice *choice) {
    uint8_t header[24];
    char triple[TRIPLE_LIMIT + 1];
    if (!read_at(source, *position, header, sizeof header)) return false;
    uint64_t offset = little_endian(header, 8), size = little_endian(header + 8, 8);
    uint64_t length = little_endian(header + 16, 8);
    if (length > TRIPLE_LIMIT || offset > LARGEST || size > LARGEST) return false;
    if (!read_at(source, *position + sizeof header, triple, length)) return false;
    triple[length] = 0;
    *position += sizeof header + length;
    if (offset + size > choice->extent) choice->extent = offset + size;
    fprintf(out, "{\"offset\":%llu", (unsigned long long)offset);
    field_number(out, "size", size);
    field_text(out, "triple", (struct bytes){(const uint8_t *)triple, length});
    putc('}', out);
    const char *arch = device_arch(triple);
    if (arch) consider(choice, arch, offset, size);
    return true;
}

static bool read_entries(FILE *out, const struct source *source, struct choice *choice,
                         struct reason *reason) {
    uint8_t header[32];
    if (!read_at(source, 0, header, sizeof header) || memcmp(header, RAW_MAGIC, 24) != 0)
        return fail(reason, "no offload bundle at the pointer");
    uint64_t count = little_endian(header + 24, 8), position = sizeof header;
    if (count > MOST_ENTRIES) return fail(reason, "the bundle claims %llu entries", (unsigned long long)count);
    bool whole = true;
    fputs(",\"entries\":[", out);
    for (uint64_t i = 0; whole && i < count; i++) {
        if (i) putc(',', out);
        whole = read_entry(out, source, &position, choice);
        if (!whole) fputs("null", out);
    }
    putc(']', out);
    return whole || fail(reason, "the bundle's header is broken");
}

static bool pick(FILE *out, unsigned number, const struct source *source, struct reason *reason) {
    struct choice choice = {.isa = -1};
    if (!read_entries(out, source, &choice, reason)) return false;
    field_number(out, "extent", choice.extent);
    if (choice.isa < 0) return fail(reason, "the bundle has no code object for the ISA");
    field_text(out, "arch", text_bytes(choice.arch));
    uint8_t *object = malloc(choice.size + 1);
    bool whole = object && read_at(source, choice.offset, object, choice.size);
    if (!whole) fail(reason, "the code object lies outside the bundle");
    bool saved = whole && save_code_object(out, number, object, choice.size, reason);
    free(object);
    return saved;
}

/* Sizes of a compressed bundle. The oldest header does not tell the total: the frame itself does. */
static bool compressed_sizes(uint64_t address, uint64_t *header, uint64_t *total, uint64_t *size,
                             struct reason *reason) {
    uint8_t head[32];
    if (read_memory(address, head, sizeof head) != sizeof head) return fail(reason, "CCOB header cut off");
    uint64_t version = little_endian(head + 4, 2), method = little_endian(head + 6, 2);
    if (method != 1) return fail(reason, "CCOB compressed by method %llu", (unsigned long long)method);
    if (version < 1 || version > 3) return fail(reason, "CCOB version %llu", (unsigned long long)version);
    unsigned width = version == 3 ? 8 : 4;
    *header = version == 1 ? 20 : version == 2 ? 24 : 32;
    *total = version == 1 ? LARGEST : little_endian(head + 8, width);
    *size = version == 1 ? little_endian(head + 8, 4) : little_endian(head + 8 + width, width);
    if (*total < *header || *total > LARGEST || *size > LARGEST)
        return fail(reason, "CCOB sizes make no sense");
    return true;
}

static bool inflate(uint64_t address, struct bytes frame, uint64_t header, uint64_t total, uint64_t size,
                    struct source *source, struct reason *reason) {
    size_t got = read_memory(address + header, (void *)frame.at, frame.size);
    if (total == LARGEST) frame.size = zstd_first_frame_size((struct bytes){frame.at, got});
    if (frame.size == 0 || frame.size > got) return fail(reason, "the CCOB payload is cut off");
    uint8_t *data = malloc(size + 1);
    if (!data) return fail(reason, "no memory for a CCOB of %llu bytes", (unsigned long long)size);
    source->data = (struct bytes){data, size};
    return zstd_exact(frame, data, size, reason);
}

static bool follow_compressed(FILE *out, unsigned number, uint64_t address, struct reason *reason) {
    uint64_t header = 0, total = 0, size = 0;
    if (!compressed_sizes(address, &header, &total, &size, reason)) return false;
    field_number(out, "compressed_size", total);
    struct bytes frame = {malloc(total - header + 1), total - header};
    struct source source = {0};
    bool done = frame.at && inflate(address, frame, header, total, size, &source, reason);
    if (!frame.at) fail(reason, "no memory");
    done = done && pick(out, number, &source, reason);
    free((void *)frame.at);
    free((void *)source.data.at);
    return done;
}

bool follow_bundle(FILE *out, unsigned number, uint64_t address, struct reason *reason) {
    char magic[4];
    if (read_memory(address, magic, sizeof magic) == sizeof magic && memcmp(magic, "CCOB", 4) == 0)
        return follow_compressed(out, number, address, reason);
    struct source source = {.address = address};
    return pick(out, number, &source, reason);
}

/* Reads code objects out of a .kpack archive; every offset in it is checked before it is followed. */
#define _GNU_SOURCE
#include "stub.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_OBJECT (UINT64_C(1) << 32)
#define MOST_KERNELS (UINT64_C(1) << 20)

static uint64_t little_endian(const uint8_t *at, unsigned size) {
    uint64_t number = 0;
    for (unsigned i = size; i-- > 0;) number = number << 8 | at[i];
    return number;
}

bool archive_exists(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

static bool map_file(struct archive *archive, const char *path, struct reason *reason) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return fail(reason, "cannot open %s", path);
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size < 16) {
        close(file);
        return fail(reason, "%s is too short for a header", path);
    }
    void *at = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (at == MAP_FAILED) return fail(reason, "cannot map %s", path);
    archive->file = (struct bytes){at, (size_t)status.st_size};
    return true;
}

static bool read_header(struct archive *archive, const char *path, struct reason *reason) {
    const uint8_t *header = archive->file.at;
    if (memcmp(header, "KPAK", 4) != 0) return fail(reason, "%s has no KPAK magic", path);
    uint64_t version = little_endian(header + 4, 4), toc = little_endian(header + 8, 8);
    if (version != 1) return fail(reason, "%s has format version %llu", path, (unsigned long long)version);
    if (toc < 16 || toc >= archive->file.size) return fail(reason, "%s: the TOC lies outside the file", path);
    archive->toc = (struct bytes){archive->file.at + toc, archive->file.size - toc};
    struct bytes cursor = archive->toc;
    if (!msgpack_skip(&cursor)) return fail(reason, "%s: the TOC is not whole", path);
    if (cursor.size != 0) return fail(reason, "%s: bytes follow the TOC", path);
    return true;
}

bool archive_open(struct archive *archive, const char *path, struct reason *reason) {
    if (!map_file(archive, path, reason)) return false;
    if (read_header(archive, path, reason)) return true;
    archive_close(archive);
    return false;
}

void archive_close(struct archive *archive) { munmap((void *)archive->file.at, archive->file.size); }

static enum lookup read_entry(struct bytes at, struct entry *entry, struct reason *reason) {
    struct value type;
    bool whole = msgpack_find_value(at, "type", &type) && type.kind == KIND_STR &&
                 same_bytes(type.bytes, text_bytes("hsaco")) &&
                 msgpack_find_number(at, "ordinal", &entry->ordinal) &&
                 msgpack_find_number(at, "original_size", &entry->original_size);
    if (whole) return FOUND;
    fail(reason, "the TOC entry is not an hsaco with ordinal and original_size");
    return BROKEN;
}

enum lookup archive_find(const struct archive *archive, struct bytes key, const struct variants *variants,
                         struct entry *entry, struct reason *reason) {
    struct bytes table, objects, object;
    if (!msgpack_find(archive->toc, text_bytes("toc"), &table)) {
        fail(reason, "the TOC has no map `toc`");
        return BROKEN;
    }
    if (!msgpack_find(table, key, &objects)) {
        fail(reason, "no entry %.*s in the archive", (int)key.size, key.at);
        return ABSENT;
    }
    for (int i = 0; i < variants->count; i++) {
        if (!msgpack_find(objects, text_bytes(variants->name[i]), &object)) continue;
        entry->arch = variants->name[i];
        return read_entry(object, entry, reason);
    }
    fail(reason, "entry %.*s has no code object for %s", (int)key.size, key.at, variants->name[0]);
    return ABSENT;
}

/* Scheme "none": the blob stands in the file as it is. */
static bool plain_blob(const struct archive *archive, uint64_t ordinal, struct bytes *blob,
                       struct reason *reason) {
    struct bytes cursor;
    struct value blobs;
    if (!msgpack_find(archive->toc, text_bytes("blobs"), &cursor) || !msgpack_read(&cursor, &blobs) ||
        blobs.kind != KIND_ARRAY)
        return fail(reason, "the TOC has no array `blobs`");
    if (ordinal >= blobs.count) return fail(reason, "ordinal outside `blobs`");
    for (uint64_t i = 0; i < ordinal; i++)
        if (!msgpack_skip(&cursor)) return fail(reason, "`blobs` is not whole");
    uint64_t offset, size;
    if (!msgpack_find_number(cursor, "offset", &offset) || !msgpack_find_number(cursor, "size", &size))
        return fail(reason, "a blob lacks offset or size");
    if (offset > archive->file.size || size > archive->file.size - offset)
        return fail(reason, "a blob lies outside the file");
    *blob = (struct bytes){archive->file.at + offset, size};
    return true;
}

/* Scheme "zstd-per-kernel": a count, then length and frame of each ordinal. */
static bool frame_blob(const struct archive *archive, uint64_t ordinal, struct bytes *blob,
                       struct reason *reason) {
    uint64_t offset, size, length = 0;
    if (!msgpack_find_number(archive->toc, "zstd_offset", &offset) ||
        !msgpack_find_number(archive->toc, "zstd_size", &size))
        return fail(reason, "the TOC lacks zstd_offset or zstd_size");
    if (offset > archive->file.size || size > archive->file.size - offset || size < 4)
        return fail(reason, "the zstd area lies outside the file");
    const uint8_t *at = archive->file.at + offset;
    uint64_t kernels = little_endian(at, 4), position = 4;
    if (kernels > MOST_KERNELS || ordinal >= kernels) return fail(reason, "ordinal outside the zstd area");
    for (uint64_t i = 0; i <= ordinal; i++) {
        position += length;
        if (size - position < 4) return fail(reason, "a frame length lies outside the zstd area");
        length = little_endian(at + position, 4);
        position += 4;
        if (length > size - position) return fail(reason, "a frame lies outside the zstd area");
    }
    *blob = (struct bytes){at + position, length};
    return true;
}

static bool decode(const struct archive *archive, const struct entry *entry, uint8_t *to,
                   struct reason *reason) {
    struct value scheme;
    struct bytes blob;
    if (!msgpack_find_value(archive->toc, "compression_scheme", &scheme) || scheme.kind != KIND_STR)
        return fail(reason, "the TOC has no compression_scheme");
    if (same_bytes(scheme.bytes, text_bytes("zstd-per-kernel")))
        return frame_blob(archive, entry->ordinal, &blob, reason) &&
               zstd_exact(blob, to, entry->original_size, reason);
    if (!same_bytes(scheme.bytes, text_bytes("none")))
        return fail(reason, "unknown compression_scheme %.*s", (int)scheme.bytes.size, scheme.bytes.at);
    if (!plain_blob(archive, entry->ordinal, &blob, reason)) return false;
    if (blob.size != entry->original_size)
        return fail(reason, "blob of %zu bytes, expected %llu", blob.size,
                    (unsigned long long)entry->original_size);
    memcpy(to, blob.at, blob.size);
    return true;
}

uint8_t *archive_read(const struct archive *archive, const struct entry *entry, struct reason *reason) {
    uint8_t *object = entry->original_size <= LARGEST_OBJECT ? malloc(entry->original_size + 1) : NULL;
    if (!object) {
        fail(reason, "original_size %llu is too large", (unsigned long long)entry->original_size);
        return NULL;
    }
    if (decode(archive, entry, object, reason)) return object;
    free(object);
    return NULL;
}

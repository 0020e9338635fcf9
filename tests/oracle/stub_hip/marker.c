/* Follows the marker of a split library to its archive, as the runtime's kpack loader does. */
#define _GNU_SOURCE
#include "stub.h"

#include <stdlib.h>
#include <string.h>

#define MARKER_LIMIT 65536
#define MOST_PATHS 64
#define PLACE "@GFXARCH@"

struct search {
    struct bytes key;              /* "<kernel_name>#<index>" */
    struct bytes path[MOST_PATHS]; /* templates, in the order they are tried */
    int paths;
    char directory[PATH_LIMIT];    /* of the file that holds the marker, ends in a slash */
    bool fall_through;             /* newer runtimes: past an archive that lacks the kernel */
};

static bool add_path(struct search *search, struct bytes path) {
    if (path.size == 0) return true;
    if (search->paths == MOST_PATHS) return false;
    search->path[search->paths++] = path;
    return true;
}

static bool add_list(struct search *search, const char *list) {
    while (list && *list) {
        size_t length = strcspn(list, ":");
        if (!add_path(search, (struct bytes){(const uint8_t *)list, length})) return false;
        list += length + (list[length] == ':');
    }
    return true;
}

static bool add_embedded(struct search *search, struct bytes marker, struct reason *reason) {
    struct value list, path;
    struct bytes cursor;
    if (!msgpack_find(marker, text_bytes("kpack_search_paths"), &cursor) || !msgpack_read(&cursor, &list) ||
        list.kind != KIND_ARRAY || list.count == 0)
        return fail(reason, "the marker has no kpack_search_paths");
    for (uint64_t i = 0; i < list.count; i++)
        if (!msgpack_read(&cursor, &path) || path.kind != KIND_STR || !add_path(search, path.bytes))
            return fail(reason, "kpack_search_paths holds something else than paths");
    return true;
}

static bool add_paths(struct search *search, struct bytes marker, struct reason *reason) {
    const char *replaced = getenv("ROCM_KPACK_PATH");
    if (replaced && *replaced) return add_list(search, replaced) || fail(reason, "ROCM_KPACK_PATH is too long");
    if (!add_list(search, getenv("ROCM_KPACK_PATH_PREFIX")))
        return fail(reason, "ROCM_KPACK_PATH_PREFIX is too long");
    return add_embedded(search, marker, reason);
}

/* False where the path does not fit. */
static bool expand(const struct search *search, struct bytes template, const char *arch, char path[PATH_LIMIT]) {
    const uint8_t *place = memmem(template.at, template.size, PLACE, strlen(PLACE));
    size_t before = place ? (size_t)(place - template.at) : template.size;
    size_t after = place ? template.size - before - strlen(PLACE) : 0;
    int size = snprintf(path, PATH_LIMIT, "%s%.*s%s%.*s", template.at[0] == '/' ? "" : search->directory,
                        (int)before, template.at, place ? arch : "", (int)after,
                        place ? place + strlen(PLACE) : template.at);
    return size < PATH_LIMIT;
}

/* Record archive, arch and code object of one found entry. */
static bool deliver(FILE *out, unsigned number, const char *path, const struct archive *archive,
                    const struct entry *entry, struct reason *reason) {
    field_text(out, "archive", text_bytes(path));
    field_text(out, "arch", text_bytes(entry->arch));
    uint8_t *object = archive_read(archive, entry, reason);
    bool saved = object && save_code_object(out, number, object, entry->original_size, reason);
    free(object);
    return saved;
}

static enum lookup look_into(FILE *out, unsigned number, const struct search *search, const char *path,
                             const struct variants *variants, struct reason *reason) {
    struct archive archive;
    struct entry entry;
    struct reason why;
    if (!archive_open(&archive, path, reason)) return BROKEN;
    enum lookup result = archive_find(&archive, search->key, variants, &entry, &why);
    if (result == FOUND && !deliver(out, number, path, &archive, &entry, &why)) result = BROKEN;
    archive_close(&archive);
    if (result != FOUND) fail(reason, "%s: %.400s", path, why.text);
    return result;
}

/* Try every archive for one ISA. `reason` tells of the last archive that was there. */
static enum lookup search_isa(FILE *out, unsigned number, const struct search *search,
                              const struct variants *variants, struct reason *reason) {
    enum lookup result = ABSENT;
    char path[PATH_LIMIT], previous[PATH_LIMIT] = "";
    for (int i = 0; i < search->paths; i++) {
        for (int k = 0; k < variants->count; k++) {
            if (!expand(search, search->path[i], variants->name[k], path)) continue;
            if (strcmp(path, previous) == 0) continue; /* no place for the arch in it: once is enough */
            strcpy(previous, path);
            if (!archive_exists(path)) continue;
            result = look_into(out, number, search, path, variants, reason);
            if (result != ABSENT || !search->fall_through) return result;
        }
    }
    return result;
}

static bool search_all(FILE *out, unsigned number, const struct search *search, struct reason *reason) {
    const char *isas = getenv("STUB_HIP_ISA");
    if (!isas || !*isas) return fail(reason, "STUB_HIP_ISA is not set");
    fail(reason, "no archive for %.200s", isas);
    while (*isas) {
        struct variants variants;
        size_t length = strcspn(isas, ",");
        if (!isa_variants(isas, length, &variants)) return fail(reason, "STUB_HIP_ISA is not an ISA");
        enum lookup result = search_isa(out, number, search, &variants, reason);
        if (result != ABSENT) return result == FOUND;
        isas += length + (isas[length] == ',');
    }
    return false;
}

static bool find_directory(struct search *search, FILE *out, uint64_t address, struct reason *reason) {
    if (!mapped_file(address, search->directory)) return fail(reason, "no mapped file holds the marker");
    field_text(out, "binary", text_bytes(search->directory));
    strrchr(search->directory, '/')[1] = 0;
    return true;
}

static void record_paths(FILE *out, const struct search *search) {
    fputs(",\"paths\":[", out);
    for (int i = 0; i < search->paths; i++) {
        if (i) putc(',', out);
        put_bytes(out, search->path[i]);
    }
    putc(']', out);
}

static bool follow(FILE *out, unsigned number, struct bytes marker, uint64_t address, uint32_t index,
                   struct reason *reason) {
    struct search search = {.paths = 0};
    const char *fall_through = getenv("STUB_HIP_FALL_THROUGH");
    search.fall_through = fall_through && *fall_through;
    struct value name;
    struct bytes cursor = marker;
    if (!msgpack_skip(&cursor)) return fail(reason, "the marker is not whole MessagePack");
    if (!msgpack_find_value(marker, "kernel_name", &name) || name.kind != KIND_STR)
        return fail(reason, "the marker has no kernel_name");
    field_text(out, "kernel_name", name.bytes);
    if (!add_paths(&search, marker, reason)) return false;
    record_paths(out, &search);
    if (!find_directory(&search, out, address, reason)) return false;
    char *key;
    int size = asprintf(&key, "%.*s#%u", (int)name.bytes.size, name.bytes.at, index);
    if (size < 0) return fail(reason, "no memory");
    search.key = (struct bytes){(const uint8_t *)key, (size_t)size};
    bool found = search_all(out, number, &search, reason);
    free(key);
    return found;
}

bool follow_marker(FILE *out, unsigned number, uint64_t address, uint32_t index, struct reason *reason) {
    if (getenv("ROCM_KPACK_DISABLE")) return fail(reason, "ROCM_KPACK_DISABLE is set");
    uint8_t *copy = malloc(MARKER_LIMIT);
    if (!copy) return fail(reason, "no memory");
    struct bytes marker = {copy, read_memory(address, copy, MARKER_LIMIT)};
    bool found = follow(out, number, marker, address, index, reason);
    free(copy);
    return found;
}

/* The entry point that a library's constructors call with each of their wrappers.
 *
 * STUB_HIP_RECORD   file that gets one JSON object per call; without it nothing is recorded
 * STUB_HIP_OBJECTS  directory for the code objects, `<call number>.hsaco`
 * STUB_HIP_ISA      the ISA to load for, or several separated by commas, preferred first
 * STUB_HIP_FALL_THROUGH  set: behave as newer runtimes when an archive lacks the kernel */
#define _GNU_SOURCE
#include "stub.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HIPF 0x48495046u
#define HIPK 0x4b504948u

struct wrapper {
    uint32_t magic, version;
    uint64_t binary;
    uint32_t reserved_low, reserved_high;
};

/* The wrapper's address as the library's own headers count it: the same before and after a split. */
static uint64_t address_in_file(const void *at) {
    Dl_info info;
    struct link_map *map = NULL;
    bool known = dladdr1(at, &info, (void **)&map, RTLD_DL_LINKMAP) && map;
    return (uint64_t)(uintptr_t)at - (known ? map->l_addr : 0);
}

static void record_wrapper(FILE *out, unsigned number, const void *at, const struct wrapper *wrapper) {
    uint8_t head[64];
    char library[PATH_LIMIT];
    fprintf(out, "{\"number\":%u", number);
    field_number(out, "wrapper", address_in_file(at));
    field_number(out, "magic", wrapper->magic);
    field_number(out, "version", wrapper->version);
    field_number(out, "low", wrapper->reserved_low);
    field_number(out, "high", wrapper->reserved_high);
    field_hex(out, "head", (struct bytes){head, read_memory(wrapper->binary, head, sizeof head)});
    if (mapped_file((uint64_t)(uintptr_t)at, library)) field_text(out, "library", text_bytes(library));
}

static void record(FILE *out, unsigned number, const void *at) {
    struct wrapper wrapper = {0};
    struct reason reason = {.text = ""};
    bool found = false;
    bool whole = read_memory((uint64_t)(uintptr_t)at, &wrapper, sizeof wrapper) == sizeof wrapper;
    record_wrapper(out, number, at, &wrapper);
    if (!whole)
        fail(&reason, "the wrapper cannot be read");
    else if (wrapper.magic == HIPK)
        found = follow_marker(out, number, wrapper.binary, wrapper.reserved_low, &reason);
    else if (wrapper.magic == HIPF)
        found = follow_bundle(out, number, wrapper.binary, &reason);
    else
        fail(&reason, "unknown magic");
    field_text(out, "reason", text_bytes(found ? "" : reason.text));
    fputs("}\n", out);
}

static void append(const char *path, const char *line, size_t size) {
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    /* A lost record would look like success. */
    if (file < 0 || write(file, line, size) != (ssize_t)size) abort();
    close(file);
}

void **stub_register_fat_binary(const void *wrapper) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    static unsigned calls;
    static void *handle;
    const char *path = getenv("STUB_HIP_RECORD");
    if (!path) return &handle;
    pthread_mutex_lock(&one_at_a_time);
    char *line = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&line, &size);
    if (!out) abort();
    record(out, calls++, wrapper);
    fclose(out);
    append(path, line, size);
    free(line);
    pthread_mutex_unlock(&one_at_a_time);
    return &handle;
}

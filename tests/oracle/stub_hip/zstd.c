/* zstd through the system's own library, opened when it is first needed: no header has to be installed. */
#include "stub.h"

#include <dlfcn.h>

typedef size_t (*decompress_function)(void *, size_t, const void *, size_t);
typedef unsigned (*is_error_function)(size_t);
typedef size_t (*frame_size_function)(const void *, size_t);

static void *zstd_function(const char *name) {
    static void *library;
    if (!library) library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

bool zstd_exact(struct bytes frames, uint8_t *to, uint64_t exact_size, struct reason *reason) {
    decompress_function decompress = (decompress_function)zstd_function("ZSTD_decompress");
    is_error_function is_error = (is_error_function)zstd_function("ZSTD_isError");
    if (!decompress || !is_error) return fail(reason, "libzstd.so.1 is not installed");
    size_t size = decompress(to, exact_size, frames.at, frames.size);
    if (is_error(size))
        return fail(reason, "zstd cannot decode the frame into %llu bytes", (unsigned long long)exact_size);
    if (size != exact_size)
        return fail(reason, "decoded to %zu bytes, expected %llu", size, (unsigned long long)exact_size);
    return true;
}

uint64_t zstd_first_frame_size(struct bytes data) {
    frame_size_function frame_size = (frame_size_function)zstd_function("ZSTD_findFrameCompressedSize");
    is_error_function is_error = (is_error_function)zstd_function("ZSTD_isError");
    if (!frame_size || !is_error) return 0;
    size_t size = frame_size(data.at, data.size);
    return is_error(size) ? 0 : size;
}

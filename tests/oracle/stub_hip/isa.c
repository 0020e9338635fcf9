/* The names under which code for an ISA may be stored: its processor with every subset of its features. */
#include "stub.h"

#include <string.h>

static int split(const char *isa, size_t length, struct bytes parts[1 + MOST_FEATURES]) {
    int count = 0;
    for (size_t start = 0; start <= length;) {
        size_t end = start;
        while (end < length && isa[end] != ':') end++;
        if (end == start || count > MOST_FEATURES) return 0;
        parts[count++] = (struct bytes){(const uint8_t *)isa + start, end - start};
        start = end + 1;
    }
    return count;
}

static void join(const struct bytes *parts, int features, unsigned chosen, char *name) {
    memcpy(name, parts[0].at, parts[0].size);
    name += parts[0].size;
    for (int i = 0; i < features; i++) {
        if (!(chosen >> (features - 1 - i) & 1)) continue; /* the first feature is the highest bit */
        *name++ = ':';
        memcpy(name, parts[1 + i].at, parts[1 + i].size);
        name += parts[1 + i].size;
    }
    *name = 0;
}

bool isa_variants(const char *isa, size_t length, struct variants *variants) {
    struct bytes parts[1 + MOST_FEATURES];
    if (length >= ISA_LIMIT) return false;
    int features = split(isa, length, parts) - 1;
    if (features < 0) return false;
    variants->count = 0;
    for (int wanted = features; wanted >= 0; wanted--)
        for (int chosen = (1 << features) - 1; chosen >= 0; chosen--)
            if (__builtin_popcount((unsigned)chosen) == wanted)
                join(parts, features, (unsigned)chosen, variants->name[variants->count++]);
    return true;
}

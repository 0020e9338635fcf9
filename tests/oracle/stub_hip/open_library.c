/* open_library lazy|now LIBRARY STAND-IN...   opens the stand-ins, then the library, as a process of its own
 * open_library where NAME...                  tells where the dynamic linker finds each name
 *
 * The stand-ins come first because a library already open under a SONAME is the one that is used for it:
 * an RPATH to a real runtime does not get past them. Prints dlerror's text and exits 1 when the library
 * does not open; exits 2 when a stand-in does not. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int tell_where(int count, char **names) {
    for (int i = 0; i < count; i++) {
        struct link_map *map = NULL;
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (library) dlinfo(library, RTLD_DI_LINKMAP, &map);
        printf("%s\n", map ? map->l_name : "");
    }
    return 0;
}

static int open_all(int mode, int count, char **paths) {
    for (int i = 1; i < count; i++) {
        if (dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL)) continue;
        printf("%s\n", dlerror());
        return 2;
    }
    if (dlopen(paths[0], mode | RTLD_LOCAL)) return 0;
    printf("%s\n", dlerror());
    return 1;
}

int main(int count, char **words) {
    if (count < 3) return 3;
    int status = strcmp(words[1], "where") == 0
                     ? tell_where(count - 2, words + 2)
                     : open_all(strcmp(words[1], "now") == 0 ? RTLD_NOW : RTLD_LAZY, count - 2, words + 2);
    fflush(stdout);
    _exit(status); /* what a library does when it is unloaded is not the question */
}

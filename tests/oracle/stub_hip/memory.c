/* Reads of this process's own memory that cannot fault, and the files mapped into it. */
#define _GNU_SOURCE
#include "stub.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t read_memory(uint64_t address, void *to, size_t size) {
    int file = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    size_t done = 0;
    while (done < size && address + done >= address && address + done <= INT64_MAX) {
        ssize_t got = pread(file, (char *)to + done, size - done, (off_t)(address + done));
        if (got <= 0) break;
        done += (size_t)got;
    }
    close(file);
    return done;
}

static bool line_holds(const char *line, uint64_t address, char path[PATH_LIMIT]) {
    uint64_t first, end, inode;
    int name_at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %" SCNu64 " %n", &first, &end, &inode, &name_at) < 3)
        return false;
    if (address < first || address >= end || inode == 0 || line[name_at] != '/') return false;
    size_t length = strcspn(line + name_at, "\n");
    if (length >= PATH_LIMIT) return false;
    memcpy(path, line + name_at, length);
    path[length] = 0;
    return true;
}

bool mapped_file(uint64_t address, char path[PATH_LIMIT]) {
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return false;
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, maps) >= 0) found = line_holds(line, address, path);
    free(line);
    fclose(maps);
    return found;
}

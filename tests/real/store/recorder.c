/* Writes down what a process does to files below RECORD_ROOT, by standing between it and the C library.

One line for each change that succeeded, appended to RECORD_LOG: the operation and its words in hexadecimal,
parted by tabs. Content is read back from the file, so that it does not matter by which call it came. With
RECORD_DIE=part the process ends, as by SIGKILL, when it has given a name with this part. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define ENTER pthread_mutex_lock(&one_at_a_time)
#define LEAVE(result) do { int kept = errno; pthread_mutex_unlock(&one_at_a_time); errno = kept; return result; } while (0)

static int inside(const char *path) {
    const char *root = getenv("RECORD_ROOT");
    size_t length = root ? strlen(root) : 0;
    return root && strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The absolute path of `path` below the folder open as `at`; "" where it is nothing of ours. */
static const char *place(int at, const char *path, char *out) {
    char link[64];
    out[0] = 0;
    if (path[0] == '/') {
        snprintf(out, 4096, "%s", path);
    } else {
        char base[2048] = "";
        if (at == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) return out;
        } else {
            snprintf(link, sizeof link, "/proc/self/fd/%d", at);
            ssize_t got = readlink(link, base, sizeof base - 1);
            if (got < 0) return out;
            base[got] = 0;
        }
        snprintf(out, 4096, path[0] ? "%s/%s" : "%s", base, path);
    }
    if (!inside(out)) out[0] = 0;
    return out;
}

static const char *place_of(int handle, char *out) { return place(handle, "", out); }

/* After a name was given: perhaps the process ends here. */
static void named(const char *path) {
    const char *end = getenv("RECORD_DIE");
    if (end && strstr(path, end)) kill(getpid(), SIGKILL);
}

static void hex(char *out, const void *data, size_t length) {
    for (size_t i = 0; i < length; i++) sprintf(out + 2 * i, "%02x", ((const unsigned char *)data)[i]);
}

static void note(const char *operation, const char *first, const void *second, size_t length) {
    int kept = errno;
    size_t room = strlen(operation) + 2 * (strlen(first) + length) + 8;
    char *line = malloc(room), *at = line;
    at += sprintf(at, "%s\t", operation);
    hex(at, first, strlen(first));
    at += 2 * strlen(first);
    *at++ = '\t';
    hex(at, second, length);
    at += 2 * length;
    *at++ = '\n';
    int log = syscall(SYS_openat, AT_FDCWD, getenv("RECORD_LOG"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log < 0 || syscall(SYS_write, log, line, at - line) != at - line) abort();
    syscall(SYS_close, log);
    free(line);
    errno = kept;
}

/* The content of the file that is open, all of it: the files of a test are small. */
static void note_content(int handle, const char *path) {
    char link[64];
    struct stat facts;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    int reading = syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    if (reading < 0 || fstat(reading, &facts)) abort();
    char *data = malloc(facts.st_size + 1);
    ssize_t got = syscall(SYS_pread64, reading, data, facts.st_size, 0);
    if (got < 0) abort();
    note("content", path, data, got);
    free(data);
    syscall(SYS_close, reading);
}

static int opened(int at, const char *path, int flags, mode_t mode) {
    char where[4096];
    struct stat facts;
    place(at, path, where);
    int makes = where[0] && (flags & O_CREAT) && fstatat(at, path, &facts, AT_SYMLINK_NOFOLLOW);
    int handle = syscall(SYS_openat, at, path, flags, mode);
    if (handle >= 0 && where[0]) {
        if (makes) note("create", where, "", 0);
        else if (flags & O_TRUNC) note("content", where, "", 0);
    }
    return handle;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); }
int open(const char *path, int flags, ...) { MODE ENTER; int got = opened(AT_FDCWD, path, flags, mode); LEAVE(got); }
int open64(const char *path, int flags, ...) { MODE ENTER; int got = opened(AT_FDCWD, path, flags, mode); LEAVE(got); }
int openat(int at, const char *path, int flags, ...) { MODE ENTER; int got = opened(at, path, flags, mode); LEAVE(got); }
int openat64(int at, const char *path, int flags, ...) { MODE ENTER; int got = opened(at, path, flags, mode); LEAVE(got); }
int creat(const char *path, mode_t mode) { ENTER; int got = opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); LEAVE(got); }

#define WRITTEN(type, handle, call) \
    char where[4096]; ENTER; place_of(handle, where); \
    type got = call; if (got >= 0 && where[0]) note_content(handle, where); LEAVE(got);
ssize_t write(int handle, const void *data, size_t length) { WRITTEN(ssize_t, handle, REAL(write)(handle, data, length)) }
ssize_t pwrite(int handle, const void *data, size_t length, off_t at) { WRITTEN(ssize_t, handle, REAL(pwrite)(handle, data, length, at)) }
ssize_t pwrite64(int handle, const void *data, size_t length, off64_t at) { WRITTEN(ssize_t, handle, REAL(pwrite64)(handle, data, length, at)) }
ssize_t writev(int handle, const struct iovec *parts, int count) { WRITTEN(ssize_t, handle, REAL(writev)(handle, parts, count)) }
ssize_t sendfile(int handle, int from, off_t *at, size_t length) { WRITTEN(ssize_t, handle, REAL(sendfile)(handle, from, at, length)) }
ssize_t sendfile64(int handle, int from, off64_t *at, size_t length) { WRITTEN(ssize_t, handle, REAL(sendfile64)(handle, from, at, length)) }
ssize_t copy_file_range(int from, off64_t *begin, int handle, off64_t *at, size_t length, unsigned flags) { WRITTEN(ssize_t, handle, REAL(copy_file_range)(from, begin, handle, at, length, flags)) }
int ftruncate(int handle, off_t length) { WRITTEN(int, handle, REAL(ftruncate)(handle, length)) }
int ftruncate64(int handle, off64_t length) { WRITTEN(int, handle, REAL(ftruncate64)(handle, length)) }

#define SYNCED(name) int name(int handle) { \
    char where[4096]; ENTER; place_of(handle, where); \
    int got = REAL(name)(handle); if (!got && where[0]) note("sync", where, "", 0); LEAVE(got); }
SYNCED(fsync)
SYNCED(fdatasync)

#define CHANGED(operation, at, path, call) \
    char where[4096]; ENTER; place(at, path, where); \
    int got = call; if (!got && where[0]) note(operation, where, "", 0); LEAVE(got);
int mkdir(const char *path, mode_t mode) { CHANGED("mkdir", AT_FDCWD, path, REAL(mkdir)(path, mode)) }
int mkdirat(int at, const char *path, mode_t mode) { CHANGED("mkdir", at, path, REAL(mkdirat)(at, path, mode)) }
int rmdir(const char *path) { CHANGED("remove", AT_FDCWD, path, REAL(rmdir)(path)) }
int unlink(const char *path) { CHANGED("remove", AT_FDCWD, path, REAL(unlink)(path)) }
int unlinkat(int at, const char *path, int flags) { CHANGED("remove", at, path, REAL(unlinkat)(at, path, flags)) }

#define NAMED(operation, old_at, old, new_at, new, call) \
    char from[4096], to[4096]; ENTER; place(old_at, old, from); place(new_at, new, to); \
    int got = call; \
    if (!got && to[0]) { if (!from[0]) abort(); note(operation, from, to, strlen(to)); named(to); } \
    LEAVE(got);
int rename(const char *old, const char *new) { NAMED("rename", AT_FDCWD, old, AT_FDCWD, new, REAL(rename)(old, new)) }
int renameat(int a, const char *old, int b, const char *new) { NAMED("rename", a, old, b, new, REAL(renameat)(a, old, b, new)) }
int renameat2(int a, const char *old, int b, const char *new, unsigned flags) { NAMED("rename", a, old, b, new, REAL(renameat2)(a, old, b, new, flags)) }
int link(const char *old, const char *new) { NAMED("link", AT_FDCWD, old, AT_FDCWD, new, REAL(link)(old, new)) }
int linkat(int a, const char *old, int b, const char *new, int flags) { NAMED("link", a, old, b, new, REAL(linkat)(a, old, b, new, flags)) }

/* A stand-in for the library of an emulator, to be preloaded: it executes nothing.
 *
 * It finds its configuration as the real one does (ROCJITSU_RUNTIME_DIR, file config_path), knows its target from
 * there, and logs a kernel that the stand-in runtime hands over where RJ_SINK_DIR says. A configuration may hold
 * `"fault": "hang"`, "crash", "silent" (hands nothing over) or "wrong", and `"at": NAME` of the one kernel that has
 * it; without a name all have. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char target[64], fault[64], at[256];
static FILE *log_file;
static int count;

static void field(const char *text, const char *name, char *into, size_t room) {
    char key[32];
    snprintf(key, sizeof key, "\"%s\": \"", name);
    const char *found = strstr(text, key);
    if (!found) return;
    found += strlen(key);
    size_t length = strcspn(found, "\"");
    if (length >= room) length = room - 1;
    memcpy(into, found, length);
    into[length] = 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("ROCJITSU_RUNTIME_DIR");
    char path[4096], text[4096] = "";
    if (!directory) return;
    snprintf(path, sizeof path, "%s/config_path", directory);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(path, sizeof path, file)) return;
    fclose(file);
    path[strcspn(path, "\n")] = 0;
    file = fopen(path, "r");
    if (!file) return;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    field(text, "target", target, sizeof target);
    field(text, "fault", fault, sizeof fault);
    field(text, "at", at, sizeof at);
}

/* The target that is emulated; empty for none. */
const char *stand_in_target(void) { return target; }

static int has(const char *kind, const char *kernel) {
    return !strcmp(fault, kind) && (!at[0] || !strcmp(at, kernel));
}

/* Called by the stand-in runtime before it touches a kernel at all. */
void stand_in_touch(const char *kernel) {
    if (has("hang", kernel))
        for (;;) pause();
    if (has("crash", kernel)) {
        fprintf(stderr, "stand-in emulator: illegal instruction in %s\n", kernel);
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
}

/* Called by the stand-in runtime for each kernel that is launched; whether its answers are to be wrong. */
int stand_in_dispatch(const char *kernel) {
    stand_in_touch(kernel);
    if (has("silent", kernel)) return 0;
    const char *logging = getenv("RJ_LOG"), *directory = getenv("RJ_SINK_DIR");
    if (logging && !strcmp(logging, "1") && directory) {
        char path[4096];
        snprintf(path, sizeof path, "%s/logging.log", directory);
        if (!log_file) log_file = fopen(path, "w");
        if (log_file) {
            fprintf(log_file, "\n[rocjitsu] Kernel #%d dispatch\n  entry_pc=0x1000  grid=[64,1,1]  wg=[64,1,1]\n",
                    ++count);
            fflush(log_file);
        }
    }
    return has("wrong", kernel);
}

/* A stand-in for the calibration's program: each operation is one launch on the stand-in runtime. */
#include <stdio.h>
#include <stdlib.h>

int hipGetDeviceCount(int *count);
int stand_in_launch(const char *kernel, int *wrong);

static void mark(const char *kind, const char *name) {
    static FILE *log;
    if (!log && getenv("ROCWRIGHT_EMULATOR_LOG")) log = fopen(getenv("ROCWRIGHT_EMULATOR_LOG"), "a");
    if (!log) return;
    fprintf(log, "\n\x1e%s %s\n", kind, name);
    fflush(log);
}

int main(int count, char **words) {
    int devices = 0, wrong = 0;
    if (hipGetDeviceCount(&devices)) {
        printf("{\"problem\": \"HIP shows no GPU: no ROCm-capable device is detected\"}\n");
        return 1;
    }
    for (int k = 1; k < count; ++k) {
        mark("begin", words[k]);
        printf("{\"begin\": \"%s\"}\n", words[k]);
        fflush(stdout);
        stand_in_launch(words[k], &wrong);
        mark("end", words[k]);
        printf("{\"done\": \"%s\", \"state\": \"%s\", \"of\": 8, \"wrong\": %d, \"worst\": %g, \"seconds\": 0.5, "
               "\"detail\": \"%s\"}\n",
               words[k], wrong ? "wrong" : "right", wrong ? 3 : 0, wrong ? 1.91 : 0.0, wrong ? "value 5 is 2, not 3" : "");
        fflush(stdout);
    }
    return 0;
}

/* A stand-in for AMD's HIP runtime, hiprtc and hipBLAS on machines without a GPU: the CPU does what the calls of
 * `rocm-sdk test --device` ask for. STAND_IN_GPUS lists targets; STAND_IN_FAULT names one thing to do wrong. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fault(const char *name) {
    const char *wanted = getenv("STAND_IN_FAULT");
    return wanted && !strcmp(wanted, name);
}

/* The target of the visible GPU `index`; NULL when there are not that many. */
static const char *target(int index) {
    static char text[256];
    const char *chosen = getenv("ROCR_VISIBLE_DEVICES");
    if (chosen && index == 0) index = atoi(chosen);
    else if (chosen) return NULL;
    snprintf(text, sizeof text, "%s", getenv("STAND_IN_GPUS"));
    char *word = strtok(text, " ");
    while (word && index-- > 0) word = strtok(NULL, " ");
    return word;
}

const char *hipGetErrorString(int code) { return code == 100 ? "no device" : "stand-in error"; }

int hipGetDeviceCount(int *count) {
    for (*count = 0; target(*count);) ++*count;
    if (fault("unseen")) --*count;
    return *count ? 0 : 100;
}

int hipSetDevice(int index) { return target(index) ? 0 : 100; }

int hipGetDevicePropertiesR0600(char *properties, int index) {
    strcpy(properties, "a model named gfx1");
    snprintf(properties + 1160, 256, "%s:sramecc+:xnack-", target(index));
    return 0;
}

int hipMalloc(void **pointer, size_t size) { return (*pointer = malloc(size)) ? 0 : 2; }
int hipFree(void *pointer) { free(pointer); return 0; }
int hipDeviceSynchronize(void) { return 0; }

int hipMemcpy(void *to, const void *from, size_t size, int direction) {
    memcpy(to, from, size);
    if (direction == 2 && fault("memory")) ((char *)to)[size / 2] ^= 1;
    return 0;
}

/* hiprtc; its code is the options, so that loading can check them */
static char options[256];

int hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, void *a, void *b) {
    *program = (void *)source;
    return strstr(source, "void scale(float *out") && name && !headers && !a && !b ? 0 : 1;
}
int hiprtcCompileProgram(void *program, int count, const char **given) {
    snprintf(options, sizeof options, "%s", given[0]);
    return fault("compile") || count != 1 || !program;
}
int hiprtcGetProgramLogSize(void *program, size_t *size) { *size = 32; return !program; }
int hiprtcGetProgramLog(void *program, char *log) { strcpy(log, "scale.hip:2: error: no\nmore"); return !program; }
int hiprtcGetCodeSize(void *program, size_t *size) { *size = sizeof options; return !program; }
int hiprtcGetCode(void *program, char *code) { memcpy(code, options, sizeof options); return !program; }

int hipModuleLoadData(void **module, const char *code) {
    char wanted[256];
    snprintf(wanted, sizeof wanted, "--offload-arch=%s:sramecc+:xnack-", target(0));
    *module = &options;
    return strcmp(code, wanted) ? 200 : 0;
}
int hipModuleGetFunction(void **function, void *module, const char *name) {
    *function = module;
    return strcmp(name, "scale") ? 500 : 0;
}
int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void *stream, void **parameters, void **extra) {
    if (fault("crash")) raise(SIGSEGV);
    if (fault("hang")) sleep(60);
    float *out = *(float **)parameters[0], *in = *(float **)parameters[1];
    int count = *(int *)parameters[2];
    for (unsigned i = 0; i < gx * bx && i < (unsigned)count; i++) out[i] = 3.0f * in[i] + 1.0f;
    if (fault("kernel")) out[7] = 0;
    return !function || gy != 1 || gz != 1 || by != 1 || bz != 1 || shared || stream || extra;
}

int hipblasCreate(void **handle) { *handle = &options; return fault("gemm") ? 6 : 0; }
int hipblasSgemm(void *handle, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda,
                 const float *b, int ldb, const float *beta, float *c, int ldc) {
    for (int column = 0; column < n; column++)
        for (int row = 0; row < m; row++) {
            float sum = 0;
            for (int i = 0; i < k; i++) sum += a[i * lda + row] * b[column * ldb + i];
            c[column * ldc + row] = *alpha * sum + (*beta ? *beta * c[column * ldc + row] : 0);
        }
    return !handle || ta != 111 || tb != 111;
}

/* A stand-in for HIP's runtime, libamdhip64: a GPU where a stand-in emulator is preloaded, and none elsewhere.
 *
 * Code objects are looked at as far as the real one does before it hands them to the GPU: ELF header, machine and
 * target, segments inside of it, symbols of descriptors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, INVALID = 1, NO_DEVICE = 100, INVALID_IMAGE = 200, NO_BINARY = 209, NOT_FOUND = 500 };
struct module {
    const uint8_t *bytes;
    const Elf64_Sym *symbols;
    size_t count;
    const char *names;
};
struct function {
    char name[256];
    const uint32_t *descriptor;
};
static const struct { const char *target; uint32_t machine; } machines[] = {{"gfx942", 0x4c}, {"gfx1100", 0x41}};

static const char *target(void) {
    const char *(*asked)(void) = (const char *(*)(void))dlsym(RTLD_DEFAULT, "stand_in_target");
    return asked ? asked() : "";
}
static void touch(const char *name) {
    void (*touching)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "stand_in_touch");
    if (touching) touching(name);
}

int hipInit(unsigned flags) { return flags ? INVALID : *target() ? OK : NO_DEVICE; }
int hipGetDeviceCount(int *count) {
    *count = *target() != 0;
    return *count ? OK : NO_DEVICE;
}
int hipSetDevice(int device) { return device == 0 && *target() ? OK : NO_DEVICE; }
int stand_in_launch(const char *kernel, int *wrong);
int hipMalloc(void **at, size_t size) { return (*at = malloc(size)) ? OK : INVALID; }
int hipFree(void *at) {
    free(at);
    return OK;
}
int hipMemset(void *at, int value, size_t size) {
    int wrong;
    memset(at, value, size);
    return stand_in_launch("the runtime's own", &wrong);
}
int hipDeviceSynchronize(void) { return OK; }
const char *hipGetErrorString(int status) {
    switch (status) {
    case OK: return "no error";
    case NO_DEVICE: return "no ROCm-capable device is detected";
    case INVALID_IMAGE: return "device kernel image is invalid";
    case NO_BINARY: return "no kernel image is available for execution on the device";
    case NOT_FOUND: return "named symbol not found";
    }
    return "invalid argument";
}

int hipModuleLoadData(struct module **into, const void *image) {
    const uint8_t *bytes = image;
    const Elf64_Ehdr *head = image;
    if (memcmp(bytes, ELFMAG, SELFMAG) || head->e_machine != 224) return INVALID_IMAGE;
    uint32_t machine = 0;
    for (size_t k = 0; k < sizeof machines / sizeof *machines; ++k)
        if (!strcmp(machines[k].target, target())) machine = machines[k].machine;
    if ((head->e_flags & 0xff) != machine) return NO_BINARY;
    struct module *found = calloc(1, sizeof *found);
    found->bytes = bytes;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(bytes + head->e_shoff);
    for (int k = 0; k < head->e_shnum; ++k)
        if (sections[k].sh_type == SHT_DYNSYM) {
            found->symbols = (const Elf64_Sym *)(bytes + sections[k].sh_offset);
            found->count = sections[k].sh_size / sizeof(Elf64_Sym);
            found->names = (const char *)bytes + sections[sections[k].sh_link].sh_offset;
        }
    *into = found;
    return OK;
}
int hipModuleUnload(struct module *module) {
    free(module);
    return OK;
}
int hipModuleGetFunction(struct function **into, struct module *module, const char *name) {
    touch(name);
    for (size_t k = 0; k < module->count; ++k) {
        const char *held = module->names + module->symbols[k].st_name;
        size_t length = strlen(name);
        if (strncmp(held, name, length) || strcmp(held + length, ".kd") || !module->symbols[k].st_shndx) continue;
        struct function *found = calloc(1, sizeof *found);
        strncpy(found->name, name, sizeof found->name - 1);
        const Elf64_Ehdr *head = (const Elf64_Ehdr *)module->bytes;
        const Elf64_Phdr *segments = (const Elf64_Phdr *)(module->bytes + head->e_phoff);
        for (int s = 0; s < head->e_phnum; ++s)
            if (segments[s].p_type == PT_LOAD && module->symbols[k].st_value >= segments[s].p_vaddr &&
                module->symbols[k].st_value < segments[s].p_vaddr + segments[s].p_filesz)
                found->descriptor = (const uint32_t *)(module->bytes + segments[s].p_offset +
                                                       module->symbols[k].st_value - segments[s].p_vaddr);
        *into = found;
        return OK;
    }
    return NOT_FOUND;
}
int hipFuncGetAttribute(int *value, int attribute, struct function *function) {
    if (attribute == 0) *value = 1024;
    else if (attribute == 1) *value = function->descriptor ? (int)function->descriptor[0] : 0;
    else return INVALID;
    return OK;
}
/* Not of HIP: the stand-in for the calibration's program launches by name. */
int stand_in_launch(const char *kernel, int *wrong) {
    if (!*target()) return NO_DEVICE;
    int (*dispatch)(const char *) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "stand_in_dispatch");
    *wrong = dispatch ? dispatch(kernel) : 0;
    return OK;
}

/*
 * Runs the program at a path relative to the directory this launcher lies in.
 *
 * Wheels cannot hold symbolic links; this stands in for a link to a program. The first argument stays as
 * it was given, because compilers look at it to tell clang from clang++. Nothing of a C library is used,
 * so the launcher cannot demand a newer one than the programs around it. The target is written into
 * `target` after compiling: one compilation serves all links.
 */
typedef unsigned long size;

static char target[512] __attribute__((used)) = "@ROCWRIGHT-LAUNCHER-TARGET@";

static long system_call(long number, long a, long b, long c, long d) {
  long result;
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
  result = x0;
#else
#error "no system call convention for this processor"
#endif
  return result;
}

#if defined(__x86_64__)
enum { SYS_WRITE = 1, SYS_EXIT = 60, SYS_READLINKAT = 267, SYS_EXECVE = 59 };
#else
enum { SYS_WRITE = 64, SYS_EXIT = 93, SYS_READLINKAT = 78, SYS_EXECVE = 221 };
#endif
enum { AT_FDCWD = -100, PATH_LIMIT = 4096 };

static size length(const char *text) {
  size count = 0;
  while (text[count]) ++count;
  return count;
}

static void complain(const char *text) { system_call(SYS_WRITE, 2, (long)text, (long)length(text), 0); }

__attribute__((used, noreturn)) void launch(long *stack) {
  static char path[PATH_LIMIT + sizeof target];
  long argc = stack[0];
  char **argv = (char **)(stack + 1);
  char **environment = argv + argc + 1;
  long end = system_call(SYS_READLINKAT, AT_FDCWD, (long)"/proc/self/exe", (long)path, PATH_LIMIT);
  if (end <= 0 || end >= PATH_LIMIT) {
    complain("launcher: cannot read /proc/self/exe\n");
    system_call(SYS_EXIT, 127, 0, 0, 0);
  }
  while (end > 0 && path[end - 1] != '/') --end;
  /* Volatile: the compiler must not assume that the text is still the placeholder. */
  const volatile char *from = target;
  size at = (size)end;
  while ((path[at] = *from)) ++at, ++from;
  system_call(SYS_EXECVE, (long)path, (long)argv, (long)environment, 0);
  complain("launcher: cannot run ");
  complain(path);
  complain("\n");
  system_call(SYS_EXIT, 127, 0, 0, 0);
  for (;;) {
  }
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start:\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call launch\n");
#else
__asm__(".globl _start\n_start:\n  mov x0, sp\n  b launch\n");
#endif

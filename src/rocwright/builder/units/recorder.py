"""Runs a compiler and writes down what it cost: the body of the generated launchers.

Stands before every compiler call of a build, so it must be quick to start and must never be the reason why
a build fails: it imports built-in modules only, runs with `python -I -S`, and whatever goes wrong with a
record loses the record. The compiler keeps its streams, exit code and signals. `launch.py` writes copies of
this file behind a shell header; a copy knows nothing of rocwright.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False

# `signal` without its enumerations, which take longer to make than all that is done here.
_signal = __import__("_signal")

SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".s", ".S", ".m", ".mm")
OFFLOAD = ("--offload-arch=", "--cuda-gpu-arch=", "--amdgpu-target=")
# The exit code of sccache's own errors; compilers end with 1 for those of sources.
SCCACHE_FAILED = 2
# A line is written by one `write`; far above what one file system call takes at once.
MOST_BYTES = 60_000

if sys.platform == "win32":

    def run(argv: list[str], kind: str, cache: list[str], directory: str, extra: dict[str, str]) -> int:
        """No shell starts launchers here, so none are written (`launch.py`)."""
        raise NotImplementedError("compilers are recorded on Linux only: build without the launchers")

else:
    if TYPE_CHECKING:
        import resource
    import posix

    FORWARDED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)

    def run(argv: list[str], kind: str, cache: list[str], directory: str, extra: dict[str, str]) -> int:
        """Run `argv`, behind `cache` when there is one, and append a record below `directory`.

        `kind` is what the launcher stands before: `hip`, `link`, or `host`, which looks at the command
        itself. `extra` are variables for the compiler cache, unless the environment has them. Returns the
        exit code; a compiler that died of a signal takes this process along.
        """
        if not argv:
            return 2
        env = {_decode(name): _decode(value) for name, value in posix.environ.items()}
        if env.get("HIP_DEVICE_PART"):
            argv = _for_part(argv, env["HIP_DEVICE_PART"].split(";"), env.get("HIP_DEVICE_PART_ROOT", ""))
        if env.get("ROCWRIGHT_UNIT_RUNNING"):
            # Below another launcher, as where a build puts one before a driver that has one itself.
            return _through(argv, cache, env)[0]
        source, output, kind = _look(argv, kind)
        notes = f"{directory}/.notes-{posix.getpid()}-{time.time_ns()}"
        for name, value in extra.items():
            env.setdefault(name, value)
        if cache and kind == "hip":
            _name_device_libraries(env)
        env["ROCWRIGHT_UNIT_RUNNING"] = "1"
        if cache:
            env["CCACHE_STATSLOG"] = notes + ".cache"
        if kind == "hip":
            # clang then writes every program that it runs, and what each took.
            env |= {"CC_PRINT_OPTIONS": "1", "CC_PRINT_OPTIONS_FILE": notes + ".options"}
            env |= {"CC_PRINT_PROC_STAT": "1", "CC_PRINT_PROC_STAT_FILE": notes + ".seconds"}
        at, began = time.time(), time.monotonic()
        status, used = _through(argv, cache, env)
        wall = time.monotonic() - began
        try:
            fields = {
                "at": _number(at),
                "build": _text(env.get("ROCWRIGHT_BUILD", "")),
                "kind": _text(kind),
                "source": _text(source),
                "output": _text(output),
                "directory": _text(posix.getcwd()),
                "wall_s": _number(wall),
                "cpu_s": _number(used.ru_utime + used.ru_stime),
                "peak_rss": str(used.ru_maxrss * 1024),
                "exit": str(status),
                "cache": _text(_cache_result(_take(notes + ".cache"))),
                "devices": _devices(_take(notes + ".options"), _take(notes + ".seconds"))
                if kind == "hip"
                else "{}",
            }
            _append(directory, "{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}\n")
        except Exception:  # noqa: S110 - a record is never worth a failed build
            pass
        return status

    def _spawn(argv: list[str], cache: list[str], env: dict[str, str]) -> int:
        for words in ([*cache, *argv], argv) if cache else (argv,):
            try:
                # Python ignores this signal, and what it starts would too.
                return posix.posix_spawnp(words[0], words, env, setsigdef=[_signal.SIGPIPE])
            except OSError as error:
                failed = error
        # As a shell says it.
        posix.write(2, f"{argv[0]}: {failed.strerror}\n".encode("utf-8", "surrogateescape"))
        posix._exit(127 if failed.errno == 2 else 126)

    def _call(argv: list[str], cache: list[str], env: dict[str, str]) -> tuple[int, resource.struct_rusage]:
        """Exit code and use of the compiler; ends this process by the signal that ended it."""
        child, early = 0, []

        def forward(number: int, _frame: object) -> None:
            if not child:
                early.append(number)
                return
            try:
                posix.kill(child, number)
            except OSError:
                return

        for number in FORWARDED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, forward)
        child = _spawn(argv, cache, env)
        for number in early:
            posix.kill(child, number)
        _, status, used = posix.wait4(child, 0)
        if posix.WIFSIGNALED(status):
            number = posix.WTERMSIG(status)
            if number != _signal.SIGKILL:
                _signal.signal(number, _signal.SIG_DFL)
            posix.kill(posix.getpid(), number)
        return posix.WEXITSTATUS(status), used

    def _through(
        argv: list[str], cache: list[str], env: dict[str, str]
    ) -> tuple[int, resource.struct_rusage]:
        """Without sccache where that failed itself: its server died, and its storage lets none start."""
        status, used = _call(argv, cache, env)
        if status == SCCACHE_FAILED and cache and cache[0].rpartition("/")[2] == "sccache":
            return _call(argv, [], env)
        return status, used

    def _name_device_libraries(env: dict[str, str]) -> None:
        """ccache does not know that clang links these into the device code."""
        folder = env.get("HIP_DEVICE_LIB_PATH", "")
        names = [f"{folder}/{name}.bc" for name in ("ocml", "ockl")] if folder else []
        found = [name for name in names if _exists(name)]
        if found:
            env.setdefault("CCACHE_EXTRAFILES", ":".join(found))

    def _exists(path: str) -> bool:
        try:
            posix.stat(path)
        except OSError:
            return False
        return True

    def _take(path: str) -> str:
        """Text of a file, which is removed; empty when there is none."""
        try:
            handle = posix.open(path, posix.O_RDONLY)
        except OSError:
            return ""
        try:
            parts = []
            while part := posix.read(handle, 1 << 20):
                parts.append(part)
            return b"".join(parts).decode("utf-8", "replace")
        finally:
            posix.close(handle)
            posix.unlink(path)

    def _append(directory: str, line: str) -> None:
        """One write at the end of the file: records of compilers that end together do not mix."""
        data = line.encode()
        if len(data) > MOST_BYTES:
            return
        flags = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT
        handle = posix.open(f"{directory}/calls.jsonl", flags, 0o644)
        try:
            posix.write(handle, data)
        finally:
            posix.close(handle)


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _look(argv: list[str], kind: str) -> tuple[str, str, str]:
    """Source, output and kind of a command line."""
    source, output, compiles, links = "", "", False, True
    language, offload, before = "", False, ""
    for word in argv[1:]:
        if before == "-o":
            output = word
        elif before == "-x":
            language = word
        elif word == "-c":
            compiles, links = True, False
        elif word in ("-E", "-M", "-MM", "-S", "-fsyntax-only"):
            links = False
        elif word.startswith(("--offload-arch=", "--cuda-gpu-arch=")):
            offload = True
        elif before not in ("-MF", "-MT", "-MQ", "-include", "-isystem", "-I") and word.endswith(SOURCES):
            source = source or word
        before = word
    if (not output and kind != "link") or not (compiles or links):
        return source, output, "other"
    if compiles:
        return source, output, "hip" if language == "hip" or offload or source.endswith(".hip") else "host"
    return source, output, "link"


def _for_part(argv: list[str], part: list[str], root: str) -> list[str]:
    """The command with device code for the targets of a part only; its host code is that of all targets.

    A unit for none of them keeps its first target, so that host code has what to register: every part makes
    the same code for that. Fixed are what clang would hash out of the targets, the unit's id, and paths below
    `root`, which may be another one on each machine.
    """
    kept, first = [], ""
    for word in argv:
        option = next((name for name in OFFLOAD if word.startswith(name)), "")
        targets = word[len(option) :].split(",") if option else []
        first = first or (option + targets[0] if option else "")
        own = [target for target in targets if target in part or target.split(":")[0] in part]
        if not option or own:
            kept.append(option + ",".join(own) if option else word)
    if first and not any(word.startswith(OFFLOAD) for word in kept):
        kept.insert(1, first)
    if "-c" not in argv:
        return kept
    source, output, kind = _look(argv, "hip" if first else "")
    more = [f"-ffile-prefix-map={root}=."] if root else []
    if kind == "hip" and not any(word.startswith(("-cuid=", "-fuse-cuid=")) for word in argv):
        more.append("-cuid=" + _identity(source, root) + "__" + _identity(output, root))
    # Behind the words of the compiler, which may be several: `ccache g++`.
    at = next((number for number, word in enumerate(kept) if word.startswith("-")), len(kept))
    return [*kept[:at], *more, *kept[at:]]


def _identity(name: str, root: str) -> str:
    """A path in letters, digits and underscores, the same wherever the tree lies."""
    if root and name.startswith(root + "/"):
        name = name[len(root) + 1 :]
    plain = [letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):x}_" for letter in name]
    return "".join(plain)


def _cache_result(log: str) -> str:
    """`hit`, `miss`, another word of ccache's for a call that it does not cache, or nothing."""
    words = [line for line in log.splitlines() if line and not line.startswith("#")]
    if any(word in ("direct_cache_hit", "preprocessed_cache_hit") for word in words):
        return "hit"
    if "cache_miss" in words:
        return "miss"
    return words[0] if words else ""


def _devices(options: str, seconds: str) -> str:
    """CPU seconds by GPU target, `host` for what belongs to none, as a JSON object.

    Both texts have a line for each program that clang ran, in the same order; only the first names the
    target. clang writes microseconds: name, output, wall, user time, memory in KiB.
    """
    commands = [line for line in options.splitlines() if line.startswith(' "')]
    rows = [line.rsplit(",", 3) for line in seconds.splitlines()]
    if len(commands) != len(rows):
        return "{}"
    spent: dict[str, float] = {}
    for command, row in zip(commands, rows, strict=True):
        target = _after(command, '"-target-cpu" "gfx') or _after(command, "mcpu=gfx")
        name = f"gfx{target}" if target else "host"
        spent[name] = spent.get(name, 0.0) + int(row[2]) / 1e6
    return "{" + ",".join(f"{_text(name)}:{_number(value)}" for name, value in spent.items()) + "}"


def _after(text: str, mark: str) -> str:
    """The letters, digits and dashes behind a mark."""
    at = text.find(mark)
    if at < 0:
        return ""
    start = end = at + len(mark)
    while end < len(text) and (text[end].isalnum() or text[end] == "-"):
        end += 1
    return text[start:end]


def _number(value: float) -> str:
    return f"{value:.4f}"


def _text(value: str) -> str:
    """A JSON string; the json module takes longer to import than all of this to run."""
    if value.isascii() and value.isprintable():
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    units = value.encode("utf-16-be", "surrogatepass")
    codes = [units[i] << 8 | units[i + 1] for i in range(0, len(units), 2)]
    return '"' + "".join(f"\\u{code:04x}" for code in codes) + '"'

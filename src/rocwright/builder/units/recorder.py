"""Runs a compiler and writes down what it cost: the body of the generated launchers.

Stands before every compiler call of a build, so it must be quick to start and must never be the reason why
a build fails: but for `by_target` it imports what is built in, runs with `python -I -S`, and whatever goes
wrong with a record loses the record. The compiler keeps its streams, exit code and signals. `launch.py`
writes copies of both files below the launchers; a copy knows nothing of rocwright.
"""

from __future__ import annotations

import sys
import time

from rocwright.builder.units.by_target import OFFLOAD, calls, can_be_apart, with_device_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rocwright.builder.units.by_target import Apart

# `signal` without its enumerations, which take longer to make than all that is done here.
_signal = __import__("_signal")

SOURCES = (".c", ".cc", ".cpp", ".cxx", ".cu", ".hip", ".s", ".S", ".m", ".mm")
# The exit code of sccache's own errors; compilers end with 1 for those of sources.
SCCACHE_FAILED = 2
# A line is written by one `write`; far above what one file system call takes at once.
MOST_BYTES = 60_000

if sys.platform == "win32":

    def run(
        argv: list[str],
        kind: str,
        cache: list[str],
        directory: str,
        extra: dict[str, str],
        variable: str = "",
    ) -> int:
        """No shell starts launchers here, so none are written (`launch.py`)."""
        raise NotImplementedError("compilers are recorded on Linux only: build without the launchers")

    def _here() -> str:
        """The directory that calls run in."""
        raise NotImplementedError("compilers are recorded on Linux only")

else:
    if TYPE_CHECKING:
        import resource
    import posix

    FORWARDED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)
    # Signals that came while no compiler ran, for the next; files that go when this process is ended.
    EARLY: list[int] = []
    LITTER: list[str] = []
    _here = posix.getcwd

    def run(
        argv: list[str],
        kind: str,
        cache: list[str],
        directory: str,
        extra: dict[str, str],
        variable: str = "",
    ) -> int:
        """Run `argv`, behind `cache` when there is one, and append a record below `directory`.

        `kind` is what the launcher stands before: `hip`, `link`, or `host`, which looks at the command
        itself. `extra` are variables for the compiler cache, unless the environment has them. The compiler is
        the one that `variable` names, where one is given, else the first word. Returns the exit code; a
        compiler that died of a signal takes this process along.
        """
        if variable:
            argv = [*_compiler_of(variable), *argv]
        if not argv:
            return 2
        env = {_decode(name): _decode(value) for name, value in posix.environ.items()}
        root = env.get("HIP_DEVICE_PART_ROOT", "")
        if env.get("HIP_DEVICE_PART"):
            argv = _for_part(argv, env["HIP_DEVICE_PART"].split(";"), root)
        if env.get("ROCWRIGHT_UNIT_RUNNING"):
            # Below another launcher, as where a build puts one before a driver that has one itself.
            return _through(argv, cache, env)[0]
        source, output, kind = _look(argv, kind)
        notes = f"{directory}/.notes-{posix.getpid()}-{time.time_ns()}"
        for name, value in extra.items():
            env.setdefault(name, value)
        of_ccache = kind == "hip" and bool(cache) and cache[0].rpartition("/")[2] == "ccache"
        if of_ccache and any(word.startswith("-Xarch_") for word in argv):
            # It takes these words and what they are for apart: the macro of one target became that of all.
            cache, of_ccache = [], False
        if cache and kind == "hip":
            _name_device_libraries(env)
        env["ROCWRIGHT_UNIT_RUNNING"] = "1"
        if cache:
            env["CCACHE_STATSLOG"] = notes + ".cache"
        at, began = time.time(), time.monotonic()
        apart = None
        if of_ccache:
            # Before clang writes of each program that it runs.
            apart = _apart(argv, env, root or env.get("CCACHE_BASEDIR", ""))
        if kind == "hip":
            # clang then writes every program that it runs, and what each took.
            env |= {"CC_PRINT_OPTIONS": "1", "CC_PRINT_OPTIONS_FILE": notes + ".options"}
            env |= {"CC_PRINT_PROC_STAT": "1", "CC_PRINT_PROC_STAT_FILE": notes + ".seconds"}
        done = _by_target(apart, cache, env, notes, output) if apart else None
        status, cpu, peak = done or _used(_through(argv, cache, env))
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
                "cpu_s": _number(cpu),
                "peak_rss": str(peak),
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

    def _compiler_of(variable: str) -> list[str]:
        """The words that a variable has, in lines; ends this process where there are none."""
        words = _decode(posix.environ.get(variable.encode(), b"")).splitlines()
        program = sys.argv[0].rpartition("/")[2]
        return words or sys.exit(f"{program}: {variable} is not set: rocwright build sets it")

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
        child = 0

        def forward(number: int, _frame: object) -> None:
            if not child:
                EARLY.append(number)
                return
            try:
                posix.kill(child, number)
            except OSError:
                return

        for number in FORWARDED:
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, forward)
        child = _spawn(argv, cache, env)
        while EARLY:
            posix.kill(child, EARLY.pop())
        _, status, used = posix.wait4(child, 0)
        child = 0
        if posix.WIFSIGNALED(status):
            _clean_up()
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

    def _used(done: tuple[int, resource.struct_rusage]) -> tuple[int, float, int]:
        """Exit code, CPU seconds and the most memory in bytes."""
        status, used = done
        return status, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024

    # -- device code of each target by itself, so that a cache has it for builds with others

    def _apart(argv: list[str], env: dict[str, str], root: str) -> Apart | None:
        """The calls that do what this one does, as clang tells it, or None where they would not."""
        try:
            words = _with_identity(argv, root)
            if not (can_be_apart(words) and _is_plain(words[words.index("-o") + 1])):
                return None
            return calls(words, _said([*words, "-###"], env))
        except Exception:
            # Whatever is odd about a call, clang does it at once, as without this.
            return None

    def _by_target(
        apart: Apart, cache: list[str], env: dict[str, str], notes: str, output: str
    ) -> tuple[int, float, int] | None:
        """Compile each target and the host's half by themselves and join them to what clang makes at once.

        Exit code, CPU seconds, bytes of the most memory; None where that cannot be done.
        """
        targets, host, bundler = apart
        made = {name: f"{notes}.{name.replace(':', '_')}" for name in ("host", "bundle", *targets)}
        calls = [(host + ["-o", made["host"]], cache)]
        calls += [(words + ["-o", made[name]], cache) for name, words in targets.items()]
        inputs = [f"-input={made[name]}" for name in targets]
        calls.append(([*bundler, "-input=/dev/null", *inputs, f"-output={made['bundle']}"], []))
        cpu, peak = 0.0, 0
        try:
            LITTER.extend(made.values())
            for words, through in calls:
                status, seconds, bytes_ = _used(_through(words, through, env))
                cpu, peak = cpu + seconds, max(peak, bytes_)
                if status:
                    # What the compiler refuses it has told; what only the bundler does, it may take at once.
                    return (status, cpu, peak) if through else None
            data = with_device_code(_read(made["host"]), _read(made["bundle"]))
            if data is None:
                return None
            _replace(output, data)
            return 0, cpu, peak
        except Exception:
            # As above: an object of another kind, a full disk.
            return None
        finally:
            _clean_up()

    def _clean_up() -> None:
        for path in LITTER:
            if _exists(path):
                posix.unlink(path)
        LITTER.clear()

    def _is_plain(path: str) -> bool:
        """Whether a file may take the place of what is there: nothing, or a file."""
        try:
            return posix.stat(path).st_mode & 0o170000 == 0o100000
        except OSError:
            return True

    def _said(argv: list[str], env: dict[str, str]) -> str:
        """What a command writes to its standard error; empty where it fails."""
        reading, writing = posix.pipe()
        nowhere = posix.open("/dev/null", posix.O_RDWR)
        to = [(posix.POSIX_SPAWN_DUP2, nowhere, 0), (posix.POSIX_SPAWN_DUP2, nowhere, 1)]
        # The end that is read is closed where a program begins: no handle of Python's is inherited.
        to.append((posix.POSIX_SPAWN_DUP2, writing, 2))
        try:
            child = posix.posix_spawnp(argv[0], argv, env, file_actions=to)
        except OSError:
            return ""
        finally:
            posix.close(writing)
            posix.close(nowhere)
            text = _rest(reading)
        return "" if posix.waitpid(child, 0)[1] else text.decode("utf-8", "surrogateescape")

    def _read(path: str) -> bytes:
        return _rest(posix.open(path, posix.O_RDONLY))

    def _rest(handle: int) -> bytes:
        """All that can be read; the handle is closed."""
        try:
            parts = []
            while part := posix.read(handle, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            posix.close(handle)

    def _replace(path: str, data: bytes) -> None:
        """Put a whole file in its place."""
        there = f"{path}.{posix.getpid()}"
        LITTER.append(there)
        handle = posix.open(there, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o666)
        try:
            view = memoryview(data)
            while view:
                view = view[posix.write(handle, view) :]
        finally:
            posix.close(handle)
        posix.replace(there, path)

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
            return _rest(handle).decode("utf-8", "replace")
        finally:
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
    more = [f"-ffile-prefix-map={root}=."] if root else []
    named = _with_identity(kept, root) if _look(argv, "hip" if first else "")[2] == "hip" else kept
    return _with_options(named, more)


def _with_identity(argv: list[str], root: str) -> list[str]:
    """The command with an id of its unit that no other option has a part in: clang hashes all of them."""
    if any(word.startswith(("-cuid=", "-fuse-cuid=")) for word in argv):
        return argv
    source, output, _ = _look(argv, "")
    return _with_options(argv, ["-cuid=" + _identity(source, root) + "__" + _identity(output, root)])


def _absolute(name: str) -> str:
    """A path from the root on, without `.` and `..`: the same words mean others in another directory."""
    parts: list[str] = []
    for part in (name if name.startswith("/") else f"{_here()}/{name}").split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _with_options(argv: list[str], more: list[str]) -> list[str]:
    """Behind the words of the compiler, which may be several: `ccache g++`."""
    at = next((number for number, word in enumerate(argv) if word.startswith("-")), len(argv))
    return [*argv[:at], *more, *argv[at:]]


def _identity(name: str, root: str) -> str:
    """A path in letters, digits and underscores, the same wherever the tree lies."""
    name = _absolute(name)
    if root and name.startswith(root + "/"):
        name = name[len(root) + 1 :]
    plain = [letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):x}_" for letter in name]
    return "".join(plain)


def _cache_result(log: str) -> str:
    """`hit`, `miss`, another word of ccache's for a call that it does not cache, or nothing.

    A call that was taken apart is a hit where all of it was.
    """
    words = [line for line in log.splitlines() if line and not line.startswith("#")]
    if "cache_miss" in words:
        return "miss"
    if any(word in ("direct_cache_hit", "preprocessed_cache_hit") for word in words):
        return "hit"
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

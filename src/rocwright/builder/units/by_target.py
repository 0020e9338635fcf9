"""What clang does for several targets at once, as calls that do it one by one, and their object put together.

For the launchers (`recorder.py`): words and bytes only, since what it imports every call waits for.
"""

from __future__ import annotations

# Words by target, the host's, and the bundler's.
Apart = tuple[dict[str, list[str]], list[str], list[str]]

OFFLOAD = ("--offload-arch=", "--cuda-gpu-arch=", "--amdgpu-target=")
# Beginnings of options with which a call is left alone: other stages and formats, files beside the object,
# words in a file, dependencies in another form.
ALONE = (
    "--coverage",
    "--cuda-",
    "--dependencies",
    "--no-cuda-gpu-arch",
    "--no-offload-arch",
    "--offload-device",
    "--offload-host",
    "--offload-jobs",
    "--save-temps",
    "--serialize-diag",
    "--user-dependencies",
    "--write-",
    "-E",
    "-MG",
    "-MJ",
    "-MV",
    "-S",
    "-Wa,",
    "-Wp,",
    "-Xclang=",
    "-Xpreprocessor",
    "-coverage",
    "-dependency-",
    "-dump",
    "-emit-",
    "-fcrash-diagnostics",
    "-fgpu-rdc",
    "-flto",
    "-foffload-lto",
    "-foptimization-record",
    "-fproc-stat-report",
    "-fprofile",
    "-frecord",
    "-fsave-optimization",
    "-fstack-usage",
    "-fsyntax-only",
    "-ftest-coverage",
    "-ftime-trace",
    "-fuse-cuid=none",
    "-gen-cdb",
    "-grecord",
    "-gsplit-dwarf",
    "-gz",
    "-index-",
    "-parallel-jobs",
    "-save-stats",
    "-save-temps",
    "-serialize-diag",
    "@",
)
# Of dependencies only the host's half tells, as clang has it.
DEPENDENCIES = ("-MD", "-MMD", "-MP")
DEPENDENCIES_AND = ("-MF", "-MT", "-MQ")


def can_be_apart(argv: list[str]) -> bool:
    """Whether a command of clang's compiles device code for targets that it names, to an object.

    hipcc is left alone: where no target is named, as for the host's half, it asks the machine for one.
    """
    program = argv[0].rpartition("/")[2]
    if "clang" not in program or "-c" not in argv or argv.count("-o") != 1:
        return False
    if any(word.startswith(ALONE) for word in argv[1:]):
        return False
    # Where dependencies go by themselves, they go beside the object.
    depends = any(word in DEPENDENCIES for word in argv)
    return any(word.startswith(OFFLOAD) for word in argv) and (not depends or "-MF" in argv)


def calls(argv: list[str], told: str) -> Apart | None:
    """Those of each target, of the host's half and of the bundler, without their outputs.

    `told` are the programs that clang would run: a compiler and a linker for each target, the bundler, and
    the compiler of the host's half, which takes the bundle in. None for anything else.
    """
    jobs = [_quoted(line) for line in told.splitlines() if line.startswith(' "')]
    if len(jobs) < 4 or len(jobs) % 2 or "-fcuda-include-gpubinary" not in jobs[-1]:
        return None
    bundler = jobs[-2]
    ids = next((word for word in bundler if word.startswith("-targets=")), "").partition("=")[2].split(",")
    names = [name.partition("amdgcn-amd-amdhsa-")[2].lstrip("-") for name in ids[1:]]
    inputs = [word for word in bundler if word.startswith(("-input=", "-output="))]
    if len(inputs) != len(ids) + 1 or len(jobs) != 2 * len(names) + 2 or not all(names):
        return None
    plain = [word for word in argv if not word.startswith(OFFLOAD)]
    at = plain.index("-o")
    output = plain[at + 1]
    # What is for the other half, or for the bundler, is no mistake. Of one half clang 19 forgets the id.
    ids_of_unit = [word for word in jobs[-1] if word.startswith("-cuid=")]
    plain = [*plain[:at], *plain[at + 2 :], "-Qunused-arguments"]
    plain += [each for word in ids_of_unit for each in ("-Xclang", word)]
    device, before = [], ""
    for word in plain:
        of_dependencies = word in DEPENDENCIES or word.startswith(DEPENDENCIES_AND)
        if not of_dependencies and before not in DEPENDENCIES_AND:
            device.append(word)
        before = word
    bare = ["--cuda-device-only", "--no-gpu-bundle-output"]
    # The host's half is the same for all targets: it takes in a bundle of nothing.
    host = [*plain, "--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", "/dev/null"]
    if "-MF" in argv and not any(word.startswith(("-MT", "-MQ")) for word in argv):
        host += ["-MQ", output]
    return (
        {name: [*device, f"--offload-arch={name}", *bare] for name in names},
        host,
        [word for word in bundler if word not in inputs],
    )


def _quoted(line: str) -> list[str]:
    """The words of a command as clang writes it: each in quotes, with a backslash before some characters."""
    words, word, inside, escaped = [], "", False, False
    for letter in line:
        if escaped:
            word, escaped = word + letter, False
        elif letter == "\\":
            escaped = True
        elif letter == '"':
            if inside:
                words.append(word)
            word, inside = "", not inside
        elif inside:
            word += letter
    return words


def with_device_code(host: bytes, bundle: bytes) -> bytes | None:
    """An ELF64 object with a bundle in its empty `.hip_fatbin`, laid out as LLVM does.

    That is what clang makes of both at once. An object without that section registers no kernels, and stays.
    None for another kind of object.
    """

    def number(at: int, size: int) -> int:
        return int.from_bytes(host[at : at + size], "little")

    if host[:6] != b"\x7fELF\x02\x01":
        return None
    table, width, count, names = number(40, 8), number(58, 2), number(60, 2), number(62, 2)
    # Of many sections, the first row of the table has the number, and where their names are.
    count, names = count or number(table + 32, 8), number(table + 40, 4) if names == 0xFFFF else names
    rows = range(table, table + width * count, width)
    texts = number(rows[names] + 24, 8)
    found = [row for row in rows if host.startswith(b".hip_fatbin\0", texts + number(row, 4))]
    if not found:
        return host
    # Older clang ends what it takes in with a zero.
    place, empty = number(found[0] + 24, 8), number(found[0] + 32, 8)
    if len(found) > 1 or host[place : place + empty] not in (b"", b"\0"):
        return None
    order = sorted(rows[1:], key=lambda row: (number(row + 24, 8), row))

    def laid_out(content: bytes) -> bytes:
        data = bytearray(host[: number(order[0] + 24, 8)])
        headers = bytearray(host[table : table + width * count])
        for row in order:
            start, size, at = number(row + 24, 8), number(row + 32, 8), row - table
            data.extend(bytes(-len(data) % max(number(row + 48, 8), 1)))
            headers[at + 24 : at + 32] = len(data).to_bytes(8, "little")
            if row == found[0]:
                headers[at + 32 : at + 40] = len(content).to_bytes(8, "little")
                data.extend(content)
            elif number(row + 4, 4) != 8:
                # All but SHT_NOBITS, which is not in the file.
                data.extend(host[start : start + size])
        data.extend(bytes(-len(data) % 8))
        data[40:48] = len(data).to_bytes(8, "little")
        return bytes(data + headers)

    # Only where this is how the object was laid out.
    return laid_out(bundle + bytes(empty)) if laid_out(bytes(empty)) == host else None

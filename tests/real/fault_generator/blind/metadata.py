"""Ways in which what a wheel says of itself goes wrong."""

from __future__ import annotations

import re
from random import Random

from real.fault_generator.base import any_wheel, operator
from real.mutations_base import Workbench
from real.wheel_edit import WheelEdit


@operator
def requirement_changed(bench: Workbench, rng: Random) -> str | None:
    """A requirement is gone, doubled, of another version, or one of nobody's."""
    project = any_wheel(bench, rng)
    more = (
        "rocm[libraries]==5.2.4",
        "rocm[libraries,profiler]==5.2.3",
        "torch==2.8.0+rocm5.2.3",
        "torch==2.9.0",
        "triton==3.5.0",
        "pytorch-triton-rocm==3.5.0",
        "numpy",
        "rocm @ file:///build/dist/rocm-5.2.3.tar.gz",
        "typing-extensions (>=4.10.0",
        "nvidia-cublas-cu12==12.8.4.1 ; platform_system == 'Linux'",
        "torch>=2.9.0+rocm5.2.3",
        "setuptools ; python_version >= 3.12",
        "rocm-sdk-core=5.2.3",
        "torch<2.9",
    )
    line = f"Requires-Dist: {rng.choice(more)}"
    with bench.edit(project) as wheel:
        text = wheel.read("{info}/METADATA").decode()
        old = re.findall(r"(?m)^Requires-Dist: .*$", text)
        what = rng.choice(("more", "gone", "another", "extra")) if old else "more"
        chosen = rng.choice(old) if old else ""
        if what == "more":
            wheel.add_lines("{info}/METADATA", line)
        elif what == "extra":
            line = f'{chosen} ; extra == "gpu"'
            wheel.substitute("{info}/METADATA", chosen, line, 1)
        else:
            wheel.substitute("{info}/METADATA", chosen, line if what == "another" else "X-Was: nothing", 1)
    return f"{project}: {what}: {chosen} {line if what != 'gone' else ''}"


@operator
def metadata_field_wrong(bench: Workbench, rng: Random) -> str | None:
    """A field of METADATA says something else than the rest of the wheel."""
    project = any_wheel(bench, rng)
    field_, value = rng.choice(
        (
            ("Name", "pytorch"),
            ("Name", "torch-rocm"),
            ("Name", "Torch Vision"),
            ("Version", "2.9.0"),
            ("Version", "2.9.0+rocm-5.2.3"),
            ("Version", "2.9.0.dev20250911+rocm5.2.3"),
            ("Version", "v2.9"),
            ("Version", "2.9.0-rocm5.2.3-git1234abc"),
            ("Requires-Python", ">=3.12"),
            ("Requires-Python", "<3.11"),
            ("Requires-Python", "==3.11"),
            ("Requires-Python", ">=3.10.*"),
            ("Requires-Python", ">=3,10"),
            ("Metadata-Version", "9.0"),
            ("Metadata-Version", "1.0"),
            ("Metadata-Version", ""),
            ("Provides-Extra", "not an extra"),
            ("Description-Content-Type", "text/html"),
        )
    )
    doubled = rng.random() < 0.3
    with bench.edit(project) as wheel:
        line = f"{field_}: {value}"
        old = re.search(rf"(?m)^{field_}: .*$", wheel.read("{info}/METADATA").decode())
        if old is None or doubled:
            wheel.add_lines("{info}/METADATA", line)
        else:
            wheel.substitute("{info}/METADATA", old.group(), line, 1)
    return f"{project}: {line}{', beside the old one' if doubled else ''}"


@operator
def wheel_file_wrong(bench: Workbench, rng: Random) -> str | None:
    """WHEEL has another version, root or tag."""
    project = any_wheel(bench, rng)
    start, line = rng.choice(
        (
            ("Wheel-Version", "Wheel-Version: 2.0"),
            ("Wheel-Version", "Wheel-Version: 1.9"),
            ("Wheel-Version", ""),
            ("Root-Is-Purelib", "Root-Is-Purelib: true"),
            ("Root-Is-Purelib", ""),
            ("Root-Is-Purelib", "Root-Is-Purelib: maybe"),
            ("Tag", "Tag: py3-none-any"),
            ("Tag", "Tag: cp312-cp312-linux_x86_64"),
            ("Tag", "Tag: cp311-cp311-manylinux_2_28_x86_64"),
            ("Tag", ""),
            ("Generator", "Build: 7"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.drop_lines("{info}/WHEEL", start)
        if line:
            wheel.add_lines("{info}/WHEEL", line)
    return f"{project}: WHEEL: {line or f'no {start}'}"


@operator
def record_wrong(bench: Workbench, rng: Random) -> str | None:
    """RECORD lists something else than the archive holds."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        rows = [list(row) for row in wheel.record()]
        at = rng.randrange(len(rows) - 1)
        name = rows[at][0]
        what = rng.choice(
            ("digest", "size", "md5", "absolute", "gone", "more", "doubled", "none", "backslash", "nothing")
        )
        if what == "digest":
            rows[at][1] = rows[rng.randrange(len(rows) - 1)][1][::-1][:43]
        elif what == "size":
            rows[at][2] = str(int(rows[at][2] or 0) + 1)
        elif what == "md5":
            rows[at][1] = "md5=1B2M2Y8AsgTpgAmY7PhCfg"
        elif what == "absolute":
            rows[at][0] = f"/build/wheel/{name}"
        elif what == "gone":
            del rows[at]
        elif what == "more":
            rows.insert(at, ["torch/lib/libmagma.so", "sha256=" + "A" * 43, "7"])
        elif what == "doubled":
            rows.insert(at, [name, "", ""])
        elif what == "none":
            rows[at][1:] = ["", ""]
        elif what == "backslash":
            rows[at][0] = name.replace("/", "\\")
        else:
            rows = []
        wheel.rows = rows
    return f"{project}: RECORD, {name}: {what}"


def retitle(wheel: WheelEdit, info: str) -> None:
    """Move the dist-info directory."""
    wheel.rename_below(f"{wheel.info}/", f"{info}/")
    wheel.info = info


@operator
def dist_info_wrong(bench: Workbench, rng: Random) -> str | None:
    """The dist-info directory has another name, or a second one came along from an older build."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        old = wheel.info
        stem, _, version = old.removesuffix(".dist-info").partition("-")
        new = rng.choice(
            (
                f"{stem}-{version.split('+')[0]}",
                f"{stem.capitalize()}-{version}",
                f"{stem}-{version}.post1",
                f"{stem}_rocm-{version}",
                version,
                f"{stem}-{version.replace('+', '_')}",
            )
        )
        second = rng.random() < 0.4
        if second:
            wheel.put(f"{new}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {stem}\nVersion: 0.1\n")
        else:
            retitle(wheel, f"{new}.dist-info")
    return f"{project}: {'a second' if second else 'another'} directory: {new}.dist-info"


@operator
def file_renamed(bench: Workbench, rng: Random) -> str | None:
    """The file has another name: another tag, another version, another case."""
    project = any_wheel(bench, rng)
    name = bench.paths[project].name
    stem, version, *tags = name.split("-")
    new = rng.choice(
        (
            name.replace("cp311-cp311", "cp312-cp312"),
            name.replace("cp311-cp311", "cp311-abi3"),
            name.replace("cp311-cp311", "cp311-cp311t"),
            name.replace("cp311-cp311", "py3-none"),
            name.replace("linux_x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
            name.replace("linux_x86_64", "manylinux_2_99_x86_64"),
            name.replace("linux_x86_64", "linux_aarch64"),
            name.replace("linux_x86_64", "win_amd64"),
            name.replace("linux_x86_64", "any"),
            name.replace("+", "%2B"),
            name.replace("+", "_"),
            name.replace(version, version.split("+")[0]),
            name.replace(version, f"{version}.1"),
            "-".join([stem, version, "1", *tags]),
            "-".join([stem, version, "rc", *tags]),
            "-".join([stem.replace("_", "."), version, *tags]),
            "-".join([f"py{stem}", version, *tags]),
            name.replace(".whl", " (1).whl"),
            name.capitalize(),
        )
    )
    if new == name:
        return None
    with bench.edit(project) as wheel:
        wheel.name = new
    return f"{project}: the file is named {new}"

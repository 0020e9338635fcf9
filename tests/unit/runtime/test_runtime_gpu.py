"""`rocm-sdk test --device` and `--torch`, with stand-ins for the GPU: success, and every way to fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import fake_rocm as fake
import pytest

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

STAND_IN = Path(__file__).with_name("stand_in_hip.c")


@pytest.fixture(scope="module")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stand-in") / "libamdhip64.so.5"
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-o", path, STAND_IN], check=True)
    return path


@pytest.fixture
def machine(kpack_site: Path, kpack_wheels, hip: Path) -> Path:
    """site-packages with the stand-in as HIP and hipBLAS, on a machine with two GPUs."""
    site = fake.unpack(kpack_site, kpack_wheels["gfx906"], kpack_wheels["gfx1030"])
    (site / "_rocm_sdk_core/lib/libamdhip64.so.5").write_bytes(hip.read_bytes())
    libraries = site / fake.KPACK
    (libraries / "lib/libhipblas.so.0").write_bytes(hip.read_bytes())
    names = {"rocblas": "lib/librocblas.so.0", "hipblas": "lib/libhipblas.so.0"}
    (libraries / "__init__.py").write_bytes(fake.init(LIBRARIES=names))
    fake.with_gpus(site, "gfx906", "gfx1030")
    return site


def level(site: Path, *levels: str, **environ: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit status and {id: (verdict, cause)}."""
    environ = {"STAND_IN_GPUS": "gfx906 gfx1030", **environ}
    done = fake.rocm_sdk(site, "test", *levels, "--json", **environ)
    assert done.stderr == ""
    checks = json.loads(done.stdout)["checks"]
    return done.returncode, {check["id"]: (check["verdict"], check["cause"]) for check in checks}


PASSED = ("passed", "")
STEPS = ("package", "memory", "kernel", "gemm")


def test_every_gpu_computes(machine: Path) -> None:
    expected = {f"device:{index}:{step}": PASSED for index in (0, 1) for step in STEPS}
    expected.update({"device:access": PASSED, "device:enumerate": PASSED})
    assert level(machine, "--device") == (0, expected)


def test_only_visible_gpus_are_asked(machine: Path) -> None:
    status, found = level(machine, "--device", ROCR_VISIBLE_DEVICES="1")
    assert status == 0
    assert set(found) == {"device:access", "device:enumerate", *(f"device:0:{step}" for step in STEPS)}


@pytest.mark.parametrize(
    ("fault", "bad"),
    [
        ("memory", {"memory": "what came back from the GPU is not what was copied to it"}),
        ("kernel", {"kernel": "the kernel's result differs from the CPU's"}),
        ("compile", {"kernel": "hiprtcCompileProgram: scale.hip:2: error: no"}),
        ("gemm", {"gemm": "hipblasCreate: status 6"}),
        ("crash", {"kernel": "no message (signal 11)", "gemm": "kernel failed before"}),
    ],
)
def test_one_fault_fails_its_own_step(machine: Path, fault: str, bad: dict[str, str]) -> None:
    status, found = level(machine, "--device", ROCR_VISIBLE_DEVICES="0", STAND_IN_FAULT=fault)
    assert status == 3
    bad = {f"device:0:{step}": cause for step, cause in bad.items()}
    for name, (_, cause) in found.items():
        if fault == "memory" and name.endswith(("kernel", "gemm")):
            continue  # what reads back is wrong for them, too
        assert cause == bad.get(name, ""), name


def test_a_gpu_that_hangs_ends_by_its_timeout(machine: Path) -> None:
    module = machine / "rocm_sdk/_test_device.py"
    module.write_text(module.read_text().replace("SECONDS = 120", "SECONDS = 1"))
    status, found = level(machine, "--device", ROCR_VISIBLE_DEVICES="0", STAND_IN_FAULT="hang")
    assert status == 3
    assert found["device:0:memory"] == PASSED
    assert found["device:0:kernel"] == ("failed", "no message (no end after 1 s)")
    assert found["device:0:gemm"] == ("skipped", "kernel failed before")


def test_hip_that_sees_less_than_the_driver(machine: Path) -> None:
    status, found = level(machine, "--device", STAND_IN_FAULT="unseen")
    assert status == 3
    assert found["device:enumerate"] == ("failed", "HIP sees gfx906, the driver lists gfx906 gfx1030")


def test_no_permission_says_so_and_asks_no_gpu(machine: Path) -> None:
    detector = machine / "rocm_sdk/_detect.py"
    detector.write_text(detector.read_text().replace("/machine/kfd", "/machine/absent"))
    status, found = level(machine, "--device")
    assert status == 3
    assert found == {"device:access": ("failed", f"no permission for {machine.parent}/machine/absent")}


def test_what_is_not_installed_is_skipped(machine: Path) -> None:
    (machine / fake.KPACK / "__init__.py").write_bytes(fake.init())
    (machine / fake.KPACK / "_device_gfx1030.json").unlink()
    status, found = level(machine, "--device")
    assert status == 3
    assert found["device:0:gemm"] == ("skipped", "hipBLAS is not installed")
    assert found["device:1:package"] == (
        "failed",
        "the installed libraries have no device code for gfx1030",
    )


def test_no_gpu_is_no_failure(machine: Path) -> None:
    """Today `rocm-sdk test` counts an absent GPU as a failure."""
    fake.with_gpus(machine)
    assert level(machine, "--device") == (0, {"device": ("skipped", "no AMD GPU: there is none")})
    status, found = level(machine, "--torch")
    assert status == 4  # torch is not installed
    assert found["torch:gpus"] == ("skipped", "no AMD GPU: there is none")


TORCH = '''
"""A stand-in for PyTorch: whole matrices as lists of rows, which GPU a tensor is on is only noted."""
__version__ = "2.9.0+rocm5.2.3"
float32 = "float32"
class version:
    hip = {hip!r}
class cuda:
    device_count = staticmethod(lambda: {count})
class Tensor:
    def __init__(self, rows, wrong=0):
        self.rows, self.wrong = rows, wrong
    def reshape(self, height, width):
        return Tensor([self.rows[i * width : (i + 1) * width] for i in range(height)])
    def __mod__(self, number):
        return Tensor([[value % number for value in row] for row in self.rows])
    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        rows = [[sum(map(int.__mul__, row, column)) for column in columns] for row in self.rows]
        rows[0][0] += self.wrong
        return Tensor(rows)
    def to(self, place):
        return Tensor(self.rows, wrong=int(place == "cuda:{bad}"))
    def cpu(self):
        return self
    def tolist(self):
        return self.rows
def arange(count, dtype):
    return Tensor(list(range(count)))
'''


def torch(site: Path, hip: str | None = "5.2.21153", count: int = 2, bad: int = -1) -> None:
    (site / "torch.py").write_text(TORCH.format(hip=hip, count=count, bad=bad))


def test_torch_that_fits(machine: Path) -> None:
    torch(machine)
    names = ("import", "hip", "version", "gpus", "0:matmul", "1:matmul")
    assert level(machine, "--torch") == (0, {f"torch:{name}": PASSED for name in names})


@pytest.mark.parametrize(
    ("options", "name", "cause"),
    [
        ({"hip": None}, "hip", "torch 2.9.0+rocm5.2.3 was built without ROCm: torch.version.hip is None"),
        (
            {"hip": "6.4.1"},
            "version",
            "torch 2.9.0+rocm5.2.3 was built for HIP 6.4.1, ROCm 5.2.3 is installed",
        ),
        ({"count": 1}, "gpus", "torch sees 1 GPUs, the driver lists 2"),
        ({"bad": 1}, "1:matmul", "the product differs from the CPU's"),
    ],
)
def test_torch_that_does_not_fit(machine: Path, options: dict, name: str, cause: str) -> None:
    torch(machine, **options)
    status, found = level(machine, "--torch")
    assert status == 4
    assert found[f"torch:{name}"] == ("failed", cause)


def test_torch_that_cannot_be_imported(machine: Path) -> None:
    (machine / "torch.py").write_text("raise OSError('libtorch_hip.so: cannot open')")
    status, found = level(machine, "--torch")
    assert status == 4
    assert found["torch:import"] == ("failed", "OSError: libtorch_hip.so: cannot open")
    assert found["torch:hip"] == ("skipped", "import failed before")


def test_the_first_failing_level_gives_the_status(machine: Path) -> None:
    torch(machine, bad=0)
    (machine / fake.KPACK / "lib/librocblas.so.0").unlink()
    assert level(machine, "--torch", "--device")[0] == 4
    assert level(machine, "--torch", "--device", STAND_IN_FAULT="kernel")[0] == 3
    status, found = level(machine, "--torch", "--static", "--device", STAND_IN_FAULT="kernel")
    assert status == 1
    assert found["library:rocblas"][0] == "failed"

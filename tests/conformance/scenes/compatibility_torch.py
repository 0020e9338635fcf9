"""What the compatibility page names, on a real torch for the CPU: data types, functions, known issues.

The torch is 2.6.0 with its torchvision and torchaudio. Each of the page's names is called by itself, with
arguments for which the result is known beforehand; what the page says of it is looked at, too.
"""

from __future__ import annotations

import json
import re
from typing import Any

from conformance import torches
from conformance.scenes import compatibility
from conformance.table import Row, row
from conformance.world import Shell, Transcript, World

# Makes one tensor of each data type that standard input names, and prints what torch says of it. Quantized
# ones come out of numbers with scale 1 and zero point 0, those of four bits by channel.
TYPES = """
import json, sys, warnings
import torch
warnings.simplefilter("ignore")

def made(values, dtype, name):
    if not name.startswith("q"):
        return torch.tensor([values], dtype=dtype)
    numbers, ones = torch.tensor([values], dtype=torch.float32), torch.ones(1)
    if name == "quint4x2":
        return torch.quantize_per_channel(numbers, ones, ones - 1, 0, dtype)
    return torch.quantize_per_tensor(numbers, 1.0, 0, dtype)

def told(names):
    name, dtype = names[0], getattr(torch, names[0])
    tensor = made([1, 2, 3, 4, 0, 1, 2, 3], dtype, name)
    quantized = tensor.is_quantized
    if quantized:
        ends = made([-1e10, 1e10], dtype, name).dequantize()[0].tolist()
    elif dtype is torch.bool:
        ends = [False, True]
    else:
        limits = torch.finfo if dtype.is_floating_point or dtype.is_complex else torch.iinfo
        ends = [limits(dtype).min, limits(dtype).max]
    back = (tensor.dequantize() if quantized else tensor)[0].tolist()
    return {
        "same": all(getattr(torch, other) is dtype for other in names),
        "dtype": str(tensor.dtype),
        "bits": tensor.untyped_storage().nbytes() * 8 / tensor.numel(),
        "form": "quantized" if quantized else "complex" if dtype.is_complex
                else "float" if dtype.is_floating_point else "other",
        "ends": ends,
        "back": [[one.real, one.imag] if isinstance(one, complex) else one for one in back],
    }

def tried(names):
    try:
        return told(names)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}

print(json.dumps({names[0]: tried(names) for names in json.load(sys.stdin)}))
"""
# The smallest and the largest value of each, worked out by hand from its bits.
ENDS: dict[str, tuple[float, float]] = {
    "float8_e4m3fn": (-448, 448),
    "float8_e5m2": (-57344, 57344),
    "float16": (-65504, 65504),
    "bfloat16": (-(2 - 2**-7) * 2.0**127, (2 - 2**-7) * 2.0**127),
    "float32": (-(2 - 2**-23) * 2.0**127, (2 - 2**-23) * 2.0**127),
    "float64": (-(2 - 2**-52) * 2.0**1023, (2 - 2**-52) * 2.0**1023),
    "complex32": (-65504, 65504),
    "complex64": (-(2 - 2**-23) * 2.0**127, (2 - 2**-23) * 2.0**127),
    "complex128": (-(2 - 2**-52) * 2.0**1023, (2 - 2**-52) * 2.0**1023),
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "uint32": (0, 4294967295),
    "uint64": (0, 18446744073709551615),
    "int8": (-128, 127),
    "int16": (-32768, 32767),
    "int32": (-2147483648, 2147483647),
    "int64": (-9223372036854775808, 9223372036854775807),
    "bool": (False, True),
    "quint8": (0, 255),
    "qint8": (-128, 127),
    # As float32, in which 2147483647 is the next power of two.
    "qint32": (-2147483648, 2147483648),
    "quint4x2": (0, 15),
}

# Evaluates the expressions of its argument, in two processes that are parted before torch starts threads in
# either, and prints what the first of them got.
CALLS = """
import datetime, json, os, sys, warnings
warnings.simplefilter("ignore")
rank = int(os.fork() == 0)
import torch, torchaudio, torchvision

def both(setting):
    "An option's value as found, after False, after True; it is left as it was."
    owner, _, name = setting.rpartition(".")
    owner, found = eval(owner), [eval(setting)]
    for value in (False, True):
        setattr(owner, name, value)
        found.append(eval(setting))
    setattr(owner, name, found[0])
    return found

def layer(made, *values):
    "A layer with these numbers as its parameters."
    for parameter, value in zip(made.parameters(), values, strict=True):
        torch.nn.init.constant_(parameter, value)
    return made

def traced():
    "How often a compiled function was handed to a compiler, and what it gives."
    graphs = []
    def compiler(graph, inputs):
        graphs.append([node.target.__name__ for node in graph.graph.nodes if node.op == "call_function"])
        return graph.forward
    square = torch.compile(lambda one: torch.mul(one, one), backend=compiler)
    return [square(torch.tensor([3.0])).item(), square(torch.tensor([4.0])).item(), graphs]

def averaged():
    "The gradient that each of two processes sees: of 1 in one of them, of 3 in the other."
    model = torch.nn.parallel.DistributedDataParallel(layer(torch.nn.Linear(1, 1, bias=False), 1.0))
    model(torch.tensor([[1.0 + 2 * rank]])).sum().backward()
    return model.module.weight.grad.item()

def summed():
    value = torch.tensor([1.0 + rank])
    torch.distributed.all_reduce(value)
    return value.item()

def again(make):
    "Whether the same seed gives the same numbers; mean and range of many."
    torch.manual_seed(7)
    first = make(100000)
    torch.manual_seed(7)
    return [bool((first == make(100000)).all()), round(first.mean().item(), 1), round(first.std().item(), 1)]

matrix, right = torch.tensor([[2.0, 1.0], [1.0, 2.0]]), torch.tensor([[3.0], [3.0]])
numbers, gray = torch.arange(6.0), torch.full((3, 16, 16), 128, dtype=torch.uint8)
ones, table = torch.ones(1, 1, 3, 3), json.loads(sys.argv[1])
torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/group", rank=rank,
                                     world_size=2, timeout=datetime.timedelta(seconds=60))
found = {}
for name, code in table.items():
    try:
        found[name] = eval(code)
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"
torch.distributed.destroy_process_group()
if rank:
    os._exit(0)
print(json.dumps(found))
"""
# Each name of the page, an expression with it, and what that gives on a torch for the CPU.
NAMES: dict[str, tuple[str, Any]] = {
    "matmul.allow_bf16_reduced_precision_reduction": (
        "both('torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction')",
        [True, False, True],
    ),
    "matmul.allow_fp16_reduced_precision_reduction": (
        "both('torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction')",
        [True, False, True],
    ),
    "torch": ("[torch.__version__, torch.version.hip]", ["2.6.0+debian", None]),
    "torch.backends.cuda": (
        "[torch.backends.cuda.is_built(), both('torch.backends.cuda.matmul.allow_tf32')]",
        [False, [False, False, True]],
    ),
    "torch.backends.cudnn": (
        "[torch.backends.cudnn.is_available(), both('torch.backends.cudnn.benchmark')]",
        [False, [False, False, True]],
    ),
    "torch.bmm": ("torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).tolist()", [[[3.0]], [[3.0]]]),
    # The second call finds what the first one compiled.
    "torch.compile": (
        "[torch.compile.__name__, *traced()]",
        ["compile", 9.0, 16.0, [["mul"]]],
    ),
    "torch.cuda": ("[torch.cuda.is_available(), torch.cuda.device_count()]", [False, 0]),
    "torch.cumsum": ("torch.cumsum(numbers, 0).tolist()", [0.0, 1.0, 3.0, 6.0, 10.0, 15.0]),
    "torch.distributed": ("[torch.distributed.get_world_size(), summed()]", [2, 3.0]),
    "torch.fft": ("torch.fft.fft(torch.tensor([1.0, 0, 0, 0])).real.tolist()", [1.0] * 4),
    "torch.int8": ("(torch.tensor([127], dtype=torch.int8) + 1).item()", -128),
    "torch.linalg.eig": (
        "sorted(round(one, 4) for one in torch.linalg.eig(matrix)[0].real.tolist())",
        [1.0, 3.0],
    ),
    "torch.linalg.solve": (
        "[round(one, 4) for one in torch.linalg.solve(matrix, right).flatten().tolist()]",
        [1.0, 1.0],
    ),
    "torch.linalg.svd": ("[round(one, 4) for one in torch.linalg.svd(matrix)[1].tolist()]", [3.0, 1.0]),
    "torch.matmul": ("torch.matmul(matrix, right).tolist()", [[9.0], [9.0]]),
    "torch.mm": ("torch.mm(matrix, matrix).tolist()", [[5.0, 4.0], [4.0, 5.0]]),
    "torch.nn": (
        "torch.nn.Sequential(layer(torch.nn.Linear(2, 1), 2.0, 1.0), torch.nn.ReLU())(matrix).tolist()",
        [[7.0], [7.0]],
    ),
    "torch.nn.Conv2d": ("layer(torch.nn.Conv2d(1, 1, 3), 1.0, 0.5)(ones).item()", 9.5),
    "torch.nn.Conv3d": ("layer(torch.nn.Conv3d(1, 1, 3), 1.0, 0.5)(ones.expand(1, 3, 3, 3)).item()", 27.5),
    "torch.nn.Dropout": (
        "[sorted(torch.nn.Dropout(0.5)(torch.ones(1000)).unique().tolist()), "
        "torch.nn.Dropout(0.5).eval()(torch.ones(2)).tolist()]",
        [[0.0, 2.0], [1.0, 1.0]],
    ),
    # Weights and biases of zero: gates at 1/2, a candidate of 0; from a state of 2 come 1 and tanh(1) / 2.
    "torch.nn.LSTM": (
        "[round(one.item(), 4) for one in layer(torch.nn.LSTM(1, 1), 0.0, 0.0, 0.0, 0.0)"
        "(torch.ones(1, 1), (torch.zeros(1, 1), torch.full((1, 1), 2.0)))[1]]",
        [0.3808, 1.0],
    ),
    "torch.nn.Linear": ("layer(torch.nn.Linear(3, 1), 2.0, 1.0)(torch.ones(3)).tolist()", [7.0]),
    # All keys are equal, so each is attended to as much.
    "torch.nn.MultiheadAttention": (
        "torch.nn.MultiheadAttention(2, 1)(*[torch.ones(4, 2)] * 3)[1].tolist()",
        [[0.25] * 4] * 4,
    ),
    "torch.nn.ReLU": ("torch.nn.ReLU()(torch.tensor([-1.0, 2.0])).tolist()", [0.0, 2.0]),
    "torch.nn.functional.scaled_dot_product_attention": (
        "torch.nn.functional.scaled_dot_product_attention("
        "torch.ones(1, 2, 4), torch.ones(1, 2, 4), matrix[None]).tolist()",
        [[[1.5, 1.5], [1.5, 1.5]]],
    ),
    "torch.nn.parallel.DistributedDataParallel": (
        "[torch.nn.parallel.DistributedDataParallel.__name__, averaged()]",
        ["DistributedDataParallel", 2.0],
    ),
    "torch.permute": (
        "torch.permute(numbers.reshape(2, 3), (1, 0)).tolist()",
        [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]],
    ),
    # The deviation of numbers between 0 and 1 is the root of 1/12.
    "torch.rand": ("again(torch.rand)", [True, 0.5, 0.3]),
    "torch.randn": ("[one if one else 0 for one in again(torch.randn)]", [True, 0, 1.0]),
    "torch.sort": ("[one.tolist() for one in torch.sort(-numbers[:3])]", [[-2.0, -1.0, 0.0], [2, 1, 0]]),
    "torch.sparse": ("torch.sparse.mm(matrix.to_sparse(), right).tolist()", [[9.0], [9.0]]),
    "torch.sum": ("torch.sum(numbers).item()", 15.0),
    "torch.uint32": ("torch.tensor([4294967295], dtype=torch.uint32).item()", 4294967295),
    "torch.utils.data": (
        "[one.tolist() for one in torch.utils.data.DataLoader(numbers, batch_size=4)]",
        [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0]],
    ),
    # A method of tensors: torch has no function of this name.
    "torch.view": (
        "[hasattr(torch, 'view'), torch.Tensor.view(numbers, 2, 3).tolist(), "
        "numbers.view(6).data_ptr() == numbers.data_ptr()]",
        [False, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], True],
    ),
    "torchaudio.transforms": (
        "[torchaudio.transforms.Vol(0.5)(torch.tensor([0.5, 1.0])).tolist(), "
        "torchaudio.transforms.Spectrogram(n_fft=4, window_fn=torch.ones, center=False)"
        "(torch.ones(4)).tolist()]",
        [[0.25, 0.5], [[16.0], [0.0], [0.0]]],
    ),
    "torchvision": (
        "[torchvision.__version__, torchvision.ops.nms(torch.tensor([[0.0, 0, 1, 1]] * 2), "
        "torch.tensor([0.5, 1.0]), 0.5).tolist()]",
        ["0.21.0", [1]],
    ),
    "torchvision.io.decode_jpeg": (
        "[[*one.shape, *one.unique().tolist()] for one in "
        "[torchvision.io.decode_jpeg(torchvision.io.encode_jpeg(gray))]]",
        [[3, 16, 16, 128]],
    ),
    "torchvision.io.encode_jpeg": (
        "bytes(torchvision.io.encode_jpeg(gray).tolist()).hex(' ').split(' ')[:2]",
        ["ff", "d8"],
    ),
    "torchvision.transforms": (
        "[torchvision.transforms.CenterCrop(2)(torch.arange(16.0).reshape(1, 4, 4)).tolist(), "
        "torchvision.transforms.Normalize(1.0, 2.0)(ones * 5).unique().tolist()]",
        [[[[5.0, 6.0], [9.0, 10.0]]], [2.0]],
    ),
}
# Names of the page that nothing here can call.
NOT_HERE = ("rocm/pytorch", "torchrec")
_AD = [f"AD-{number:02}" for number in range(1, 23)]
_AO = [f"AO-{number:02}" for number in range(1, 44)]


def tried(world: World) -> Transcript:
    """The probe, a tensor of each type, a call of each name, and the smoke tests of data types.

    The last see GPUs that nobody has: what is put on them is computed on the CPU.
    """

    def play(shell: Shell) -> None:
        torches.activate(shell)
        shell("cd $HOME")
        # What is less than claimed is for its own row to say, and for CO-02.
        shell("rocwright compat probe --json > probe.json", *_AD, "CO-02", "CO-06", code=None)
        names = [one.split(" = ") for one in compatibility.type_names()]
        asked = [[one.removeprefix("torch.") for one in of] for of in names]
        (shell.home / "types.json").write_text(json.dumps(asked))
        (shell.home / "types_of.py").write_text(TYPES)
        shell("python types_of.py < types.json > types.out", *_AD, "CO-02")
        (shell.home / "call.py").write_text(CALLS)
        (shell.home / "names.json").write_text(json.dumps({name: code for name, (code, _) in NAMES.items()}))
        # Two processes on one machine find each other by its own network.
        line = 'GLOO_SOCKET_IFNAME=lo python call.py "$(cat names.json)" > names.out'
        shell(line, *_AO, "CO-06")
        gpus = torches.dressed(shell.home / "gpus", *torches.GPUS)
        tests = "rocwright/external-builds/pytorch/smoke-tests/test_gpu_types.py"
        shell(f"pytest -v {tests}", "CO-02", code=None, env=gpus)

    return world.scene("compatibility-torch", play)


def printed(world: World, name: str) -> dict[str, Any]:
    """The JSON that a command of the scene printed."""
    found: dict[str, Any] = json.loads((tried(world).home / name).read_text())
    return found


def probed(world: World, kind: str) -> dict[str, dict[str, Any]]:
    """What the probe told, by name."""
    return {one["name"]: one for one in printed(world, "probe.json")[kind]}


@row(*_AD)
def a_data_type_is_what_the_page_says(world: World, row: Row) -> None:
    compatibility.data_type_has_its_names_and_description(world, row)
    tried(world).of(row.id)
    name, *others = [one.removeprefix("torch.") for one in row.item.split(" = ")]
    made = printed(world, "types.out")[name]
    assert "error" not in made, made["error"]
    assert (made["dtype"], made["same"]) == (f"torch.{name}", True)
    # "8-bit floating point, e4m3", "64-bit complex numbers", "Quantized 4-bit integer (unsigned)", "Boolean".
    (bits,) = re.findall(r"(\d+)-bit", row.expectation) or ["8"]
    assert made["bits"] == int(bits)
    forms = {"Quantized": "quantized", "complex": "complex", "floating": "float"}
    assert made["form"] == next((form for word, form in forms.items() if word in row.expectation), "other")
    assert tuple(made["ends"]) == ENDS[name]
    # Eight values, the four bits of quint4x2 hold them all, come back.
    values = [1, 2, 3, 4, 0, 1, 2, 3]
    wanted = {"bool": [bool(one) for one in values]}.get(name, values)
    assert made["back"] == ([[one, 0] for one in values] if made["form"] == "complex" else wanted)
    if "signed" in row.expectation:
        assert (made["ends"][0] < 0) is ("(signed)" in row.expectation)
    # The probe copies, converts and computes, and holds that against what is claimed.
    told = probed(world, "dtypes")[name]
    assert (told["also"], told["found"], told["outcome"]) == (others, "works", "as claimed"), told
    steps = {one["name"]: one["state"] for one in told["steps"]}
    assert [steps[one] for one in ("create", "to device", "to host", "convert")] == ["ok"] * 4
    # Unsigned integers of more than 8 bits are held and converted, and not computed with.
    foreign = "not natively supported" in row.expectation
    assert (told["claim"] == "limited", steps["elementwise"] == "failed" and name.startswith("u")) == (
        foreign,
        foreign,
    )


@row(*_AO)
def a_name_of_the_page_does_what_it_is_for(world: World, row: Row) -> None:
    compatibility.name_stands_as_code_where_the_document_has_it(world, row)
    tried(world).of(row.id)
    found = printed(world, "names.out")
    if row.how == "rendered":
        assert row.item in NOT_HERE and row.item not in found
        return
    code, wanted = NAMES[row.item]
    assert row.item in code or row.item == "torch.view"
    assert found[row.item] == wanted


@row("CO-02")
def the_smoke_tests_make_a_tensor_of_each_data_type(world: World, row: Row) -> None:
    compatibility.all_data_types_are_on_the_page_and_in_the_smoke_tests(world)
    names = [one.split(" = ")[0].removeprefix("torch.") for one in compatibility.type_names()]
    probe, made, tests = tried(world).all_of(row.id)
    assert (probe.code, made.code, tests.code) == (0, 0, 0)
    assert printed(world, "probe.json")["failed"] == []
    assert list(printed(world, "types.out")) == list(probed(world, "dtypes")) == names
    # Every test passes, none is skipped; each type has one.
    assert re.search(r"=+ 40 passed in ", tests.out), tests.said
    passed = re.findall(r"test_gpu_types\.py::(\w+)(?:\[(\w+))?\S* PASSED", tests.out)
    assert {*names} <= {name for _, name in passed} | {"quint4x2"}
    assert ("test_quint4x2_is_made", "") in passed


@row("CO-06")
def known_issues_are_options_that_can_be_read_and_set(world: World, row: Row) -> None:
    compatibility.known_issues_are_on_the_page_and_answered_with_a_warning(world, row)
    tried(world).of(row.id)
    names = re.findall(r"`([^`]+)`", row.item)
    assert len(names) == 2
    # As found, after False, after True.
    assert [printed(world, "names.out")[one] for one in names] == [[True, False, True]] * 2
    # The probe knows them as issues of ROCm, and that a CPU cannot show whether they make a difference.
    flags = probed(world, "flags")
    assert list(flags) == [f"torch.backends.cuda.{one}" for one in sorted(names, reverse=True)]
    for flag in flags.values():
        assert (flag["found"], flag["value"]) == ("not compared", "True")
        assert "not supported with ROCm 7.0 and 7.1" in flag["issue"]

"""The rows that the compatibility data has to hold: a list made from the document, not from the data."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

# Of each feature of the document what cannot be told without: the numbers of rows are the document's.
FEATURES = {
    "2.9/7.1.1": [
        ("SDPA", "AOTriton 0.11b"),
        ("hipBLASLt", "gfx908", "6.3"),
        ("MIOpen", "channels-last", "3D", "batch normalization"),
        ("NHWC", "MIOpen", "transposes"),
        ("tensor.item()", "synchronization"),
        ("element-wise", "reductions"),
        ("Grouped GEMM", "fbgemm_gpu", "generative AI"),
        ("Inductor", "CUDA graph trees", "HIP"),
        ("logsumexp", "AOTriton", "SDPA"),
        ("memory copies", "captured", "graph"),
    ],
    "2.8/7.1": [
        ("MIOpen", "NHWC", "batch normalization"),
        ("float8", "DeepSpeed", "memory", "throughput"),
        ("torch.nn.functional.scaled_dot_product_attention", "flash attention"),
    ],
    "2.7/7.0": [
        ("TunableOp", "tensorfloat32", "ScaledGEMM", "submatrices", "bias"),
        ("gfx1200", "gfx1201", "hipBLASLt", "gfx950", "gfx1100"),
        ("AOTriton 0.10b", "gfx950 and gfx1201 are official", "gfx1101, gfx1151, gfx1150 and gfx1200"),
        ("element-wise", "vectorized", "mixed types"),
        ("NHWC", "7.0", "maxpool", "ResNet", "launch configurations"),
        ("aten", "3D tensors", "NHWC", "matrix products"),
        ("tolerances", "Navi3x", "flash attention", "memory-efficient"),
        ("Composable Kernel", "submodule"),
        ("dynamically", "atomic", "traces"),
        ("APEX", "layer normalization", "text-to-video"),
        ("APEX", "fused LAMB", "fused ADAM", "BERT-L", "Llama2-SFT"),
        ("FlashAttention v3",),
        ("https://pytorch.org/tutorials/advanced/cpp_extension.html", "amdclang++"),
    ],
}


class Row(NamedTuple):
    id: str
    item: str
    fact: str


def rows(kind: str) -> list[Row]:
    """Rows by kind: AL libraries, AD data types, AM domain libraries, AO names, CO facts."""
    lines = Path(__file__).with_name("rows.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return [row for row in (Row(*line.split("\t")) for line in lines) if row.id.startswith(f"{kind}-")]

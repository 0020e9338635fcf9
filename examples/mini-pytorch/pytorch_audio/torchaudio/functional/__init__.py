"""Miniature of torchaudio.functional."""

import torch

from torchaudio import _torchaudio


def preemphasis(waveform, coeff=0.97):
    """y[i] = x[i] - coeff * x[i - 1], on the CPU; a list of floats for a list of numbers."""
    return _torchaudio.preemphasis(waveform, coeff)


def mini_launch():
    """Launches the pre-emphasis kernel over [1, 2, 3, 4] with coefficient 0.5: a torch.LaunchResult."""
    if not hasattr(_torchaudio, "mini_launch"):
        raise RuntimeError("this miniature torchaudio was built without ROCm")
    return torch.launch_result("preemphasis", _torchaudio.mini_launch())

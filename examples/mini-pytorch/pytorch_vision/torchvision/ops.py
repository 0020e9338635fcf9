"""Miniature of torchvision.ops."""

import torch

from torchvision import _C


def box_area(boxes):
    """Areas of boxes (x1, y1, x2, y2), on the CPU; a list of floats for a list of boxes."""
    return _C.box_area([corner for box in boxes for corner in box])


def mini_launch():
    """Launches the box-area kernel over two fixed boxes: a torch.LaunchResult."""
    if not hasattr(_C, "mini_launch"):
        raise RuntimeError("this miniature torchvision was built without ROCm")
    return torch.launch_result("box_area", _C.mini_launch())

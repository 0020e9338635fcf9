"""Miniature of torch.Tensor: one- and two-dimensional float32 arrays, on the CPU or on a device."""

from array import array

from . import _C


def _flatten(data):
    """(shape, values) of a list of numbers or a list of equally long lists of numbers."""
    if data and isinstance(data[0], (list, tuple)):
        width = len(data[0])
        if any(len(row) != width for row in data):
            raise ValueError("all rows of a tensor must have the same length")
        return (len(data), width), [value for row in data for value in row]
    return (len(data),), list(data)


class Tensor:
    """float32 values; on the CPU an array, on a device a buffer in its memory."""

    def __init__(self, shape, values=None, buffer=None):
        self.shape = tuple(shape)
        self._values = None if values is None else array("f", values)
        self._buffer = buffer

    @property
    def device(self):
        return "cpu" if self._buffer is None else "cuda:0"

    @property
    def is_cuda(self):
        return self._buffer is not None

    def _same_device(self, other):
        if self.is_cuda != other.is_cuda:
            raise RuntimeError(f"the operands are on different devices: {self.device} and {other.device}")

    def add(self, other, *, alpha=1.0):
        """self + alpha * other, of the same shape."""
        self._same_device(other)
        if self.shape != other.shape:
            raise ValueError(f"cannot add tensors of shapes {self.shape} and {other.shape}")
        if self.is_cuda:
            return Tensor(self.shape, buffer=_C._cuda_saxpy(alpha, other._buffer, self._buffer))
        return Tensor(self.shape, _C._saxpy(alpha, other._values, self._values))

    def mm(self, other):
        """The product of two matrices."""
        self._same_device(other)
        if len(self.shape) != 2 or len(other.shape) != 2 or self.shape[1] != other.shape[0]:
            raise ValueError(f"cannot multiply matrices of shapes {self.shape} and {other.shape}")
        (m, k), n = self.shape, other.shape[1]
        if self.is_cuda:
            return Tensor((m, n), buffer=_C._cuda_mm(self._buffer, other._buffer, m, k, n))
        return Tensor((m, n), _C._mm(self._values, other._values, m, k, n))

    __add__ = add
    __matmul__ = mm

    def cuda(self):
        """A copy in device memory; a RuntimeError with HIP's error name where there is no GPU."""
        if self.is_cuda:
            return self
        if not hasattr(_C, "_cuda_to_device"):
            raise RuntimeError("this miniature torch was built without ROCm (torch.version.hip is None)")
        return Tensor(self.shape, buffer=_C._cuda_to_device(self._values))

    def cpu(self):
        return self if not self.is_cuda else Tensor(self.shape, _C._cuda_to_host(self._buffer))

    def tolist(self):
        values = list(self.cpu()._values)
        if len(self.shape) == 1:
            return values
        width = self.shape[1]
        return [values[row * width : (row + 1) * width] for row in range(self.shape[0])]

    def __repr__(self):
        return f"tensor({self.tolist()}, device='{self.device}')"


def tensor(data):
    """A tensor on the CPU from a list of numbers or of rows."""
    return Tensor(*_flatten(data))


def add(left, right, *, alpha=1.0):
    return left.add(right, alpha=alpha)


def mm(left, right):
    return left.mm(right)

"""Where a training computes. Batches and noise are drawn on the CPU whatever the device."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import TypeVar, cast

import torch
from torch import Tensor

from fairaudit.errors import ConfigError

CPU = torch.device("cpu")

Value = TypeVar("Value")


def find_device(name: str) -> torch.device:
    """The device that ``auto``, ``cpu`` or ``cuda`` means; ``auto`` is CUDA if there is any.

    Raises:
        ConfigError: ``cuda`` where there is none.
    """
    has_cuda = torch.cuda.is_available()
    if name == "cuda" and not has_cuda:
        raise ConfigError(
            "no CUDA device can be used here",
            hint="use --device cpu; `fairaudit doctor` lists devices",
        )
    if has_cuda and name != "cpu":
        return torch.device("cuda")
    return CPU


@contextmanager
def working_on(device: torch.device) -> Iterator[None]:
    """Inside the block new tensors are made on ``device``, and products keep float32's precision.

    A GPU's shortened products (TF32) lose three digits, more than the rounding up of norms by 1e-5
    (rule R7) allows for. Convolutions are deterministic, so that equal seeds give equal bits.
    """
    if device == CPU:
        yield
        return
    matmul = torch.backends.cuda.matmul
    conv = torch.backends.cudnn
    before = matmul.allow_tf32, conv.allow_tf32, conv.deterministic
    matmul.allow_tf32 = False
    conv.allow_tf32 = False
    conv.deterministic = True
    try:
        with device:
            yield
    finally:
        matmul.allow_tf32, conv.allow_tf32, conv.deterministic = before


def on_cpu(value: Value) -> Value:
    """A copy on the CPU of a tensor, or of a dataclass, tuple, list or dict that holds tensors."""
    moved: object = value
    if isinstance(value, Tensor):
        moved = value.cpu()
    elif isinstance(value, dict):
        moved = {key: on_cpu(item) for key, item in value.items()}
    elif isinstance(value, tuple) and hasattr(value, "_fields"):  # a NamedTuple
        moved = type(value)(*map(on_cpu, value))
    elif isinstance(value, tuple | list):
        moved = type(value)(map(on_cpu, value))
    elif is_dataclass(value) and not isinstance(value, type):
        # Fields that are not given to the constructor are computed anew by it.
        given = [field.name for field in fields(value) if field.init]
        moved = replace(value, **{name: on_cpu(getattr(value, name)) for name in given})
    return cast(Value, moved)

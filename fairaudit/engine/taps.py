"""Taps: what is added to the outputs of known layers while a module runs on one record.

A tap holds the layer's bias, or zeros, and has an entry of its own for every number of every
record's output. So its gradient is that of the output, from which terms are made (``terms.py``). A
tapped layer computes with bare parameters, which autograd does not follow, while the module holds
the same ones attached: any use of them but this one shows as a gradient in those.
"""

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from fairaudit.engine.layer import Shape
from fairaudit.engine.terms import TappedLayer, known_layers


class Recording:
    """What one pass does with the known layers of a module.

    ``inputs`` are what the tapped layers were given, [n, ...], by path; a layer that was not called
    is not among them. ``shapes`` are those of input and output for one record, by path.

    Args:
        taps: [n, ...] in the shapes of outputs, by path. Without any, shapes are recorded and
            nothing is tapped.
        bare: Values of parameters by name, detached.
    """

    def __init__(self, taps: Mapping[str, Tensor], bare: Mapping[str, Tensor]) -> None:
        self.taps = taps
        self.bare = bare
        self.inputs: dict[str, Tensor] = {}
        self.shapes: dict[str, tuple[Shape, Shape]] = {}

    def fill(self, inputs: Sequence[Tensor]) -> None:
        """Take the inputs of all records [n, ...], in the order of the calls."""
        self.inputs = dict(zip(self.inputs, inputs, strict=True))


class Taps:
    """Stands at every known layer of a module, whose ``forward`` it replaces.

    ``layers`` are the known layers by path.

    Args:
        module: It is changed: nobody else may use it.
    """

    def __init__(self, module: nn.Module) -> None:
        self.layers: dict[str, TappedLayer] = known_layers(module)
        self._recording: Recording | None = None
        self._taps: dict[str, Tensor] = {}  # those of the record that is running
        self._level: int | None = None  # how deep the pass lies in transforms of torch.func
        for path, layer in self.layers.items():
            part = module.get_submodule(path)
            part.forward = _Tapped(self, path, layer, part)

    @contextmanager
    def recorded(
        self, recording: Recording | None, taps: Sequence[Tensor]
    ) -> Iterator[Iterable[Tensor]]:
        """Inside the block, one record's pass, tapped layers put out their output and its tap.

        Args:
            recording: It is filled; None: layers run as they are.
            taps: Of the record, in the order of ``recording.taps``.

        Yields:
            What tapped layers were given, once they have run.
        """
        if recording is None:
            yield ()
            return
        self._taps = dict(zip(recording.taps, taps, strict=True))
        self._level = torch._C._functorch.maybe_current_level()
        self._recording = recording
        recording.inputs = {}
        recording.shapes = {}
        try:
            yield recording.inputs.values()
        finally:
            self._recording = None

    def call(self, path: str, layer: TappedLayer, part: nn.Module, x: Tensor) -> Tensor | None:
        """The output of a layer with its tap; None where this call is not to be tapped.

        Tapped is the first call in a pass, if it is the pass's own, not one inside a transform (a
        vmap, say) of the module's, and if its numbers are float32.
        """
        now = self._recording
        if now is None or path in now.shapes:
            return None
        tap = self._taps.get(path)
        if tap is None and self._taps:
            return None
        if torch._C._functorch.maybe_current_level() != self._level or not layer.reads(x):
            return None
        held: dict[str, Any] = part._parameters
        attached = dict(held)
        for key, name in zip(layer.trained, layer.names(path), strict=True):
            held[key] = now.bare[name]
        if tap is not None and "bias" in layer.trained:
            held["bias"] = None  # the tap is the bias
        try:
            out: Tensor = type(part).forward(part, x)
        finally:
            held.update(attached)
        with torch._C.DisableTorchFunction():  # nothing here is the module's
            if out.dtype != torch.float32 or not (tap is None or tap.shape == out.shape):
                return None
            now.shapes[path] = (tuple(x.shape), tuple(out.shape))
            if tap is None:
                return None
            now.inputs[path] = x
            return out + tap


class _Tapped:
    """The ``forward`` of one known layer."""

    def __init__(self, taps: Taps, path: str, layer: TappedLayer, part: nn.Module) -> None:
        self._given = taps, path, layer
        self._part = weakref.ref(part)  # which holds this: in a circle both would outlive their use

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the layer, and add its tap where there is one."""
        taps, path, layer = self._given
        part = self._part()
        assert part is not None
        if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
            out = taps.call(path, layer, part, args[0])
            if out is not None:
                return out
        return type(part).forward(part, *args, **kwargs)

    def __reduce__(self) -> str:
        """Refuse to be pickled: its identity stands for it where attributes are compared."""
        raise TypeError("a tap is of one module")

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
    """The taps of one pass over n records, and what the pass fills in about the known layers.

    ``inputs`` are what the tapped layers were given, [n, ...], by path; a layer that was not called
    is not among them. ``shapes`` are those of input and output for one record, by path.

    Args:
        taps: What is added to a layer's outputs, [n, ...] in their shape, by path. Without any,
            shapes are recorded and nothing is tapped.
        bare: Values of parameters by name, which autograd does not follow: tapped layers compute
            with them.
    """

    def __init__(self, taps: Mapping[str, Tensor], bare: Mapping[str, Tensor]) -> None:
        self.taps = taps
        self.bare = bare
        self.inputs: dict[str, Tensor] = {}
        self.shapes: dict[str, tuple[Shape, Shape]] = {}

    def fill(self, inputs: Sequence[Tensor]) -> None:
        """Store the tapped layers' inputs of all records, [n, ...] each, as vmap returns them.

        They come in the order of the paths in ``self.inputs``. The values there until now are those
        of one record inside vmap, which nothing outside can read.
        """
        self.inputs = dict(zip(self.inputs, inputs, strict=True))


class Taps:
    """Replaces the ``forward`` of every known layer of a module by one that may add a tap.

    ``layers`` are the known layers by path.

    Args:
        module: It is changed, so it must be a copy that nobody else uses.
    """

    def __init__(self, module: nn.Module) -> None:
        self.layers: dict[str, TappedLayer] = known_layers(module)
        self._recording: Recording | None = None
        self._taps: dict[str, Tensor] = {}  # those of the record that is running
        self._level: int | None = None  # how deep the pass lies in transforms of torch.func
        for path, layer in self.layers.items():
            user_layer = module.get_submodule(path)
            user_layer.forward = _Tapped(self, path, layer, user_layer)

    @contextmanager
    def recorded(
        self, recording: Recording | None, taps: Sequence[Tensor]
    ) -> Iterator[Iterable[Tensor]]:
        """Inside the block, one record's pass, tapped layers put out their output plus its tap.

        Args:
            recording: The recording whose inputs and shapes are filled; None: layers run as they
                are.
            taps: Of the record, in the order of ``recording.taps``.

        Yields:
            What tapped layers were given, in the order of their calls: a view that grows as they
            run.
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

    def call(
        self, path: str, layer: TappedLayer, user_layer: nn.Module, x: Tensor
    ) -> Tensor | None:
        """The output of a layer with its tap; None where this call is not to be tapped.

        Tapped is the first call in a pass, if it is the pass's own, not one inside a transform (a
        vmap, say) of the module's, and if its numbers are float32. What is not tapped runs with the
        parameters that autograd follows, whose gradient then shows the use.

        Args:
            path: Of the layer in the module.
            layer: What is known of it.
            user_layer: The layer itself.
            x: What it is given, for one record.
        """
        recording = self._recording
        if recording is None or path in recording.shapes:  # no recording, or a second call
            return None
        tap = self._taps.get(path)
        if tap is None and self._taps:  # other layers are tapped, and not this one
            return None
        if torch._C._functorch.maybe_current_level() != self._level or not layer.reads(x):
            return None
        # The layer runs once with bare parameters in place of those that autograd follows, which
        # are put back at once.
        held: dict[str, Any] = user_layer._parameters
        attached = dict(held)
        for key, name in zip(layer.trained, layer.names(path), strict=True):
            held[key] = recording.bare[name]
        if tap is not None and "bias" in layer.trained:
            held["bias"] = None  # the tap is the bias
        try:
            out: Tensor = type(user_layer).forward(user_layer, x)
        finally:
            held.update(attached)
        with torch._C.DisableTorchFunction():  # these operations are not the module's to watch
            # A call of another kind than the taps were made for: the layer runs anew, untapped.
            if out.dtype != torch.float32 or not (tap is None or tap.shape == out.shape):
                return None
            recording.shapes[path] = (tuple(x.shape), tuple(out.shape))
            if tap is None:  # shapes alone are recorded
                return None
            recording.inputs[path] = x
            return out + tap


class _Tapped:
    """What replaces the ``forward`` of one known layer.

    Args:
        taps: Of the whole module.
        path: Of the layer in it.
        layer: What is known of the layer.
        user_layer: The layer itself.
    """

    def __init__(self, taps: Taps, path: str, layer: TappedLayer, user_layer: nn.Module) -> None:
        self._taps = taps
        self._path = path
        self._layer = layer
        # Weak, for the layer holds this object: in a circle both would outlive their use.
        self._user_layer = weakref.ref(user_layer)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the layer, and add its tap where there is one."""
        user_layer = self._user_layer()
        assert user_layer is not None
        # A call with more than one tensor, or by name, is run as it is and not tapped.
        if len(args) == 1 and not kwargs and isinstance(args[0], Tensor):
            out = self._taps.call(self._path, self._layer, user_layer, args[0])
            if out is not None:
                return out
        return type(user_layer).forward(user_layer, *args, **kwargs)

    def __reduce__(self) -> str:
        """Refuse to be pickled, so that ``isolation.py`` compares this attribute by identity."""
        raise TypeError("a tap is of one module")

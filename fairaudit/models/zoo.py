"""Models by name, which know nothing of privacy: our factories, and a user's own.

A start is the values that parameters have before training. Ours are drawn from one named stream. A
user's factory is code that this program did not write, found by its name ``package.module:factory``
and called with the shape of an input and the number of classes.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fairaudit.config.model_names import CNN_CHANNELS, CNN_KERNEL, MODELS, Shape
from fairaudit.data.inputs.column import Column
from fairaudit.errors import ConfigError, FairauditError, did_you_mean, said
from fairaudit.io.code_digest import code_digest
from fairaudit.io.named_code import advice, hidden, import_named
from fairaudit.models.columns import model_columns
from fairaudit.privacy.borrowed import cpu_state_kept

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
_COLUMNS = "columns"  # the argument by which a factory is told what its inputs mean
_CALL = (  # the hint where a user's factory fails
    "it is called as factory(input_shape, classes) or factory(input_shape, classes, columns), with "
    "(d,) for tables and (C, H, W) for images"
)


def make_model(
    name: str,
    inputs: int | Shape,
    classes: int,
    *,
    hidden: Sequence[int],
    activation: str,
    seed: int,
) -> nn.Sequential:
    """A model with PyTorch's usual start, drawn from the stream of ``seed``.

    ``logistic`` is softmax regression. ``mlp`` has the given hidden widths. ``cnn`` has two
    convolutions of 32 and 16 channels, 3 x 3, no padding, no pooling, as the code behind Esipova et
    al. 2023; it reads images channels first. ``logistic-squashed`` feeds sigmoids of the logits
    into the cross-entropy, as that code does on the Dutch census: a loss that cannot fall below
    0.31 nats, offered for reproduction only.

    Args:
        name: One of MODELS.
        inputs: The shape of a record: d, or (H, W, C) for cnn.
        classes: Y, the number of classes.
        hidden: Widths of the mlp.
        activation: ``tanh`` or ``relu``.
        seed: Of the stream that draws the start.

    Raises:
        ConfigError: Unknown name.
    """
    if name not in MODELS:
        raise ConfigError(f"unknown model {name!r}", hint=did_you_mean(name, MODELS))
    shape = (inputs,) if isinstance(inputs, int) else inputs
    function = ACTIVATIONS[activation]
    layers: list[nn.Module] = []
    # Layers draw a start when they are made, by the global generator; `start` draws another.
    with cpu_state_kept():
        if name == "cnn":
            height, width, channels = shape
            for out in CNN_CHANNELS:
                layers += [nn.Conv2d(channels, out, CNN_KERNEL), function()]
                height -= CNN_KERNEL - 1  # without padding
                width -= CNN_KERNEL - 1
                channels = out
            layers += [nn.Flatten(), nn.Linear(height * width * channels, classes)]
        else:
            widths = hidden if name == "mlp" else ()
            fan_in = math.prod(shape)
            for fan_out in widths:
                layers += [nn.Linear(fan_in, fan_out), function()]
                fan_in = fan_out
            layers.append(nn.Linear(fan_in, classes))
    if name == "logistic-squashed":
        layers.append(nn.Sigmoid())
    model = nn.Sequential(*layers)
    start(model, torch.Generator().manual_seed(seed))
    return model


def start(model: nn.Module, generator: torch.Generator) -> None:
    """Draw all parameters anew from ``generator``, in place, as PyTorch starts them.

    That is from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), biases too. Drawn are linear layers and
    convolutions, which are all that these models have parameters in.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            bound = 1.0 / math.sqrt(module.weight[0].numel())  # fan_in: what one output reads
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)


def own_model(name: str, shape: Shape, classes: int, columns: Sequence[Column] = ()) -> nn.Module:
    """Import the user's factory ``package.module:factory`` and make its module.

    The module's start is drawn from the global generators, which the caller has seeded.

    Args:
        name: Of the factory.
        shape: Of a record, (d,) or (H, W, C): images are channels last in this program and channels
            first for the factory.
        classes: Y, the number of classes.
        columns: Constants of the columns that the inputs are made of; () of images. A factory with
            a third argument is told of them (:func:`model_columns`).

    Raises:
        ConfigError: The factory cannot be found, or does not make a module.
    """
    path, _, attribute = name.partition(":")
    if not path or not attribute.isidentifier():
        raise ConfigError(f"--model {name!r} names no factory", hint="use package.module:factory")
    try:
        module = import_named(path)
    except BaseException as error:
        problem = f"module {path!r} of --model cannot be imported:"
        raise _user_error(problem, error, advice(path)) from error
    factory = getattr(module, attribute, None)
    if factory is None:
        hint = hidden(path) or did_you_mean(attribute, list(vars(module)))
        raise ConfigError(f"module {path!r} has no {attribute!r}", hint=hint)
    if not callable(factory):
        raise ConfigError(
            f"{name} is of type {type(factory).__name__} and cannot be called", hint=_CALL
        )
    input_shape = shape if len(shape) == 1 else (shape[2], *shape[:2])  # channels first
    try:
        model = _called(factory, input_shape, classes, columns)
    except BaseException as error:
        raise _user_error(f"--model {name} raised", error, _CALL) from error
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"--model {name} returned a {type(model).__name__}, not a torch.nn.Module", hint=_CALL
        )
    return model


def _called(
    factory: Callable[..., object], shape: Shape, classes: int, columns: Sequence[Column]
) -> object:
    """Call a factory with a record's shape and the classes, and return what it makes.

    A factory with an argument ``columns``, or with three that have no default, gets the columns,
    too. One whose signature cannot be read gets the shape and the classes alone.
    """
    try:
        parameters = dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError):  # not every callable has a signature that can be read
        parameters = {}
    if _COLUMNS in parameters:
        return factory(shape, classes, **{_COLUMNS: model_columns(columns)})
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in positional and parameter.default is inspect.Parameter.empty
    ]
    if len(required) == 3:
        return factory(shape, classes, model_columns(columns))
    return factory(shape, classes)


def check_outputs(name: str, module: nn.Module, records: Tensor, classes: int) -> None:
    """Refuse a user's module that cannot read records or puts out another shape than [n, Y].

    Args:
        name: Of the factory, for messages.
        module: Reads inputs as they are encoded, and puts out logits.
        records: Inputs of a few records, n of them, to try it on.
        classes: Y, the number of classes.

    Raises:
        ConfigError: It cannot read them, or puts out another shape, or probabilities.
    """
    try:
        with torch.no_grad():
            outputs = module(records)
    except FairauditError:  # a module that runs record by record refuses in words of its own
        raise
    except BaseException as error:
        hint = "tables come as [n, d], images as [n, C, H, W], float32"
        raise _user_error(
            f"the model of --model {name} cannot read its input:", error, hint
        ) from error
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != (len(records), classes):
        raise ConfigError(
            f"the model of --model {name} puts out {shape} for {len(records)} records of {classes} "
            "classes",
            hint=f"put out [n, {classes}], the logits",
        )
    if _are_probabilities(outputs):
        raise ConfigError(
            f"the model of --model {name} puts out probabilities: rows that are not negative and "
            "add up to 1",
            hint="put out the logits: leave the softmax at its end out, for one follows them",
        )


def _are_probabilities(outputs: Tensor) -> bool:
    """Whether no number is negative and every row [Y] adds up to 1, as no logits do by chance.

    The logits of a single record may: of one row it is not said.
    """
    sums = outputs.double().sum(-1)
    adds_up = (sums - 1.0).abs() < 1e-4
    return len(outputs) > 1 and bool((outputs >= 0.0).all()) and bool(adds_up.all())


def digest(name: str, module: nn.Module) -> str:
    """Hash a user's model: the code behind it, its layers, its attributes and its start.

    The hash enters the identity of a job, so that a changed model trains anew. Of attributes it
    covers tensors and plain values (see :func:`_is_plain`): what else there is has no stable text.

    Args:
        name: Of the factory, ``package.module:factory``.
        module: What the factory made, at its start.

    Returns:
        64 hexadecimal digits.
    """
    # The modules of Python in which the factory and all classes of layers are, PyTorch's left out.
    modules = {name.partition(":")[0], *(type(layer).__module__ for layer in module.modules())}
    code = code_digest({path for path in modules if not path.startswith("torch.")})
    content = hashlib.sha256(f"{name}\n{module}\n{code}\n".encode())
    values = [*module.named_parameters(), *module.named_buffers()]
    of_every_module = vars(nn.Module()).keys()  # PyTorch's own attributes, hashed otherwise
    for path, part in module.named_modules():
        for key in sorted(vars(part).keys() - of_every_module):
            value = getattr(part, key)
            if isinstance(value, Tensor):
                values.append((f"{path}.{key}", value))
            elif _is_plain(value):
                content.update(f"{path}.{key} {value!r}\n".encode())
    for key, value in values:
        content.update(f"{key} {tuple(value.shape)} {value.requires_grad}\n".encode())
        # Seen as bytes, for NumPy does not know every type of number that PyTorch has.
        content.update(
            value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        )
    return content.hexdigest()


def _is_plain(value: object) -> bool:
    """Whether a value is a number, a text, None, or a tuple, list or dict of these."""
    if isinstance(value, dict):
        return all(map(_is_plain, [*value, *value.values()]))
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, int | float | str)


def _user_error(problem: str, error: BaseException, hint: str) -> ConfigError:
    """The error to raise for what a user's code raised, SystemExit included; Ctrl-C passes on."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    return ConfigError(f"{problem} {said(error)}", hint=hint)

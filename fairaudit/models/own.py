"""A user's own model: code that this program did not write, found by name and called with two facts."""

import hashlib
import importlib
import os
import sys
from collections.abc import Callable

import torch
from torch import Tensor, nn

from fairaudit.config.model_names import Shape
from fairaudit.errors import ConfigError, FairauditError, did_you_mean, said
from fairaudit.io.code_digest import code_digest

_CALL = "it is called as factory(input_shape, classes), with (d,) for tables and (C, H, W) for images"


def own_model(name: str, shape: Shape, classes: int) -> nn.Module:
    """What the factory ``package.module:factory`` makes; its start is drawn from the global generators.

    Args:
        name: Of the factory.
        shape: Of a record, (d,) or (H, W, C): images are channels last in this program and channels first for
            the factory.
        classes: Y.

    Raises:
        ConfigError: The factory cannot be found, or does not make a module.
    """
    factory = _factory(name)
    given = shape if len(shape) == 1 else (shape[2], *shape[:2])
    try:
        module = factory(given, classes)
    except BaseException as error:
        raise _user_error(f"--model {name} raised", error, _CALL) from error
    if not isinstance(module, nn.Module):
        raise ConfigError(
            f"--model {name} returned a {type(module).__name__}, not a torch.nn.Module", hint=_CALL
        )
    return module


def check_outputs(name: str, module: nn.Module, records: Tensor, classes: int) -> None:
    """Whether a module reads records and puts out one number per class.

    Args:
        name: Of the factory.
        module: Reads inputs as they are encoded.
        records: A few of them.
        classes: Y.

    Raises:
        ConfigError: It does not.
    """
    try:
        with torch.no_grad():
            found = module(records)
    except FairauditError:
        raise
    except BaseException as error:
        hint = "tables come as [n, d], images as [n, C, H, W], float32"
        raise _user_error(f"the model of --model {name} cannot read its input:", error, hint) from error
    shape = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
    if shape != (len(records), classes):
        raise ConfigError(
            f"the model of --model {name} puts out {shape} for {len(records)} records of {classes} classes",
            hint=f"put out [n, {classes}], the logits",
        )


def digest(name: str, module: nn.Module) -> str:
    """Identity of a model: the code behind it, its layers, and the values that it starts from."""
    content = hashlib.sha256(f"{name}\n{module}\n{code_digest(_modules(name, module))}\n".encode())
    for key, value in [*module.named_parameters(), *module.named_buffers()]:
        content.update(f"{key} {tuple(value.shape)} {value.requires_grad}\n".encode())
        content.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()


def _factory(name: str) -> Callable[[Shape, int], object]:
    path, _, attribute = name.partition(":")
    if not path or not attribute.isidentifier():
        raise ConfigError(f"--model {name!r} names no factory", hint="use package.module:factory")
    folder = os.getcwd()  # an installed command does not look for modules where it is run
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(path)
    except BaseException as error:
        hint = "run where the module lies, or name its folder in PYTHONPATH"
        raise _user_error(f"module {path!r} of --model cannot be imported:", error, hint) from error
    factory = getattr(module, attribute, None)
    if factory is None:
        names = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == path]
        raise ConfigError(f"module {path!r} has no {attribute!r}", hint=did_you_mean(attribute, names))
    if not callable(factory):
        raise ConfigError(f"{name} is of type {type(factory).__name__} and cannot be called", hint=_CALL)
    found: Callable[[Shape, int], object] = factory
    return found


def _modules(name: str, module: nn.Module) -> set[str]:
    """Where the factory is, and every class of layer that is not PyTorch's."""
    modules = {name.partition(":")[0], *(type(layer).__module__ for layer in module.modules())}
    return {each for each in modules if not each.startswith("torch.")}


def _user_error(what: str, error: BaseException, hint: str) -> ConfigError:
    if isinstance(error, KeyboardInterrupt):
        raise error
    return ConfigError(f"{what} {said(error)}", hint=hint)

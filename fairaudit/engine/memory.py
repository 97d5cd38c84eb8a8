"""What a module remembers: everything that its code can reach beside the tensors that it is handed.

Two readings of the same module, before and after it has seen records, must be equal: then nothing of
a record can reach the next one. Read are attributes of every part, in full depth (tensors by their
bits, objects by what they hold, generators of numbers by their state), the data of the users' classes,
what functions close over, and the global names that their code mentions, from function to function.
Code of PyTorch, NumPy, Opacus, the standard library and this program is taken to keep nothing.
"""

import functools
import hashlib
import io
import itertools
import pickle
import sys
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_LIBRARIES = frozenset({"torch", "functorch", "numpy", "opacus", "fairaudit"})
_VMAP = "rule"
_STANDARD = Path(types.__file__).parent

_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size})
_EMPTY = frozenset({dict, OrderedDict, list, tuple, set, frozenset})

Code = type | types.FunctionType  # whose own data can change while it runs
Place = tuple[str, ...]  # what holds a value, from the outside in
Reading = Mapping[Place, object]  # what is held -> its kind and contents, or a digest of them


class Unreadable(Exception):
    """Something whose contents cannot be compared; its text says what."""


def read_memory(module: nn.Module) -> Reading:
    """Everything that the module's code could have left behind.

    Raises:
        Unreadable: An attribute whose contents cannot be read, or tensors of records kept in one.
    """
    return _Reader(module).read()


def changed(before: Reading, after: Reading) -> str:
    """The first difference of two readings of one module, as a person would name it; empty for none."""
    if before == after:
        return ""
    places = [*before, *(place for place in after if place not in before)]
    return next((_spoken(place) for place in places if before.get(place) != after.get(place)), "")


def has_own_vmap(reading: Reading) -> bool:
    """Whether the code mentions a function with a vmap rule of its own, which would see all records."""
    return any(place[0] == _VMAP for place in reading)


def is_of_records(value: object) -> bool:
    """Whether a tensor stands for many records at once, as inside ``torch.func.vmap``."""
    functorch = torch._C._functorch
    while isinstance(value, Tensor) and functorch.is_functorch_wrapped_tensor(value):
        if functorch.is_batchedtensor(value):
            return True
        value = functorch.get_unwrapped(value)
    return False


class Survivors(TorchFunctionMode):
    """Notes every tensor made inside it, to tell afterwards which are still there.

    Inside ``torch.func.vmap`` code sees no number of a record, only tensors that stand for all of them;
    where none of those is left afterwards, wherever it might have been put, nothing was remembered.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: list[weakref.ref[Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call and note."""
        found = func(*args, **(kwargs or {}))
        self._made += [weakref.ref(leaf) for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]
        return found

    def any(self) -> bool:
        """Whether a tensor of records outlived the block."""
        return any(is_of_records(made()) for made in self._made)


class _Reader:
    """One walk over a module and the code behind it."""

    def __init__(self, module: nn.Module) -> None:
        self.root = module
        self.parts = {id(part): path for path, part in module.named_modules(remove_duplicate=False)}
        self.found: dict[Place, object] = {}
        self.waiting: list[Code] = []  # functions and classes still to be read
        self.seen: set[int] = set()

    def read(self) -> Reading:
        """All places with what they hold."""
        for path, part in self.root.named_modules():
            kind = type(part)
            self._await(kind)
            for name, value in vars(part).items():
                if name in ("_parameters", "_buffers"):
                    for own, held in value.items():
                        self._note((name, own, kind.__name__, path), held)
                elif name != "_modules":
                    self._note(("attribute", name, kind.__name__, path), value)
        while self.waiting:
            for place, value in _held_by(self.waiting.pop()):
                self._note(place, value, lenient=True)
        return self.found

    def _await(self, code: Code) -> None:
        if id(code) not in self.seen:
            self.seen.add(id(code))
            if _is_users(code):
                self.waiting.append(code)

    def _note(self, place: Place, value: object, *, lenient: bool = False) -> None:
        """Enter what a place holds; ``lenient``: what nothing can read counts by its identity alone."""
        kind = type(value)
        if kind in _PLAIN:
            self.found[place] = kind, repr(value) if kind is float else value
            return
        if kind in _EMPTY and not value:
            self.found[place] = kind, ()
            return
        try:
            self.found[place] = self.stand_in(value) or self._written(value)
        except Unreadable as error:
            raise Unreadable(f"{_spoken(place)} {error}") from None
        except Exception as error:  # pickle raises whatever a class's own code does
            if not lenient:
                raise Unreadable(f"{_spoken(place)} cannot be read ({type(error).__name__})") from error
            self.found[place] = kind, id(value)

    def _written(self, value: object) -> bytes:
        sink = io.BytesIO()
        _Writer(sink, self).dump(value)
        return hashlib.blake2b(sink.getbuffer(), digest_size=16).digest()

    def stand_in(self, value: object) -> object | None:
        """What is written in place of a value; None to write the value itself."""
        if isinstance(value, Tensor):
            return _content(value)
        if id(value) in self.parts:
            return "part", self.parts[id(value)]
        if isinstance(value, types.FunctionType | type):
            self._await(value)
            return "code", value.__module__, value.__qualname__, id(value)
        if isinstance(value, functools._lru_cache_wrapper):
            return "cache", id(value), tuple(value.cache_info()), self.stand_in(value.__wrapped__)
        if isinstance(value, torch.Generator):
            return "generator", value.get_state().numpy().tobytes()
        if isinstance(value, weakref.ref):
            return "reference"  # it keeps nothing: what it refers to is kept elsewhere, or gone
        if isinstance(value, types.ModuleType):
            return "name", id(value)
        return None


class _Writer(pickle.Pickler):
    """Writes contents, not references: nothing that it writes is ever loaded."""

    def __init__(self, sink: io.BytesIO, reader: _Reader) -> None:
        super().__init__(sink, protocol=5)
        self._reader = reader

    def persistent_id(self, obj: object) -> object | None:
        """What stands for an object; None for its own contents."""
        return self._reader.stand_in(obj)


def _content(value: Tensor) -> tuple[object, ...]:
    if is_of_records(value):
        raise Unreadable("keeps a tensor of the records that it has read")
    if value.is_meta or value.layout is not torch.strided or value.is_quantized:
        return "tensor", id(value), value._version
    bits = value.detach().resolve_conj().resolve_neg().cpu().contiguous().view(-1).view(torch.uint8)
    digest = hashlib.blake2b(bits.numpy().data, digest_size=16).digest()
    kept = None if value.grad is None else _content(value.grad)
    return "tensor", str(value.dtype), tuple(value.shape), digest, kept


def _spoken(place: Place) -> str:
    what, name, kind, path = place
    noun = {"_parameters": "parameter", "_buffers": "buffer"}.get(what, what)
    return f"{noun} {name!r} of {kind}" + (f" at {path!r}" if path else "")


def _is_users(code: Code) -> bool:
    name = code.__module__
    return isinstance(name, str) and not _is_library(name.partition(".")[0])


@functools.cache
def _is_library(package: str) -> bool:
    path = getattr(sys.modules.get(package), "__file__", None)
    if path is None:  # built in, or made by hand
        return package in sys.builtin_module_names
    if package in _LIBRARIES:
        return True
    return Path(path).is_relative_to(_STANDARD) and "site-packages" not in Path(path).parts


def _held_by(code: Code) -> Iterator[tuple[Place, object]]:
    """What a class or a function of a user's holds, and where."""
    return _held_by_class(code) if isinstance(code, type) else _held_by_function(code)


def _held_by_class(code: type) -> Iterator[tuple[Place, object]]:
    where = code.__qualname__
    if issubclass(code, torch.autograd.Function) and code.vmap is not torch.autograd.Function.vmap:
        yield (_VMAP, "vmap", where, ""), None
    for base in code.__bases__:
        yield ("base", base.__qualname__, where, ""), base
    for name, value in vars(code).items():
        if name not in ("__dict__", "__weakref__", "__doc__", "_abc_impl"):
            # Properties, static and class methods hold functions; they cannot be written otherwise.
            inner = [getattr(value, part, None) for part in ("__func__", "fget", "fset", "fdel")]
            functions = [one for one in inner if isinstance(one, types.FunctionType)]
            yield ("class attribute", name, where, ""), functions or value


def _held_by_function(code: types.FunctionType) -> Iterator[tuple[Place, object]]:
    where = code.__qualname__
    for name, cell in zip(code.__code__.co_freevars, code.__closure__ or (), strict=True):
        try:
            yield ("variable", name, where, ""), cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    if code.__defaults__ or code.__kwdefaults__ or code.__dict__:
        yield (
            ("default", "of an argument", where, ""),
            (code.__defaults__, code.__kwdefaults__, code.__dict__),
        )
    for name in _names_in(code.__code__):
        if name in code.__globals__:
            yield ("global", name, code.__module__, ""), code.__globals__[name]


@functools.lru_cache(maxsize=4096)
def _names_in(code: types.CodeType) -> tuple[str, ...]:
    """Names that a function's code mentions, inner functions included."""
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return (*code.co_names, *itertools.chain.from_iterable(inner))

"""What a module remembers: everything that its code can reach beside the tensors that it is handed.

Two readings of the same module, before and after it has seen records, must be equal: then nothing of
a record can reach the next one. Read are attributes of every part, in full depth (tensors by their
bits, objects by what they hold, generators of numbers by their state), the data of the users' classes and
modules, what functions close over, and whatever module their code names, from function to function. What
cannot be read is refused where the code names it. Code of PyTorch, NumPy, Opacus, the standard library and
this program is taken to keep nothing, but for hooks that it keeps for others.
"""

import functools
import hashlib
import io
import itertools
import logging
import pickle
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

_LIBRARIES = frozenset({"torch", "functorch", "numpy", "opacus", "fairaudit"})
_VMAP = "rule"
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]
_OF_LOGGERS = frozenset(vars(logging.getLogger()))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))  # hold nothing themselves
_STANDARD = Path(types.__file__).parent

_PLAIN = frozenset({int, float, complex, str, bytes, bool, type(None), torch.dtype, torch.device, torch.Size})
_EMPTY = frozenset({dict, OrderedDict, list, tuple, set, frozenset})

Code = type | types.FunctionType | types.ModuleType  # whose own data can change while it runs
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
    """Whether a function or an operator has a vmap rule of a user's, which would see all records."""
    for operator in list(getattr(torch._library.custom_ops, "OPDEFS", {}).values()):
        if getattr(operator, "_vmap_fn", None) is not None and _is_users(operator._init_fn):
            return True
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
        self.has_raised = False  # some operation did, though the code may have gone on

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Call and note."""
        try:
            if func == _SET_DATA:  # made anew at each call, so not the same object
                raise RuntimeError("the storage of a tensor is replaced")
            found = func(*args, **(kwargs or {}))
        except BaseException:
            self.has_raised = True
            raise
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
        self.mentioned: set[str] = set()  # names in the code that was read
        self.modules: list[types.ModuleType] = []  # of users, as far as their code was met
        self.follows = True  # whether code that is met is read too
        self.unread: list[Place] = []  # what nothing can read

    def read(self) -> Reading:
        """All places with what they hold."""
        for name, value in vars(nn.modules.module).items():
            if name.startswith("_global_"):
                self._note(("hooks", name, "torch.nn", ""), value)
        for path, part in self.root.named_modules():
            self._read_part(path, part)
        while self.waiting or self._mentioned_in_modules():
            if self.waiting:
                self._read_code(self.waiting.pop())
        self._read_modules()
        unread = [place for place in self.unread if place[1] in self.mentioned]
        if unread:
            raise Unreadable(f"{_spoken(unread[0])} cannot be read")
        return self.found

    def _read_modules(self) -> None:
        """What no code mentions by name is compared all the same, but code in it is not followed."""
        self.follows = False
        for module in self.modules:
            for name, value in list(vars(module).items()):
                if not name.startswith("__") and not isinstance(value, Code):
                    self._note_global(module, name, value)

    def _mentioned_in_modules(self) -> bool:
        """Follow what modules hold by a name that some code mentions; whether there is more to read."""
        for module in self.modules:
            for name in self.mentioned & vars(module).keys():
                value = vars(module)[name]
                if isinstance(value, Code):
                    self._await(value)
                else:
                    self._note_global(module, name, value)
        return bool(self.waiting)

    def _note_global(self, module: types.ModuleType, name: str, value: object) -> None:
        place = ("global", name, module.__name__, "")
        if place not in self.found:
            self._note(place, value, lenient=True)

    def _read_part(self, path: str, part: nn.Module) -> None:
        kind = type(part)
        self._await(kind)
        for name, value in (*vars(part).items(), *_slots(part)):
            if name in ("_parameters", "_buffers"):
                for own, held in value.items():
                    self._note((name, own, kind.__name__, path), held)
            elif name != "_modules":
                self._note(("attribute", name, kind.__name__, path), value)

    def _read_code(self, code: Code) -> None:
        if isinstance(code, types.ModuleType):
            self.modules.append(code)  # its data are read last, when it is known what is mentioned
            return
        if isinstance(code, types.FunctionType):
            names = _names_in(code.__code__)
            self.mentioned.update(names)
            for name in (code.__module__, *names):
                self._await(sys.modules.get(name))
        held = _held_by_class(code) if isinstance(code, type) else _held_by_function(code)
        for place, value in held:
            self._note(place, value, lenient=isinstance(code, type))

    def _await(self, code: object) -> None:
        if self.follows and id(code) not in self.seen and isinstance(code, Code):
            self.seen.add(id(code))
            if _is_users(code):
                self.waiting.append(code)
            if isinstance(code, type):  # a class that a library made may have a user's base
                for base in code.__bases__:
                    self._await(base)

    def _note(self, place: Place, value: object, *, lenient: bool = False) -> None:
        """Enter what a place holds; ``lenient``: it may be unreadable where no code mentions its name."""
        kind = type(value)
        if kind in _PLAIN:
            self.found[place] = kind, repr(value) if kind is float else value
            return
        if kind in _EMPTY and not value:
            self.found[place] = kind, ()
            return
        try:
            written = self.stand_in(value)
            if not written:
                sink = io.BytesIO()
                _Writer(sink, self).dump(value)
                written = hashlib.blake2b(sink.getbuffer(), digest_size=16).digest()
            self.found[place] = written
        except Unreadable as error:
            raise Unreadable(f"{_spoken(place)} {error}") from None
        except Exception as error:  # pickle raises whatever a class's own code does
            if not lenient:
                raise Unreadable(f"{_spoken(place)} cannot be read ({type(error).__name__})") from error
            self.found[place] = kind, id(value)
            self.unread.append(place)

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
            _, misses, _, size = value.cache_info()  # what is found again adds nothing
            return "cache", id(value), misses, size, self.stand_in(value.__wrapped__)
        if isinstance(value, types.MethodType):
            self._await(value.__func__)
            return None
        if isinstance(value, types.ModuleType):
            self._await(value)
            return "name", id(value)
        return _stand_in_of(value)


def _stand_in_of(value: object) -> object | None:
    """What stands for an object that holds nothing, or whose state has a form of its own."""
    if isinstance(value, _LOCKS):
        return "lock"
    if isinstance(value, torch.jit.ScriptFunction):
        return "code", id(value)
    if isinstance(value, logging.Logger):
        return "logger", tuple(f"{k}={v!r}" for k, v in vars(value).items() if k not in _OF_LOGGERS)
    if isinstance(value, torch.Generator):
        return "generator", value.get_state().numpy().tobytes()
    if isinstance(value, weakref.ref):
        return "reference"  # it keeps nothing: what it refers to is kept elsewhere, or gone
    return None


class _Writer(pickle.Pickler):
    """Writes contents, not references: nothing that it writes is ever loaded."""

    def __init__(self, sink: io.BytesIO, reader: _Reader) -> None:
        super().__init__(sink, protocol=5)
        self._reader = reader

    def persistent_id(self, obj: object) -> object | None:
        """What stands for an object; None for its own contents."""
        return self._reader.stand_in(obj)

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401
        """All that an object of a user's class holds, whatever the class would say of itself."""
        if isinstance(obj, type) or not _is_users(type(obj)):
            return NotImplemented
        items = list(obj.items()) if isinstance(obj, dict) else None
        if isinstance(obj, list | tuple | set | frozenset | deque):
            items = list(obj)
        return _kind_of, (id(type(obj)),), (getattr(obj, "__dict__", None), _slots(obj), items)


def _kind_of(kind: int) -> int:
    """Stands for the making of an object, which never happens."""
    return kind


def _slots(value: object) -> list[tuple[str, object]]:
    """What an object holds in slots."""
    slots = [vars(kind).get("__slots__", ()) for kind in type(value).__mro__ if _is_users(kind)]
    names = [name for found in slots for name in ((found,) if isinstance(found, str) else tuple(found))]
    own = [name for name in names if name not in ("__dict__", "__weakref__")]
    return [(name, getattr(value, name)) for name in own if hasattr(value, name)]


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
    if isinstance(code, types.FunctionType):  # a wrapper bears the name of what it wraps
        return not _is_library_file(code.__code__.co_filename)
    name = code.__name__ if isinstance(code, types.ModuleType) else code.__module__
    return isinstance(name, str) and not _is_library(name.partition(".")[0])


@functools.cache
def _is_library_file(path: str) -> bool:
    files = [getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES]
    homes = [Path(file).parent for file in files if file is not None]
    return _is_standard(path) or any(Path(path).is_relative_to(home) for home in homes)


def _is_standard(path: str) -> bool:
    return Path(path).is_relative_to(_STANDARD) and "site-packages" not in Path(path).parts


@functools.cache
def _is_library(package: str) -> bool:
    path = getattr(sys.modules.get(package), "__file__", None)
    if path is None:  # built in, or made by hand
        return package in sys.builtin_module_names
    return package in _LIBRARIES or _is_standard(path)


def _held_by_class(code: type) -> Iterator[tuple[Place, object]]:
    where = code.__qualname__
    if issubclass(code, torch.autograd.Function) and code.vmap is not torch.autograd.Function.vmap:
        yield (_VMAP, "vmap", where, ""), None
    for base in code.__bases__:
        yield ("base", base.__qualname__, where, ""), base
    for name, value in vars(code).items():
        is_own = not (name.startswith("__") and name.endswith("__")) or isinstance(value, types.FunctionType)
        if is_own and name != "_abc_impl":
            # Properties, static and class methods hold functions; they cannot be written otherwise.
            inner = [getattr(value, part, None) for part in ("__func__", "fget", "fset", "fdel", "func")]
            functions = [one for one in inner if isinstance(one, types.FunctionType)]
            is_descriptor = hasattr(type(value), "__get__") and not isinstance(value, types.FunctionType)
            yield ("class attribute", name, where, ""), functions or (id(value) if is_descriptor else value)


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


@functools.lru_cache(maxsize=4096)
def _names_in(code: types.CodeType) -> tuple[str, ...]:
    """Names that a function's code mentions, inner functions included."""
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return (*code.co_names, *itertools.chain.from_iterable(inner))

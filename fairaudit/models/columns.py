"""What the inputs of a model mean: the columns that a factory of the user's own is told of.

A model reads rows of d numbers. Numbers of the table are scaled, categories are one input for each
level; a column says which inputs are its own and gives back what the table held.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final, Literal

import torch
from torch import Tensor

from fairaudit.data.inputs.column import CategoryColumn, Column, NumberColumn

_OF_LIST: Final = re.compile(r"(.+)\[(0|[1-9][0-9]*)\]", re.DOTALL)  # LIST[PLACE]


@dataclass(frozen=True, slots=True)
class ModelColumn:
    """One column of the table, as the inputs of a model hold it.

    Args:
        name: Its name.
        kind: ``number``; ``list``, numbers of one length; or ``category``.
        inputs: Which of the d inputs are its own, as a slice; of a list between whose numbers the
            table has other columns, as their places.
        levels: Of a category, the level that each of its inputs stands for; () of others. A single
            input may stand for two levels, the first where it is 0 and the second where it is 1.
        places: Of numbers, which of its own inputs hold them, ``[k]``; its other inputs say that a
            number is missing.
        centre, spread: Of numbers: an input is (number - centre) / spread, ``[k]``.

    Example:
        >>> import torch
        >>> job = ModelColumn("job", "category", slice(1, 4), ("clerk", "cook", "(missing)"))
        >>> job.codes(torch.tensor([[0.7, 0.0, 1.0, 0.0], [0.1, 0.0, 0.0, 0.0]]))
        tensor([1, 3])
    """

    name: str
    kind: Literal["number", "list", "category"]
    inputs: slice | list[int]
    levels: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    centre: tuple[float, ...] = ()
    spread: tuple[float, ...] = ()

    @property
    def width(self) -> int:
        """How many inputs are its own."""
        own = self.inputs
        return len(own) if isinstance(own, list) else own.stop - own.start

    @property
    def size(self) -> int:
        """How many codes a category has: its levels, and one for a value that is none of them."""
        return len(self.levels) + 1

    def codes(self, x: Tensor) -> Tensor:
        """A category as whole numbers, which ``nn.Embedding(column.size, ..)`` reads.

        Args:
            x: Inputs of the model, ``[n, d]``.

        Returns:
            ``[n]``, int64: the place in ``levels`` of each value, or ``len(levels)`` for one that
            is none of them.
        """
        own = x[..., self.inputs]
        no_level = len(self.levels)
        if no_level == 2 and own.shape[-1] == 1:
            # One input for two levels: 0, 1, or 0.5 for neither. The limits lie halfway between.
            value = own[..., 0]
            codes = torch.where(value > 0.75, 1, no_level)
            return torch.where(value < 0.25, 0, codes)
        if not own.shape[-1]:  # a category without levels, whose only code is 0
            return torch.zeros_like(x[..., 0], dtype=torch.int64)
        # One input for each level: 1 at the value's level, or none of them.
        return torch.where(own.sum(-1) > 0.5, own.argmax(-1), no_level)

    def values(self, x: Tensor) -> Tensor:
        """The numbers of a number or a list as the table holds them, up to rounding to float32.

        A missing number comes back as the number that stood in for it when the input was made.

        Args:
            x: Inputs of the model, ``[n, d]``.

        Returns:
            ``[n, k]``, k being 1 of a number.
        """
        own = x[..., self.inputs][..., list(self.places)]
        spread = torch.tensor(self.spread, dtype=x.dtype, device=x.device)
        return own * spread + torch.tensor(self.centre, dtype=x.dtype, device=x.device)


def model_columns(columns: Sequence[Column]) -> dict[str, ModelColumn]:
    """What a factory is told of the columns, by their names.

    Columns of numbers that are called ``emb[0]``, ``emb[1]``, .. and stand in that order, with
    others between them or not, are one list ``emb``, unless there is a column ``emb``.

    Args:
        columns: The constants of all columns, in the order of their inputs; () of images.
    """
    names = {column.name for column in columns}
    stops = accumulate(len(column.inputs) for column in columns)  # where each column's inputs end
    meanings: dict[str, ModelColumn] = {}
    for column, stop in zip(columns, stops, strict=True):
        inputs = slice(stop - len(column.inputs), stop)
        if isinstance(column, CategoryColumn):
            levels = _levels(column)
            meanings[column.name] = ModelColumn(column.name, "category", inputs, levels)
            continue
        number = _number(column, inputs)
        name, place = _list_of(column.name)
        before = meanings.get(name)  # the list so far, or a column of that name; None: neither yet
        if place == 0 and before is None and name not in names:
            meanings[name] = replace(number, name=name, kind="list")
        elif before is not None and before.kind == "list" and place == len(before.places):
            meanings[name] = _longer(before, number, inputs)
        else:
            meanings[column.name] = number
    for name, meaning in list(meanings.items()):
        # A list of one number is a column that is only named like a list: it gets its own name
        # back. A copy is gone through, as entries are taken out.
        if meaning.kind == "list" and len(meaning.places) == 1:
            meanings[f"{name}[0]"] = replace(meanings.pop(name), name=f"{name}[0]", kind="number")
    return meanings


def _levels(column: CategoryColumn) -> tuple[str, ...]:
    """The level that each input of a category stands for; of one input for two levels, both.

    An input for two levels is 0 for the first of them and 1 for the second.
    """
    if len(column.inputs) == 1 and len(column.levels) >= 2:
        by_value = {}
        # ``values`` has two entries more than ``levels``: for unlisted texts and missing values.
        for level, value in zip(column.levels, column.values, strict=False):
            if value in (0.0, 1.0):
                by_value[value] = level
        if set(by_value) == {0.0, 1.0}:
            return by_value[0.0], by_value[1.0]
    # Inputs are called COLUMN=LEVEL; not read off ``levels``, as rare levels share an input.
    prefix = len(column.name) + 1
    return tuple(name[prefix:] for name in column.inputs)


def _number(column: NumberColumn, inputs: slice) -> ModelColumn:
    """The meaning of a column of numbers: its first input holds the number, scaled."""
    centre, spread = (column.centre,), (column.spread,)
    return ModelColumn(column.name, "number", inputs, places=(0,), centre=centre, spread=spread)


def _list_of(name: str) -> tuple[str, int]:
    """(list, place) of a column called LIST[PLACE]; (the name itself, -1) of any other."""
    match = _OF_LIST.fullmatch(name)
    if match is None:
        return name, -1
    return match[1], int(match[2])


def _longer(before: ModelColumn, number: ModelColumn, inputs: slice) -> ModelColumn:
    """The list ``before`` with one more number, whose ``inputs`` come after the list's own."""
    own = before.inputs
    if isinstance(own, slice) and own.stop == inputs.start:
        together: slice | list[int] = slice(own.start, inputs.stop)
    else:  # another column's inputs lie between them, which are none of the list's
        first = range(own.start, own.stop) if isinstance(own, slice) else own
        together = [*first, *range(inputs.start, inputs.stop)]
    return replace(
        before,
        inputs=together,
        places=(*before.places, *(before.width + place for place in number.places)),
        centre=before.centre + number.centre,
        spread=before.spread + number.spread,
    )

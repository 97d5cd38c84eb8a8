"""Which class each column of given probabilities is about: by the column's name, or as was said.

Classes are sorted by the program, columns stand as their author wrote them, so a column's place
says nothing of its class.
"""

from collections.abc import Sequence

from fairaudit.data.infer import same_class
from fairaudit.errors import ConfigError, DataError
from fairaudit.messages.names import listed, typed


def class_columns(
    columns: Sequence[str], classes: Sequence[str], given: Sequence[str] = ()
) -> list[int]:
    """Index of the column that holds each class's probability, ``[Y]`` for Y classes.

    A column whose name is a class's, or ends in it, is that class's: ``p_low`` is of ``low``.

    Args:
        columns: Names of the columns, one for each class.
        classes: Names of the classes, ``[Y]``.
        given: The classes in the order of the columns, as somebody said; empty: names decide.

    Raises:
        ConfigError: ``given`` are not the classes.
        DataError: There are not as many columns as classes, or names do not say which is whose.

    Example:
        >>> class_columns(["p_low", "p_mid", "p_high"], ["high", "low", "mid"])
        [2, 0, 1]
    """
    if len(columns) != len(classes):
        raise DataError(
            f"{len(columns)} columns of probabilities for {len(classes)} classes",
            f"one column for each class: {listed(classes)}",
        )
    if given:
        places = [same_class(name, classes) for name in given]
        known = sorted(place for place in places if place is not None)
        if len(given) != len(classes) or known != list(range(len(classes))):
            raise ConfigError(
                f"--classes names {listed(given)}, and the label has {listed(classes)}",
                "name each class of the label once, in the order of the columns",
            )
    else:
        places = [named_class(column, classes) for column in columns]
        if sorted(place for place in places if place is not None) != list(range(len(classes))):
            unclear = [
                column
                for column, place in zip(columns, places, strict=True)
                if place is None or places.count(place) > 1
            ]
            raise DataError(
                f"the names of {listed(unclear)} do not say which class is whose",
                "say the classes in the order of the columns, as --classes "
                f"{typed(','.join(classes))} if that is their order",
            )
    return [places.index(place) for place in range(len(classes))]


def named_class(column: str, classes: Sequence[str]) -> int | None:
    """Index of the class that a column's name is, or ends in; None where it ends in none.

    Of several the longest is meant: ``p_female`` is of ``female``, not of ``male``. A number is
    taken whole: ``p_11`` is not of class ``1``. Upper and lower case count only where two classes
    differ in nothing else.
    """
    for spelling in (str, str.casefold):  # as written, then without upper and lower case
        name = spelling(column)
        ends = [k for k, class_name in enumerate(classes) if _ends_in(name, spelling(class_name))]
        longest = max((len(classes[k]) for k in ends), default=0)
        meant = [k for k in ends if len(classes[k]) == longest]
        if len(meant) == 1:
            return meant[0]
    return None


def _ends_in(name: str, class_name: str) -> bool:
    """Whether a column's name ends in a class's name, and not within a longer number."""
    if not class_name or not name.endswith(class_name):
        return False
    before = name[: -len(class_name)][-1:]  # the sign before it, "" where there is none
    return not (class_name[0].isdigit() and (before.isdigit() or before == "."))

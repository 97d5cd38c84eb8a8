"""``METRIC[.STAT][@GROUP][:ARM] OP NUMBER[UNIT]``: text -> GateRule, a failing condition.

The kind of a metric is ``arm`` (a number of a method's guarantee, as epsilon), ``group`` (a number
of each group) or ``gap`` (a difference between groups).
"""

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple, cast

from fairaudit.errors import ConfigError
from fairaudit.gate.vocabulary import Metric, find_metric
from fairaudit.metrics.registry import METRICS

Operator = Literal[">", ">=", "<", "<="]
Statistic = Literal["interval", "mean", "ci_low", "ci_high"]

_BEYOND_ALL = 1e9  # no report holds a number of this size: a limit there would limit nothing
_SIGNS = frozenset("@:,=\"'")  # of the grammar: a name that has one of them is quoted
ALL_ROWS = "overall"  # the selector of all test rows together
DELTA = "delta"  # ``METRIC.delta`` is the change since a baseline report
_STATISTICS = {
    "mean": "mean over seeds",
    "ci_low": "lower end of the 95 % interval",
    "ci_high": "upper end of the 95 % interval",
}
_OPERATORS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
# Failing operator -> how a number that does not fail compares with the limit.
_KEPT = {">": "at most", ">=": "below", "<": "at least", "<=": "above"}
_FAILS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_HELP = "write it in quotes, for example --fail-on 'privacy_cost_gap > 2 points'"
# Unit of a metric -> what may stand behind a rule's number.
_POINTS = ("point", "points", "pt", "pts", "%")
_NATS = ("nat", "nats")
_UNITS_OF = {
    "fraction": _POINTS,
    "ratio": ("%",),
    "nats": _NATS,
    "nats a step": _NATS,
    "degrees": ("degree", "degrees"),
}
_IN_HUNDREDTHS = ("fraction", "ratio")  # metrics of which ``2%`` or ``2 points`` means 0.02
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?) ?(points?|pts?|nats?|degrees?|%)?"
)
_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_TOKEN = re.compile(rf"{_QUOTED}|>=|<=|==|[><=@:,]|\s+|[^\s><=@:,\"']+|.", re.DOTALL)
# Metric kind -> how many groups a rule about it may name, and why no more.
_MOST_GROUPS = {
    "arm": (0, "is of a method, not of a group"),
    "gap": (2, "is between two groups, as @sex=F,M"),
}


class GroupSelector(NamedTuple):
    """Which groups a rule is about.

    Args:
        grouping: A column, or ``overall`` for all test rows together.
        names: Groups of it; for a gap one means against all rows, two a pair. Empty: all of them.
    """

    grouping: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GateRule:
    """A failing condition.

    Args:
        text: As it was given, blanks made single.
        metric: What it is about.
        statistic: ``interval`` is judged by the whole interval, the others are plain numbers.
        is_change: Whether it is about the difference to a baseline report.
        group: Which groups, or None for all.
        arm: Which arms, or "" for all that are private.
        operator: Which numbers fail, compared with ``number``.
        number: The limit, in the metric's unit: 0.02 for two points.
    """

    text: str
    metric: Metric
    statistic: Statistic
    is_change: bool
    group: GroupSelector | None
    arm: str
    operator: Operator
    number: float

    def fails(self, value: float) -> bool:
        """Whether one number meets the failing condition."""
        return _FAILS[self.operator](value, self.number)

    @property
    def fails_above(self) -> bool:
        """Whether large numbers fail."""
        return self.operator in (">", ">=")

    @property
    def is_overall(self) -> bool:
        """Whether it is about all test rows together."""
        return self.group is not None and self.group.grouping == ALL_ROWS

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that it names; empty where it is about all."""
        return self.group.names if self.group else ()

    def words(self, every: str = "any private method") -> str:
        """The condition in words, as ``fails if the accuracy of any group ... is below 0.7``.

        Args:
            every: Words for the arms of a rule that names none; "" says nothing of arms.
        """
        quantity = self.metric.words
        if self.is_change:
            quantity = f"change since the baseline of the {quantity}"
        if self.statistic != "interval":
            quantity = f"{quantity} ({_STATISTICS[self.statistic]})"
        method = self.arm or every
        under = f" under {method}" if method else ""
        relation = _OPERATORS[self.operator]
        return f"fails if the {quantity}{self._of_groups()}{under} is {relation} {self._limit()}"

    @property
    def promise(self) -> str:
        """What must hold, in short, as ``gap of privacy cost at most 2 points``."""
        quantity = self._quantity
        if self.metric.kind == "gap":
            quantity = f"gap of {quantity}"
        if self.is_change:
            quantity = f"change of the {quantity}"
        if self.statistic != "interval":
            quantity = f"{_STATISTICS[self.statistic]} of the {quantity}"
        groups = self._of_groups() if self.group else ""
        limit = f"{self.number:g}"
        if self.metric.unit == "fraction":
            hundredths = f"{100 * self.number:g}"
            points = "point" if hundredths in ("1", "-1") else "points"
            limit = f"{hundredths} {'%' if self._is_share else points}"
        elif self.metric.unit not in ("ratio", ""):
            limit += f" {self.metric.unit}"
        return f"{quantity}{groups} {_KEPT[self.operator]} {limit}"

    @property
    def _quantity(self) -> str:
        """What the rule is about, in short: ``privacy cost``, ``true positive rate lost``.

        A cost without a header of its own is named by the metric that is lost.
        """
        spec = METRICS.get(self.metric.base)  # None for a number of a guarantee
        if spec is None or not spec.cost_of or spec.header:
            return self.metric.key.replace("_", " ")
        # In the key, so that class and part stay: ``tpr_cost[2].noise``.
        lost = f"{METRICS[spec.cost_of].words} lost"
        return self.metric.key.replace(spec.name, lost).replace("_", " ")

    @property
    def _is_share(self) -> bool:
        """Whether it is about a share of people, as a group's own rate, not about a difference."""
        if self.metric.kind != "group" or self.is_change:
            return False
        return METRICS[self.metric.base].bounds[0] >= 0.0  # a difference may lie below 0

    def _limit(self) -> str:
        """The limit in words: a fraction also in per cent or, for a difference, in points."""
        number = f"{self.number:g}"
        if self.metric.unit != "fraction":
            return number
        hundredths = f"{100 * self.number:g}"
        if self._is_share:
            return f"{number} ({hundredths} %)"
        points = "point" if hundredths in ("1", "-1") else "points"
        return f"{number} ({hundredths} {points})"

    def _of_groups(self) -> str:
        """The groups that the rule is about, in words that begin with a blank; "" for none."""
        if self.group is None:
            return " of any group" if self.metric.kind == "group" else ""
        if self.is_overall:
            return " for all test rows"
        if self.group.names:
            return f" for {self.group.grouping} = {' and '.join(self.group.names)}"
        return f" for {self.group.grouping}"


def parse_rules(texts: Iterable[str]) -> tuple[GateRule, ...]:
    """Read rules; one that is given twice is kept once, and their order stays.

    Raises:
        ConfigError: One of them cannot be read.
    """
    return tuple(dict.fromkeys(map(parse_rule, texts)))


def parse_rule(text: str) -> GateRule:
    """Read one rule.

    Raises:
        ConfigError: It does not follow the grammar, names an unknown metric or statistic or groups
            that the metric cannot be about, or has a limit outside of what the metric can be.
    """
    tokens = [t for t in _TOKEN.findall(text.strip()) if not t.isspace()]
    shown = " ".join(text.split())
    rule = f"rule {_shortened(shown)}"  # how error messages name it
    places = [i for i, token in enumerate(tokens) if token in _OPERATORS]
    if len(places) != 1:
        raise ConfigError(
            f"{rule} needs one operator (> >= < <=); a shell takes an unquoted > for itself",
            hint=_HELP,
        )
    place = places[0]
    name, group, arm = _subject(tokens[:place], rule)
    statistic: Statistic = "interval"
    # Behind the metric stand ``.delta``, a statistic, or both: METRIC.delta.mean. Where ``head`` is
    # "" nothing stands before ``last``, so that is the metric itself.
    head, _, last = name.rpartition(".")
    if last in _STATISTICS and head:
        name, statistic = head, cast(Statistic, last)
        head, _, last = name.rpartition(".")
    is_change = last == DELTA and bool(head)
    metric = find_metric(head if is_change else name)
    if group is not None and metric.kind in _MOST_GROUPS:
        most, why = _MOST_GROUPS[metric.kind]
        # A guarantee is of the whole method: for it even a column without groups is an error.
        if len(group.names) > most or metric.kind == "arm":
            raise ConfigError(f"{rule}: {metric.name} {why}")
    if group is not None and group.grouping == ALL_ROWS and (group.names or metric.kind == "gap"):
        raise ConfigError(
            f"{rule}: @{ALL_ROWS} is all rows together, which have no groups",
            hint="write @COLUMN=GROUP, or leave it out for every grouping",
        )
    if group is not None and metric.kind == "gap" and len(set(group.names)) < len(group.names):
        raise ConfigError(
            f"{rule} compares {_shortened(group.names[0])} with itself", hint="name two groups"
        )
    number = _number(" ".join(tokens[place + 1 :]), metric, rule)
    failing = cast(Operator, tokens[place])  # the tokens of ``places`` are operators
    _refuse_useless_limit(metric, is_change, failing, number, rule)
    return GateRule(shown, metric, statistic, is_change, group, arm, failing, number)


def _refuse_useless_limit(
    metric: Metric, is_change: bool, failing: Operator, number: float, rule: str
) -> None:
    """Refuse a limit outside of what the number can be, and one that nothing can be beyond.

    Args:
        metric: What is limited.
        is_change: Whether the change of the metric since a baseline is limited, not the metric.
        failing: How numbers that fail compare with the limit.
        number: The limit.
        rule: The rule as error messages name it.

    Raises:
        ConfigError: It is refused.
    """
    low, high = metric.bounds(is_change=is_change)
    what = f"the change in {metric.name}" if is_change else metric.name
    # A gap of 1 is one of 100 points: whoever writes 1 means 1 point.
    is_useless = number == high and metric.kind == "gap" and not is_change
    problem = ""
    if not low <= number <= high or is_useless:
        problem = f": {what} lies between {low:g} and {high:g}"
    elif not any(_FAILS[failing](end, number) for end in (low, high)):
        problem = f" cannot fail: {what} lies between {low:g} and {high:g}"
    elif abs(number) >= _BEYOND_ALL:
        problem = f": no report holds such a number as {number:g}"
    if not problem:
        return
    hint = "a rule states what fails; choose a number that some models meet and others do not"
    if 1 <= abs(number) <= 100 and metric.unit in ("fraction", "ratio"):
        hint = f"for {number:g} in a hundred write {number / 100:g} or {number:g}%"
    raise ConfigError(f"{rule}{problem}", hint=hint)


def _number(text: str, metric: Metric, rule: str) -> float:
    """Read a rule's limit, in the metric's unit: ``2 points`` and ``2%`` are 0.02.

    Args:
        text: What stands behind the operator: a decimal in ASCII, with or without a unit.
        metric: What it limits, which decides what units may stand there.
        rule: The rule as error messages name it.

    Raises:
        ConfigError: It is no number, or the metric is not counted in this unit.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ConfigError(
            f"{rule} needs one number after its operator, not {_shortened(text)}",
            hint="write it with its unit, as '2 points' or 0.05 nats, or as a plain decimal",
        )
    unit = match[2]
    if unit is not None and unit not in _UNITS_OF.get(metric.unit, ()):
        raise ConfigError(
            f"{rule}: {metric.name} is not counted in {unit}",
            hint=f"write the number alone, as {match[1]}",
        )
    if unit is None or metric.unit not in _IN_HUNDREDTHS:
        return float(match[1])
    # In decimals, so that 0.7 points are the very number that 0.007 is.
    return float(Decimal(match[1]) / 100)


def _subject(tokens: list[str], rule: str) -> tuple[str, GroupSelector | None, str]:
    """Read what stands before the operator: ``METRIC[.STAT][@GROUP][:ARM]``.

    Returns:
        The metric's name with its statistic, the group selector or None, the arm or "".

    Raises:
        ConfigError: It does not follow the grammar; ``rule`` is how the message names the rule.
    """
    colon = tokens.index(":") if ":" in tokens else len(tokens)
    before, after = tokens[:colon], tokens[colon + 1 :]
    # An arm has signs of its own: dpsgd:as-published@3.
    arm = "".join(_unquoted(token) for token in after)
    if colon < len(tokens) and not arm:
        raise ConfigError(f"{rule} names no method after ':'", hint="for example :dpsgd")
    at = before.index("@") if "@" in before else len(before)
    name, selector = before[:at], before[at + 1 :]
    if len(name) != 1:
        raise ConfigError(f"{rule} must begin with one metric", hint=_HELP)
    group = _selector(selector, rule) if at < len(before) else None
    return _unquoted(name[0]), group, arm


def _selector(tokens: list[str], rule: str) -> GroupSelector:
    """Read what stands behind ``@``: ``sex=F``, ``sex=F,M`` or ``sex``.

    The tokens are the column, ``=``, then names with commas between them; names with signs or
    blanks are quoted, and still so here. ``rule`` is how an error message names the rule.

    Raises:
        ConfigError: They are not of that form.
    """
    grouping, equals = tokens[:1], tokens[1:2]
    names, commas = tokens[2::2], tokens[3::2]  # by turns: name, comma, name
    has_names = equals == ["="] and len(names) == len(commas) + 1 and set(commas) <= {","}
    is_column_alone = not equals  # then no token follows either
    # An unquoted sign in the place of a name is an error, as in ``@=F`` or ``@sex=,``.
    are_names = bool(grouping) and _SIGNS.isdisjoint([*grouping, *names])
    if not are_names or not (has_names or is_column_alone):
        raise ConfigError(
            f"{rule}: the part after @ is not a group",
            hint="""write @sex=F, or with quotes @"marital status"="never married\"""",
        )
    return GroupSelector(_unquoted(grouping[0]), tuple(map(_unquoted, names)))


def _unquoted(token: str) -> str:
    """A name without its quotes and escapes; one without quotes comes back unchanged."""
    if token[0] in "\"'" and token[-1] == token[0]:
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    return token


def _shortened(text: str) -> str:
    """The text in quotes for an error message, at most 80 characters of it."""
    return repr(text if len(text) <= 80 else text[:77] + "...")

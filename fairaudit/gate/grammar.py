"""``METRIC[.STAT][@GROUP][:ARM] OP NUMBER[UNIT]``: text -> Rule, a failing condition."""

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, NamedTuple, cast

from fairaudit.errors import ConfigError
from fairaudit.gate.vocabulary import Metric, find_metric
from fairaudit.metrics.registry import costs

Operator = Literal[">", ">=", "<", "<="]
Statistic = Literal["interval", "mean", "ci_low", "ci_high", "max"]

ALL_ROWS = "overall"  # the selector of all test rows together
DELTA = "delta"
_STATISTICS = {
    "mean": "mean over seeds",
    "ci_low": "lower end of the 95 % interval",
    "ci_high": "upper end of the 95 % interval",
    "max": "largest over seeds",
}
_OPERATORS = {">": "above", ">=": "at least", "<": "below", "<=": "at most"}
_FAILS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_HELP = "write it in quotes, for example --fail-on 'privacy_cost_gap > 0.02'"
_POINTS = ("point", "points", "pt", "pts", "%")
_UNITS_OF = {
    "fraction": _POINTS,
    "ratio": ("%",),
    "nats": ("nat", "nats"),
}  # what may stand behind a number
_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_NUMBER = re.compile(
    r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)(points?|pts?|nats?|%)?"
)
_NUMBER_HELP = (
    "write a number with its unit, as '2 points' or 0.05 nats, or a plain decimal, as 0.02"
)
_TOKEN = re.compile(rf"{_QUOTED}|>=|<=|==|[><=@:,]|\s+|[^\s><=@:,\"']+|.", re.DOTALL)
_ALL_UNITS = frozenset(unit for units in _UNITS_OF.values() for unit in units)
MOST_CHARACTERS = 2000


class GroupSelector(NamedTuple):
    """Which groups a rule is about.

    Args:
        grouping: Name before ``=``, or "" where only one name was given.
        names: Group names; for a gap one means against all rows, two a pair. Empty: the grouping.
        bare: The only name given, which may be a group or a grouping, or "".
    """

    grouping: str
    names: tuple[str, ...]
    bare: str


@dataclass(frozen=True, slots=True)
class GateRule:
    """A failing condition.

    Args:
        text: As it was given, blanks made single.
        metric: What it is about.
        statistic: ``interval`` is judged by the whole interval, the others are plain numbers.
        is_change: About the difference to a baseline report.
        group: Which groups, or None for all.
        arm: Which arms, or "" for all that are private.
        operator: How a number fails.
        number: Against what.
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
        return self.group is not None and self.group.bare == ALL_ROWS

    @property
    def limits_gaps(self) -> bool:
        """Whether it says how large a gap may be."""
        return self.metric.kind == "gap" and self.fails_above and not self.is_change

    def words(self, every: str = "any private method") -> str:
        """The condition in words.

        Args:
            every: What a rule that names no arm is about; "" where there are no arms.
        """
        how = f", {_STATISTICS[self.statistic]}," if self.statistic != "interval" else ""
        change = "change since the baseline of the " if self.is_change else ""
        what = f"{change}{self.metric.words}{how}{self._where(every)}"
        return f"fails if the {what} is {_OPERATORS[self.operator]} {self._said()}".replace(
            ",,", ","
        )

    def _said(self) -> str:
        """The number, and what it is in points or per cent.

        So that nobody takes 2 for two points.
        """
        number = f"{self.number:g}"
        if self.metric.unit != "fraction":
            return number
        hundredths = f"{100 * self.number:g}"
        if self.metric.kind == "group" and self.metric.base not in costs() and not self.is_change:
            return f"{number} ({hundredths} %)"
        return f"{number} ({hundredths} point{'s' * (hundredths not in ('1', '-1'))})"

    def _where(self, every: str) -> str:
        arm = f" under {self.arm or every}" if self.arm or every else ""
        if self.metric.kind == "arm":
            return arm
        if self.group is None:
            if self.metric.kind == "group":
                return f" of any group{arm}"
            return arm
        if self.group.bare:
            rows = "all test rows" if self.group.bare == ALL_ROWS else self.group.bare
            return f" for {rows}{arm}"
        names = f" = {' and '.join(self.group.names)}" if self.group.names else ""
        return f" for {self.group.grouping}{names}{arm}"


def parse_rules(texts: Iterable[str]) -> tuple[GateRule, ...]:
    """Every rule once, in the order given.

    Raises:
        ConfigError: One of them cannot be read.
    """
    return tuple(dict.fromkeys(map(parse_rule, texts)))


def parse_rule(text: str) -> GateRule:
    """Read one rule.

    Raises:
        ConfigError: It does not follow the grammar, names an unknown metric or statistic, or has a
            limit outside of what the metric can be.
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"a rule of {len(text):,} characters is too long", hint=_HELP)
    tokens = [t for t in _TOKEN.findall(text.strip()) if not t.isspace()]
    shown = " ".join(text.split())
    places = [i for i, token in enumerate(tokens) if token in _OPERATORS]
    if not places:
        raise ConfigError(
            f"rule {_cut(shown)} has no operator (> >= < <=); a shell takes an unquoted > for "
            "itself",
            hint=_HELP,
        )
    if len(places) > 1:
        raise ConfigError(
            f"rule {_cut(shown)} has more than one operator", hint="give --fail-on twice"
        )
    subject, right = tokens[: places[0]], tokens[places[0] + 1 :]
    name, group, arm = _parts(subject, shown)
    statistic: Statistic = "interval"
    head, _, last = name.rpartition(".")
    if last in _STATISTICS and head:
        name, statistic = head, cast(Statistic, last)
        head, _, last = name.rpartition(".")
    is_change = last == DELTA and bool(head)
    metric = find_metric(head if is_change else name)
    if metric.kind == "arm" and group is not None:
        raise ConfigError(
            f"rule {_cut(shown)}: {metric.name} is of a method, not of a group", hint="leave @ out"
        )
    if metric.kind == "mean_gap" and group is not None and group.names:
        raise ConfigError(
            f"rule {_cut(shown)}: a mean gap is over all groups", hint="use @GROUPING or no @"
        )
    if metric.kind == "gap" and group is not None and len(group.names) > 2:
        raise ConfigError(
            f"rule {_cut(shown)}: a gap is between two groups", hint="@sex=F,M, or @sex=F"
        )
    number = _number(right, metric, shown)
    low, high, low_open, high_open = metric.bounds(is_change=is_change)
    is_below = number < low or (number == low and low_open)
    if is_below or number > high or (number == high and high_open):
        change = "the change in " if is_change else ""
        where = f"lies between {low:g} and {high:g}" if high < math.inf else f"is not below {low:g}"
        hint = "a rule states what fails; choose a number that some models meet and others do not"
        if 1 <= abs(number) <= 100 and metric.unit in ("fraction", "ratio"):
            hint = f"for {number:g} in a hundred write {number / 100:g} or {number:g}%"
        raise ConfigError(f"rule {_cut(shown)}: {change}{metric.name} {where}", hint=hint)
    fails = cast(Operator, tokens[places[0]])
    return GateRule(shown, metric, statistic, is_change, group, arm, fails, number)


def _number(tokens: list[str], metric: Metric, shown: str) -> float:
    """A decimal in ASCII; ``2 points`` and ``2%`` are hundredths where the metric is a fraction."""
    if not tokens or len(tokens) > 2 or (len(tokens) == 2 and tokens[1] not in _ALL_UNITS):
        raise ConfigError(f"rule {_cut(shown)} needs one number after its operator", hint=_HELP)
    text = "".join(tokens)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ConfigError(f"rule {_cut(shown)}: {_cut(text)} is not a number", hint=_NUMBER_HELP)
    number, unit = float(match[1]) + 0.0, match[2]  # no -0
    if not math.isfinite(number):
        raise ConfigError(f"rule {_cut(shown)}: the number must be finite", hint=_NUMBER_HELP)
    if unit is None:
        return number
    if unit not in _UNITS_OF.get(metric.unit, ()):
        raise ConfigError(
            f"rule {_cut(shown)}: {metric.name} is not counted in {unit}",
            hint=f"write the number alone, as {match[1]}",
        )
    if metric.unit == "nats":
        return number
    return float(Decimal(match[1]) / 100)


def _parts(tokens: list[str], shown: str) -> tuple[str, GroupSelector | None, str]:
    """Metric name, group selector and arm of what stands before the operator."""
    colon = tokens.index(":") if ":" in tokens else len(tokens)
    before, after = tokens[:colon], tokens[colon + 1 :]
    # An arm has signs of its own: dpsgd:as-published@3.
    arm = "".join(_unquoted(token) for token in after)
    if colon < len(tokens) and not arm:
        raise ConfigError(
            f"rule {_cut(shown)} names no method after ':'", hint="for example :dpsgd"
        )
    at = before.index("@") if "@" in before else len(before)
    name, selector = before[:at], before[at + 1 :]
    if len(name) != 1:
        raise ConfigError(f"rule {_cut(shown)} must begin with one metric", hint=_HELP)
    group = _selector(selector, shown) if at < len(before) else None
    return _unquoted(name[0]), group, arm


def _selector(tokens: list[str], shown: str) -> GroupSelector:
    """``sex=F``, ``sex=F,M``, ``sex`` or ``F``; names with signs or blanks are quoted."""
    bad = ConfigError(
        f"rule {_cut(shown)}: the part after @ is not a group",
        hint="""write @sex=F, or with quotes @"marital status"="never married\"""",
    )
    if "=" not in tokens:
        if len(tokens) != 1 or not _is_name(tokens[0]):
            raise bad
        return GroupSelector("", (), _unquoted(tokens[0]))
    grouping, names = tokens[:1], tokens[2:]
    listed = names[::2]
    is_list = all(comma == "," for comma in names[1::2]) and len(names) % 2 == 1
    if tokens[1:2] != ["="] or not is_list or not all(map(_is_name, [*grouping, *listed])):
        raise bad
    return GroupSelector(_unquoted(grouping[0]), tuple(map(_unquoted, listed)), "")


def _is_name(token: str) -> bool:
    return token not in ("@", ":", ",", "=", '"', "'")


def _unquoted(token: str) -> str:
    if len(token) > 1 and token[0] in "\"'" and token[-1] == token[0]:
        return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    return token


def _cut(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")

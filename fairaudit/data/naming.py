"""What a column's name says about it, and how names are shown in one short line."""

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from enum import IntEnum

from fairaudit.errors import did_you_mean

SHOWN_CHARACTERS = 60
SHOWN_NAMES = 12
TYPED_CHARACTERS = 200

# They say that the column is the label, whatever it is about.
_ROLES = frozenset({"label", "target", "y", "y_true", "outcome"})
# They say what is decided of a person; a table may hold one of them as a feature.
_DECISIONS = frozenset(
    {"class", "approved", "loan_approved", "is_approved", "default", "defaulted", "hired", "income"}
    | {"churn", "decision"}
)
# Words in the names of labels of well-known tables, too weak to act upon alone.
_OUTCOME_WORDS = frozenset(
    {"approved", "approval", "accepted", "rejected", "granted", "denied", "admitted", "admit", "hired"}
    | {"default", "defaulted", "delinquent", "dlqin", "repaid", "creditworthy", "creditability", "risk"}
    | {"recid", "recidivism", "recidivist", "reoffend", "reoffended", "rearrest", "rearrested"}
    | {"survived", "survival", "died", "death", "deceased", "mortality", "stroke", "diagnosis"}
    | {"readmitted", "readmission", "churn", "churned", "exited", "attrition", "subscribed", "deposit"}
    | {"pass", "passed", "graduated", "dropout", "fraud", "spam", "quality", "bad", "good", "converted"}
)
# Words beside which a word above still names the outcome: two_year_recid does, risk_area does not.
_BESIDE_OUTCOMES = frozenset(
    {
        "it",
        "is",
        "was",
        "has",
        "will",
        "be",
        "credit",
        "loan",
        "payment",
        "bank",
        "bar",
        "term",
        "status",
        "flag",
    }
    | {"next", "month", "year", "one", "two", "three", "within", "customer", "client", "patient", "employee"}
    | {"applicant", "application", "heart", "violent", "early", "binary", "income", "decision", "class"}
)
_OF_LOANS = ({"loan", "status"}, {"credit", "status"})
_CUT = frozenset({"above", "below", "over", "under"})  # of a number made two classes
_CUT_AT = frozenset({"median", "mean", "average", "threshold"})
# What was before the decision is known at the time of it.
_PAST = frozenset(
    {"previous", "prev", "prior", "priors", "past", "former", "history", "hist", "file", "last", "earlier"}
    | {"count", "number", "num", "days", "months", "date"}
)
# Words of labels whose 1 is usually the outcome that nobody wants.
_ADVERSE_WORDS = frozenset(
    {"default", "defaulted", "delinquent", "dlqin", "rejected", "denied", "bad", "fraud", "spam"}
    | {"recid", "recidivism", "recidivist", "reoffend", "reoffended", "rearrest", "rearrested"}
    | {"died", "death", "deceased", "mortality", "stroke", "readmitted", "readmission"}
    | {"churn", "churned", "exited", "attrition", "dropout"}
)
_PREDICTION_WORDS = frozenset(
    {"pred", "preds", "predicted", "prediction", "predictions", "yhat", "score", "scores"}
    | {"prob", "probs", "proba", "probas", "probability", "probabilities"}
)
# A score that is measured on a person before any model runs is an input, not a leak.
_MEASURED_SCORES = frozenset(
    {"credit", "fico", "test", "exam", "sat", "lsat", "gre", "math", "reading", "writing", "apgar"}
)
_ID_WORDS = frozenset({"id", "ids", "uuid", "guid", "idx", "index", "rowid", "key"})
# Names of the American Community Survey, with what they mean.
_OF_A_CENSUS = {"agep": "age", "hisp": "hispanic", "rac1p": "race"}
# The commonest first: candidates are shown in this order.
_GROUP_WORDS = (
    *(
        "sex",
        "gender",
        "male",
        "female",
        "race",
        "ethnicity",
        "ethnic",
        "hispanic",
        "age",
        "nationality",
        "citizenship",
        "religion",
    ),
    *("disability", "disabled", "marital", "veteran", "pregnant", "orientation", "caste", "foreign"),
)
# Words for one attribute, so that a wrong one finds the right column.
_ATTRIBUTES = (
    {"sex", "gender", "male", "female"},
    {"race", "ethnicity", "ethnic", "hispanic"},
    {"age", "birth", "born"},
    {"nationality", "citizenship", "citizen", "foreign", "country"},
    {"religion", "caste"},
    {"disability", "disabled"},
    {"marital", "married", "marriage"},
)
_LIKE = 0.75  # of 1, from which a mistyped word is taken for another
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def quoted(name: str) -> str:
    """A name in quotes, control characters escaped, cut to a readable length."""
    shown = name if len(name) <= SHOWN_CHARACTERS else name[: SHOWN_CHARACTERS - 3] + "..."
    return repr(shown)


def typed(word: str) -> str:
    """A name as one types it in a shell, so that a hint can be copied."""
    return shlex.quote(word) if word.isprintable() and len(word) <= TYPED_CHARACTERS else quoted(word)


def listed(names: Iterable[str]) -> str:
    """The first names of a list, in quotes, with how many more there are."""
    names = list(names)
    rest = len(names) - SHOWN_NAMES
    return ", ".join(map(quoted, names[:SHOWN_NAMES])) + (f" and {rest:,} more" if rest > 0 else "")


def near_miss(name: str, known: Sequence[str]) -> str:
    """The did-you-mean hint, or "" where no name is near (the message lists them all anyway)."""
    hint = nearest(name, known)
    return hint if hint.startswith("did you mean") else ""


def nearest(name: str, known: Sequence[str]) -> str:
    """The did-you-mean hint for a name, with long and hostile names made showable."""
    return did_you_mean(quoted(name)[1:-1], [quoted(k)[1:-1] for k in known])


def shape_text(shape: tuple[int, int, int]) -> str:
    """Height, width, channels as ``28 x 28 grey`` or ``64 x 64 colour``."""
    height, width, channels = shape
    return f"{height} x {width} {'grey' if channels == 1 else 'colour'}"


def words(name: str) -> list[str]:
    """The lower-case words of a name: ``yPred``, ``y_pred`` and ``Y-PRED`` are ``y pred``."""
    return [w.lower() for w in _WORD.findall(name)]


class LabelName(IntEnum):
    """How much a name says that its column is the label."""

    NONE = 0
    WORD = 1  # a word in it is known from labels
    OUTCOME = 2  # it says nothing but such words
    KNOWN = 3  # it is the name of a decision
    ROLE = 4  # it says nothing but that


def label_name(name: str) -> LabelName:
    """What the name says about its column being the label."""
    lower, said = name.strip().lower(), set(words(name))
    outcomes = _OUTCOME_WORDS | _BESIDE_OUTCOMES
    others = {word for word in said if word not in outcomes and not word.isdigit() and len(word) > 1}
    if lower in _ROLES or lower.endswith("_label"):
        return LabelName.ROLE
    if lower.startswith(("label_", "target_")):  # target_default, but not target_group
        return LabelName.WORD if others - {"label", "target"} else LabelName.ROLE
    if lower in _DECISIONS:
        return LabelName.KNOWN
    if said & _PAST:
        return LabelName.NONE
    is_at_number = bool(said & _CUT) and any(word.isdigit() for word in said)
    is_at_middle = bool(said & _CUT) and bool(said & _CUT_AT)
    is_word = said & _OUTCOME_WORDS or any(pair <= said for pair in _OF_LOANS)
    if is_group_name(name) or not (is_word or is_at_number or is_at_middle):
        return LabelName.NONE
    return LabelName.WORD if others and not is_at_middle else LabelName.OUTCOME


def like_group(name: str, known: Sequence[str]) -> str | None:
    """The column that holds the attribute which a wrong name means: ``sex`` for ``gendr``; or None."""
    meant: set[str] = set()
    for word in words(name):
        every = [each for attribute in _ATTRIBUTES for each in attribute]
        near = difflib.get_close_matches(word, every, n=1, cutoff=_LIKE)
        meant |= next((attribute for attribute in _ATTRIBUTES if near and near[0] in attribute), set())
    columns = [column for column in known if meant.intersection(_attribute_words(column))]
    # Of several columns with the attribute the one that is spelled most alike.
    return next(iter(difflib.get_close_matches(name, columns, n=1, cutoff=0.0)), None)


def is_adverse_label(name: str) -> bool:
    """Whether the label's 1 is usually the outcome nobody wants."""
    return not _ADVERSE_WORDS.isdisjoint(words(name))


def is_prediction_name(name: str) -> bool:
    """Whether the column holds what some model said: never a label, never a feature.

    ``credit_score`` and its like are measured inputs and are not meant.
    """
    said = set(words(name))
    if said & {"score", "scores"} and said & _MEASURED_SCORES:
        said -= {"score", "scores"}
    return bool(said & _PREDICTION_WORDS)


def is_id_name(name: str) -> bool:
    """Whether the name is that of a key: ``id``, ``customerId``, ``row_idx``, ``Unnamed: 0``."""
    said = words(name)
    if not said:
        return not name.strip()
    return said[-1] in _ID_WORDS or said[0] in {"id", "uuid", "unnamed"}


def is_group_name(name: str) -> bool:
    """Whether the name is that of an attribute people are commonly protected by."""
    return not _attribute_words(name).isdisjoint(_GROUP_WORDS)


def _attribute_words(name: str) -> set[str]:
    """The words of a name, and what a census means by it."""
    return {*words(name), _OF_A_CENSUS.get(name.strip().lower(), "")}


def protected(names: Iterable[str]) -> list[str]:
    """The names of :func:`is_group_name`, the commonest attributes first, and of one the shortest."""
    said = [
        (min(_GROUP_WORDS.index(w) for w in _attribute_words(n) if w in _GROUP_WORDS), len(words(n)), n)
        for n in names
        if is_group_name(n)
    ]
    return [name for *_, name in sorted(said, key=lambda found: found[:2])]

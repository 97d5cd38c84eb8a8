"""What a reader must know of a search for settings: its limitations and its findings."""

from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.limits import PerRun
from fairaudit.report.messages.base import FindingMessage
from fairaudit.results.estimates import Interval


@dataclass(frozen=True, slots=True)
class SearchCharged(Message):
    """Epsilon covers the search, but nothing that was chosen before it."""

    code = "hyperparameters"
    level = "limitation"
    when = "--tune searches settings"

    @property
    def text(self) -> str:
        return (
            "The search is charged, and nothing beyond it: the method, what is searched, how far, "
            "how many tries and all other settings were chosen outside the guarantee. Epsilon is "
            "of a search that draws all of it afresh; this audit trains a fixed number of "
            "candidates and gives the expectation over which are tried."
        )


@dataclass(frozen=True, slots=True)
class SearchUncharged(SearchCharged):
    """Epsilon does not cover the search, which keeps the best of ``tries`` trainings."""

    tries: int

    @property
    def text(self) -> str:
        return (
            f"The search is not charged: each private arm keeps the best of {self.tries} trainings "
            "by an exact score, and the epsilon that is named is of one of them."
        )


@dataclass(frozen=True, slots=True)
class PerSearch(PerRun):
    """Epsilon is for one model, and the audit searches for ``models`` of them on the same rows."""

    is_charged: bool

    @property
    def text(self) -> str:
        released = "one training, not for a search"
        if self.is_charged:
            released = "the one model that a search releases"
        models = numbered(self.models, "private model")
        return (
            f"Epsilon is for {released}. This audit searches for {models} on the same rows and "
            "trains at default settings beside; what all of that reveals together is not accounted "
            "for."
        )


@dataclass(frozen=True, slots=True)
class SearchedCosts(Message):
    """Costs at tuned settings are those of this one search, not of the best settings there are.

    The private arm and the reference that it is compared with were both searched.
    """

    code = "configuration"
    level = "limitation"
    when = "--tune searches settings"

    @property
    def text(self) -> str:
        return (
            "Costs are those of this search, of private methods and references alike; a wider one "
            "may find better settings. Costs at default settings are of trainings with all of "
            "epsilon and all training rows."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BestAtEdge(FindingMessage):
    """The best values of a setting, ``reason``, lie at an end of its range; ``nearest`` is one."""

    code = "at_edge"
    when = "after a search: at most seeds the best value of a setting lies at an end of its range"
    sentence = "The best {reason} found lies at an end of what was searched: {nearest:value}"

    nearest: Interval
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRaisedLoss(FindingMessage):
    """The tuned model has a higher loss over all rows than the default setting: by ``added``."""

    code = "search_raised_loss"
    when = "over all rows the tuned model is told to have a higher loss than the default setting's"
    sentence = "Searching raised the loss over all rows: by {added}"

    added: Interval

"""What can be said of a method before it trains: the types of the catalog's entries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fairaudit.methods.defaults import EPOCHS_SEARCH, PublicSizes, Search, Setting
from fairaudit.methods.mechanisms import GaussianMechanism, Mechanism, SampledMechanism
from fairaudit.privacy.events import PrivacyEvent

REFERENCE = "sgd"


class Guarantee(StrEnum):
    """Whether a proof stands behind an arm's epsilon."""

    ESTABLISHED = "established"
    # Of arms of somebody else's method, which says ESTABLISHED of itself: the epsilon is its own claim.
    UNCHECKED = "third-party, not checked by fairaudit"
    CHECKED = "third-party, passed fairaudit's checks"
    # Of a trainer of the user's own, whose epsilon is known when it has trained, if it says one.
    CLAIMED = "claimed by the trainer, not checked"
    NOT_ESTABLISHED = "not established"
    NONE = "none"

    @property
    def has_epsilon(self) -> bool:
        """Whether an epsilon stands beside it that this program accounts for."""
        return self not in (Guarantee.CLAIMED, Guarantee.NOT_ESTABLISHED, Guarantee.NONE)


class Need(StrEnum):
    """What data or model must offer for a method to apply."""

    GROUP_LABELS = "group labels"
    CONVEX_MODEL = "convex model"
    PUBLIC_POOL = "public pool"


@dataclass(frozen=True, slots=True)
class Variant:
    """A published form kept for reproduction.

    Args:
        name: What follows the colon of the arm's key.
        reason: Why no guarantee is established, or what is different where it is.
        trainer: ``module:Class``.
        settings: The numbers that it reads beside the method's, by name.
        guarantee: ``established`` only where the method's own proof covers the variant.
        reads_groups: It reads group labels though the method does not.
    """

    name: str
    reason: str
    trainer: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    guarantee: Guarantee = Guarantee.NOT_ESTABLISHED
    reads_groups: bool = False


@dataclass(frozen=True, slots=True)
class Conversion:
    """A setting given in another convention of the literature.

    Args:
        into: The setting that it stands for.
        text: The rule in words.
        value: From the given number, the arm's other settings and public sizes to that setting.
        setting: What the given number is and the values that it may have.
    """

    into: str
    text: str
    value: Callable[[float, Mapping[str, float], PublicSizes], float]
    setting: Setting


@dataclass(frozen=True, slots=True)
class MethodSpec:
    """One training method.

    Args:
        name: Canonical name.
        aliases: Other spellings accepted.
        summary: One line.
        source: Paper and equation.
        guarantee: Status of the default form.
        trainer: ``module:Class``, imported by the worker that trains.
        settings: The numbers that it reads, by name, in the order in which they are decided.
        conversions: Other names under which a setting can be given, in a paper's convention.
        needs: What data or model must offer, beside group labels.
        side_queries: Released beside the gradient: query name -> the setting that holds its noise multiplier.
        relative_queries: The same with noise in proportion: query name -> the setting that holds its noise
            multiplier over the gradient's.
        gaussian: What it releases of all records at once; None: it trains by steps on samples.
        scales_by_threshold: Its gradients shrink by C/Z, so a linear model's shared step is scaled by Z/C.
        reads_groups: Group labels enter training (disparate treatment).
        reference: Method its cost is measured against, or None for a reference itself.
        reference_of: The method whose settings this reference takes, or None.
        settings_of: The method whose settings an ablation takes, or None.
        control_of: The method whose series it reads, or None.
        source_series: Which series.
        ablation: No noise and no guarantee, to take a method apart; `all` leaves it out.
        readings: ``module:function`` that reads a finished training for the report, or "".
        meanings: What each of these readings is, by name, with its unit.
        unprotected: What its guarantee leaves out beside what every guarantee does.
        part: What its cost without noise is called, one of ``metrics.metric_names.PARTS``.
        variants: Published forms.
        own_code: ``trainer`` is a function of the user's, which trains in a process of its own.
    """

    name: str
    summary: str
    source: str
    guarantee: Guarantee
    trainer: str
    settings: Mapping[str, Setting]
    aliases: tuple[str, ...] = ()
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    needs: tuple[Need, ...] = ()
    side_queries: Mapping[str, str] = field(default_factory=dict)
    relative_queries: Mapping[str, str] = field(default_factory=dict)
    gaussian: GaussianMechanism | None = None
    scales_by_threshold: bool = False
    reads_groups: bool = False
    reference: str | None = REFERENCE
    reference_of: str | None = None
    settings_of: str | None = None
    control_of: str | None = None
    source_series: str = "threshold"
    ablation: bool = False
    readings: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    unprotected: tuple[str, ...] = ()
    part: str = "clipping"
    variants: tuple[Variant, ...] = ()
    own_code: bool = False

    def setting(self, name: str) -> Setting:
        """What one of ``known_settings`` is, which values it may have, and its default."""
        of_variants = {name: each for variant in self.variants for name, each in variant.settings.items()}
        converted = {given: conversion.setting for given, conversion in self.conversions.items()}
        return {**of_variants, **converted, **self.settings}[name]

    @property
    def search(self) -> dict[str, Search]:
        """Where tuning looks, by the setting's name; ``epochs`` beside them where it trains by steps."""
        found = {name: setting.search for name, setting in self.settings.items()}
        schedule = {"epochs": EPOCHS_SEARCH} if self.trains_by_steps else {}
        return {name: search for name, search in found.items() if search is not None} | schedule

    @property
    def is_private(self) -> bool:
        """Whether the default form has an epsilon."""
        return self.guarantee is Guarantee.ESTABLISHED

    @property
    def model(self) -> str | None:
        """The method whose settings it takes, or None."""
        return self.settings_of or self.control_of or self.reference_of

    @property
    def trains_by_steps(self) -> bool:
        """Whether it goes through the gradient loop, on Poisson samples."""
        return self.gaussian is None and self.reference_of is None and not self.own_code

    @property
    def all_needs(self) -> tuple[Need, ...]:
        """``needs``, and group labels where it reads them."""
        return (*((Need.GROUP_LABELS,) if self.reads_groups else ()), *self.needs)

    @property
    def known_settings(self) -> tuple[str, ...]:
        """Numbers that the method or one of its variants reads, in any convention."""
        of_variants = (name for variant in self.variants for name in variant.settings)
        return (*self.settings, *of_variants, *self.conversions)

    @property
    def mechanism(self) -> Mechanism:
        """How its numbers turn into an event, and a target into noise."""
        return self.gaussian or SampledMechanism(self.side_queries, self.relative_queries)

    def without_noise(self, settings: Mapping[str, float]) -> dict[str, float] | None:
        """The settings of the arm's noise-free twin: no noise on gradients, side queries answered exactly.

        Returns:
            None where there is nothing to take away, or where the reference is that twin.
        """
        if not self.trains_by_steps or settings.get("noise_multiplier", 0.0) <= 0:
            return None
        return {**settings, **dict.fromkeys(("noise_multiplier", *self.side_queries.values()), 0.0)}

    def events(self, settings: Mapping[str, float], steps_per_epoch: int, epochs: int) -> PrivacyEvent | None:
        """What one run releases; no data argument, so epsilon is known before training.

        Returns:
            None for a method without a guarantee, or at noise multiplier 0.
        """
        if not self.is_private or settings["noise_multiplier"] <= 0:
            return None
        return self.mechanism.event(settings, steps_per_epoch, epochs)

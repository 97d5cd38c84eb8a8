"""What can be said of a method before it trains: the types of the catalog's entries.

What a method releases (its privacy event), and the noise multiplier with which it meets a target
epsilon, follow from its settings and the schedule alone, without data.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fairaudit.errors import PrivacyError
from fairaudit.methods.defaults import EPOCHS_SEARCH, PublicSizes, Search, Setting
from fairaudit.privacy.accounting import calibrate, calibrate_gaussian
from fairaudit.privacy.events import Gaussian, NoisyRelease, PrivacyEvent, SampledGaussian

Settings = Mapping[str, float]
REFERENCE = "sgd"


@dataclass(frozen=True, slots=True)
class SampledMechanism:
    """Each step releases a gradient, and answers to side queries, about one Poisson sample.

    Args:
        side_queries: Query name -> the setting that holds its noise multiplier.
        relative_queries: Query name -> the setting that holds the ratio of its noise multiplier to
            the gradient's.
    """

    side_queries: Mapping[str, str]
    relative_queries: Mapping[str, str]

    def event(self, settings: Settings, steps_per_epoch: int, epochs: int) -> SampledGaussian:
        """The privacy event of one run, with one joint release of gradient and queries per step.

        Source: docs/methods.md 2.1.
        """
        sigma = settings["noise_multiplier"]
        releases = [NoisyRelease("gradient", sigma)]
        for query, name in self.relative_queries.items():
            releases.append(NoisyRelease(query, settings[name] * sigma))
        for query, name in self.side_queries.items():
            releases.append(NoisyRelease(query, settings[name]))
        return SampledGaussian(steps_per_epoch, steps_per_epoch * epochs, tuple(releases))

    def calibrated(
        self, settings: Settings, steps_per_epoch: int, epochs: int, *, delta: float, target: float
    ) -> float:
        """The gradient's noise multiplier with which one run costs at most epsilon ``target``.

        Raises:
            PrivacyError: The side queries alone cost more than the target, or a relative query has
                no noise.
        """
        side = tuple(settings[name] for name in self.side_queries.values())
        # The noise multiplier that gradient and relative queries may have together, as one release.
        together = calibrate(steps_per_epoch, steps_per_epoch * epochs, delta, target, side)
        # Of Gaussian releases on one sample the 1 / sigma^2 add up (docs/methods.md 2.1). With
        # sigma_query = ratio sigma_gradient: 1 / together^2 = (1 + sum 1 / ratio^2) /
        # sigma_gradient^2, which is solved for sigma_gradient.
        parts = 0.0
        for name in self.relative_queries.values():
            if settings[name] <= 0.0:
                raise PrivacyError(
                    f"{name} {settings[name]:g} releases statistics of the records without noise",
                    hint=f"use a {name} above 0",
                )
            parts += settings[name] ** -2
        return together * math.sqrt(1.0 + parts)


@dataclass(frozen=True, slots=True)
class GaussianMechanism:
    """Gaussian releases about all records at once, not about samples of them.

    Args:
        released: What is released, a name for the event.
        count: The setting that holds how many releases a run makes; None: it makes one.
    """

    released: str
    count: str | None = None

    def event(self, settings: Settings, steps_per_epoch: int, epochs: int) -> Gaussian:
        """The privacy event of one run; nothing is sampled, so the schedule does not enter.

        Source: docs/methods.md 2.4.
        """
        return Gaussian(self.released, settings["noise_multiplier"], self._count(settings))

    def calibrated(
        self, settings: Settings, steps_per_epoch: int, epochs: int, *, delta: float, target: float
    ) -> float:
        """The smallest noise multiplier of each release with which a run costs epsilon ``target``.

        The schedule does not enter; the arguments are those of :class:`SampledMechanism`.
        """
        return calibrate_gaussian(self._count(settings), delta, target)

    def _count(self, settings: Settings) -> int:
        """How many releases one run makes."""
        if self.count is None:
            return 1
        return int(settings[self.count])


class Guarantee(StrEnum):
    """Whether a proof stands behind an arm's epsilon.

    Example:
        >>> Guarantee.ESTABLISHED.has_epsilon, Guarantee.CLAIMED.has_epsilon
        (True, False)
    """

    ESTABLISHED = "established"
    # Of arms that train a user's own module: what it keeps beside its attributes is not seen.
    CONDITIONAL = "established if the module keeps nothing of what it reads"
    # Of a loop of the user's own that uses Opacus, with a model or criterion that is not known.
    ONE_BY_ONE = (
        "established if model and criterion treat records one by one and keep nothing of them"
    )
    # Of arms of somebody else's method, which says ESTABLISHED of itself: the epsilon is its own
    # claim.
    UNCHECKED = "third-party, not checked by fairaudit"
    CHECKED = "third-party, passed fairaudit's checks"
    CHECKED_CONDITIONAL = f"{CHECKED}, if the module keeps nothing of what it reads"
    CHECKED_ONE_BY_ONE = (
        f"{CHECKED}, if model and criterion treat records one by one and keep nothing of them"
    )
    # Of a trainer of the user's own, whose epsilon is known when it has trained, if it says one.
    CLAIMED = "claimed by the trainer, not checked"
    NOT_ESTABLISHED = "not established"
    NONE = "none"

    @property
    def has_epsilon(self) -> bool:
        """Whether an arm of this guarantee has an epsilon that this program accounted for."""
        return self not in (Guarantee.CLAIMED, Guarantee.NOT_ESTABLISHED, Guarantee.NONE)

    @property
    def is_proved(self) -> bool:
        """Whether this program proves it; where a user's own module is trained, on a condition."""
        return self in (Guarantee.ESTABLISHED, Guarantee.CONDITIONAL, Guarantee.ONE_BY_ONE)

    @property
    def rests_on_module(self) -> bool:
        """Whether it holds on a condition that only the author of a user's own code knows."""
        return self in (
            Guarantee.CONDITIONAL,
            Guarantee.CHECKED_CONDITIONAL,
            Guarantee.ONE_BY_ONE,
            Guarantee.CHECKED_ONE_BY_ONE,
        )

    def of_own_module(self) -> "Guarantee":
        """The guarantee where the model is a user's own module: with the condition on that module.

        A guarantee that has no form with that condition stays as it is.
        """
        conditional = {
            Guarantee.ESTABLISHED: Guarantee.CONDITIONAL,
            Guarantee.CHECKED: Guarantee.CHECKED_CONDITIONAL,
        }
        return conditional.get(self, self)

    def of_own_loop(self) -> "Guarantee":
        """The guarantee where model or criterion of a loop of the user's own is not known.

        With the condition on both; a guarantee that has no such form stays as it is.
        """
        conditional = {
            Guarantee.ESTABLISHED: Guarantee.ONE_BY_ONE,
            Guarantee.CHECKED: Guarantee.CHECKED_ONE_BY_ONE,
        }
        return conditional.get(self, self)


class Need(StrEnum):
    """What the data or the model must have so that a method can train.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> find("pate-hard").needs
        (<Need.PUBLIC_POOL: 'public pool'>,)
    """

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

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> [variant.name for variant in find("dpsgd").variants]
        ['as-published']
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

    Example:
        >>> from fairaudit.methods.defaults import PublicSizes, Setting
        >>> of_sum = Conversion(
        ...     "penalty",
        ...     "this over N",
        ...     lambda given, settings, sizes: given / sizes.n_public,
        ...     Setting("weight beside a sum of losses", 1e-9, 1e9),
        ... )
        >>> of_sum.value(10.0, {}, PublicSizes(n_public=1000, columns=3, model="logistic"))
        0.01
    """

    into: str
    text: str
    value: Callable[[float, Mapping[str, float], PublicSizes], float]
    setting: Setting


@dataclass(frozen=True, slots=True)
class FitSizes:
    """What the work of a training depends on that does not go by steps on samples.

    Args:
        settings: Of the arm.
        n_public: N, training records.
        epochs: Passes of networks over their records.
        repeats: Private runs.
        is_convex: The model is one linear layer, which is solved exactly.
        is_read: The method's own readings are taken.
    """

    settings: Settings
    n_public: int
    epochs: int
    repeats: int
    is_convex: bool
    is_read: bool


@dataclass(frozen=True, slots=True)
class FitWork:
    """How often such a training, with its readings, does what takes time.

    Args:
        steps: Steps of gradient descent.
        records: Records in these steps, each as often as it is in one.
        newton_steps: Newton steps of convex problems.
        newton_records: Records in these steps, each as often as it is in one.
        answers: Records that a finished model answers.
    """

    steps: float = 0.0
    records: float = 0.0
    newton_steps: float = 0.0
    newton_records: float = 0.0
    answers: float = 0.0


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
        side_queries: Released beside the gradient: query name -> the setting that holds its noise
            multiplier.
        relative_queries: The same with noise in proportion: query name -> the setting that holds
            its noise multiplier over the gradient's.
        gaussian: What it releases of all records at once; None: it trains by steps on samples.
        scales_by_threshold: Its gradients shrink by C/Z, so a linear model's shared step is scaled
            by Z/C.
        reads_groups: Group labels enter training (disparate treatment).
        reference: Method its cost is measured against, or None for a reference itself.
        reference_of: The method whose reference this is and whose settings it takes, or None.
        settings_of: The method whose settings an ablation takes, or None.
        control_of: The method of which this one is a control: it takes that method's settings and
            reads a series of its run at the same seed; or None.
        source_series: Name of the series that is read of the run of ``control_of``.
        method_set: Of an ablation's methods, which take another method apart without noise and
            guarantee: the one name by which ``--method`` asks for all of them. ``all`` leaves them
            out. "" for other methods.
        fit_work: Of a method that does not train by steps on samples: what a training does, so that
            its time is foreseen; None: not known.
        readings: ``module:function`` that reads a finished training for the report, or "".
        meanings: What each of these readings is, by name, with its unit.
        columns: What the values of a reading are called, where they are not one of each group.
        unprotected: What its guarantee leaves out beside what every guarantee does.
        part: Name of the part of its cost that remains without noise, one of
            ``metrics.registry.PARTS``. For a method that trains by steps, what the length of the
            steps costs is a part of its own and not in this one.
        part_words: That part in words, for sentences.
        variants: Published forms.
        is_normalised: Its gradients are all as long as the clipping bound, so that another bound is
            another step and nothing else.
        gap_on_sample: Of a private method that trains by steps: the gap of privacy cost between the
            groups of the sample at clipping bound 1, F less M in points of accuracy, with the ends
            of its 95 % interval; None: not measured.
        remark: What a reader of its name must know of it, in a sentence; "" for nothing.
        remark_at: What a reader of an arm must know beside it, from the arm's settings; "" for
            nothing.
        capability: Name of the capability that runs the code, where options name the code that
            trains; "" for the methods of this program and of plugins.

    Example:
        >>> from fairaudit import extend
        >>> spec = extend.MethodSpec(
        ...     name="plain",
        ...     summary="clip to C, add noise",
        ...     source="an example",
        ...     guarantee=extend.Guarantee.ESTABLISHED,
        ...     trainer="fairaudit.methods.dpsgd:DpSgd",
        ...     settings=extend.FLAT,
        ... )
        >>> event = spec.events({"noise_multiplier": 1.5}, steps_per_epoch=20, epochs=10)
        >>> event.steps, event.releases[0].name
        (200, 'gradient')
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
    method_set: str = ""
    fit_work: Callable[[FitSizes], FitWork] | None = None
    readings: str = ""
    meanings: Mapping[str, str] = field(default_factory=dict)
    unprotected: tuple[str, ...] = ()
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part: str = "clipping"
    part_words: str = "clipping"
    variants: tuple[Variant, ...] = ()
    is_normalised: bool = False
    gap_on_sample: tuple[float, float, float] | None = None
    remark: str = ""
    remark_at: Callable[[Settings], str] = lambda settings: ""
    capability: str = ""

    def with_variants(self, more: tuple[Variant, ...]) -> "MethodSpec":
        """A copy of the method that has these published forms beside its own."""
        return replace(self, variants=self.variants + more)

    @property
    def search(self) -> dict[str, Search]:
        """Where tuning looks, by the setting's name; settings that it leaves alone are absent.

        A method that trains by steps has a range of ``epochs``, too, which is no setting.
        """
        places = {}
        for name, setting in self.settings.items():
            if setting.search is not None:
                places[name] = setting.search
        if self.trains_by_steps:
            places["epochs"] = EPOCHS_SEARCH
        return places

    @property
    def is_private(self) -> bool:
        """Whether the default form claims a proof of its epsilon; a third-party method may, too."""
        return self.guarantee is Guarantee.ESTABLISHED

    @property
    def settings_method(self) -> str | None:
        """Name of the method whose settings this ablation, control or reference takes, or None."""
        return self.settings_of or self.control_of or self.reference_of

    @property
    def trains_by_steps(self) -> bool:
        """Whether it trains through the engine's loop of gradient steps, on Poisson samples.

        Those with a release about all records at once do not, nor their references, nor code that
        options name.
        """
        return self.gaussian is None and self.reference_of is None and not self.capability

    @property
    def all_needs(self) -> tuple[Need, ...]:
        """``needs``, preceded by group labels where the method reads them."""
        if self.reads_groups:
            return (Need.GROUP_LABELS, *self.needs)
        return self.needs

    @property
    def known_settings(self) -> dict[str, Setting]:
        """Every setting that a user may give for the method, by name.

        Those of the method, of its variants, and those that a conversion turns into one of them.
        """
        known = dict(self.settings)
        for variant in self.variants:
            known |= variant.settings
        for name, conversion in self.conversions.items():
            known[name] = conversion.setting
        return known

    @property
    def mechanism(self) -> SampledMechanism | GaussianMechanism:
        """How settings turn into a privacy event, and a target epsilon into a noise multiplier."""
        if self.gaussian is not None:
            return self.gaussian
        return SampledMechanism(self.side_queries, self.relative_queries)

    def without_noise(self, settings: Mapping[str, float]) -> dict[str, float] | None:
        """The settings of the arm's noise-free twin: noise multiplier 0 of gradient and queries.

        Returns:
            None where no such twin is trained: there is no noise to take away, or the method does
            not train by steps, so that its reference is that twin already.
        """
        if not self.trains_by_steps or settings.get("noise_multiplier", 0.0) <= 0:
            return None
        # Relative queries need no entry: their noise is a multiple of the gradient's.
        multipliers = "noise_multiplier", *self.side_queries.values()
        return {**settings, **dict.fromkeys(multipliers, 0.0)}

    def events(
        self, settings: Mapping[str, float], steps_per_epoch: int, epochs: int
    ) -> PrivacyEvent | None:
        """The privacy event of one run; it needs no data, so epsilon is known before training.

        Returns:
            None for a method without a guarantee, or at noise multiplier 0.
        """
        if not self.is_private or settings["noise_multiplier"] <= 0:
            return None
        return self.mechanism.event(settings, steps_per_epoch, epochs)

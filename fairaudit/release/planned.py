"""A stored report -> what is trained for release, or why it is not."""

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.model_names import is_factory
from fairaudit.config.options import OF_OTHER_CODE, AuditConfig
from fairaudit.data.codebook import Codebook, KnownGroups, read_by
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.inputs.student_pool import known_by, pool_digest, read_public
from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.execution.model_check import examine
from fairaudit.messages.names import listed, quoted
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.spec import Guarantee, Need
from fairaudit.planning.arms import Arm, arm_of
from fairaudit.planning.chosen import unmet
from fairaudit.planning.draft import ArmDraft, refuse_noisy_counts
from fairaudit.planning.search import CandidateSearch
from fairaudit.planning.settings import SettingsResolver
from fairaudit.privacy.accounting import MOST_STEPS
from fairaudit.release.checks import refuse_unfit
from fairaudit.report.load import parsed, report_bytes, report_file
from fairaudit.report.model import Report
from fairaudit.report.reproduce import stored_options
from fairaudit.report.types.facts import ArmFacts, TrainingFacts

OTHER_DATA = "--despite-change"  # trains on other data than the audited ones
FITTED = "--accept-fitted-preprocessing"  # accepts what is an exact function of training rows
# Fields of an arm's privacy that follow from its numbers and must be what the report says.
_GUARANTEED = {"guarantee", "event", "epsilon", "delta", "base_epsilon"}


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """The options of ``fairaudit train``.

    Args:
        report: Path of the audit's report.
        method: Name of the audited method to train.
        variant: Name of a published form of it; None: the method itself.
        epsilon: Target of the arm to train; None where only one was audited.
        data: Where the data lie now; None: where they lay for the audit.
        model: ``module:factory`` of the user's own model: its code is run, so the user names it and
            the report does not. None: a built-in model.
        set_aside: Options by which one trains though a check refuses: those of ``CHECKS``, and two
            that the data decide, ``OTHER_DATA`` and ``FITTED``.
        out: Where the model shall be: columns too large for memory take space on that disk
            meanwhile. None: the audit's output folder.
        device: Where to compute, ``auto``, ``cpu`` or ``cuda``; noise is drawn on the CPU all the
            same.
    """

    report: Path
    method: str
    variant: str | None = None
    epsilon: float | None = None
    data: Path | None = None
    model: str | None = None
    set_aside: tuple[str, ...] = ()
    out: Path | None = None
    device: str = "auto"


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What is trained, on what, and on which audit's word.

    Args:
        config: Options of the audit that say how data are read and models are made.
        dataset: The data.
        arm: The audited arm, with its numbers and guarantee.
        training: How long it trains, and at which delta.
        report: The audit's.
        report_sha256: Digest of the report's file.
        overrides: Options, as ``--despite-gates``, without which this would have been refused.
        pool_sha256: Digest of ``--public-data``; None where the method does not learn from it.
    """

    config: AuditConfig
    dataset: Dataset
    arm: Arm
    training: TrainingFacts
    report: Report
    report_sha256: str
    overrides: tuple[str, ...] = ()
    pool_sha256: str | None = None

    @property
    def by_pool(self) -> bool:
        """Whether inputs are encoded by what a student pool shows, and not by training rows."""
        return Need.PUBLIC_POOL in find(self.arm.method).needs

    @property
    def fits_on_own_records(self) -> bool:
        """Whether scales and levels may be learned from the table's own records, without privacy.

        A method without a student pool learns them from training rows; one with a pool, from that.
        """
        return not self.by_pool or self.has_own_pool

    @property
    def has_own_pool(self) -> bool:
        """Whether the method's student pool is drawn from the table: half of its test rows or more.

        Epsilon does not cover them. With ``--public-data`` the pool is that file.
        """
        return self.by_pool and self.config.public_data is None


def plan_release(request: ReleaseRequest) -> ReleasePlan:
    """Read report and data, and say what the one training is, or refuse.

    Raises:
        DataError, ConfigError: The report or the data cannot be used; the data changed; this
            version computes another guarantee.
        PrivacyError: No guarantee is established, or something would be fitted without privacy.
        GateFailed, Undecided: A rule of the report does not pass.
        TrainingError: A layer of the user's own model cannot be private.
    """
    content = report_bytes(request.report)
    name = report_file(request.report).name
    report = parsed(content, name=name)
    if report.training is None:
        raise ConfigError(
            f"{name} is of given predictions: nothing was trained", hint="audit first"
        )
    audited = _audited(report, request)
    overrides = refuse_unfit(audited, report, request.set_aside)
    config = _config(report, audited, request)
    refuse_other_factory(config.model, request.model)
    pool = None  # sha256 of --public-data, if one is given and the method learns from it
    if Need.PUBLIC_POOL in find(audited.method).needs:
        pool = pool_digest(config)
    dataset = read_by(codebook_of(report, config, by_public=pool is not None), config)
    if _is_other_data(report, request, dataset, pool):
        overrides.append(OTHER_DATA)
    plan = ReleasePlan(
        config,
        dataset,
        _arm(audited, report, config, dataset),
        report.training,
        report,
        hashlib.sha256(content).hexdigest(),
        pool_sha256=pool,
    )
    overrides += _overridden_fitting(plan, request)
    return replace(plan, overrides=tuple(overrides))


def _overridden_fitting(plan: ReleasePlan, request: ReleaseRequest) -> list[str]:
    """The option by which scales and levels may be learned from the table's own records.

    [] where nothing is learned of these records: declared columns have theirs declared, images are
    scaled by constants, and rows of ``--public-data`` are not the table's.

    Raises:
        PrivacyError: Some would be learned from them, and the request does not accept it.
    """
    dataset = plan.dataset
    fitted = set(dataset.features.column_names) - set(dataset.declared)
    if not fitted or dataset.image_shape is not None or not plan.fits_on_own_records:
        return []
    if FITTED not in request.set_aside:
        raise PrivacyError(
            f"{len(fitted)} of {dataset.features.num_columns} columns are not declared: their "
            "scales and levels would be exact functions of the rows, outside of epsilon",
            hint="audit with --columns (`fairaudit init --columns` writes a file to start "
            "from), or --accept-fitted-preprocessing, which the card says",
        )
    return [FITTED]


def codebook_of(report: Report, config: AuditConfig, *, by_public: bool) -> Codebook:
    """What the audit found its data to be, which is taken as publicly known of the rows.

    Args:
        report: Of the audit.
        config: The options of the training.
        by_public: Whether inputs are encoded by the rows of ``--public-data``: what an undeclared
            column is, then follows from these rows and not from those that were audited.

    Raises:
        DataError: As of :func:`read_public`; the public rows lack a feature.
    """
    data = report.data
    # None: a column of numbers; (): of categories, whatever texts they have.
    features: dict[str, tuple[str, ...] | None] = {
        name: () if name in data.categorical else None for name in data.features
    }
    if by_public and data.images is None:
        known = known_by(read_public(config, data.features))
        features = {name: known[name] for name in data.features}
    shape = None
    if data.images is not None:
        shape = data.images.height, data.images.width, data.images.channels
    groupings = []
    for facts in data.groupings:
        names = tuple(group.name for group in facts.groups)
        # Number of the group of rows without a value, of which there is at most one.
        missing = [k for k, group in enumerate(facts.groups) if group.is_missing]
        groupings.append(KnownGroups(facts.name, names, missing[0] if missing else None))
    return Codebook(
        label=data.label.column,
        classes=tuple(each.name for each in data.label.classes),
        positive=data.label.positive,
        favourable=data.label.favourable,
        groupings=tuple(groupings),
        features=features,
        shape=shape,
    )


def refuse_other_factory(model: str, named: str | None) -> None:
    """Refuse to run a model's code that only a file names: the user must name the same.

    Args:
        model: What the file names: a built-in model, or ``module:factory``.
        named: What the user names by ``--model``; None: nothing, which a built-in model needs not.

    Raises:
        ConfigError: The two names differ, or the user does not name a factory.
    """
    if named is None and is_factory(model):
        raise ConfigError(
            f"the model is of {quoted(model)}, code that a file alone may not run",
            hint=f"if you trust it: --model {model}, in Python model={model!r}",
        )
    if named is not None and named != model:
        raise ConfigError(f"the model is of {quoted(model)}, not of {quoted(named)}")


def _is_other_data(
    report: Report, request: ReleaseRequest, dataset: Dataset, pool: str | None
) -> bool:
    """Whether the data are other than the audited ones, which the request must allow.

    Args:
        report: Of the audit.
        request: Whether other data are allowed.
        dataset: The data now.
        pool: sha256 of ``--public-data`` now; None where the method does not learn from it.

    Raises:
        ConfigError: The data are others, and the request does not allow them.
    """
    assert report.training is not None
    # Name of a file, its sha256 now, and in the report.
    read = [(dataset.name, dataset.digest, report.data.sha256)]
    if pool is not None:
        read.append(("--public-data", pool, report.training.public_data or "none"))
    changed = [file for file in read if file[1] != file[2]]
    if not changed:
        return False
    if OTHER_DATA not in request.set_aside:
        name, now, then = changed[0]
        raise ConfigError(
            f"{name} is not what was audited: sha256 {now[:8]}…, in the report {then[:8]}…",
            hint="audit it, or train on it all the same with --despite-change, which the "
            "evidence says",
        )
    return True


def _audited(report: Report, request: ReleaseRequest) -> ArmFacts:
    """The one arm of the report that has the requested method, variant and epsilon.

    Raises:
        ConfigError: None has, or several.
        PrivacyError: The method is a trainer of the user's own.
    """
    matching, known = [], []
    for arm in report.arms:
        is_claimed = arm.privacy.guarantee is Guarantee.CLAIMED
        if is_claimed and arm.method == request.method:
            raise PrivacyError(
                f"{arm.method} is trained by {arm.trainer}: that model is yours to release, and "
                "its epsilon is your own claim",
                hint="call your own code, with noise from the operating system, or train a method "
                "of fairaudit",
            )
        if "#" in arm.key or arm.method != find(request.method).name:  # "#": a self-check
            continue
        known.append(arm.key)
        is_wanted = request.epsilon in (None, arm.privacy.target_epsilon)  # None: not asked for
        if is_wanted and arm.variant == request.variant:
            matching.append(arm)
    if len(matching) == 1:
        return matching[0]
    hint = f"audited: {', '.join(known or [arm.key for arm in report.arms])}"
    if matching:
        raise ConfigError(f"several epsilons of {request.method} were audited", hint=hint)
    raise ConfigError(
        f"{request.method} was not audited, or not in this form and at this epsilon", hint=hint
    )


def _config(report: Report, arm: ArmFacts, request: ReleaseRequest) -> AuditConfig:
    """The options to train one arm: the audit's, with the report's numbers and the request's paths.

    Raises:
        ConfigError: A DataFrame was audited and no file is named; an option is not of this
            version.
    """
    values: dict[str, object] = {name: option.value for name, option in report.config.items()}
    # Options that are not about this training: back to their defaults.
    others = ["leakage", "leakage_seeds", "again", "self_check", "preset", "variant"]
    # What settings and noise follow from; the report has the numbers themselves.
    others += ["settings", "epsilon"]
    for name in [*others, *(option.field for option in OF_OTHER_CODE)]:
        values[name] = AuditConfig.model_fields[name].get_default()
    values["method"] = (arm.method,)
    values["device"] = request.device
    if request.out is not None:
        values["out"] = request.out
    if request.data is not None:
        values["data"] = request.data
    config = stored_options(values)
    # The label too, as the audit may have inferred it.
    return config.model_copy(update={"label": report.data.label.column})


@dataclass(frozen=True, slots=True)
class StoredDraft(ArmDraft):
    """An arm whose numbers stand in a report, its noise included, and so does what was searched.

    Args:
        report: Of the audit.
        audited: The arm in it.
    """

    report: Report
    audited: ArmFacts

    def search(self, target: float | None) -> CandidateSearch | None:
        """The search that the report holds, whatever the target; None where it holds none.

        Raises:
            ConfigError: This version does not make that search.
        """
        for capability in CAPABILITIES:
            search = capability.reported_search(self, self.report, self.audited.key)
            if search is not None:
                return search
        return None

    def settings(self, target: float | None) -> dict[str, float]:
        """The stored numbers, whatever the target; of a search its default setting.

        Raises:
            ConfigError: A number is missing, out of its range, or none of the method's.
            PrivacyError: A threshold would follow noise alone.
        """
        stored = self.audited.settings
        of_form = self.variant.settings if self.variant else {}
        if stored.keys() != {*self.spec.settings, *of_form}:
            raise ConfigError(
                f"the report has {listed(sorted(stored)) or 'no numbers'} of "
                f"{self.spec.name}, which has {listed(sorted({*self.spec.settings, *of_form}))}",
                hint="run the audit again",
            )
        settings = {
            name: self.resolver.checked(self.spec, name, value) for name, value in stored.items()
        }
        refuse_noisy_counts(self.spec, settings, self.schedule)
        return settings


def _refuse_impossible(training: TrainingFacts) -> None:
    """Refuse a schedule or a delta that no audit has, before epsilon is computed of it.

    Raises:
        ConfigError: No step or too many, or a delta that is no probability.
    """
    counts = training.steps_per_epoch, training.epochs
    if min(counts) < 1 or math.prod(counts) > MOST_STEPS or not 0.0 < training.delta < 1.0:
        raise ConfigError(
            "the report has a number of steps or a delta that no audit has",
            hint="run the audit again",
        )


def _arm(audited: ArmFacts, report: Report, config: AuditConfig, dataset: Dataset) -> Arm:
    """The audited arm, once what its stored numbers guarantee is what the report promises.

    The event follows from the numbers and the stored schedule, epsilon from the event; of a search
    from the stored noise of all that is tried and of scores. So a report that was edited, or that
    another version made, promises nothing here. No value of the data changes the guarantee; a model
    of the user's own is made for their records, as in the audit.

    Args:
        audited: The arm in the report.
        report: Of the audit.
        config: The options to train this arm, as of :func:`_config`.
        dataset: The data now; public sizes follow from it.

    Raises:
        ConfigError: The arm's guarantee is not that of the report, a number lies out of its range,
            the schedule or delta is none of an audit, this version does not make its search, or the
            user's own model changed since the audit.
        TrainingError: A layer of the user's own model cannot be private.
    """
    training, has_own_code = report.training, False
    assert training is not None
    _refuse_impossible(training)
    if is_factory(config.model):
        facts = examine(config, share_inputs(dataset, config))
        if facts.digest != training.own_model:
            raise ConfigError(
                f"the model of {config.model} is not what was audited: its code, its layers or the "
                "values that it starts from changed",
                hint="audit it, or put back the code that was audited",
            )
        # Layers that the engine's table lacks: gradients come from running the user's own code.
        has_own_code = bool(facts.why_not_in_table)
    sizes = PublicSizes(
        n_public=training.n_public,
        columns=max(1, dataset.n_raw_inputs),
        model=training.model,
        groups=len(dataset.groupings[0].names),
        classes=len(dataset.classes),
        pool=training.student_pool,
    )
    spec = find(audited.method)
    lacking = unmet(spec, sizes)
    if lacking is not None:
        raise ConfigError(f"{spec.name} {lacking.reason}", hint=lacking.remedy)
    variant = next((form for form in spec.variants if form.name == audited.variant), None)
    numbers = SettingsResolver(config, sizes)
    draft = StoredDraft(spec, variant, numbers, training, training.delta, report, audited)
    arm = arm_of(draft, audited.privacy.target_epsilon, own_module=has_own_code)
    computed, promised = (
        one.privacy.model_dump(mode="json", include=_GUARANTEED) for one in (arm, audited)
    )
    if computed != promised:
        raise ConfigError(
            f"this version computes another guarantee of {audited.key}: "
            f"{arm.privacy.guarantee.value}, epsilon {arm.privacy.headline}; audited: "
            f"{audited.privacy.guarantee.value}, epsilon {audited.privacy.headline}",
            hint="audit again with this version and these data",
        )
    # Made by itself the arm is no part of a sweep, so its own key would lack the epsilon.
    return arm.model_copy(update={"key": audited.key})

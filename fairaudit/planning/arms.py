"""The arms of an audit: which numbers each trains with, and what it guarantees.

Both are known before any training. A *reference* is a method without privacy that others are
measured against. A *form* of a method is its default, or one of its variants (published forms that
are kept for reproduction). A *target* is the epsilon that an arm's noise is calibrated to.
"""

import math
from collections.abc import Mapping, Sequence

from pydantic import ConfigDict

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, numbered
from fairaudit.methods.catalog import (
    REFERENCE,
    Guarantee,
    MethodSpec,
    Variant,
    admit,
    admit_own,
    find,
)
from fairaudit.planning.chosen import chosen_methods
from fairaudit.planning.draft import ArmDraft
from fairaudit.planning.guarantees import not_covered, of_one_training
from fairaudit.planning.search import CandidateSearch
from fairaudit.planning.settings import SettingsResolver, check_settings
from fairaudit.privacy.accounting import refuse_many_steps
from fairaudit.privacy.selection import SelectionEvent
from fairaudit.report.types.facts import ArmPlan, ArmPrivacy, Schedule

SELF_CHECK = "self-check"  # follows "#" in the key of an arm that checks another one


class Arm(ArmPlan):
    """One trained configuration of the audit, with what only its training needs to know.

    Args:
        search: How its settings are sought at each seed; None: ``settings`` are fixed.
        other_references: Keys of the arms that its cost is measured against, too.
        supports_no_noise: It is trained by code of the user's own that says of itself that it can
            train without its noise.
    """

    search: CandidateSearch | None = None
    other_references: tuple[str, ...] = ()
    supports_no_noise: bool = False

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def trials(self) -> int:
        """Trainings at each seed: the candidates of a search, else 1."""
        return 1 if self.search is None else self.search.trials

    @property
    def charge(self) -> SelectionEvent | None:
        """What a charged search releases; ``privacy.event`` is then one training of it.

        None: there is no search, or it is not charged.
        """
        if self.search is None or self.privacy.base_epsilon is None:
            return None
        return self.search.charge

    @property
    def has_noisy_steps(self) -> bool:
        """Whether it trains by steps, with noise in each (a noise multiplier above 0)."""
        return find(self.method).without_noise(self.settings) is not None

    @property
    def has_twins(self) -> bool:
        """Whether twins of it can be trained, which split its cost into parts.

        The engine trains them of arms that are measured against plain SGD; code of the user's own
        only if it says that it can.
        """
        if self.supports_no_noise:
            return "#" not in self.key  # a self-check's difference is not split
        return self.reference == REFERENCE and self.has_noisy_steps


def make_schedule(resolver: SettingsResolver) -> Schedule:
    """The steps and epochs of every arm, from the options or else by rule.

    Raises:
        ConfigError: A batch larger than the training split.
    """
    config, sizes = resolver.config, resolver.sizes
    batch = config.batch_size or int(resolver.by_rule("batch_size"))
    if batch > sizes.n_public:
        raise ConfigError(
            f"batch size {batch:,} is larger than the "
            f"{numbered(sizes.n_public, 'training record')}",
            hint=f"use --batch-size {sizes.n_public} or less",
        )
    return Schedule(
        n_public=sizes.n_public,
        steps_per_epoch=math.ceil(sizes.n_public / batch),
        epochs=config.epochs or int(resolver.by_rule("epochs")),
    )


def make_arms(
    resolver: SettingsResolver, schedule: Schedule, delta: float, *, own_module: bool = False
) -> tuple[Arm, ...]:
    """All arms of the audit: references, then each method in each asked form at each target.

    Self-checks and arms of the user's own code are among them.

    Args:
        resolver: The options, and the rules for what they leave open.
        schedule, delta: Shared by all arms.
        own_module: The model has layers that the engine's layer table lacks; its guarantee then
            depends on the user's own code.

    Raises:
        ConfigError: Unknown method, variant or setting; more steps than can be accounted for.
        PrivacyError: A target that cannot be met; a count noise too large for the batch.
    """
    config = resolver.config
    refuse_many_steps(schedule.steps_per_epoch, schedule.epochs)
    # From here on the catalog of this process has the methods that options name.
    admit(config.method)
    admit_own(config)
    check_settings(resolver)
    for capability in CAPABILITIES:
        capability.refuse(config)
    chosen = chosen_methods(resolver)
    # Names of references, each once, in the order in which methods ask for them. Plain SGD comes
    # first, so that its arm is ``arms[0]``.
    references = dict.fromkeys([REFERENCE, *(spec.reference for spec in chosen if spec.reference)])

    def arm(spec: MethodSpec, form: Variant | None, target: float | None) -> Arm:
        """The arm of a method in one form at one target."""
        draft = ArmDraft(spec, form, resolver, schedule, delta)
        return arm_of(draft, target, own_module=own_module)

    arms = [arm(find(name), None, None) for name in references]
    targets: tuple[float | None, ...] = (None,)  # the noise is given
    if config.noise_multiplier is None:
        targets = tuple(dict.fromkeys(config.epsilon))  # one arm for an epsilon given twice
    if not targets:
        raise ConfigError(
            "no target epsilon is given", hint="use --epsilon 3, or --noise-multiplier SIGMA"
        )
    for target in targets:
        for spec in chosen:
            if spec.method_set and target != targets[0]:
                continue  # a method of a set has no epsilon: one arm of it serves all targets
            default = arm(spec, None, target)
            forms = [form for form in spec.variants if form.name in config.variant]
            arms += [default, *(arm(spec, form, target) for form in forms)]
            if config.self_check and not spec.control_of and not spec.method_set:
                arms.append(self_check(default))
    for capability in CAPABILITIES:
        arms += capability.arms(config, targets, arms[0])
    return _with_origin_of_step(arms, config)


def _with_origin_of_step(arms: Sequence[Arm], config: AuditConfig) -> tuple[Arm, ...]:
    """The arms, of which each says whether its step size is that of the default rule.

    A control takes the step size of the arm whose run it reads, so that arm decides for it.
    """
    by_key = {arm.key: arm for arm in arms}
    marked = []
    for arm in arms:
        origin = arm if arm.source is None else by_key[arm.source]  # whose step size the arm has
        given = config.settings.get(origin.method, {})
        is_given = config.learning_rate is not None or "learning_rate" in given
        is_by_rule = origin.has_noisy_steps and not is_given
        marked.append(arm.model_copy(update={"step_by_rule": is_by_rule}))
    return tuple(marked)


def arm_of(draft: ArmDraft, target: float | None, *, own_module: bool) -> Arm:
    """The arm of a method in one form at one target.

    Args:
        draft: The method, its form and the audit's options.
        target: Epsilon that the noise must meet; None: the noise is given, or there is none.
        own_module: As of :func:`make_arms`.

    Raises: as :meth:`ArmDraft.search` and :meth:`ArmDraft.settings`.
    """
    spec, variant, config = draft.spec, draft.variant, draft.resolver.config
    form = variant.name if variant else None
    # The target is part of the key where there are several. A method of a set has no target.
    suffix = ""
    if target is not None and len(config.epsilon) > 1 and not spec.method_set:
        suffix = f"@{target:g}"
    if spec.gaussian and target is None and config.epsilon:
        # There is no target where --noise-multiplier is given, which is about gradients; this
        # method adds noise to something else, so it takes the audit's first epsilon.
        target = config.epsilon[0]
    if "noise_multiplier" in draft.resolver.given(spec):
        target = None  # noise that --settings gives this method replaces the audit's target
    search = draft.search(target)
    settings = draft.settings(target) if search is None else dict(search.settings)
    source = f"{spec.control_of}{suffix}" if spec.control_of else None
    privacy = _privacy_of(draft, settings, target, search, own_module=own_module)
    if privacy.epsilon is not None:
        items = tuple(not_covered(spec, config, source, search, own_module=own_module))
        privacy = privacy.model_copy(update={"not_covered": items})
    return Arm(
        key=f"{spec.name}{':' + form if form else ''}{suffix}",
        method=spec.name,
        variant=form,
        settings=settings,
        privacy=privacy,
        reference=spec.reference,
        source=source,
        reads_groups=spec.reads_groups or (variant is not None and variant.reads_groups),
        trainer=variant.trainer if variant else spec.trainer,
        repeats=config.repeats if spec.reference else 1,  # a reference is trained once
        shares_samples=spec.trains_by_steps,
        search=search,
        # Where its reference is another method, it is measured against plain SGD as well.
        other_references=() if spec.reference in (None, REFERENCE) else (REFERENCE,),
    )


def _privacy_of(
    draft: ArmDraft,
    settings: Mapping[str, float],
    target: float | None,
    search: CandidateSearch | None,
    *,
    own_module: bool,
) -> ArmPrivacy:
    """The guarantee of an arm; what its epsilon leaves out is not in it yet.

    Args:
        draft: The method, its form and the audit's options.
        settings: The arm's numbers by name, its noise included.
        target: Epsilon that the noise was calibrated to; None: the noise is given.
        search: For its settings, which the guarantee includes; None: they are fixed.
        own_module: As of :func:`make_arms`.
    """
    variant = draft.variant
    if variant and variant.guarantee is not Guarantee.ESTABLISHED:
        return ArmPrivacy(
            guarantee=Guarantee.NOT_ESTABLISHED, reason=variant.reason, target_epsilon=target
        )
    schedule = draft.schedule
    event = draft.spec.events(settings, schedule.steps_per_epoch, schedule.epochs)
    one = of_one_training(draft.spec, event, draft.delta, target, own_module=own_module)
    if search is None:
        return one
    return search.guarantee(one, draft.delta)


def self_check(arm: Arm) -> Arm:
    """A second arm as the given private one, measured against it: its gap must be near zero.

    It has samples and noise of its own, so it tells how far equal trainings differ by chance.
    """
    changed: dict[str, object] = {
        "key": f"{arm.key}#{SELF_CHECK}",
        "reference": arm.key,
        "other_references": (),
        "shares_samples": False,
    }
    return arm.model_copy(update=changed)

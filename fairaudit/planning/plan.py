"""Options and data to a frozen plan: which trainings, with which numbers, at which epsilon.

Capabilities may train something *beside* a plan, as a plan of its own: a *way* (an ordinary audit
of the same arms at default settings, beside a search), or a *study* (trainings of their own making,
as those for membership attacks). Neither changes the plan's own jobs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from fairaudit.capabilities.installed import CAPABILITIES, capability
from fairaudit.config.model_names import (
    UNENCODED,
    ModelFacts,
    known_facts,
    refuse_large,
    resolve_model,
)
from fairaudit.config.option_words import refuse_alone
from fairaudit.config.options import AuditConfig, Effect, marked
from fairaudit.data.dataset import Dataset
from fairaudit.data.inputs.split import training_size
from fairaudit.data.inputs.student_pool import pool_digest, pool_size
from fairaudit.diagnostics.amount import Amount
from fairaudit.errors import ConfigError
from fairaudit.io.code_digest import code_digest
from fairaudit.messages.base import Message
from fairaudit.messages.training import FewSeeds, MethodLeftOut, ModelCopied, UnequalEpsilon
from fairaudit.methods.catalog import REFERENCE, find
from fairaudit.methods.defaults import PublicSizes, default_delta, refuse_large_delta
from fairaudit.methods.spec import Need
from fairaudit.planning.arms import Arm, make_arms, make_schedule
from fairaudit.planning.effort import Effort, amount_read, effort
from fairaudit.planning.settings import Place, SettingsResolver, unread_settings
from fairaudit.privacy.accounting import composed_epsilon, joint
from fairaudit.privacy.events import PrivacyEvent, SampledGaussian, shown_up
from fairaudit.report.types.facts import EDGES, TrainingFacts
from fairaudit.results.estimates import key_of
from fairaudit.results.jobs import job_id

__all__ = ["Arm", "Job", "Plan", "make_plan", "narrowed"]


@dataclass(frozen=True, slots=True)
class Job:
    """One arm at one seed: the unit that is trained, stored and resumed.

    Args:
        id: Hash of everything that its result depends on, and of nothing else.
        arm: The arm's key.
        seed: Audit seed.
        repeats: Private runs trained as stacked replicates.
        source_id: Id of the job whose result it reads; None: it reads none.
        way: Name in ``Plan.side_plans`` of the plan that it belongs to; "": the plan itself.
        is_twins: It trains the arm's twins, and not the arm.
    """

    id: str
    arm: str
    seed: int
    repeats: int
    source_id: str | None = None
    way: str = ""
    is_twins: bool = False

    @property
    def name(self) -> str:
        """What messages call it: the arm's key, and what is special about this training of it."""
        if self.is_twins:
            return f"{self.arm} without noise"
        return key_of(self.arm, self.way)

    def of_twins(self, reference: "Job") -> "Job":
        """The job that trains the twins of this job's arm at the same seed.

        Args:
            reference: The job of plain SGD at this seed. Its id is part of the new job's id, since
                the steps alone are not trained where they would be the reference's.
        """
        identity = {"twins_of": self.id, "reference": reference.id}
        return replace(self, id=job_id(identity), is_twins=True)


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before training.

    Args:
        config: The options.
        digest: sha256 of the data file.
        training: What every arm shares: model, schedule, delta, and the rules that set them.
        arms: The reference first.
        jobs: Seed-major, so that a seed's encoding is reused.
        twins: Jobs of the twins that are wanted so far, which split their arms' costs into parts.
        notices: Warnings of the plan itself.
        model_facts: What is known of the model.
        copies_together: Whether a record and its copies lie on one side of each split.
        unread: Given settings that nothing trained reads, by method and setting, and why.
        study: Capability whose study this plan is (see the module); "": an ordinary audit.
        side_plans: Plans that capabilities train beside it, by name.
    """

    config: AuditConfig
    digest: str
    training: TrainingFacts
    arms: tuple[Arm, ...]
    jobs: tuple[Job, ...]
    notices: tuple[Message, ...] = ()
    model_facts: ModelFacts = UNENCODED
    copies_together: bool = False
    unread: Mapping[Place, str] = field(default_factory=dict)
    study: str = ""
    side_plans: "Mapping[str, Plan]" = field(default_factory=dict)
    twins: tuple[Job, ...] = ()

    @property
    def effort(self) -> Effort:
        """The work of one of its seeds; what is trained beside it does not count."""
        return effort(self.config, self.arms, self.training, self.model_facts, self.training.model)

    def amount_read(self, kept: int) -> Amount:
        """How much is read of the steps of a private training.

        Args:
            kept: How many checkpoints memory holds.
        """
        model = self.training.model
        return amount_read(self.config, self.training, self.model_facts, model, kept=kept)

    @property
    def every_job(self) -> tuple[Job, ...]:
        """All jobs to train, seed by seed: its own, those of twins, those of plans beside it."""
        jobs = [*self.jobs, *self.twins]
        for plan in self.side_plans.values():
            jobs += plan.jobs
        return tuple(sorted(jobs, key=lambda job: job.seed))

    @property
    def trials(self) -> int:
        """Trainings of an arm at each seed: the candidates of a search, 1 without a search."""
        return max(arm.trials for arm in self.arms)

    @property
    def trainings(self) -> int:
        """Trainings in all, ways included; twins and studies are not counted."""
        return len(self.jobs) * self.trials + sum(
            len(way.jobs) for way in self.default_plans.values()
        )

    @property
    def default_plans(self) -> "dict[str, Plan]":
        """With a search, by name: ordinary audits of the same arms at default settings."""
        return {name: plan for name, plan in self.side_plans.items() if not plan.study}

    def arm(self, key: str) -> Arm:
        """The arm of that key."""
        return next(a for a in self.arms if a.key == key)

    def splitting(self, keys: Collection[str]) -> "Plan":
        """The plan with twins for these arms as well, which split their costs into parts.

        Twins that it has stay; arms that can have none are passed over.

        Args:
            keys: Of arms.
        """
        arms = {job.arm for job in self.twins}
        arms |= {arm.key for arm in self.arms if arm.has_twins and arm.key in keys}
        references = {job.seed: job for job in self.jobs if job.arm == REFERENCE}
        twins = []
        for job in self.jobs:
            if job.arm in arms:
                twins.append(job.of_twins(references[job.seed]))
        return replace(self, twins=tuple(twins))


def narrowed(plan: Plan, looks: Mapping[str, int]) -> Plan:
    """The part of a plan that trains some of its arms at its first seeds.

    Jobs keep their ids, so that what this part trained is found when more of the plan is trained.
    Plans beside the whole are left out; twins of the arms that stay are kept.

    Args:
        plan: The whole.
        looks: Key of an arm -> how many seeds it is trained at, at most those of the plan. The arms
            that it is measured against or reads are trained at as many.
    """
    seeds = max(looks.values())
    counts: dict[str, int] = {}  # key of an arm -> seeds
    # An arm raises the counts of the arms that it needs, and so on until no count is too low.
    waiting = [(REFERENCE, seeds), *looks.items()]
    while waiting:
        key, count = waiting.pop()
        if count > counts.get(key, 0):
            counts[key] = count
            arm = plan.arm(key)
            waiting += [(needed, count) for needed in (arm.reference, arm.source) if needed]
    config = plan.config.model_copy(update={"seeds": seeds})
    arms = tuple(arm for arm in plan.arms if arm.key in counts)
    # Seeds are config.seed, config.seed + 1, ..: the difference is a job's place among them.
    jobs = tuple(job for job in plan.jobs if job.seed - config.seed < counts.get(job.arm, 0))
    # An upper bound: an arm that is trained at fewer seeds counts as if at all of them.
    released = _epsilon_of_everything(arms, seeds, plan.training.delta)
    training = {"seeds": seeds, "epsilon_if_all_released": released}
    narrow = replace(
        plan,
        config=config,
        training=plan.training.model_copy(update=training),
        arms=arms,
        jobs=jobs,
        side_plans={},
        twins=(),
    )
    return narrow.splitting({job.arm for job in plan.twins})


def make_plan(config: AuditConfig, dataset: Dataset, own_model: ModelFacts | None = None) -> Plan:
    """Decide everything that training needs, epsilon included; trains nothing.

    Args:
        config, dataset: The options and the checked data of the audit.
        own_model: What a worker found out about a user's own model; None: a model of the program.

    Raises:
        ConfigError: Unknown method, variant or setting; delta not below 1/N.
        PrivacyError: A target epsilon that cannot be met; a count noise too large for the batch.
    """
    refuse_alone(config)
    plan = plan_trainings(config, dataset, own_model)
    side_plans: dict[str, Plan] = {}
    notices = list(plan.notices)
    for one in CAPABILITIES:
        for name, side_plan in one.plan(plan, dataset, own_model).items():
            # By its name a worker finds the plan that a job belongs to.
            jobs = tuple(replace(job, way=name) for job in side_plan.jobs)
            side_plans[name] = replace(side_plan, jobs=jobs)
            notices += side_plan.notices
    # Ways are left out: they stand beside a search, of which no such epsilon is accounted.
    studies = [side_plan for side_plan in side_plans.values() if side_plan.study]
    released = plan.training.epsilon_if_all_released
    if studies:
        delta = plan.training.delta
        released = _epsilon_of_everything(plan.arms, config.seeds, delta, studies)
    training = plan.training.model_copy(update={"epsilon_if_all_released": released})
    plan = replace(plan, training=training, side_plans=side_plans, notices=tuple(notices))
    if config.twins == "always":
        return plan.splitting([arm.key for arm in plan.arms])
    return plan


def plan_trainings(
    config: AuditConfig,
    dataset: Dataset,
    own_model: ModelFacts | None = None,
    *,
    study: str = "",
    takes_part: Callable[[Arm], bool] = lambda arm: True,
) -> Plan:
    """Plan the arms and jobs of these options, without plans beside them and without twins.

    Args:
        config, dataset, own_model: As of :func:`make_plan`.
        study: Capability whose study is planned; "": an ordinary audit.
        takes_part: ``arm -> whether the plan keeps it``.

    Raises: as :func:`make_plan`.
    """
    n_public = config.n_public or training_size(dataset, config.split)
    # By all training rows, those too that a search keeps for its scores.
    delta = config.delta or default_delta(n_public)
    resolver = SettingsResolver(config, _public_sizes(config, dataset, n_public))
    sizes = resolver.sizes
    schedule = make_schedule(resolver)
    refuse_large_delta(delta, n_public)
    facts = _model_facts(config, dataset, sizes, own_model)
    arms = make_arms(resolver, schedule, delta, own_module=bool(facts.why_not_in_table))
    arms = tuple(_with_edges(arm, dataset) for arm in arms if takes_part(arm))
    if config.reads_rows and dataset.image_shape is not None:
        raise ConfigError("code of your own is given rows of a table, and these are images")
    plan = Plan(
        config=config,
        digest=dataset.digest,
        training=TrainingFacts(
            **dict(schedule),
            model=sizes.model,
            parameters=facts.parameters,
            gradients=facts.gradients,
            own_model=facts.digest,
            public_data=pool_digest(config),
            student_pool=sizes.pool,
            delta=delta,
            seeds=config.seeds,
            repeats=config.repeats,
            rules=dict(resolver.origins),  # filled while the arms were made
            epsilon_if_all_released=_epsilon_of_everything(arms, config.seeds, delta),
            accountant=f"dp-accounting {version('dp-accounting')}",
        ),
        arms=arms,
        jobs=(),  # their ids follow from all else, see below
        notices=tuple(_notices(resolver, arms, facts)),
        model_facts=facts,
        copies_together=dataset.records is not None,
        unread=unread_settings(
            resolver, [(arm.method, _numbers_used(resolver, arm)) for arm in arms]
        ),
        study=study,
    )
    return replace(plan, jobs=_jobs(plan))


def _public_sizes(config: AuditConfig, dataset: Dataset, n_public: int) -> PublicSizes:
    """The sizes that default rules may read; ``n_public``: training rows of a split."""
    fitted = n_public  # rows that train: a search keeps some of them apart for its scores
    for one in CAPABILITIES:
        fitted -= one.validation_rows(config, n_public)
    return PublicSizes(
        n_public=fitted,
        columns=max(1, dataset.n_raw_inputs),
        model=resolve_model(config.model, dataset.image_shape),
        groups=len(dataset.groupings[0].names) if dataset.groupings else 1,
        classes=len(dataset.classes),
        pool=pool_size(dataset, config),
    )


def _model_facts(
    config: AuditConfig, dataset: Dataset, sizes: PublicSizes, own_model: ModelFacts | None
) -> ModelFacts:
    """What is known of the model before training; arguments as of :func:`make_plan`.

    Raises:
        ConfigError: The model has too many parameters.
    """
    shape = dataset.image_shape or (sizes.columns,)
    refuse_large(sizes.model, shape, len(dataset.classes), config.hidden)
    if own_model is not None:
        return own_model
    return known_facts(sizes.model, dataset.image_shape, len(dataset.classes), config.hidden)


def _with_edges(arm: Arm, dataset: Dataset) -> Arm:
    """The arm with a note that its epsilon leaves out edges of groups that rows decided.

    Such edges, as quartiles, stand in the report, whichever method is trained.
    """
    edges = []
    for grouping in dataset.groupings:
        if grouping.fitted:
            edges.append(f"{EDGES} {grouping.name}, taken from the rows")
    if arm.privacy.epsilon is None or not edges:
        return arm
    items = (*arm.privacy.not_covered, *edges)
    privacy = arm.privacy.model_copy(update={"not_covered": items})
    return arm.model_copy(update={"privacy": privacy})


def _jobs(plan: Plan) -> tuple[Job, ...]:
    """The jobs of a plan: every arm at every seed.

    A job's id is a hash of all that its training depends on, so a finished training is found by it.
    """
    config = plan.config
    code = {modules: code_digest(modules) for modules in set(map(_modules, plan.arms))}
    # An option whose type has no mark (`Effect`) changes trainings as it stands. Those that only
    # plan a training enter an identity by what the plan made of them; the rest change none.
    unmarked = config.model_dump(mode="json", exclude=marked(type(config), *Effect))
    identities = {}
    for arm in plan.arms:
        identities[arm.key] = _identity_at_every_seed(plan, arm, unmarked, code[_modules(arm)])
    jobs: list[Job] = []
    for seed in range(config.seed, config.seed + config.seeds):
        ids: dict[str, str] = {}  # key of an arm -> id of its job at this seed
        for arm in plan.arms:
            source = ids.get(arm.source) if arm.source else None  # arms that read others come later
            identity = {**identities[arm.key], "seed": seed, "source": source}
            if arm.capability:
                # At the first seed the user's own code may be run twice, to see if it repeats.
                identity["is_first"] = seed == config.seed
            ids[arm.key] = job_id(identity)
            jobs.append(Job(ids[arm.key], arm.key, seed, arm.repeats, source))
    return tuple(jobs)


def _identity_at_every_seed(
    plan: Plan, arm: Arm, unmarked: Mapping[str, object], code: str
) -> dict[str, object]:
    """All that an arm's trainings depend on, beside the seed and the job whose result they read.

    It is JSON-ready and enters the hash that is a job's id. So no training that is stored is found
    any more when a name or a value changes here.

    Args:
        plan, arm: What is trained.
        unmarked: The options that enter as they stand, JSON-ready.
        code: Digest of the code that trains it.
    """
    config, training, event = plan.config, plan.training, arm.privacy.event
    identity: dict[str, object] = {
        "digest": plan.digest,
        "data": unmarked,
        "model": training.model,
        "schedule": [training.n_public, training.steps_per_epoch, training.epochs],
        "arm": arm.key,
        "trainer": arm.trainer,
        "code": code,
        "settings": dict(arm.settings),
        "event": [event.effective_noise_multiplier, training.delta] if event else None,
        "repeats": arm.repeats,
    }
    if Need.PUBLIC_POOL in find(arm.method).needs and training.public_data:
        identity["pool"] = training.public_data
    if plan.copies_together:
        identity["copies"] = "together"
    if plan.study:
        identity["study"] = plan.study
    if plan.model_facts.digest:
        identity["own_model"] = plan.model_facts.digest
    if arm.search:
        identity["search"] = arm.search.to_json()
    if arm.capability:
        identity |= capability(arm.capability).identity(config, arm, training.delta)
    return identity


def _modules(arm: Arm) -> frozenset[str]:
    """Modules of the arm's trainer and of its method's own readings.

    A digest of their code enters the ids of the arm's jobs.
    """
    objects = (arm.trainer, find(arm.method).readings)
    return frozenset(name.partition(":")[0] for name in objects if name)


def _epsilon_of_everything(
    arms: tuple[Arm, ...], seeds: int, delta: float, studies: Iterable[Plan] = ()
) -> float | None:
    """Epsilon of publishing every private model of the audit and of its studies.

    Arms of one seed whose first repeat trains on the same Poisson samples make one joint release
    per step; all other runs have samples of their own and compose. Source: docs/methods.md 2.5.

    Args:
        arms, seeds: Of the audit: what is trained at each seed, and at how many.
        delta: At which epsilon is computed.
        studies: Plans of the studies beside it.

    Returns:
        Epsilon; None without a private arm, and with a search, for which it is not accounted.
    """
    audits = [(arms, seeds)]
    for study in studies:
        audits.append((study.arms, study.config.seeds))
    runs: list[tuple[PrivacyEvent, int]] = []  # an event, and how often it happens
    for trained, n_seeds in audits:
        shared: list[SampledGaussian] = []  # of the arms that train on the same samples
        separate: list[tuple[PrivacyEvent, int]] = []
        for arm in trained:
            # A search is charged as a whole and not by steps, so several searches have no joint
            # event, though their k-th candidates train on the same samples.
            if arm.search:
                return None
            event = arm.privacy.event
            if event is None:
                continue
            if arm.shares_samples and isinstance(event, SampledGaussian):
                shared.append(event)
            # Runs with samples of their own: all repeats, less the first of an arm that shares
            # (`shares_samples` counts as 1), which is in the joint event.
            alone = (arm.repeats - arm.shares_samples) * n_seeds
            if alone:
                separate.append((event, alone))
        if shared:
            runs.append((joint(shared), n_seeds))
        runs += separate
    if not runs:
        return None
    return composed_epsilon(runs, delta)


def _notices(
    resolver: SettingsResolver, arms: tuple[Arm, ...], facts: ModelFacts
) -> Iterator[Message]:
    """Notices: a model whose gradients take long, methods left out, unequal epsilons, few seeds."""
    if facts.why_copied:
        yield ModelCopied(facts.copied, facts.why_copied)
    for name, why in resolver.omitted.items():
        yield MethodLeftOut(name, why)
    epsilons = {}
    for arm in arms:
        if arm.privacy.headline is not None:
            epsilons[arm.key] = arm.privacy.headline
    # As they are shown, rounded up: a difference that nobody sees needs no notice.
    is_unequal = len(set(map(shown_up, epsilons.values()))) > 1
    if resolver.config.noise_multiplier is not None and is_unequal:
        yield UnequalEpsilon(tuple(epsilons.items()))
    seeds = resolver.config.seeds
    # One seed is enough for a given synthetic table: as it was drawn once, seeds tell of no other
    # draw.
    if seeds < 5 and not (resolver.config.has_given_synthetic and seeds == 1):
        yield FewSeeds(seeds)


def _numbers_used(resolver: SettingsResolver, arm: Arm) -> list[str]:
    """Names of the settings of which the arm trains with the number that ``--settings`` gives.

    A default form has 0 in place of a number that means nothing for its model and bound
    (``Setting.applies``). Where another number was given for that, the arm does not use it.
    """
    spec = find(arm.method)
    given = resolver.given(spec)
    names = []
    for name, value in arm.settings.items():
        setting = spec.settings.get(name)
        may_be_replaced = not arm.variant and setting is not None and setting.applies is not None
        if may_be_replaced and given.get(name, value) != value:
            continue
        names.append(name)
    return names

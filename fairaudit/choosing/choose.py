"""A choice: plan once, look with more and more seeds at fewer and fewer arms, answer.

An arm is a method at an epsilon. A look is an audit of some arms with a number of seeds; what it
says of one arm is a test of the rules.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from fairaudit.audit import examined, get_ready, prepare
from fairaudit.choosing import words
from fairaudit.choosing.arm_outcome import (
    lacks_limit,
    left_out,
    numbers_of,
    outcome_of,
    refuse_unfit,
)
from fairaudit.choosing.choice import Choice
from fairaudit.choosing.sequence import FIRST_LOOK, SEEDS_MAX, Course, look_sizes
from fairaudit.choosing.tested import OfMethod, Status, Tested
from fairaudit.config.options import OF_OTHER_CODE
from fairaudit.config.value_sources import DEFAULT, OPTION, ResolvedConfig
from fairaudit.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_TRAINING, ConfigError
from fairaudit.execution.progress import Listener, silent
from fairaudit.execution.run_directory import RunDir, open_rundir
from fairaudit.gate.grammar import parse_rules
from fairaudit.methods.catalog import find
from fairaudit.metrics.gaps import LEAST_SEEDS
from fairaudit.planning.flow import Audit
from fairaudit.planning.plan import Arm, Plan, narrowed
from fairaudit.report.measures import COST, main_gap
from fairaudit.report.model import Report
from fairaudit.report.reproduce import FRAME, reproduce_command
from fairaudit.report.write import write_report
from fairaudit.results.estimates import interval_of

_MANY_LOOKS = 1000  # the most seeds of a look: each doubling is one look more, which costs level


@dataclass(frozen=True, slots=True)
class Candidates:
    """A choice that is decided and not yet trained.

    Args:
        prepared: The whole audit: every arm, with the seeds of the last look.
        families: Method with its variant -> its arms, the largest epsilon first.
        looks: Seeds at each look.
    """

    prepared: Audit
    families: Mapping[str, Sequence[Arm]]
    looks: tuple[int, ...]

    @property
    def course(self) -> Course:
        """A new state of the tests (``Course``) before the first look, moved on by the caller.

        It says which arms wait for which look; every method starts at its largest epsilon.
        """
        return Course(
            {name: [arm.key for arm in arms] for name, arms in self.families.items()}, self.looks
        )

    def tested(self, prepared: Audit, report: Report, key: str, level: float) -> Tested:
        """Test one arm by the report of a look, and take gap, largest cost and accuracy from it.

        Args:
            prepared: The audit, for its rules.
            report: Of the look.
            key: Of the arm.
            level: One-sided level of each test.
        """
        name, arm = self._method_and_arm(key)
        facts = next(facts for facts in report.arms if facts.key == key)
        # Comparisons stand in the order of groupings and references: the first one is by the first
        # grouping, against the method's own reference.
        first = next(c for c in report.costs if c.arm == key)
        numbers = numbers_of(prepared.rules, report, key, level)
        gap = main_gap(first)
        # The group that pays most: how much, as an estimate, and its name.
        most, cost, cost_group = -math.inf, None, ""
        for group in first.by_group:
            estimate = group.estimates.get(COST)
            # A group with a note is not judged, mostly as it is too small.
            if first.note_on(group) or estimate is None or estimate.value is None:
                continue
            if estimate.value > most:
                most, cost, cost_group = estimate.value, estimate, group.group
        return Tested(
            method=name,
            arm=key,
            target_epsilon=_target(arm),
            epsilon=arm.privacy.headline,
            look=self.looks.index(facts.seeds_planned) + 1,  # no two looks have equally many seeds
            seeds=facts.seeds_planned,
            outcome=outcome_of(numbers),
            numbers=numbers,
            left_out=left_out(prepared.rules, report, key),
            gap=interval_of(None if gap is None else gap.larger_first.signed),
            cost=interval_of(cost),
            cost_group=cost_group,
            accuracy=interval_of(first.overall.estimates.get("accuracy")),
            trainings=facts.trainings,
        )

    def _method_and_arm(self, key: str) -> tuple[str, Arm]:
        """The method with its variant, as ``families`` names it, and the arm of that key."""
        for name, arms in self.families.items():
            for arm in arms:
                if arm.key == key:
                    return name, arm
        raise KeyError(key)

    def choice(self, course: Course, tests: Sequence[Tested], failed: tuple[str, ...]) -> Choice:
        """The answer, and everything that led to it.

        Args:
            course: After the last look.
            tests: All that were made, in their order.
            failed: Trainings that ended without a model, a line for each.
        """
        last = {test.arm: test for test in tests}  # arm -> its last look, as later ones replace
        # Of each method that passed somewhere, the smallest epsilon: the last that passed.
        passing = [last[arms[-1]] for arms in course.passed.values() if arms]
        # Of these the smallest epsilon; where several methods have it, the most accurate of them.
        best = min(
            passing, key=lambda t: (t.target_epsilon, -(t.accuracy.value or 0.0)), default=None
        )
        ended_at = {test.method: test.arm for test in tests}  # method -> the last arm tested of it
        ends = [last[ended_at[name]] for name in self.families]  # the last look at each method
        status: Status = "none passes"
        if best is not None:
            status = "recommended"
        elif "undecided" in [test.outcome for test in ends]:
            status = "undecided"
        # What the answer is about: where none passes, the arm that came nearest.
        chosen = best if best is not None else min(ends, key=lambda test: test.distance)
        methods = []
        for name, arms in self.families.items():
            kept = course.passed[name]
            # The arm after the last that passed ended the method; None where all passed.
            stopped = last[arms[len(kept)].key] if len(kept) < len(arms) else None
            arm = kept[-1] if kept else None
            target = last[arm].target_epsilon if arm else None
            methods.append(
                OfMethod(method=name, arm=arm, target_epsilon=target, ended=words.ended(stopped))
            )
        conditions = words.conditions(course.level, len(self.families), self.looks, tests)
        return Choice(
            rules={rule.text: rule.words("any method") for rule in self.prepared.rules},
            level=course.level,
            looks=self.looks,
            status=status,
            arm=best.arm if best else None,
            nearest=None if best else chosen.arm,
            answer=words.answer(status, chosen),
            methods=tuple(methods),
            tests=tuple(tests),
            promise=words.PROMISE,
            conditions=tuple(conditions),
            failed=failed,
        )


def candidates(
    resolved: ResolvedConfig, *, seeds_max: int = SEEDS_MAX, listener: Listener = silent
) -> Candidates:
    """Read the table and decide which arms are candidates, with how many seeds at each look.

    Args:
        resolved: The options, with where each value comes from.
        seeds_max: Seeds of the last look.
        listener: Who watches.

    Raises:
        FairauditError: As of an audit; or a rule or method that nothing can be chosen by, or
            numbers of seeds that make no looks.
    """
    refuse_unfit(parse_rules(resolved.config.fail_on))
    first = resolved.config.seeds
    if resolved.origins["seeds"] == DEFAULT:  # not given
        first = min(FIRST_LOOK, seeds_max)
    if not LEAST_SEEDS <= first <= seeds_max <= _MANY_LOOKS:
        raise ConfigError(
            f"--seeds {first} and --seeds-max {seeds_max}: a first look needs {LEAST_SEEDS} seeds, "
            f"the last has no fewer and at most {_MANY_LOOKS:,}"
        )
    looks = look_sizes(first, seeds_max)
    _refuse_options(resolved)
    whole = replace(resolved, config=resolved.config.model_copy(update={"seeds": looks[-1]}))
    get_ready(whole.config)
    prepared = prepare(whole, listener)
    return Candidates(prepared, _allowed(_families(prepared.plan), prepared), looks)


def choose(
    pool: Candidates,
    listener: Listener = silent,
    *,
    on_look: Callable[[Tested], None] = lambda test: None,
    command: Sequence[str] = (),
) -> Report:
    """Test arms, look after look, until every method has ended; write the report of all trainings.

    The report holds the choice as one of its studies. A look is an audit of the arms that are still
    in play, with more seeds; finished trainings are kept, so a choice that was stopped goes on
    where it was, and comes to the same end.

    Args:
        pool: What :func:`candidates` decided.
        listener: Who watches the trainings.
        on_look: Called with every test as it is made.
        command: As typed, for the report.

    Raises:
        FairauditError: A training ends the run (see ``execute``); or the output directory cannot be
            used.
    """
    config = pool.prepared.resolved.config
    prepared = pool.prepared
    with open_rundir(prepared.plan) as rundir:
        course = pool.course
        tests: list[Tested] = []
        failed: dict[str, None] = {}  # lines, each once: later looks report a failed seed again
        while due := course.due():
            for seeds, keys in due.items():
                looks = dict.fromkeys(keys, seeds)
                report = _look(prepared, rundir, looks, listener, command)
                for arm in report.arms:
                    for seed in arm.failed:
                        failed[f"{arm.key}, seed {seed.seed}: {seed.message}"] = None
                for key in keys:
                    test = pool.tested(prepared, report, key, course.level)
                    tests.append(test)
                    course.enter(key, test.outcome, is_final=lacks_limit(test.numbers))
                    on_look(test)
        choice = pool.choice(course, tests, tuple(failed))
        # Once more, over every arm that was tested: the report of all that was trained.
        trained = {test.arm: test.seeds for test in tests}  # of several looks the last
        # The costs of the arm that the answer is about are split into parts.
        shown = [choice.arm or choice.nearest or ""]
        report = _look(prepared, rundir, trained, listener, command, split=shown)
        update = {
            "studies": {choice.name: choice},
            "reproduce": _reproduce(prepared.resolved, pool.looks),
        }
        formats = ("json", *config.format)  # `fairaudit train` starts from report.json
        return write_report(report.model_copy(update=update), config.out, formats)


def exit_code(choice: Choice) -> int:
    """The command's exit code: 0 where an arm is recommended.

    Where none is: 4 if a training failed, else 3, for nothing passes or it is undecided.
    """
    if choice.status == "recommended":
        return EXIT_OK
    return EXIT_TRAINING if choice.failed else EXIT_INCONCLUSIVE


def _refuse_options(resolved: ResolvedConfig) -> None:
    """Refuse options of `run` that do not go with a choice.

    Raises:
        ConfigError: Such an option was given.
    """
    config = resolved.config
    if config.noise_multiplier is not None:
        raise ConfigError(
            "--noise-multiplier fixes the noise, so there is no epsilon to choose",
            hint="use --epsilon",
        )
    if config.leakage:
        raise ConfigError(
            "choose trains no models to attack",
            hint="at the epsilon that is chosen, `fairaudit run --leakage`",
        )
    if config.again is not None:
        raise ConfigError(
            "choose trains nothing again on the same rows",
            hint="at the epsilon that is chosen, `fairaudit run --again N`",
        )
    for option in OF_OTHER_CODE:
        if resolved.origins[option.field] == OPTION:
            name = option.field.replace("_", "-")
            raise ConfigError(
                f"--{name} is for code of yours, whose epsilon is not known before it trains",
                hint="`fairaudit run` audits it",
            )
    for name, why in (("baseline", "rules about a change"), ("inconclusive", "verdicts of gates")):
        if resolved.origins[name] == OPTION:
            raise ConfigError(
                f"--{name} is for {why}; an undecided test never counts as a pass", "leave it out"
            )


def _families(plan: Plan) -> dict[str, list[Arm]]:
    """The arms that can be chosen: method with its variant -> its arms, the largest epsilon first.

    References, controls and self-checks are left out.

    Raises:
        ConfigError: A form without an established guarantee was asked for, or no candidate is left.
    """
    by_method: dict[str, list[Arm]] = {}
    private = {arm.key for arm in plan.arms if arm.reference is not None}
    for arm in plan.arms:
        name = f"{arm.method}:{arm.variant}" if arm.variant else arm.method
        is_self_check = arm.reference in private
        is_control = arm.source is not None
        if arm.key not in private or is_self_check or is_control:
            continue
        if not arm.privacy.guarantee.is_proved or arm.privacy.target_epsilon is None:
            # Methods of a set are asked for by the set's name: they are left out, not refused.
            if arm.variant is not None or not find(arm.method).method_set:
                why = arm.privacy.reason or "its noise is given, not its epsilon"
                raise ConfigError(f"{name} cannot be chosen: {why}", hint="leave it out")
            continue
        by_method.setdefault(name, []).append(arm)
    if not by_method:
        raise ConfigError("no method that could be chosen", hint="for example --method dpsgd")
    for name, arms in by_method.items():
        by_method[name] = sorted(arms, key=_target, reverse=True)
    return by_method


def _allowed(families: Mapping[str, Sequence[Arm]], prepared: Audit) -> dict[str, list[Arm]]:
    """The families without the arms that break a rule about epsilon or delta.

    Epsilon and delta are known before training, so such a rule needs no test. A method that has no
    arm left is left out.

    Args:
        families: Method with its variant -> its arms, the largest epsilon first.
        prepared: The whole audit, for its rules and delta.

    Raises:
        ConfigError: No arm is left; or there is such a rule, and a guarantee rests on a module of
            the user's own without ``--trust-module``.
    """
    rules = [rule for rule in prepared.rules if rule.metric.kind == "arm"]
    if rules and not prepared.plan.config.trust_module:
        for arm in prepared.plan.arms:
            if arm.privacy.guarantee.rests_on_module:
                raise ConfigError(
                    f"rule {rules[0].text!r}: {arm.key} is {arm.privacy.guarantee.value}",
                    hint="--trust-module if you know that it keeps nothing",
                )

    def keeps(arm: Arm) -> bool:
        """Whether the arm's guarantee passes every rule about epsilon or delta."""
        epsilon = arm.privacy.epsilon
        assert epsilon is not None, "a candidate has an established guarantee"
        spent = {"epsilon": epsilon.headline, "epsilon_rdp": epsilon.rdp}
        for rule in rules:
            # A rule about an arm that is about neither epsilon is about delta.
            value = spent.get(rule.metric.key, prepared.plan.training.delta)
            # None: the arm has no epsilon by that accountant.
            if value is None or rule.fails(value):
                return False
        return True

    groups = {}
    for name, arms in families.items():
        kept = list(filter(keeps, arms))
        if kept:
            groups[name] = kept
    if not groups:
        texts = ", ".join(repr(rule.text) for rule in rules)
        raise ConfigError(
            f"every epsilon that was asked for breaks {texts}", hint="give a smaller --epsilon"
        )
    return groups


def _target(arm: Arm) -> float:
    """The epsilon that a candidate's noise is calibrated to."""
    assert arm.privacy.target_epsilon is not None, "a candidate is calibrated"
    return arm.privacy.target_epsilon


def _look(
    prepared: Audit,
    rundir: RunDir,
    looks: Mapping[str, int],
    listener: Listener,
    command: Sequence[str],
    *,
    split: Sequence[str] = (),
) -> Report:
    """Train some arms, each at its own number of seeds, and report them as one audit.

    Args:
        prepared: The whole audit.
        rundir: Keeps finished trainings.
        looks: Key of an arm -> its seeds.
        listener: Who watches the trainings.
        command: As typed, for the report.
        split: Arms whose detected costs are split into parts, by trainings that come afterwards.
    """
    plan = narrowed(prepared.plan, looks)
    resolved = replace(
        prepared.resolved,
        config=prepared.resolved.config.model_copy(update={"seeds": plan.config.seeds}),
        origins={**prepared.resolved.origins, "seeds": "look"},  # who chose the number of seeds
    )
    return examined(
        replace(prepared, plan=plan, resolved=resolved),
        rundir,
        listener,
        command=command,
        split=split,
    )


def _reproduce(resolved: ResolvedConfig, looks: Sequence[int]) -> str:
    """The command or the Python call that makes this choice again, for the report.

    It is that of the audit, with another name and numbers of seeds: ``--seeds`` is that of the
    first look, where it was given; ``--seeds-max`` is left out where it is the default.
    """
    # Where no number of seeds was given, the audit's command leaves it out.
    config = resolved.config.model_copy(update={"seeds": looks[0]})
    command = reproduce_command(replace(resolved, config=config))
    is_python = resolved.origins["data"] == FRAME
    if is_python:
        command = command.replace("fairaudit.run_audit(", "fairaudit.choose_epsilon(", 1)
    else:
        command = command.replace("fairaudit run ", "fairaudit choose ", 1)
    if looks[-1] == SEEDS_MAX:
        return command
    if is_python:  # one argument more, before the call's closing bracket
        return f"{command[:-1]}, seeds_max={looks[-1]})"
    return f"{command} --seeds-max {looks[-1]}"

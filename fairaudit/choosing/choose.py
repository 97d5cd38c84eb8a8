"""The straight line of a choice: plan once, look with more and more seeds at fewer and fewer arms, answer."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fairaudit import __version__
from fairaudit.analysis.build_facts import attack_facts
from fairaudit.audit import PreparedAudit, examined, get_ready, opened, prepare
from fairaudit.choosing import words
from fairaudit.choosing.arm_test import is_hopeless, left_out, numbers_of, outcome_of, refuse_unfit
from fairaudit.choosing.page import put_choice_aside, write_choice
from fairaudit.choosing.result import Choice, OfMethod, RuleFacts, Status, Tested
from fairaudit.choosing.sequence import ALPHA, FIRST_LOOK, SEEDS_MAX, Course, look_sizes
from fairaudit.config.value_sources import DEFAULT, OPTION, ResolvedConfig
from fairaudit.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_TRAINING, ConfigError
from fairaudit.execution.progress import Listener, silent
from fairaudit.execution.run_directory import RunDir
from fairaudit.gate.grammar import parse_rules
from fairaudit.methods.catalog import Guarantee, find
from fairaudit.methods.spec import Need
from fairaudit.metrics.gaps import LEAST_SEEDS
from fairaudit.planning.plan import Arm, Plan, narrowed
from fairaudit.release.choice import gates_pass, undeclared
from fairaudit.report.facts import Tool
from fairaudit.report.main_gap import COST, main_gap
from fairaudit.report.model import Report
from fairaudit.report.reproduce import FRAME, reproduce_command, train_words
from fairaudit.report.write import write_report
from fairaudit.results.estimates import Comparison, interval_of
from fairaudit.results.jobs import NUMERICS_VERSION

_MANY_LOOKS = 1000  # of seeds; each doubling costs level


@dataclass(frozen=True, slots=True)
class Candidates:
    """A choice that is decided and not yet trained.

    Args:
        prepared: The whole audit: every arm, with the seeds of the last look.
        families: Method with its variant -> its arms, the largest epsilon first.
        looks: Seeds at each look.
    """

    prepared: PreparedAudit
    families: Mapping[str, Sequence[Arm]]
    looks: tuple[int, ...]

    @property
    def course(self) -> Course:
        """At its start."""
        return Course({name: [arm.key for arm in arms] for name, arms in self.families.items()}, self.looks)


def candidates(
    resolved: ResolvedConfig, *, seeds_max: int = SEEDS_MAX, listener: Listener = silent
) -> Candidates:
    """Read the table and decide which arms are candidates, with how many seeds at each look.

    Raises:
        FairauditError: As of an audit; or a rule or method that nothing can be chosen by.
    """
    refuse_unfit(parse_rules(resolved.config.fail_on))
    looks = _looks(resolved, seeds_max)
    _refuse_options(resolved)
    whole = replace(resolved, config=resolved.config.model_copy(update={"seeds": looks[-1]}))
    get_ready(whole.config)
    prepared = prepare(whole, listener)
    return Candidates(prepared, _allowed(_families(prepared.plan), prepared), looks)


def choose(
    found: Candidates,
    listener: Listener = silent,
    *,
    on_look: Callable[[Tested], None] = lambda test: None,
    command: Sequence[str] = (),
) -> Choice:
    """Look until every method has ended; the audit of the chosen arm and the choice are written.

    A look is an audit of the arms that are still in play, with more seeds; finished trainings are kept, so a
    choice that was stopped goes on where it was, and comes to the same end.

    Args:
        found: What :func:`candidates` decided.
        listener: Who watches the trainings.
        on_look: Called with every test as it is made.
        command: As typed, for the report.

    Raises:
        OutputError: The output directory cannot be used.
    """
    config = found.prepared.resolved.config
    with opened(found.prepared) as (prepared, rundir):
        put_choice_aside(config.out)
        course, tests, failed = found.course, list[Tested](), dict[str, None]()
        while due := course.due():
            for seeds, keys in due.items():
                report = _look(prepared, rundir, keys, seeds, listener, command)
                failed |= {
                    f"{arm.key}, seed {seed.seed}: {seed.message}": None
                    for arm in report.arms
                    for seed in arm.failed
                }
                for key in keys:
                    test = _tested(found, prepared, report, key, course.level)
                    tests.append(test)
                    course.enter(key, test.outcome, hopeless=is_hopeless(test.numbers))
                    on_look(test)
        choice = _choice(found, course, tests, tuple(failed))
        shown = [choice.arm] if choice.arm else [_ended_at(choice.tests, name) for name in found.families]
        report = _look(prepared, rundir, shown, choice.last(shown[0]).seeds, listener, command)
        if choice.arm:
            train = _train_command(prepared.plan.arm(choice.arm), report, prepared)
            choice = choice.model_copy(update={"train": train})
        formats = ("json", *config.format)  # `train` starts from it
        write_report(report.model_copy(update={"reproduce": choice.reproduce}), config.out, formats)
        write_choice(choice, config.out, config.format)
    return choice


def exit_code(choice: Choice) -> int:
    """0 a recommendation; 4 none, and a training failed; 3 none: nothing passes, or it is undecided."""
    if choice.status == "recommended":
        return EXIT_OK
    return EXIT_TRAINING if choice.failed else EXIT_INCONCLUSIVE


def _looks(resolved: ResolvedConfig, seeds_max: int) -> tuple[int, ...]:
    first = FIRST_LOOK if resolved.origins["seeds"] == DEFAULT else resolved.config.seeds
    if not LEAST_SEEDS <= seeds_max <= _MANY_LOOKS:
        raise ConfigError(f"--seeds-max {seeds_max} is not between {LEAST_SEEDS} and {_MANY_LOOKS:,}")
    if first < LEAST_SEEDS:
        raise ConfigError(
            f"--seeds {first}: a first look needs {LEAST_SEEDS}",
            hint=f"use --seeds {FIRST_LOOK}, or leave it out",
        )
    if first > seeds_max and resolved.origins["seeds"] != DEFAULT:
        raise ConfigError(
            f"--seeds {first} is more than --seeds-max {seeds_max}", hint="give more to the latter"
        )
    return look_sizes(first, seeds_max)


def _refuse_options(resolved: ResolvedConfig) -> None:
    """Options of `run` that would say something else here than they do there."""
    config, typed = resolved.config, {name for name, origin in resolved.origins.items() if origin == OPTION}
    if config.noise_multiplier is not None:
        raise ConfigError(
            "--noise-multiplier fixes the noise, so there is no epsilon to choose", hint="use --epsilon"
        )
    if config.leakage:
        raise ConfigError(
            "choose trains no models to attack",
            hint="at the epsilon that is chosen, `fairaudit run --leakage`",
        )
    for name, why in (("baseline", "rules about a change"), ("inconclusive", "verdicts of gates")):
        if name in typed:
            raise ConfigError(
                f"--{name} is for {why}; an undecided test never counts as a pass", "leave it out"
            )


def _families(plan: Plan) -> dict[str, list[Arm]]:
    """Each method in each form, by falling epsilon; a control and a check of the audit are no candidates.

    Raises:
        ConfigError: A form without an established guarantee was asked for, or no candidate is left.
    """
    found: dict[str, list[Arm]] = {}
    private = {arm.key for arm in plan.arms if arm.reference is not None}
    for arm in plan.arms:
        name = f"{arm.method}:{arm.variant}" if arm.variant else arm.method
        if arm.key not in private or arm.reference in private or arm.source is not None:
            continue
        if arm.privacy.guarantee is not Guarantee.ESTABLISHED or arm.privacy.target_epsilon is None:
            if arm.variant is not None or not find(arm.method).ablation:
                why = arm.privacy.reason or "its noise is given, not its epsilon"
                raise ConfigError(f"{name} cannot be chosen: {why}", hint="leave it out")
            continue
        found.setdefault(name, []).append(arm)
    if not found:
        raise ConfigError("no method that could be chosen", hint="for example --method dpsgd")
    return {
        name: sorted({a.key: a for a in arms}.values(), key=_target, reverse=True)
        for name, arms in found.items()
    }


def _allowed(families: Mapping[str, Sequence[Arm]], prepared: PreparedAudit) -> dict[str, list[Arm]]:
    """Without the arms that break a rule about epsilon or delta: that is known, so nothing is tested.

    Raises:
        ConfigError: No arm is left.
    """
    rules = [rule for rule in prepared.rules if rule.metric.kind == "arm"]

    def keeps(arm: Arm) -> bool:
        held = {"epsilon": arm.privacy.epsilon, "epsilon_rdp": arm.privacy.epsilon_rdp}
        values = [held.get(rule.metric.key, prepared.plan.delta) for rule in rules]
        return not any(value is None or rule.fails(value) for rule, value in zip(rules, values, strict=True))

    left = {name: kept for name, arms in families.items() if (kept := [arm for arm in arms if keeps(arm)])}
    if not left:
        told = ", ".join(repr(rule.text) for rule in rules)
        raise ConfigError(f"every epsilon that was asked for breaks {told}", hint="give a smaller --epsilon")
    return left


def _target(arm: Arm) -> float:
    assert arm.privacy.target_epsilon is not None, "a candidate is calibrated"
    return arm.privacy.target_epsilon


def _look(
    prepared: PreparedAudit,
    rundir: RunDir,
    keys: Sequence[str],
    seeds: int,
    listener: Listener,
    command: Sequence[str],
) -> Report:
    """One audit: of these arms, with so many seeds."""
    plan = narrowed(prepared.plan, keys, seeds)
    resolved = replace(
        prepared.resolved,
        config=prepared.resolved.config.model_copy(update={"seeds": seeds}),
        origins={**prepared.resolved.origins, "seeds": "look"},
    )
    return examined(replace(prepared, plan=plan, resolved=resolved), rundir, listener, command=command)


def _tested(found: Candidates, prepared: PreparedAudit, report: Report, key: str, level: float) -> Tested:
    """What the look says of one arm, with the figures that a reader wants beside it."""
    name, arm = next((n, a) for n, arms in found.families.items() for a in arms if a.key == key)
    facts = next(facts for facts in report.arms if facts.key == key)
    first = next(
        c for c in report.costs if c.arm == key
    )  # of the grouping that steers, against its own reference
    numbers = numbers_of(prepared.rules, report, key, level)
    gap = main_gap(first)
    costliest = _costliest(first)
    return Tested(
        method=name,
        arm=key,
        target_epsilon=_target(arm),
        epsilon=arm.privacy.epsilon,
        look=found.looks.index(facts.seeds_planned) + 1,
        seeds=facts.seeds_planned,
        level=level,
        outcome=outcome_of(numbers),
        numbers=numbers,
        left_out=left_out(prepared.rules, report, key),
        gap=interval_of(None if gap is None else gap.absolute),
        gap_between="" if gap is None else ", ".join(filter(None, (gap.a, gap.b))),
        cost=interval_of(None if costliest is None else first.by_group[costliest].estimates[COST]),
        cost_group="" if costliest is None else first.by_group[costliest].group,
        accuracy=interval_of(first.overall.estimates.get("accuracy")),
        trainings=facts.trainings,
    )


def _costliest(comparison: Comparison) -> int | None:
    """Which group loses most, among those that are large enough."""
    costs = {
        k: value
        for k, group in enumerate(comparison.by_group)
        if not comparison.note_on(group)
        and COST in group.estimates
        and (value := group.estimates[COST].value) is not None
    }
    return max(costs, key=lambda k: costs[k]) if costs else None


def _ended_at(tests: Sequence[Tested], method: str) -> str:
    """The arm at which a method ended."""
    return next(test.arm for test in reversed(tests) if test.method == method)


def _choice(found: Candidates, course: Course, tests: Sequence[Tested], failed: tuple[str, ...]) -> Choice:
    plan, resolved = found.prepared.plan, found.prepared.resolved
    last = {test.arm: test for test in tests}
    passing = [last[arms[-1]] for arms in course.passed.values() if arms]
    best = min(passing, key=lambda t: (t.target_epsilon, -(t.accuracy.value or 0.0)), default=None)
    ends = [last[_ended_at(tests, name)] for name in found.families]
    status: Status = (
        "recommended"
        if best
        else "undecided"
        if any(t.outcome == "undecided" for t in ends)
        else "none passes"
    )
    nearest = None if best else min(ends, key=_distance)
    chosen = best or nearest
    assert chosen is not None, "every method was looked at"
    rules = tuple(
        RuleFacts(rule=r.text, words=r.said_of("any method"), metric=r.metric.name, limit=r.number)
        for r in found.prepared.rules
    )
    privacy = plan.arm(chosen.arm).privacy
    event = privacy.selection or privacy.event
    assert event is not None, "an established guarantee has an event"
    return Choice(
        numerics_version=NUMERICS_VERSION,
        tool=Tool(name="fairaudit", version=__version__),
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        data=plan.config.data.name,
        sha256=plan.digest,
        rules=rules,
        delta=plan.delta,
        alpha=ALPHA,
        level=course.level,
        looks=found.looks,
        status=status,
        arm=best.arm if best else None,
        nearest=nearest.arm if nearest else None,
        answer=words.answer(status, chosen, len(found.families)),
        attack=attack_facts(event),
        methods=tuple(_of_method(name, arms, course, last) for name, arms in found.families.items()),
        tests=tuple(tests),
        promise=words.PROMISE,
        conditions=tuple(words.conditions(course.level, len(found.families), found.looks, tests, plan)),
        failed=failed,
        train="",
        reproduce=_reproduce(resolved, found.looks),
    )


def _distance(test: Tested) -> tuple[bool, float]:
    """How far an arm is from passing: an undecided one before a broken one, then in half-widths."""
    far = [
        float("inf")
        if number.bound is None or number.value is None
        else abs(number.bound - number.limit) / max(abs(number.bound - number.value), 1e-12)
        for number in test.numbers
        if number.outcome != "passes"
    ]
    return test.outcome == "breaks", max(far)


def _of_method(name: str, arms: Sequence[Arm], course: Course, last: Mapping[str, Tested]) -> OfMethod:
    kept = course.passed[name]
    best = last[kept[-1]] if kept else None
    stopped = last[arms[len(kept)].key] if len(kept) < len(arms) else None
    return OfMethod(
        method=name,
        arm=best.arm if best else None,
        target_epsilon=best.target_epsilon if best else None,
        ended=words.ended(stopped),
    )


def _train_command(arm: Arm, report: Report, prepared: PreparedAudit) -> str:
    """The command that trains an arm for release, with what it has to be told; "" for data without a file."""
    config = prepared.resolved.config
    if prepared.resolved.origins["data"] == FRAME:
        return ""
    fitted = undeclared(prepared.dataset, config, Need.PUBLIC_POOL in find(arm.method).needs)
    words = train_words(str(config.out / "report.json"), arm.method, arm.variant, _target(arm))
    words += ["--out", str(config.out / "model")]
    words += ["--accept-fitted-preprocessing"] if fitted else []
    # A gate's interval is of another form than a test's: it may leave open what the test has settled.
    words += [] if gates_pass(report) else ["--despite-gates"]
    return shlex.join(words)


def _reproduce(resolved: ResolvedConfig, looks: Sequence[int]) -> str:
    """The command of the choice; that of an audit with another name and its number of seeds."""
    seeds_are_given = resolved.origins["seeds"] != DEFAULT
    config = resolved.config.model_copy(update={"seeds": looks[0] if seeds_are_given else looks[-1]})
    told = reproduce_command(replace(resolved, config=config))
    is_own_most = looks[-1] != SEEDS_MAX
    if resolved.origins["data"] == FRAME:
        told = told.replace("fairaudit.run_audit(", "fairaudit.choose_epsilon(", 1)
        return f"{told[:-1]}, seeds_max={looks[-1]})" if is_own_most else told
    told = told.replace("fairaudit run ", "fairaudit choose ", 1)
    return f"{told} --seeds-max {looks[-1]}" if is_own_most else told

"""What is said of a released model: its guarantee, its evidence and its card. No figure of rows in them."""

import hashlib
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from fairaudit import __version__
from fairaudit.analysis.build_facts import attack_facts
from fairaudit.config.model_names import is_factory
from fairaudit.data.split import VALIDATION_SHARE
from fairaudit.errors import numbered
from fairaudit.methods.catalog import find
from fairaudit.planning.guarantees import ArmPrivacy
from fairaudit.privacy.events import PrivacyEvent, event_to_json, shown_up
from fairaudit.release.choice import ReleaseChoice, gates_pass
from fairaudit.release.model_recipe import LinearMake, NetworkMake, ReleaseRecipe
from fairaudit.report.render.markdown import literal
from fairaudit.report.safe_names import plain
from fairaudit.report.written import POINTS, spoken_rates, written
from fairaudit.tuning.search import Candidate, Tuning

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
RESULTS = {"pass": "PASSED", "inconclusive": "WARNED", "fail": "FAILED"}
_ROW = "one row of the file (features, group and label): each joins the training by a coin of its own"
_TRAINING_ROW = "one training row of the file (features, group and label), as its split column has it"
NEIGHBOURING = "add or remove one row"

_CHOSEN = "method, epsilon and settings, chosen by looking at an audit of these data"
_SEARCHED = "method, epsilon and what was searched for, chosen by looking at an audit of these data"
_ARITHMETIC = (
    "Epsilon is for real numbers. Noise is half the sum of four normals of a cryptographic key stream "
    "(Holohan and Braghin 2021), but it is added in float32 and rounded: a bound on what that still gives "
    "away is not known."
)


def privacy_statement(
    choice: ReleaseChoice, recipe: ReleaseRecipe, candidate: Candidate | None = None
) -> dict[str, JsonValue]:
    """``privacy.json``: what is guaranteed, of what, and what is not.

    Args:
        choice, recipe: What was trained, and what it became.
        candidate: What a search kept: part of what its epsilon covers.
    """
    arm, plan = choice.arm, choice.plan
    return {
        "format": 1,
        "fairaudit": __version__,
        "method": arm.key,
        "guarantee": "established",
        "epsilon": arm.privacy.epsilon,
        "accountant": "RDP" if candidate else "PLD",
        "epsilon_rdp": arm.privacy.epsilon_rdp,
        "delta": plan.delta,
        "unit": _unit(choice),
        "neighbouring": NEIGHBOURING,
        "event": _event(arm.privacy),
        "settings": dict(candidate.settings if candidate else arm.settings),
        "epochs": candidate.form.epochs if candidate else plan.schedule.epochs,
        "steps_per_epoch": plan.schedule.steps_per_epoch,
        "search": None if arm.tuning is None else _prior(arm.tuning),
        "declared": _declared(choice),
        "fitted_without_privacy": [] if choice.by_pool else list(recipe.fitted),
        "not_covered": list(not_covered(choice, recipe)),
        "randomness": "operating system; keys were never written and are gone",
        "arithmetic": _ARITHMETIC,
    }


def _unit(choice: ReleaseChoice) -> str:
    return _ROW if choice.dataset.split is None else _TRAINING_ROW


def _event(privacy: ArmPrivacy) -> JsonValue:
    """What is charged: one training, or a search among several."""
    charge = privacy.selection
    if charge is None:
        assert privacy.event is not None
        return _json(privacy.event)
    return {
        "kind": "best-of-random-tries",
        "tries": {
            "distribution": "truncated negative binomial",
            "mean": charge.selection.mean,
            "shape": charge.selection.shape,
        },
        "trainings": [_json(event) for event in charge.trainings],
        "score": _json(charge.score),
    }


def _prior(tuning: Tuning) -> JsonValue:
    """What a search draws its candidates from, and scores them on: public, whatever K was."""
    drawn: dict[str, object] = {**tuning.to_json(), "validation_share": VALIDATION_SHARE}
    return drawn  # type: ignore[return-value]


def _json(event: PrivacyEvent) -> JsonValue:
    return dict(event_to_json(event))  # type: ignore[arg-type]


def not_covered(choice: ReleaseChoice, recipe: ReleaseRecipe) -> Iterator[str]:
    """What epsilon leaves out."""
    yield from find(choice.arm.method).unprotected
    if recipe.fitted and not choice.by_pool:
        yield "preprocessing that was fitted on training rows, listed under fitted_without_privacy"
    if choice.plan.config.balance:
        yield "the sizes of the groups, by which rows were left out"
    yield "a person with several rows: epsilon is about one of them"
    if choice.plan.model_facts.outside:
        yield "what the model's own code leaves in files or other libraries"
    yield _SEARCHED if choice.arm.tuning else _CHOSEN
    yield "whether a model was trained at all: that the rules of the audit passed, or were set aside"
    yield "everything else that is made of the same rows: the audit's report, other models"


def evidence(choice: ReleaseChoice, files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """``evidence.json``: an in-toto statement that the audit of this recipe was judged by its rules.

    Args:
        choice: What was trained.
        files: Of the folder, name -> content.

    Source: https://github.com/in-toto/attestation, spec/v1 and spec/predicates/test-result.md.
    """
    report = choice.report
    subject: list[JsonValue] = [
        {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        for name, content in files.items()
    ]
    tests: dict[str, list[JsonValue]] = {outcome: [] for outcome in RESULTS}
    for gate in report.gates:
        tests[gate.outcome].append(gate.rule)
    outcome = "pass" if gates_pass(report) else "fail" if report.verdict == "fail" else "inconclusive"
    if not report.gates:
        outcome = "inconclusive"  # nothing was tested, so nothing passed
    notes: dict[str, JsonValue] = {
        "fairaudit": __version__,
        "method": choice.arm.key,
        "epsilon": choice.arm.privacy.epsilon,
        "delta": choice.plan.delta,
        "overrides": list(choice.overrides),
    }
    audited = {"sha256": report.data.sha256}
    configuration: list[JsonValue] = [
        {
            "name": "report.json",
            "digest": {"sha256": choice.report_sha256},
            "annotations": {
                "content_sha256": report.content_sha256,
                "status": report.status,
                "rules": len(report.gates),
            },
        },
        {"name": "audited data", "digest": {**audited}},
        {"name": "training data", "digest": {"sha256": choice.dataset.digest}, "annotations": notes},
    ]
    return {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": RESULTS[outcome],
            "configuration": configuration,
            "passedTests": tests["pass"],
            "warnedTests": tests["inconclusive"],
            "failedTests": tests["fail"],
        },
    }


def card(choice: ReleaseChoice, recipe: ReleaseRecipe) -> str:
    """``MODEL_CARD.md``."""
    return "\n".join(_card(choice, recipe)) + "\n"


def _declared(choice: ReleaseChoice) -> dict[str, JsonValue]:
    """What counts as publicly known; of it epsilon says nothing."""
    plan, dataset = choice.plan, choice.dataset
    grouping = dataset.groupings[0]
    return {
        "n_public": plan.schedule.n_public,
        "delta": plan.delta,
        "classes": list(dataset.classes),
        "favourable": None if dataset.favourable is None else dataset.classes[dataset.favourable],
        "groups": {each.name: list(each.names) for each in dataset.groupings},
        "group_that_training_reads": grouping.name if choice.arm.reads_groups else None,
        "bins": dict(plan.config.bin),
        "kept_columns": [*dataset.features.column_names] if dataset.image_shape is None else [],
        "declared_columns": [*sorted(dataset.declared)],
        "image_shape": None if dataset.image_shape is None else [*dataset.image_shape],
        "settings": [*sorted(choice.arm.settings)],
    }


def _card(choice: ReleaseChoice, recipe: ReleaseRecipe) -> Iterator[str]:
    plan, arm, report = choice.plan, choice.arm, choice.report
    epsilon = arm.privacy.epsilon
    assert epsilon is not None
    yield f"# Model card: {literal(plain(recipe.label))}"
    yield ""
    yield (
        f"A {literal(plain(plan.model))} classifier of {literal(plain(recipe.label))} "
        f"({', '.join(literal(plain(name)) for name in recipe.classes)}), "
        f"trained by {literal(plain(arm.key))} with fairaudit {__version__}."
    )
    yield ""
    yield from _use(recipe)
    yield "## Privacy"
    yield ""
    yield (
        f"Differentially private: epsilon {shown_up(epsilon)}, delta {plan.delta:g}, for {_unit(choice)} "
        f"({NEIGHBOURING}). The events behind it are in privacy.json. Not covered:"
    )
    yield ""
    yield from (f"- {literal(plain(item, 600))}" for item in not_covered(choice, recipe))
    yield ""
    yield f"{_attacked(choice)}."
    yield ""
    yield _ARITHMETIC
    yield ""
    yield from _of_training(choice, recipe)
    yield "## Audit"
    yield ""
    yield _judged(choice)
    yield ""
    if choice.overrides:
        given = ", ".join(f"`{option}`" for option in choice.overrides)
        yield f"This model was trained with {given}: without, the program would have refused."
        yield ""
    yield from _figures(choice) if choice.wish.figures else ()
    groups = ", ".join(literal(plain(grouping.name)) for grouping in report.data.groupings)
    yield (
        f"Groups compared: {groups}. The report says what privacy cost each of them on average over "
        "trainings like this one; this very model may differ. Its figures are exact functions of rows, "
        + ("given above because that was asked for." if choice.wish.figures else "and not in this folder.")
    )
    yield ""
    yield "## Intended use"
    yield ""
    yield "For the owner of the model to write."


def _use(recipe: ReleaseRecipe) -> Iterator[str]:
    """How rows are predicted, and what becomes of those that are not as the model knows them."""
    make = recipe.model
    factory = make.model if isinstance(make, NetworkMake) and is_factory(make.model) else ""
    option = f" --model {factory}" if factory else ""
    yield "## Use"
    yield ""
    yield f"    fairaudit predict MODEL --data new.parquet --out predictions.parquet{plain(option)}"
    yield ""
    yield "MODEL is this folder; from Python, `fairaudit.load_model`. " + (
        f"It reads {numbered(len(recipe.columns), 'column')} (recipe.json); a value that is out of its range "
        "or not listed is clipped or counts as missing, as declared, and is counted."
        if recipe.columns
        else "It reads images."
    )
    if factory:
        yield (
            f"Its code, {literal(plain(factory))}, is not in the folder: recipe.json has its SHA-256, and "
            "whoever predicts names it, for it is run."
        )
    yield ""


def _of_training(choice: ReleaseChoice, recipe: ReleaseRecipe) -> Iterator[str]:
    """What else of the training decides what the guarantee is worth."""
    tuning = choice.arm.tuning
    if tuning is not None:
        yield (
            "Its settings (privacy.json) were searched for: of a random number of trainings, "
            f"{tuning.trials} on average, the best by a noised score on rows kept apart. Epsilon covers "
            "the search, and rests on nobody knowing how many there were: that was never written."
        )
        yield ""
    if isinstance(recipe.model, LinearMake) and recipe.model.same_for_all:
        yield (
            "**It says the same of every row**: the training that the search kept diverged. To try again "
            "because of that is another search, and costs epsilon again."
        )
        yield ""
    if recipe.fitted and not choice.by_pool:
        yield (
            f"**Accepted: {len(recipe.fitted):,} quantities of the preprocessing are exact functions of "
            "training rows** (privacy.json, fitted_without_privacy). No epsilon is about them."
        )
        yield ""


def _attacked(choice: ReleaseChoice) -> str:
    """What epsilon leaves to an attacker, in words."""
    event = choice.arm.privacy.selection or choice.arm.privacy.event
    assert event is not None, "what is released has an event"
    return spoken_rates({choice.arm.key: attack_facts(event)})


def _judged(choice: ReleaseChoice) -> str:
    report = choice.report
    digest = f"report sha256 {choice.report_sha256[:16]}…"
    if report.verdict is None:
        return f"Audited without rules, so none passed or failed ({digest})."
    names = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}
    each = "; ".join(f"{literal(plain(gate.rule, 300))}: {names[gate.outcome]}" for gate in report.gates)
    return f"Rules: {each} ({digest}; evidence.json)."


def _figures(choice: ReleaseChoice) -> Iterator[str]:
    yield "| group | accuracy in the audit | cost of privacy (points) |"
    yield "|---|---|---|"
    for comparison in choice.report.costs:
        if comparison.arm != choice.audited.key:
            continue
        for group in comparison.by_group:
            accuracy, cost = (group.estimates.get(name) for name in ("accuracy", "privacy_cost"))
            shown = [written(e, POINTS) if e else "–" for e in (accuracy, cost)]
            yield f"| {literal(plain(f'{comparison.grouping} {group.group}'))} | {shown[0]} | {shown[1]} |"
    yield ""
    yield "These figures are exact functions of raw rows: epsilon is not about them."
    yield ""

"""What is said of a released model: its guarantee, its evidence and its card.

No figure of rows in them.
"""

import hashlib
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from fairaudit import __version__
from fairaudit.analysis.build_facts import attack_facts
from fairaudit.config.model_names import is_factory
from fairaudit.data.split import VALIDATION_SHARE
from fairaudit.errors import numbered
from fairaudit.methods.catalog import find
from fairaudit.planning.guarantees import OWN_MODULE
from fairaudit.privacy.events import PrivacyEvent, event_to_json, shown_up
from fairaudit.release.choice import ReleaseChoice, gates_pass
from fairaudit.release.model_recipe import LinearMake, NetworkMake, ReleaseRecipe
from fairaudit.report.numbers import POINTS, spoken_rates, written
from fairaudit.report.render.markdown import literal
from fairaudit.report.safe_names import NAME_LIMIT, plain
from fairaudit.tuning.search import Candidate

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_JUDGED = {"pass": "passed", "fail": "failed", "inconclusive": "inconclusive"}
RESULTS = {"pass": "PASSED", "inconclusive": "WARNED", "fail": "FAILED"}
_ROW = (
    "one row of the file (features, group and label): each joins the training by a coin of its own"
)
_TRAINING_ROW = (
    "one training row of the file (features, group and label), as its split column has it"
)
NEIGHBOURING = "add or remove one row"

_CHOSEN = "method, epsilon and settings, chosen by looking at an audit of these data"
_SEARCHED = "method, epsilon and what was searched for, chosen by looking at an audit of these data"
_ARITHMETIC = (
    "Epsilon is for real numbers. Noise is half the sum of four normals of a cryptographic key "
    "stream (Holohan and Braghin 2021), but it is added in float32 and rounded: a bound on what "
    "that still gives away is not known."
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
    epsilon = arm.privacy.epsilon
    assert epsilon is not None, "only what has an established guarantee is trained"
    search: dict[str, JsonValue] | None = None
    charge = arm.charge
    if charge is None:
        assert arm.privacy.event is not None
        event = _json(arm.privacy.event)
    else:
        tries: dict[str, JsonValue] = {
            "distribution": "truncated negative binomial",
            "mean": charge.selection.mean,
            "shape": charge.selection.shape,
        }
        event = {
            "kind": "best-of-random-tries",
            "tries": tries,
            "trainings": [_json(training) for training in charge.trainings],
            "score": _json(charge.score),
        }
    if arm.tuning is not None:
        search = {**arm.tuning.to_json(), "validation_share": VALIDATION_SHARE}  # type: ignore[dict-item]
    return {
        "format": 1,
        "fairaudit": __version__,
        "method": arm.key,
        "guarantee": arm.privacy.guarantee.value,
        "epsilon": epsilon.headline,
        "accountant": "RDP" if candidate else "PLD",
        "epsilon_rdp": epsilon.rdp,
        "delta": plan.training.delta,
        "unit": _unit(choice),
        "neighbouring": NEIGHBOURING,
        "event": event,
        "settings": dict(candidate.settings if candidate else arm.settings),
        "epochs": candidate.form.epochs if candidate else plan.training.epochs,
        "steps_per_epoch": plan.training.steps_per_epoch,
        "search": search,
        "declared": _declared(choice),
        "fitted_without_privacy": [] if choice.by_pool else list(recipe.fitted),
        "not_covered": list(not_covered(choice, recipe)),
        "randomness": "operating system; keys were never written and are gone",
        "arithmetic": _ARITHMETIC,
    }


def _unit(choice: ReleaseChoice) -> str:
    if choice.dataset.split is None:
        return _ROW
    return _TRAINING_ROW


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
        yield OWN_MODULE
    yield _SEARCHED if choice.arm.tuning else _CHOSEN
    yield (
        "whether a model was trained at all: that the rules of the audit passed, or were set aside"
    )
    yield "everything else that is made of the same rows: the audit's report, other models"


def evidence(choice: ReleaseChoice, files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """``evidence.json``: an in-toto statement that this recipe's audit was judged by rules.

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
    outcome = "inconclusive"  # also where nothing was tested, so nothing passed
    if report.gates and gates_pass(report):
        outcome = "pass"
    elif report.verdict == "fail":
        outcome = "fail"
    notes: dict[str, JsonValue] = {
        "fairaudit": __version__,
        "method": choice.arm.key,
        "guarantee": choice.arm.privacy.guarantee.value,
        "epsilon": choice.arm.privacy.headline,
        "delta": choice.plan.training.delta,
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
        {
            "name": "training data",
            "digest": {"sha256": choice.dataset.digest},
            "annotations": notes,
        },
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


def _declared(choice: ReleaseChoice) -> dict[str, JsonValue]:
    """What counts as publicly known; of it epsilon says nothing."""
    plan, dataset = choice.plan, choice.dataset
    grouping = dataset.groupings[0]
    return {
        "n_public": plan.training.n_public,
        "delta": plan.training.delta,
        "classes": list(dataset.classes),
        "favourable": dataset.favourable_class,
        "groups": {each.name: list(each.names) for each in dataset.groupings},
        "group_that_training_reads": grouping.name if choice.arm.reads_groups else None,
        "bins": dict(plan.config.bin),
        "kept_columns": [*dataset.features.column_names] if dataset.image_shape is None else [],
        "declared_columns": [*sorted(dataset.declared)],
        "image_shape": None if dataset.image_shape is None else [*dataset.image_shape],
        "settings": [*sorted(choice.arm.settings)],
    }


def card(choice: ReleaseChoice, recipe: ReleaseRecipe) -> str:
    """``MODEL_CARD.md``."""
    plan, arm, report = choice.plan, choice.arm, choice.report
    epsilon = arm.privacy.headline
    assert epsilon is not None
    label, classes = _text(recipe.label), ", ".join(map(_text, recipe.classes))
    claim = "Differentially private"
    if arm.privacy.guarantee.rests_on_module:
        claim += " if the model's own code keeps nothing of what it reads"
    paragraphs = [
        f"# Model card: {label}",
        f"A {_text(plan.training.model)} classifier of {label} ({classes}), trained by "
        f"{_text(arm.key)} with fairaudit {__version__}.",
        *_use(recipe),
        "## Privacy",
        f"{claim}: epsilon {shown_up(epsilon)}, delta {plan.training.delta:g}, for {_unit(choice)} "
        f"({NEIGHBOURING}). The events behind it are in privacy.json. Not covered:",
        "\n".join(f"- {_text(item, 600)}" for item in not_covered(choice, recipe)),
    ]
    if not arm.privacy.guarantee.rests_on_module:
        event = arm.charge or arm.privacy.event
        assert event is not None, "what is released has an event"
        paragraphs.append(f"{spoken_rates({arm.key: attack_facts(event)})}.")
    paragraphs += [_ARITHMETIC, *_of_training(choice, recipe), "## Audit"]
    digest = f"report sha256 {choice.report_sha256[:16]}…"
    if report.verdict is None:
        paragraphs.append(f"Audited without rules, so none passed or failed ({digest}).")
    else:
        rules = [f"{_text(gate.rule, 300)}: {_JUDGED[gate.outcome]}" for gate in report.gates]
        paragraphs.append(f"Rules: {'; '.join(rules)} ({digest}; evidence.json).")
    if choice.overrides:
        given = ", ".join(f"`{option}`" for option in choice.overrides)
        paragraphs.append(
            f"This model was trained with {given}: without, the program would have refused."
        )
    where = "and not in this folder"
    if choice.wish.figures:
        where = "given above because that was asked for"
        paragraphs.append(_figures(choice))
    groups = ", ".join(_text(grouping.name) for grouping in report.data.groupings)
    paragraphs += [
        f"Groups compared: {groups}. The report says what privacy cost each of them on average "
        "over trainings like this one; this very model may differ. Its figures are exact "
        f"functions of rows, {where}.",
        "## Intended use",
        "For the owner of the model to write.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _text(name: str, limit: int = NAME_LIMIT) -> str:
    """A name of the data as it is safe in Markdown."""
    return literal(plain(name, limit))


def _use(recipe: ReleaseRecipe) -> Iterator[str]:
    """How rows are predicted, and what becomes of those that are not as the model knows them."""
    option = ""
    reads = "It reads images."
    if recipe.columns:
        reads = (
            f"It reads {numbered(len(recipe.columns), 'column')} (recipe.json); a value that is "
            "out of its range or not listed is clipped or counts as missing, as declared, and is "
            "counted."
        )
    if isinstance(recipe.model, NetworkMake) and is_factory(recipe.model.model):
        factory = plain(recipe.model.model)
        option = f" --model {factory}"
        reads += (
            f"\nIts code, {literal(factory)}, is not in the folder: recipe.json has its SHA-256, "
            "and whoever predicts names it, for it is run."
        )
    yield "## Use"
    yield f"    fairaudit predict MODEL --data new.parquet --out predictions.parquet{option}"
    yield f"MODEL is this folder; from Python, `fairaudit.load_model`. {reads}"


def _of_training(choice: ReleaseChoice, recipe: ReleaseRecipe) -> Iterator[str]:
    """What else of the training decides what the guarantee is worth."""
    tuning = choice.arm.tuning
    if tuning is not None:
        yield (
            "Its settings (privacy.json) were searched for: of a random number of trainings, "
            f"{tuning.trials} on average, the best by a noised score on rows kept apart. Epsilon "
            "covers the search, and rests on nobody knowing how many there were: that was never "
            "written."
        )
    if isinstance(recipe.model, LinearMake) and recipe.model.same_for_all:
        yield (
            "**It says the same of every row**: the training that the search kept diverged. To "
            "try again because of that is another search, and costs epsilon again."
        )
    if recipe.fitted and not choice.by_pool:
        yield (
            f"**Accepted: {len(recipe.fitted):,} quantities of the preprocessing are exact "
            "functions of training rows** (privacy.json, fitted_without_privacy). No epsilon is "
            "about them."
        )


def _figures(choice: ReleaseChoice) -> str:
    """A table of the audit's accuracy and cost by group."""
    lines = ["| group | accuracy in the audit | cost of privacy (points) |", "|---|---|---|"]
    for comparison in choice.report.costs:
        if comparison.arm != choice.audited.key:
            continue
        for group in comparison.by_group:
            cells = [_text(f"{comparison.grouping} {group.group}")]
            for name in ("accuracy", "privacy_cost"):
                estimate = group.estimates.get(name)
                cells.append("–" if estimate is None else written(estimate, POINTS))
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "These figures are exact functions of raw rows: epsilon is not about them."]
    return "\n".join(lines)

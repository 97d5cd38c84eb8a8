"""What is said of a released model: its guarantee, its evidence, its card; no figure of rows."""

import hashlib
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from fairaudit import __version__
from fairaudit.analysis.build_facts import attack_facts
from fairaudit.config.model_names import is_factory
from fairaudit.errors import numbered
from fairaudit.execution.trained import KeptTraining
from fairaudit.methods.catalog import find
from fairaudit.planning.guarantees import OWN_MODULE
from fairaudit.privacy.events import PrivacyEvent, event_to_json, shown_up
from fairaudit.release.checks import gates_pass, outcomes_of
from fairaudit.release.model_recipe import LinearMake, NetworkMake, ReleaseRecipe
from fairaudit.release.planned import ReleasePlan
from fairaudit.report.numbers import spoken_rates
from fairaudit.report.render.markdown import literal
from fairaudit.report.safe_names import NAME_LIMIT, plain

STATEMENT = "https://in-toto.io/Statement/v1"
TEST_RESULT = "https://in-toto.io/attestation/test-result/v0.1"
_ROW = (
    "one row of the file (features, group and label): each joins the training by a coin of its own"
)
_TRAINING_ROW = (
    "one training row of the file (features, group and label), as its split column has it"
)
_OF_TEACHERS = (
    "one row of the file (features, group and label) that a coin of its own lets train a teacher; "
    "no row of the student pool"
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
    plan: ReleasePlan, recipe: ReleaseRecipe, kept: KeptTraining | None = None
) -> dict[str, JsonValue]:
    """``privacy.json``: what is guaranteed, for which record, and what is not covered.

    Args:
        plan: What was trained.
        recipe: How the model turns rows into predictions, with what of it was fitted on rows.
        kept: The training that a search kept, whose settings are covered by epsilon too; None
            without a search.
    """
    arm, training = plan.arm, plan.training
    epsilon = arm.privacy.epsilon
    assert epsilon is not None, "only what has an established guarantee is trained"
    assert arm.privacy.event is not None
    dataset, is_table = plan.dataset, plan.dataset.image_shape is None
    # What counts as publicly known; of it epsilon says nothing.
    declared: dict[str, JsonValue] = {
        "n_public": training.n_public,
        "delta": training.delta,
        "classes": list(dataset.classes),
        "favourable": dataset.favourable_class,
        "groups": {grouping.name: list(grouping.names) for grouping in dataset.groupings},
        "group_that_training_reads": dataset.groupings[0].name if arm.reads_groups else None,
        "bins": dict(plan.config.bin),
        "kept_columns": list(dataset.features.column_names) if is_table else [],
        "image_shape": None if is_table else list(dataset.image_shape or ()),
        "declared_columns": [*sorted(dataset.declared)],
        "settings": [*sorted(arm.settings)],
    }
    statement: dict[str, JsonValue] = {
        "format": 1,
        "fairaudit": __version__,
        "method": arm.key,
        "guarantee": arm.privacy.guarantee.value,
        "epsilon": epsilon.headline,
        "accountant": "PLD",
        "epsilon_rdp": epsilon.rdp,
        "delta": training.delta,
        "unit": _unit(plan),
        "neighbouring": NEIGHBOURING,
        "event": _json(arm.privacy.event),
        "settings": dict(arm.settings),
        "epochs": training.epochs,
        "steps_per_epoch": training.steps_per_epoch,
        "search": None,
        "declared": declared,
        "fitted_without_privacy": list(recipe.fitted) if plan.fits_on_own_records else [],
        "not_covered": list(not_covered(plan, recipe)),
        "randomness": "operating system; keys were never written and are gone",
        "arithmetic": _ARITHMETIC,
    }
    if kept is None:
        return statement
    # Of a search epsilon covers the best of a random number of tries, by another accountant.
    charge = arm.charge
    assert charge is not None
    assert arm.search is not None
    tries: dict[str, JsonValue] = {
        "distribution": "truncated negative binomial",
        "mean": charge.selection.mean,
        "shape": charge.selection.shape,
    }
    event: dict[str, JsonValue] = {
        "kind": "best-of-random-tries",
        "tries": tries,
        "trainings": list(map(_json, charge.trainings)),
        "score": _json(charge.score),
    }
    return {
        **statement,
        "accountant": "RDP",
        "event": event,
        "settings": dict(kept.settings),
        "epochs": kept.epochs,
        "search": arm.search.to_json(),  # type: ignore[dict-item]
    }


def _unit(plan: ReleasePlan) -> str:
    """What epsilon is about, in words.

    Any row of the file; where a split column decides, a training row; of a method whose teachers'
    student pool is drawn from the table, a row that trains a teacher.
    """
    if plan.dataset.split is not None:
        return _TRAINING_ROW
    if plan.has_own_pool:
        return _OF_TEACHERS
    return _ROW


def _json(event: PrivacyEvent) -> JsonValue:
    """A privacy event as a JSON object."""
    return dict(event_to_json(event))  # type: ignore[arg-type]


def not_covered(plan: ReleasePlan, recipe: ReleaseRecipe) -> Iterator[str]:
    """What epsilon does not cover, as phrases for the list in ``privacy.json`` and in the card.

    Arguments are those of :func:`privacy_statement`.
    """
    yield from find(plan.arm.method).unprotected
    if plan.has_own_pool:
        yield (
            "the rows of the file that chance puts into the student pool: half or more of those "
            "that train no teacher"
        )
    if recipe.fitted and plan.fits_on_own_records:
        yield "preprocessing fitted on rows of the table, listed under fitted_without_privacy"
    if plan.config.balance:
        yield "the sizes of the groups, by which rows were left out"
    yield "a person with several rows: epsilon is about one of them"
    if plan.arm.privacy.guarantee.rests_on_module:
        yield OWN_MODULE
    yield _SEARCHED if plan.arm.search else _CHOSEN
    yield (
        "whether a model was trained at all: that the rules of the audit passed, or were set aside"
    )
    yield "everything else that is made of the same rows: the audit's report, other models"


def evidence(plan: ReleasePlan, files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """``evidence.json``: an in-toto statement of what the audit's rules say of the released method.

    Args:
        plan: What was trained, and on which audit's report.
        files: The other files of the folder, name -> content; the statement has their digests.

    Source: https://github.com/in-toto/attestation, spec/v1 and spec/predicates/test-result.md.
    """
    report, privacy = plan.report, plan.arm.privacy
    subject: list[JsonValue] = [
        {"name": name, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}
        for name, content in files.items()
    ]
    tests = {}
    outcomes = outcomes_of(report, plan.arm.key)
    for outcome in ("pass", "inconclusive", "fail"):
        rules: list[JsonValue] = [rule for rule in outcomes if outcomes[rule] == outcome]
        tests[outcome] = rules
    result = "WARNED"  # also where nothing was tested, so nothing passed
    if report.gates and gates_pass(report, plan.arm.key):
        result = "PASSED"
    elif tests["fail"]:
        result = "FAILED"
    audit: dict[str, JsonValue] = {
        "name": "report.json",
        "digest": {"sha256": plan.report_sha256},
        "annotations": {
            "content_sha256": report.content_sha256,
            "status": report.status,
            "rules": len(report.gates),
        },
    }
    training: dict[str, JsonValue] = {
        "name": "training data",
        "digest": {"sha256": plan.dataset.digest},
        "annotations": {
            "fairaudit": __version__,
            "method": plan.arm.key,
            "guarantee": privacy.guarantee.value,
            "epsilon": privacy.headline,
            "delta": plan.training.delta,
            "overrides": list(plan.overrides),
        },
    }
    audited: dict[str, JsonValue] = {
        "name": "audited data",
        "digest": {"sha256": report.data.sha256},
    }
    configuration: list[JsonValue] = [audit, audited, training]
    if plan.pool_sha256 is not None:
        public: dict[str, JsonValue] = {
            "name": "public data",
            "digest": {"sha256": plan.pool_sha256},
        }
        configuration.append(public)
    return {
        "_type": STATEMENT,
        "subject": subject,
        "predicateType": TEST_RESULT,
        "predicate": {
            "result": result,
            "configuration": configuration,
            "passedTests": tests["pass"],
            "warnedTests": tests["inconclusive"],
            "failedTests": tests["fail"],
        },
    }


def card(plan: ReleasePlan, recipe: ReleaseRecipe) -> str:
    """The text of ``MODEL_CARD.md``: the model, its use, privacy and audit, for people.

    Arguments are those of :func:`privacy_statement`.
    """
    arm, report = plan.arm, plan.report
    epsilon = arm.privacy.headline
    assert epsilon is not None
    label, classes = _text(recipe.label), ", ".join(map(_text, recipe.classes))
    claim = "Differentially private"
    if arm.privacy.guarantee.rests_on_module:
        claim += " if the model's own code keeps nothing of what it reads"
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
    paragraphs = [
        f"# Model card: {label}",
        f"A {_text(plan.training.model)} classifier of {label} ({classes}), trained by "
        f"{_text(arm.key)} with fairaudit {__version__}.",
        "## Use",
        f"    fairaudit predict MODEL --data new.parquet --out predictions.parquet{option}",
        f"MODEL is this folder; from Python, `fairaudit.load_model`. {reads}",
        "## Privacy",
        f"{claim}: epsilon {shown_up(epsilon)}, delta {plan.training.delta:g}, for {_unit(plan)} "
        f"({NEIGHBOURING}). The events behind it are in privacy.json. Not covered:",
        "\n".join(f"- {_text(item, 600)}" for item in not_covered(plan, recipe)),
    ]
    if not arm.privacy.guarantee.rests_on_module:
        # Of a search, what all its trainings release; else what the one training does.
        event = arm.charge or arm.privacy.event
        assert event is not None, "what is released has an event"
        paragraphs.append(f"{spoken_rates({arm.key: attack_facts(event)})}.")
    paragraphs.append(_ARITHMETIC)
    if arm.search is not None:
        paragraphs.append(
            "Its settings (privacy.json) were searched for: of a random number of trainings, "
            f"{arm.search.trials} on average, the best by a noised score on rows kept apart. "
            "Epsilon covers the search, and rests on nobody knowing how many there were: that was "
            "never written."
        )
    if isinstance(recipe.model, LinearMake) and recipe.model.same_for_all:
        paragraphs.append(
            "**It says the same of every row**: the training that the search kept diverged. To "
            "try again because of that is another search, and costs epsilon again."
        )
    if recipe.fitted and plan.fits_on_own_records:
        paragraphs.append(
            f"**Accepted: {len(recipe.fitted):,} quantities of the preprocessing are exact "
            "functions of rows of the table** (privacy.json, fitted_without_privacy). No epsilon "
            "is about them."
        )
    paragraphs.append("## Audit")
    digest = f"report sha256 {plan.report_sha256[:16]}…"
    if report.verdict is None:
        paragraphs.append(f"Audited without rules, so none passed or failed ({digest}).")
    else:
        outcomes = outcomes_of(report, arm.key).items()
        rules = "; ".join(f"{_text(rule, 300)}: {outcome}" for rule, outcome in outcomes)
        paragraphs.append(f"Rules: {rules} ({digest}; evidence.json).")
    if plan.overrides:
        changed = ", ".join(f"`{option}`" for option in plan.overrides)
        paragraphs.append(
            f"This model was trained with {changed}: without, the program would have refused."
        )
    groups = ", ".join(_text(grouping.name) for grouping in report.data.groupings)
    paragraphs += [
        f"Groups compared: {groups}. The report says what privacy cost each of them on average "
        "over trainings like this one; this very model may differ. Its figures are exact "
        "functions of rows, and not in this folder.",
        "## Intended use",
        "For the owner of the model to write.",
    ]
    return "\n\n".join(paragraphs) + "\n"


def _text(name: str, limit: int = NAME_LIMIT) -> str:
    """A name, which may come from the data, as it is safe in Markdown, at most ``limit`` long."""
    return literal(plain(name, limit))

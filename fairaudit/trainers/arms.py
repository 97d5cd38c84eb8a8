"""The user's own training code as methods and arms of an audit.

``--trainer`` names functions that train a model; ``--synthesizer`` names functions that make a
synthetic table, and ``--synthetic`` a table that was made elsewhere: our reference method is then
trained on the table. The user's modules are never imported in this process: what a function
declares is asked for in a process of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import AuditConfig
from fairaudit.data.reading.elsewhere import at_hand
from fairaudit.errors import ConfigError, OwnCodeError
from fairaudit.io.code_digest import code_digest, has_file, imported_libraries
from fairaudit.io.named_code import advice, hidden, make_findable
from fairaudit.methods.catalog import REFERENCE, admit_own
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.planning.arms import Arm, self_check
from fairaudit.planning.search import CandidateSearch
from fairaudit.report.types.facts import ArmPrivacy
from fairaudit.trainers.answers import Declared
from fairaudit.trainers.child import TrainerRequest
from fairaudit.trainers.contract import Range
from fairaudit.trainers.process import answer_of
from fairaudit.trainers.study import NAME

REFERENCE_OF = "-reference"  # ends the name of the method that a trainer is without privacy
GIVEN = "synthetic"  # the name of the method and arm of the table that --synthetic names


def methods(config: AuditConfig) -> Iterator[MethodSpec]:
    """Describe as methods the trainers, synthesizers and the given table that options name.

    Before each trainer comes its own reference: the same code, asked for no privacy. With
    ``--reference sgd`` a trainer has none of its own.

    Raises:
        ConfigError: A name is not ``module:function``; another option does not go with such code.
    """
    code = (*config.trainer, *config.synthesizer)
    if code and config.noise_multiplier is not None:
        raise ConfigError(
            "code of your own is asked for an epsilon, and --noise-multiplier gives none",
            hint="use --epsilon",
        )
    if config.repeats > 1 and config.synthesizer:
        raise ConfigError("--synthesizer makes a table for each seed", "--seeds, not --repeats")
    for name in code:
        path, _, function = name.partition(":")
        if not function.isidentifier() or not all(part.isidentifier() for part in path.split(".")):
            raise ConfigError(f"{name!r} names no function", hint="use package.module:function")
        method, reference = f"{path.rpartition('.')[2]}.{function}", REFERENCE
        if name in config.trainer and config.reference == "trainer":
            reference = f"{method}{REFERENCE_OF}"
            yield _method(reference, name, None)
        yield _method(method, name, reference)
    if config.synthetic is not None:
        yield _method(GIVEN, "", REFERENCE)


def _method(name: str, code: str, reference: str | None) -> MethodSpec:
    """Describe the user's code as a method.

    Args:
        name: Of the method.
        code: ``module:function``; "" for a table that was given.
        reference: Name of the method that its cost is measured against; None: this is a trainer's
            own reference, which has no privacy.
    """
    return MethodSpec(
        name=name,
        summary=f"{code or 'a given table'}, not of this program",
        source=code,
        guarantee=Guarantee.NONE if reference is None else Guarantee.CLAIMED,
        trainer=code,
        settings={},
        reference=reference,
        reference_of=None if reference else name.removesuffix(REFERENCE_OF),
        part="without_noise",  # the part of its cost that is there without noise
        capability=NAME,
    )


def arms(config: AuditConfig, targets: Sequence[float | None], reference: Arm) -> Iterator[Arm]:
    """The arms of the user's code: each method at each target epsilon, after its reference.

    A trainer's own reference and a given table are asked for no epsilon: each is one arm.

    Args:
        config: The options.
        targets: The target epsilons of the audit; None stands for a given noise multiplier.
        reference: The arm of plain SGD, whose settings are those of training on a table.

    Raises:
        ConfigError: A function that cannot be called, or not as the options ask.
    """
    for spec in admit_own(config):
        declared = _declared(spec.trainer)
        search = _search(config, declared.settings)
        # A table, a synthesizer's or given: our reference method is trained on it.
        is_table = spec.trainer not in config.trainer
        if config.tune is not None and (is_table or not declared.settings):
            raise ConfigError(
                f"--tune: {spec.trainer or GIVEN} declares no settings",
                hint='train.settings = {"rate": fairaudit.Range(0.001, 1, log=True)}',
            )
        arm = Arm(
            key=spec.name,
            method=spec.name,
            variant=None,
            settings=reference.settings if is_table else {},
            privacy=_privacy(spec, None),
            reference=spec.reference,
            source=None,
            # A table is made of rows with their groups.
            reads_groups=config.trainer_groups or is_table,
            trainer=spec.trainer,
            repeats=config.repeats if spec.reference else 1,  # a reference is trained once a seed
            shares_samples=False,  # the user's code draws its own batches
            capability=spec.capability,
            search=search,
        )
        # A trainer's own reference, or a given table, is asked for no epsilon: one arm for all
        # targets.
        if spec.reference is None or not spec.trainer:
            yield arm
            continue
        for target in targets:
            suffix = f"@{target:g}" if len(targets) > 1 else ""
            at_target = {
                "key": f"{spec.name}{suffix}",
                "privacy": _privacy(spec, target),
                "supports_no_noise": declared.supports_no_noise,
            }
            yield arm.model_copy(update=at_target)
            if config.self_check:
                yield self_check(arm.model_copy(update=at_target))


def _search(config: AuditConfig, ranges: Mapping[str, Range]) -> CandidateSearch | None:
    """The search over the ranges of settings that code declares; None where no search is asked for.

    The first capability that offers one makes it, so that this folder knows no other.
    """
    for capability in CAPABILITIES:
        search = capability.search_ranges(config, ranges)
        if search:
            return search
    return None


def _privacy(spec: MethodSpec, target: float | None) -> ArmPrivacy:
    """The privacy of an arm as planned: the epsilon that its code is asked for, unproved.

    Args:
        spec: The arm's method.
        target: The epsilon that is asked for; None: none is.
    """
    reason = f"{spec.trainer} is asked for it; what it does is its own"
    if target is None:
        reason = "trained by the user's own code without privacy"
    if not spec.trainer:
        reason = "a given table; how it was made is not known"
    return ArmPrivacy(guarantee=spec.guarantee, reason=reason, target_epsilon=target)


def _declared(name: str) -> Declared:
    """The settings and abilities that the function ``module:function`` declares.

    They are read in another process. A given table has no function (""), and declares nothing.

    Raises:
        ConfigError: No such module is found, or the function cannot be imported or called.
    """
    if not name:
        return Declared({}, supports_no_noise=False)
    path = name.partition(":")[0]
    make_findable(path)
    if not has_file(path):
        raise ConfigError(f"no module {path!r} of {name} is found", hint=advice(path))
    try:
        return _ask_declared(name, code_digest([path]))
    except OwnCodeError as error:
        hint = hidden(path) or error.hint or f"python -c 'import {path}' shows where"
        raise ConfigError(f"{name}: {error.message}", hint) from error


@lru_cache
def _ask_declared(name: str, digest: str) -> Declared:
    """Ask a function in its own process what it declares.

    The answer is kept for calls with the same ``digest``, that of the code: changed code is asked
    again.
    """
    return answer_of(TrainerRequest(name), Declared)


def identity(config: AuditConfig, arm: Arm, delta: float) -> dict[str, object]:
    """What a training of the user's code depends on beside that code, as JSON-ready values.

    It enters the job's id, so that a job is trained anew where any of it has changed.

    Args:
        config: The options: they say what code is handed, and name the given table, whose digest
            enters.
        arm: Its epsilon is what the code is asked for.
        delta: What the code is asked for beside epsilon.
    """
    target = arm.privacy.target_epsilon
    table = None
    if config.synthetic is not None:
        table = sha256(at_hand(config.synthetic).read_bytes()).hexdigest()
    return {
        "libraries": _libraries(arm.trainer.partition(":")[0]),
        "asked": None if target is None else [target, delta],  # None: no privacy is asked for
        "given": {
            "raw": config.raw,
            "groups": config.trainer_groups,
            "version": config.trainer_version,
            "table": table,
        },
    }


def _libraries(module: str) -> dict[str, str]:
    """Distribution -> version, of all that a module and the user's code that it imports import.

    The version is "" where it is not known. A given table has no module (""), and no libraries.
    """
    if not module:
        return {}
    homes = packages_distributions()
    distributions: set[str] = set()
    for library in imported_libraries([module]):
        distributions.update(homes.get(library, ()))
    versions = dict.fromkeys(sorted(distributions), "")
    for name in versions:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions

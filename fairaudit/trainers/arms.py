"""Code of the user's own as methods and arms; it is imported in a process of its own alone."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from fairaudit.capabilities import added
from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, OwnCodeError
from fairaudit.io.code_digest import code_digest, has_file, imported_libraries
from fairaudit.methods.catalog import REFERENCE, admit_outside
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.planning.arms import Arm, self_check
from fairaudit.report.facts import ArmPrivacy
from fairaudit.trainers.child import Declared, Request
from fairaudit.trainers.process import answer_of
from fairaudit.trainers.study import NAME

REFERENCE_OF = "-reference"  # what a trainer trains without privacy
GIVEN = "synthetic"  # the arm of a table that was given


def methods(config: AuditConfig) -> Iterator[MethodSpec]:
    """The methods that options name: each trainer after its own reference, each synthesizer.

    Raises:
        ConfigError: A name that is none; an option that does not go with them.
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
        if config.seeds > 1:
            raise ConfigError("--synthetic is one table, and --seeds draws several", "leave it out")
        yield _method(GIVEN, "", REFERENCE)


def _method(name: str, code: str, reference: str | None) -> MethodSpec:
    """The description of code of the user's own; without a reference it has no privacy either."""
    return MethodSpec(
        name=name,
        summary=f"{code or 'a given table'}, not of this program",
        source=code,
        guarantee=Guarantee.NONE if reference is None else Guarantee.CLAIMED,
        trainer=code,
        settings={},
        reference=reference,
        reference_of=None if reference else name.removesuffix(REFERENCE_OF),
        part="without_noise",
        capability=NAME,
    )


def arms(
    config: AuditConfig,
    targets: Sequence[float | None],
    reference: Arm,
) -> Iterator[Arm]:
    """Every method of these at every epsilon that it is asked for, after its reference.

    Raises:
        ConfigError: A function that cannot be called, or not as the options ask.
    """
    for spec in admit_outside(config):
        declared = _declared(spec.trainer)
        search = None
        for search_ranges in added("search_ranges"):  # one capability searches, or none
            search = search_ranges(config, declared.settings)
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
            reads_groups=config.trainer_groups or is_table,
            trainer=spec.trainer,
            repeats=config.repeats if spec.reference else 1,
            shares_samples=False,
            capability=spec.capability,
            search=search,
        )
        if spec.reference is None or not spec.trainer:  # no code that an epsilon is asked of
            yield arm
            continue
        for target in targets:
            suffix = f"@{target:g}" if len(targets) > 1 else ""
            asked = {
                "key": f"{spec.name}{suffix}",
                "privacy": _privacy(spec, target),
                "supports_no_noise": declared.supports_no_noise,
            }
            yield arm.model_copy(update=asked)
            if config.self_check:
                yield self_check(arm.model_copy(update=asked))


def _privacy(spec: MethodSpec, target: float | None) -> ArmPrivacy:
    """What is asked of the trainer; nothing is proved of it. None: no privacy is asked for."""
    reason = f"{spec.trainer} is asked for it; what it does is its own"
    if target is None:
        reason = "trained by the user's own code without privacy"
    if not spec.trainer:
        reason = "a given table; how it was made is not known"
    return ArmPrivacy(
        guarantee=spec.guarantee,
        reason=reason,
        target_epsilon=target,
    )


def _declared(name: str) -> Declared:
    """The settings and abilities that a trainer declares, read in another process."""
    if not name:
        return Declared({}, supports_no_noise=False)
    path = name.partition(":")[0]
    if not has_file(path):
        raise ConfigError(
            f"no module {path!r} of {name} is found",
            hint="run where it lies, or name its folder in PYTHONPATH",
        )
    try:
        return _asked(name, code_digest([path]))
    except OwnCodeError as error:
        hint = error.hint or f"python -c 'import {path}' shows where"
        raise ConfigError(f"{name}: {error.message}", hint) from error


@lru_cache
def _asked(name: str, digest: str) -> Declared:
    """What a function says of itself, as long as its code is the same."""
    return answer_of(Request(name), Declared)


def identity(
    config: AuditConfig,
    arm: Arm,
    delta: float,
) -> dict[str, object]:
    """What a training of the user's code depends on beside that code, for its job's id."""
    target = arm.privacy.target_epsilon
    table = None
    if config.synthetic is not None:
        table = sha256(config.synthetic.read_bytes()).hexdigest()
    return {
        "libraries": _libraries(arm.trainer.partition(":")[0]),
        "asked": None if target is None else [target, delta],
        "given": {
            "raw": config.raw,
            "groups": config.trainer_groups,
            "version": config.trainer_version,
            "table": table,
        },
    }


def _libraries(module: str) -> dict[str, str]:
    """Versions of the distributions that a module imports, or the code beside it."""
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

"""The arms of trainers of the user's own: asked for each epsilon, beside what they train without privacy."""

from fairaudit.config.option_words import option_given
from fairaudit.config.options import OF_TRAINERS, AuditConfig
from fairaudit.data.pixels import Shape
from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import admit_trainers, find
from fairaudit.methods.spec import Guarantee, MethodSpec
from fairaudit.methods.trainers import methods_of
from fairaudit.planning.guarantees import ArmPrivacy

ASKED = "the trainer is asked for it; what it does is its own"


def admitted(config: AuditConfig) -> tuple[MethodSpec, ...]:
    """The trainers of a plan as methods, each after its own reference; from then on they are found by name.

    Raises:
        ConfigError: A name that is none; an option that goes with no trainer, or not with one.
    """
    if not config.trainer:
        if alone := option_given(config, OF_TRAINERS):
            raise ConfigError(f"{alone} is about a trainer, and there is none", hint="add --trainer")
        return ()
    if config.tune is not None:
        raise ConfigError("--tune varies settings of our methods, not of --trainer", hint="leave out one")
    if config.noise_multiplier is not None:
        raise ConfigError(
            "--trainer is asked for an epsilon, and --noise-multiplier gives none", hint="use --epsilon"
        )
    own_reference = config.reference == "trainer"
    admit_trainers(config.trainer, own_reference=own_reference)
    specs = [spec for name in config.trainer for spec in methods_of(name, own_reference=own_reference)]
    return tuple({spec.name: find(spec.name) for spec in specs}.values())


def refuse_raw_images(config: AuditConfig, shape: Shape | None) -> None:
    """Rows of a file are those of a table.

    Raises:
        ConfigError: ``--raw`` is given with images.
    """
    if config.raw and shape is not None:
        raise ConfigError("--raw gives rows of a table, and these are images", hint="leave it out")


def privacy_of(spec: MethodSpec, target: float | None) -> ArmPrivacy:
    """What is known before training: nothing but what the trainer is asked for."""
    if target is None:
        return ArmPrivacy(Guarantee.NONE, "trained by the user's own code without privacy", *(None,) * 4)
    return ArmPrivacy(spec.guarantee, ASKED, None, None, None, target)

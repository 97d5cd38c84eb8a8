"""Every preset by name."""

from collections.abc import Mapping

from fairaudit.config.presets import esipova, tran, xu
from fairaudit.config.presets.preset import Preset
from fairaudit.errors import ConfigError, did_you_mean

_ALL = (
    *(esipova.ADULT, esipova.DUTCH, esipova.MNIST, esipova.CELEBA),
    *(xu.ADULT, xu.DUTCH),
    *(tran.DPSGD, tran.OUTPUT, tran.PATE),
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _ALL}


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        ConfigError: No preset has that name.
    """
    try:
        return PRESETS[name]
    except KeyError:
        raise ConfigError(f"unknown preset {name!r}", hint=did_you_mean(name, PRESETS)) from None

"""What a search does not go together with."""

from fairaudit.config.option_words import option_given
from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError
from fairaudit.methods.ablation import NAME as ABLATION

ONE_SETTING = "leave it out, or leave out --tune"


def refuse_beside_a_search(config: AuditConfig) -> None:
    """Options that do not go together with a search, or without one.

    Raises:
        ConfigError: Some were given.
    """
    if config.tune is None:
        if alone := option_given(config, ("tune_for", "tune_privacy")):
            raise ConfigError(f"{alone} is about a search, and there is none", hint="add --tune 20")
    elif config.repeats > 1:
        raise ConfigError("--repeats trains one setting again, --tune trains several", hint="leave out one")
    elif config.diagnostics == "full":
        raise ConfigError("--diagnostics full reads one setting, --tune trains several", hint="leave out one")
    elif ABLATION in config.method:
        raise ConfigError(f"--method {ABLATION} is about one setting, --tune tries several", hint=ONE_SETTING)

"""Where the numbers of an audit's methods come from: given by an option, else by a default rule.

Given settings are checked: they exist, lie in their ranges, and some training reads them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import SCHEDULE_RULES, PublicSizes
from fairaudit.methods.spec import MethodSpec

Place = tuple[str, str]  # of a number in ``--settings METHOD.SETTING=VALUE``: (METHOD, SETTING)


@dataclass(frozen=True, slots=True)
class SettingsResolver:
    """Looks up numbers in the options and the default rules, and remembers what was decided.

    Args:
        config: The options.
        sizes: Public sizes of data and model, all that a default rule may read.
        origins: Setting -> the words of the rule that set it; filled by use, for the report.
        omitted: Method that ``--method all`` leaves out -> why; filled by the choice of methods.
    """

    config: AuditConfig
    sizes: PublicSizes
    origins: dict[str, str] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)

    def by_rule(self, name: str) -> float:
        """The default of a schedule's number (``batch_size``, ``epochs``), noted in ``origins``."""
        self.origins[name] = SCHEDULE_RULES[name].text
        return SCHEDULE_RULES[name].value(self.sizes)

    def default(self, spec: MethodSpec, name: str) -> float:
        """The default of a method's setting for these sizes, noted in ``origins``.

        Raises:
            ConfigError: The setting has no default, and has to be given.
        """
        rule = spec.known_settings[name].default
        if rule is None:
            raise ConfigError(
                f"{spec.name}: {name} has no default",
                hint=f"give it: --settings {spec.name}.{name}=VALUE",
            )
        self.origins[name] = rule.text
        return rule.value(self.sizes)

    def given(self, spec: MethodSpec) -> dict[str, float]:
        """The numbers that ``--settings`` gives for the method: setting -> value.

        A control, an ablation and a reference take those of the method that they belong to
        (``spec.settings_method``); a number that names them themselves replaces these.
        """
        merged: dict[str, float] = {}
        # In this order, so that the method's own numbers replace the others.
        for method in (spec.settings_method, spec.name):
            for name, values in self.config.settings.items():
                if find(name).name == method:  # `name` may be an alias
                    merged |= values
        return merged

    def checked(self, spec: MethodSpec, name: str, value: float) -> float:
        """The value as a float, once it is known to lie in the setting's range.

        NaN lies in none: a training with it would come out at epsilon 0.

        Raises:
            ConfigError: The value lies outside; the message names the range.
        """
        setting = spec.known_settings[name]
        if not setting.admits(value, self.sizes):
            raise ConfigError(
                f"{spec.name}: {name} is {value:g}, which is not {setting.range(self.sizes)}",
                hint=f"{name}: {setting.meaning}",
            )
        return float(value)


def check_settings(resolver: SettingsResolver) -> None:
    """Refuse a number of ``--settings`` that does not exist or is out of its range.

    Numbers of methods that are not trained are checked, too.

    Raises:
        ConfigError: There is such a number, or one setting is given twice, under two names of its
            method.
    """
    names_given: dict[Place, str] = {}  # place by the method's own name -> the method as given
    for given_name, values in resolver.config.settings.items():
        spec = find(given_name)
        # The method whose settings a control takes, too; else the method itself.
        parent = find(spec.settings_method) if spec.settings_method else spec
        known = tuple(dict.fromkeys((*spec.known_settings, *parent.known_settings)))
        for setting, value in values.items():
            if setting not in known:
                raise ConfigError(
                    f"method {spec.name!r} has no setting {setting!r}",
                    hint=did_you_mean(setting, known),
                )
            first_name = names_given.setdefault((spec.name, setting), given_name)
            if first_name != given_name:
                raise ConfigError(
                    f"{given_name}.{setting} and {first_name}.{setting} say the same twice",
                    hint="give one of them",
                )
            resolver.checked(spec if setting in spec.known_settings else parent, setting, value)


def unread_settings(
    resolver: SettingsResolver, trained: Iterable[tuple[str, Iterable[str]]]
) -> dict[Place, str]:
    """The numbers of ``--settings`` that no arm of the plan trains with, each with the reason.

    Args:
        resolver: Its options hold the numbers that were given.
        trained: Of each arm, its method's name and the names of the numbers that it trains with.

    Returns:
        (METHOD as it was given, SETTING) -> why no arm reads this number.
    """
    read: set[Place] = set()
    for method, settings in trained:
        read |= _places_read(find(method), settings)
    methods_read = {method for method, _ in read}
    unread: dict[Place, str] = {}
    for given_name, values in resolver.config.settings.items():
        method = find(given_name).name  # `given_name` may be an alias
        if method in methods_read:
            reason = "no form that is trained reads it"
        elif method in resolver.omitted:
            reason = f"{method} is not trained: {resolver.omitted[method]}"
        else:
            reason = f"{method} is not trained"
        for setting in values:
            if (method, setting) not in read:
                unread[given_name, setting] = reason
    return unread


def _places_read(spec: MethodSpec, settings: Iterable[str]) -> set[Place]:
    """The places in ``--settings`` from which an arm of this method takes its numbers.

    They stand below the method's own name, and below that of the method that a control, an ablation
    or a reference takes its settings from (``spec.settings_method``).

    Args:
        spec: The arm's method.
        settings: Names of the numbers that the arm trains with.
    """
    names = {*settings, *spec.conversions}  # a number may be given by another name of it
    # A control's step is scaled by the threshold of the method that it controls.
    if spec.control_of:
        names.add("threshold")
    methods = [spec.name]
    if spec.settings_method:
        methods.append(spec.settings_method)
    return {(method, name) for method in methods for name in names}

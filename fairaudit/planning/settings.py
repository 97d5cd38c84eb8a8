"""Where the numbers of an audit's methods come from: given by an option, else by a default rule.

Given settings are checked: they exist, lie in their ranges, and some training reads them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import SCHEDULE_RULES, PublicSizes
from fairaudit.methods.spec import MethodSpec

Place = tuple[str, str]  # a setting of a method: (method, setting)


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

    def own(self, spec: MethodSpec) -> dict[str, float]:
        """The numbers of ``--settings`` for the method, name -> value.

        A control, an ablation and a reference first take those of the method that they belong to
        (``spec.model``); settings that name them replace these.
        """
        merged: dict[str, float] = {}
        for key in (spec.model, spec.name):
            for name, values in self.config.settings.items():
                if find(name).name == key:
                    merged |= values
        return merged

    def checked(self, spec: MethodSpec, name: str, value: float) -> float:
        """The value as a float, once it is known to lie in the setting's range.

        NaN lies in none: a training with it would come out at epsilon 0.

        Raises:
            ConfigError: It lies outside; the message names the range.
        """
        setting = spec.known_settings[name]
        if not setting.admits(value, self.sizes):
            raise ConfigError(
                f"{spec.name}: {name} is {value:g}, which is not {setting.range(self.sizes)}",
                hint=f"{name}: {setting.meaning}",
            )
        return float(value)


def check_settings(numbers: SettingsResolver) -> None:
    """Refuse a given setting that does not exist or is out of its range, its method trained or not.

    Raises:
        ConfigError: That, or one setting is given twice, under two names of its method.
    """
    seen: dict[tuple[str, str], str] = {}  # canonical method, setting -> the method's name as given
    for name, values in numbers.config.settings.items():
        spec = find(name)
        model = find(spec.model) if spec.model else spec
        names = tuple(dict.fromkeys((*spec.known_settings, *model.known_settings)))
        for setting, value in values.items():
            if setting not in names:
                raise ConfigError(
                    f"method {spec.name!r} has no setting {setting!r}",
                    hint=did_you_mean(setting, names),
                )
            if seen.setdefault((spec.name, setting), name) != name:
                raise ConfigError(
                    f"{name}.{setting} and {seen[spec.name, setting]}.{setting} say the same twice",
                    hint="give one of them",
                )
            numbers.checked(spec if setting in spec.known_settings else model, setting, value)


def unread_settings(
    numbers: SettingsResolver, trained: Iterable[tuple[str, Iterable[str]]]
) -> dict[Place, str]:
    """Numbers of ``--settings`` that no training reads, each with the reason.

    Args:
        numbers: Holds the settings that were given.
        trained: Of each arm, its method's name and the names of its settings.

    Returns:
        (method as given, setting) -> why nothing reads it.
    """
    read: set[Place] = set()
    for method, settings in trained:
        read.update(_places_read(find(method), settings))
    unread: dict[Place, str] = {}
    for given, values in numbers.config.settings.items():
        method = find(given).name
        for name in values:
            if (method, name) not in read:
                unread[given, name] = _why_unread(method, read, numbers.omitted)
    return unread


def _why_unread(method: str, read: Collection[Place], omitted: Mapping[str, str]) -> str:
    """Why no training reads a number that is given for a method.

    Args:
        method: The method.
        read: Every place where a training looks for a number.
        omitted: Method that ``--method all`` leaves out -> why.
    """
    if any(of_method == method for of_method, _ in read):
        return "no form that is trained reads it"
    if method in omitted:
        return f"{method} is not trained: {omitted[method]}"
    return f"{method} is not trained"


def _places_read(spec: MethodSpec, settings: Iterable[str]) -> Iterator[Place]:
    """Where a training of this method looks for its numbers in ``--settings``.

    Under its own name, and under that of the method whose settings it takes.

    Args:
        spec: The method.
        settings: Names of the arm's numbers.
    """
    names = {*settings, *spec.conversions}
    if spec.control_of:  # its step is scaled by the threshold of the method that it controls
        names.add("threshold")
    for method in filter(None, (spec.name, spec.model)):
        for name in names:
            yield method, name

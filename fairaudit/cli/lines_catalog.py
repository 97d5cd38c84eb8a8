"""The method catalog as console lines and as JSON."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace

from fairaudit.config.presets import Preset
from fairaudit.methods.catalog import Guarantee, MethodSpec, find, home_of
from fairaudit.methods.checks import as_checked
from fairaudit.report.render.terminal import aligned

PLAIN = "dpsgd"  # with which other methods are compared
_FUNCTIONS = ("fit_work", "remark_at")  # fields of a method that JSON has no form for


def guarantee_text(guarantee: Guarantee) -> str:
    """The status of a guarantee in the words of every table."""
    if guarantee is Guarantee.NONE:
        return "no privacy"
    return guarantee.value


def method_lines(specs: Iterable[MethodSpec]) -> Iterator[str]:
    """One block per method: status, what it does, source, numbers, published forms."""
    for spec in specs:
        aliases = f"  (also {', '.join(spec.aliases)})" if spec.aliases else ""
        yield f"{spec.name}{aliases}"
        yield f"  guarantee  {guarantee_text(guarantee_of(spec))}"
        yield f"  does       {spec.summary}"
        yield f"  source     {spec.source}"
        yield f"  settings   {', '.join(spec.settings)}"
        yield from _sample_lines(spec)
        for name, conversion in spec.conversions.items():
            yield f"  or         {name}: {conversion.into} is {conversion.text}"
        if spec.all_needs:
            yield f"  needs      {', '.join(spec.all_needs)}"
        if spec.reads_groups:
            yield "  groups     training reads group labels"
        for item in spec.unprotected:
            yield f"  open       not protected: {item}"
        for variant in spec.variants:
            yield (
                f"  variant    {variant.name}: {guarantee_text(variant.guarantee)}; "
                f"{variant.reason}"
            )


def _sample_lines(spec: MethodSpec) -> Iterator[str]:
    """The method's gap on the sample table beside plain DP-SGD's, and its remark, where known."""
    if spec.gap_on_sample is not None:
        value, low, high = spec.gap_on_sample
        beside = ""
        gap_of_plain = find(PLAIN).gap_on_sample
        if spec.name != PLAIN and gap_of_plain is not None:
            beside = f"; {PLAIN} {gap_of_plain[0]:.1f}"
        yield (
            f"  on sample  gap of privacy cost, F less M, at clipping bound 1: {value:.1f} points "
            f"[{low:.1f}, {high:.1f}]{beside}"
        )
    if spec.remark:
        yield f"  note       {spec.remark}"


def one_method_lines(spec: MethodSpec, named: Iterable[Preset]) -> Iterator[str]:
    """All about one method: what it does, its settings with defaults, guarantee, paper, presets.

    Args:
        spec: The method.
        named: Every preset; those that set something of the method are listed.
    """
    yield from method_lines([spec])
    of_method = [preset for preset in named if _is_about(preset, spec)]
    if of_method:
        yield f"  presets    {', '.join(preset.name for preset in of_method)}"
    yield ""
    yield f"Settings (--settings {spec.name}.SETTING=VALUE)"
    for name, facts in described(spec).items():
        unit = f" ({facts['unit']})" if facts["unit"] else ""
        forms = [variant.name for variant in spec.variants if name in variant.settings]
        alone = ""  # of a setting that only published forms have
        if forms and name not in spec.settings:
            alone = f", in {' and '.join(forms)} alone"
        yield f"  {name}: {facts['meaning']}; {facts['range']}{unit}{alone}"
        default = facts["default"]
        if not default and name in spec.conversions:
            default = f"none; given, it sets {spec.conversions[name].into}"
        elif not default:
            default = "none, from --epsilon or given"
        yield f"    default: {default}"
    yield ""
    yield f"Try it: fairaudit run --data TABLE --group COLUMN --method {spec.name}"


def _is_about(preset: Preset, spec: MethodSpec) -> bool:
    """Whether a preset runs the method or has settings of its own for it."""
    names = {spec.name, *spec.aliases}
    methods, settings = preset.fields.get("method", ()), preset.fields.get("settings", {})
    return bool(names & {*_method_names(methods), *_method_names(settings)})


def _method_names(value: object) -> Iterable[str]:
    """The methods in a field of a preset: a tuple of names, or settings by the method's name."""
    if isinstance(value, tuple | Mapping):
        return value
    return ()


def guarantee_of(spec: MethodSpec) -> Guarantee:
    """The status of the guarantee beside a method's epsilon.

    Of a third-party method that claims one, it says whether its code passed ``methods --check`` on
    this machine.
    """
    if spec.is_private and home_of(spec):
        return as_checked(spec)
    return spec.guarantee


def described(spec: MethodSpec) -> Mapping[str, Mapping[str, str | None]]:
    """What each setting of a method is: name -> meaning, unit, range, tuning, default, in words.

    ``tuning`` is where a search looks for it; None there: it does not look. None as the default:
    there is none.
    """
    settings = {**spec.known_settings, **spec.settings}
    return {
        name: {
            "meaning": setting.meaning,
            "unit": setting.unit,
            "range": setting.range(),
            "tuning": None if setting.search is None else setting.search.text,
            "default": None if setting.default is None else setting.default.text,
        }
        for name, setting in settings.items()
    }


def method_record(spec: MethodSpec) -> dict[str, object]:
    """The JSON-ready record of one method: its fields, without those that are functions.

    Settings, variants and conversions are given by name, for their rules are functions;
    ``numbers`` says in words what each setting is.
    """
    # Without what holds functions: `asdict` would copy these.
    plain_fields = asdict(replace(spec, settings={}, variants=(), conversions={}, fit_work=None))
    for function in _FUNCTIONS:
        del plain_fields[function]
    variants = []
    for variant in spec.variants:
        fields = asdict(replace(variant, settings={}))
        variants.append({**fields, "settings": list(variant.settings)})
    return {
        **plain_fields,
        "guarantee": guarantee_of(spec),
        "settings": list(spec.settings),
        "variants": variants,
        "conversions": {name: [c.into, c.text] for name, c in spec.conversions.items()},
        "numbers": described(spec),
    }


def setting_lines(specs: Iterable[MethodSpec]) -> Iterator[str]:
    """A table of every setting that some method reads, once: its range and what it is."""
    # Methods that share a setting describe it alike but for its default, which is not shown here:
    # the last one speaks for all.
    facts_of = {name: facts for spec in specs for name, facts in described(spec).items()}
    yield ""
    yield "Settings (--settings METHOD.SETTING=VALUE)"
    rows = [("setting", "range", "meaning")]
    for name, facts in facts_of.items():
        unit = f" ({facts['unit']})" if facts["unit"] else ""
        rows.append((name, f"{facts['range']}{unit}", f"{facts['meaning']}"))
    yield from aligned(rows, left={0, 1, 2})

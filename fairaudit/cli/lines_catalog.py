"""The method catalog as console lines."""

from collections.abc import Iterable, Iterator

from fairaudit.cli.lines import spoken_guarantee
from fairaudit.methods.catalog import MethodSpec


def method_lines(specs: Iterable[MethodSpec]) -> Iterator[str]:
    """One block per method: status, what it does, source, numbers, published forms."""
    for spec in specs:
        aliases = f"  (also {', '.join(spec.aliases)})" if spec.aliases else ""
        yield f"{spec.name}{aliases}"
        yield f"  guarantee  {spoken_guarantee(spec.guarantee)}"
        yield f"  does       {spec.summary}"
        yield f"  source     {spec.source}"
        yield f"  settings   {', '.join(spec.settings)}"
        for name, conversion in spec.conversions.items():
            yield f"  or         {name}: {conversion.into} is {conversion.text}"
        if spec.all_needs:
            yield f"  needs      {', '.join(spec.all_needs)}"
        if spec.reads_groups:
            yield "  groups     training reads group labels"
        for item in spec.unprotected:
            yield f"  open       not protected: {item}"
        for variant in spec.variants:
            yield f"  variant    {variant.name}: {spoken_guarantee(variant.guarantee)}; {variant.reason}"

"""A report whose every name from the file tries to be something else than text."""

from dataclasses import replace

from handmade import built, comparison, dataset, plan, resolved, results

from fairaudit.planning.flow import Audit

NAMES = (
    "a|b`c`*d*_e_[x](javascript:alert(1))",
    "line\nbreak\r\n## heading",
    "<script>window.harmed=1</script>",
    "</script><img src=x onerror=window.harmed=1>",
    "\u202egnp.exe",
    "x" * 5000,
    "<!-- {{ 7*7 }} {% raw %} ${window.harmed=1}",
)


def hostile_report(names=NAMES):
    settled = resolved(label=names[2], group=[names[0]])
    made = plan(settled.config)
    data = replace(
        dataset(names),
        name=names[3],
        label=names[2],
        classes=(names[2], names[1]),
        dropped_columns={names[2]: names[3], names[0]: "constant"},
        missing={names[1]: {names[2]: 2}},
    )
    costs = tuple(0.01 * i for i in range(len(names)))
    compared = comparison(costs=costs, names=names)
    return built(Audit(settled, made, data, results(made), {}, (compared,)))

"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

LEAKAGE = Capability(
    name="leakage",
    plan="fairaudit.leakage.plan:plan_beside",
    rows="fairaudit.data.split:draw_members",
    outcome="fairaudit.leakage.outcome:on_everyone",
    study="fairaudit.leakage.study:Leakage",
    measure="fairaudit.leakage.measure:measure",
)

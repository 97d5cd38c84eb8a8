"""What this folder adds to audits."""

from fairaudit.capabilities import Capability

TUNING = Capability(
    name="tuning",
    refuse="fairaudit.tuning.plan:refuse",
    unsuited="fairaudit.tuning.plan:unsuited",
    kept_apart="fairaudit.tuning.plan:kept_apart",
    search="fairaudit.tuning.charge:search_of",
    try_settings="fairaudit.tuning.trials:search",
    search_ranges="fairaudit.tuning.ranges:search_ranges",
    try_ranges="fairaudit.tuning.ranges:try_ranges",
    try_twins="fairaudit.tuning.trials:twins",
    release="fairaudit.tuning.release:best_of_tries",
    plan="fairaudit.tuning.plan:plan_beside",
    study="fairaudit.tuning.study:Tuned",
    measure="fairaudit.tuning.measure:measure",
    limitations="fairaudit.tuning.limitations:limitations",
)

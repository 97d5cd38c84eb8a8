"""What a plan shows before training, and what became of the trainings."""

from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.privacy.events import shown_up

# --- the plan


@dataclass(frozen=True, slots=True)
class ModelCopied(Message):
    """How many parameters each record has a copy of, and why its layers give no gradients."""

    code = "model_copied"
    level = "notice"
    when = "gradients of single records cannot be had from the layers of an own model"

    parameters: int
    reason: str

    @property
    def text(self) -> str:
        return (
            f"each record has a copy of all {self.parameters:,} parameters, which takes time and "
            f"memory, for gradients cannot be had from its layers: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class MethodLeftOut(Message):
    """A method that was not asked for by its name and cannot be trained, and why."""

    code = "method_left_out"
    level = "notice"
    when = "`--method all` leaves out a method that does not go with the data or the options"

    method: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.method} is left out: {self.reason}"


@dataclass(frozen=True, slots=True)
class UnequalEpsilon(Message):
    """Keys of arms with the epsilon of each."""

    code = "unequal_epsilon"
    when = "--noise-multiplier gives methods unequal epsilons"

    epsilons: tuple[tuple[str, float], ...]

    @property
    def text(self) -> str:
        shown = ", ".join(f"{arm} {shown_up(epsilon)}" for arm, epsilon in self.epsilons)
        return f"all methods share one noise multiplier, so their epsilons differ: {shown}"

    @property
    def fix(self) -> str:
        return "use --epsilon to compare methods at one epsilon"


@dataclass(frozen=True, slots=True)
class FewSeeds(Message):
    """How many seeds there are."""

    code = "few_seeds"
    when = "fewer than five seeds are trained"

    seeds: int

    @property
    def text(self) -> str:
        if self.seeds == 1:
            return "1 seed: a single one leaves no interval, and no measurement is gated"
        return f"{numbered(self.seeds, 'seed')}: intervals are wide and not gated"

    @property
    def fix(self) -> str:
        return "use --seeds 5 or more"


@dataclass(frozen=True, slots=True)
class SettingNotUsed(Message):
    """A setting of a method, where its value is from, and why nothing reads it."""

    code = "setting_not_used"
    level = "notice"
    when = "a config file sets what no planned method reads"

    method: str
    setting: str
    origin: str
    reason: str

    @property
    def text(self) -> str:
        return f"{self.method}.{self.setting} ({self.origin}) is not used: {self.reason}"


@dataclass(frozen=True, slots=True)
class PresetNote(Message):
    """A note of a preset, in its own words."""

    code = "preset_note"
    level = "notice"
    when = "a preset differs from what its publication says"

    note: str

    @property
    def text(self) -> str:
        return self.note


@dataclass(frozen=True, slots=True)
class ManyGroups(Message):
    """How many groups are compared at how many seeds, and the seeds that would do."""

    code = "many_groups"
    when = "more than two groups are compared at few seeds"

    groups: int
    seeds: int
    enough: int

    @property
    def text(self) -> str:
        groups, seeds = numbered(self.groups, "group"), numbered(self.seeds, "seed")
        return f"{groups} with {seeds}: intervals over all pairs are wide"

    @property
    def fix(self) -> str:
        return f"--seeds {self.enough}; finished seeds are kept"


@dataclass(frozen=True, slots=True)
class ControlNotRun(Message):
    """Arms that scale gradients by a threshold, and the method that is their control."""

    code = "control_not_run"
    when = "a method that also clips less is trained without its control"

    arms: tuple[str, ...]
    control: str

    @property
    def text(self) -> str:
        return (
            f"{', '.join(self.arms)} may cost less than dpsgd by clipping less alone; no control "
            "was trained"
        )

    @property
    def fix(self) -> str:
        return f"add --method {self.control}"


# --- trainings without a result


@dataclass(frozen=True, slots=True)
class SeedFailed(Message):
    """The seeds at which an arm has no result, of how many, and why at the first of them."""

    code = "seed_failed"
    when = "a training of the audit has no result"

    arm: str
    seeds: tuple[int, ...]
    planned: int
    reason: str

    @property
    def text(self) -> str:
        planned = numbered(self.planned, "seed")
        seeds = ", ".join(map(str, self.seeds))
        return f"{self.arm}: {len(self.seeds)} of {planned} failed (seed {seeds}): {self.reason}"

    @property
    def fix(self) -> str:
        return "finished seeds are kept; the same command tries the others again"


@dataclass(frozen=True, slots=True)
class TwinFailed(Message):
    """The first seed at which an arm has no result without its noise, and why."""

    code = "twin_failed"
    when = "the twin of a private training, which splits its cost, has no result"

    arm: str
    seed: int
    reason: str

    @property
    def text(self) -> str:
        return (
            f"{self.arm} without its noise has no result at seed {self.seed}, so its cost is not "
            f"split: {self.reason}"
        )

    @property
    def fix(self) -> str:
        return "a smaller --learning-rate"

    @property
    def about(self) -> str:
        return self.arm

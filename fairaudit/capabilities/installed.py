"""The folders that add to audits: the one place that names them."""

from fairaudit.capabilities.base import Capability
from fairaudit.choosing.capability import Choosing
from fairaudit.disagreement.capability import DecidedByChance
from fairaudit.leakage.capability import MembershipAttacks
from fairaudit.papers.capability import Papers
from fairaudit.release.capability import Releasing
from fairaudit.trainers.capability import OwnTrainers
from fairaudit.tuning.capability import SettingsSearch

CAPABILITIES: tuple[Capability, ...] = (
    Papers(),
    MembershipAttacks(),
    DecidedByChance(),
    OwnTrainers(),
    SettingsSearch(),
    Choosing(),
    Releasing(),
)


def capability(name: str) -> Capability:
    """The capability of that name.

    Raises:
        KeyError: No capability has that name.
    """
    by_name = {installed.name: installed for installed in CAPABILITIES}
    return by_name[name]

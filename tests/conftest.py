"""What all tests share: hypothesis profiles, one torch thread, the way to the real data."""

import gc
import math
import os
import signal
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from fairaudit.privacy import accounting, tradeoff

HERE = Path(__file__).resolve().parent

# Tests are imported by path, so what several of them share must be found by name.
sys.path.insert(0, str(HERE / "support"))

# A million objects of libraries and tests stay to the end. To look through them for garbage as
# often as Python does by default takes a tenth of the time.
gc.set_threshold(50_000, 20, 20)

# A shell that starts tests in the background has them ignore Ctrl-C, which some of them send.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("fast", max_examples=20, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "thorough", max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


TABLE = tomllib.loads((HERE / "rooms.toml").read_text("utf-8"))
QUICK, FIRST, EXACT = (tuple(TABLE[name]["tests"]) for name in ("quick", "first", "exact"))
COARSE_INTERVAL = 1e-3  # nats, to which privacy losses are rounded: ten times what users get
COARSE_ORDERS = accounting.ORDERS[3::5]  # every fifth


def pytest_configure(config):
    """Two processes take files in the order that is made below, not by their number of tests."""
    if hasattr(config.option, "loadscopereorder"):  # from xdist 3.7 on
        config.option.loadscopereorder = False


def pytest_ignore_collect(collection_path, config):
    """With `-m quick` no other file of tests is read."""
    is_other = not collection_path.relative_to(HERE).as_posix().startswith(QUICK)
    if config.option.markexpr == "quick" and collection_path.is_file() and is_other:
        return True
    return None


def pytest_collection_modifyitems(items):
    """Mark what tests/rooms.toml calls quick, but for what is slow there; put its first first."""
    for item in items:
        is_named = item.nodeid.removeprefix("tests/").startswith(QUICK)
        if is_named and not item.get_closest_marker("slow"):
            item.add_marker("quick")
    items.sort(key=lambda item: not item.nodeid.removeprefix("tests/").startswith(FIRST))


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread():
    """Jobs run with one thread each, and so do their tests.

    Tests that need no torch do not load it.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True)
def same_start():
    """Every test begins with the same global generator of torch and with denormal numbers.

    A job run in this process sets them to zero, as a worker's.
    """
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)


@pytest.fixture(autouse=True, scope="module")
def coarse_accountant(request):
    """Epsilons of a file's tests are still upper bounds, but a few thousandths larger than users'.

    They take less time. Tests that name a value are in files that tests/rooms.toml
    calls exact; a run with `-m slow` accounts as users' audits do.
    """
    file = Path(request.path).relative_to(HERE).as_posix()
    if file.startswith(EXACT) or request.config.option.markexpr == "slow":
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "_INTERVAL", COARSE_INTERVAL)
        patch.setattr(accounting, "ORDERS", COARSE_ORDERS)
        forget_epsilons()
        yield
    forget_epsilons()


def forget_epsilons():
    """Empty the caches of what was accounted for with another rounding."""
    for function in (
        accounting._epsilon,
        accounting._renyi_step,
        accounting._total_sigma,
        tradeoff.attack_rates,
    ):
        function.cache_clear()


@pytest.fixture
def quick_accountant(monkeypatch):
    """For plans whose epsilons are nobody's business.

    Epsilon is 1 / sigma_eff, which takes no time.
    """

    def epsilon(event, delta, accountant):
        return 1.0 / event.effective_noise_multiplier

    def calibrate(steps_per_epoch, steps, delta, target, side):
        return 1.0 / math.sqrt(target**2 - sum(sigma**-2 for sigma in side))

    monkeypatch.setattr("fairaudit.planning.guarantees.epsilon", epsilon)
    monkeypatch.setattr("fairaudit.methods.spec.calibrate", calibrate)
    monkeypatch.setattr(
        "fairaudit.planning.plan.composed_epsilon", lambda runs, delta: float(len(runs))
    )

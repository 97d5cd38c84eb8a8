"""Ray as an executor, with toy trainings."""

import importlib
import importlib.util
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from places import TOYS

from fairaudit.errors import ConfigError
from fairaudit.execution import ray_cluster as cluster_module
from fairaudit.execution.executor import Died, Raised
from fairaudit.execution.ray_cluster import Cluster, RayRequest, require_ray

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="Ray is not installed (the extra `ray`)")
# Ray's own modules leave sockets and processes to the garbage collector.
ray_warnings = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")


@pytest.fixture
def toys(monkeypatch):
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TOYS), *sys.path]))
    return importlib.import_module("toy_training")


def collect(executor, tasks):
    """The answers by number of worker, in order of arrival, once every worker has had its tasks."""
    waiting, answers = list(tasks), []
    while len(answers) < len(tasks):
        for number in executor.idle:
            if waiting:
                executor.give(number, waiting.pop(0))
        answers += executor.wait()
    return answers


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(cluster_module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'ray>="):
        require_ray()


def test_a_node_that_does_not_tell_a_version_is_refused_like_one_of_another_version(monkeypatch):
    """As one with an older release, which may not know of every package."""
    greeted = {name: v for name, v in cluster_module._versions().items() if name != "scipy"}
    ray = SimpleNamespace(get=lambda call: greeted, exceptions=SimpleNamespace(RayError=OSError))
    executor = Cluster(max, 0, 1, RayRequest())
    monkeypatch.setattr(executor, "_ray", ray, raising=False)
    executor._starting["call"] = 0, None
    with pytest.raises(ConfigError, match="a node of the cluster has scipy unknown, unlike"):
        executor._greet("call")
    assert executor.idle == ()


@needs_ray
@ray_warnings
def test_an_address_where_no_cluster_is_is_refused():
    with pytest.raises(ConfigError, match="cannot use the Ray cluster at"):
        Cluster(max, 0, 1, RayRequest("127.0.0.1:1")).__enter__()


@needs_ray
@ray_warnings
@pytest.mark.slow
@pytest.mark.faults
def test_workers_on_ray_keep_the_contract_of_an_executor(toys, tmp_path, capsys):
    before = signal.getsignal(signal.SIGTERM)
    log = tmp_path / "threads"
    with Cluster(
        toys.serve_shared, {"log": str(log), "offset": 10}, 3, RayRequest(workers=2)
    ) as executor:
        assert signal.getsignal(signal.SIGTERM) is before
        assert executor.idle == ()
        answers = [answer for _, answer in collect(executor, [1, 2, "fail", 3, "bug"])]
        assert sorted(a for a in answers if isinstance(a, int)) == [11, 12, 13]
        ours, bug = sorted(
            (a for a in answers if isinstance(a, Raised)), key=lambda a: a.error is None
        )
        assert str(ours.error) == "the toy failed (try again)"
        assert (bug.error, "ZeroDivisionError" in bug.report) == (None, True)
        ((number, death),) = collect(executor, ["die"])
        assert isinstance(death, Died)
        assert death.cause
        assert number not in executor.idle
        assert [a for _, a in collect(executor, [4, 5, 6])] == [14, 15, 16]
        folders = [Path(word) for word in log.read_text().split() if "fairaudit-" in word]
        assert {line.split()[0] for line in log.read_text().splitlines()} == {"threads=1"}
    assert folders
    assert not any(folder.exists() for folder in folders)
    assert capsys.readouterr().out == ""

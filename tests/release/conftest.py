import json
import sys
from types import SimpleNamespace

import pytest
from audits import audited
from people import OWN, RECIPE, TOLD, applicants

from fairaudit.release.planned import ReleaseRequest, plan_release
from fairaudit.release.train import release


@pytest.fixture(scope="session")
def stored(tmp_path_factory):
    """Options -> the path of a report on the same people, made once for equal options."""
    folder = tmp_path_factory.mktemp("audits")
    applicants().to_parquet(folder / "people.parquet", index=False)
    made, kept = {}, {}

    def _stored(**options):
        key = json.dumps({name: str(value) for name, value in options.items()}, sort_keys=True)
        if key not in made:
            given = {"method": ["dpsgd"], "columns": {"columns": TOLD}, **RECIPE, **options}
            given = {name: value for name, value in given.items() if value is not None}
            data = given.pop("data", folder / "people.parquet")
            folder_of_it = folder / str(len(made))
            made[key] = audited(folder_of_it, kept=kept, data=data, **given).path
        return made[key]

    return _stored


@pytest.fixture
def trained(stored, tmp_path):
    """A model's folder and what led to it."""

    def _trained(method="dpsgd", wish=None, name="model", **options):
        options = {"method": [method], **options}
        choice = plan_release(ReleaseRequest(stored(**options), method, **(wish or {})))
        found = release(choice, tmp_path / name)
        return SimpleNamespace(
            folder=tmp_path / name, choice=choice, held_out=found, report=stored(**options)
        )

    return _trained


@pytest.fixture
def own_model(tmp_path, monkeypatch):
    """The file of a model of one's own, whose factory is ``own_release_toy:make``."""
    path = tmp_path / "own_release_toy.py"
    path.write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "own_release_toy", raising=False)
    yield path
    sys.modules.pop("own_release_toy", None)

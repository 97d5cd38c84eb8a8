"""Modules that options name: found where they lie, and never in the place of another's."""

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest
from refusals import refused_in_one_line

from fairaudit.errors import ConfigError
from fairaudit.io import named_code
from fairaudit.io.code_digest import code_digest
from fairaudit.io.named_code import advice, hidden, import_named, make_findable
from fairaudit.methods.catalog import admit
from fairaudit.models.zoo import own_model

MINE = ("named_here", "lies_beside", "in_a_folder", "in_a_folder.inner")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, in which a command was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    others = [
        finder for finder in sys.meta_path if not isinstance(finder, named_code._FolderFinder)
    ]
    monkeypatch.setattr(
        sys, "meta_path", others
    )  # another test of this process may have named code
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(named_code, "_announced", [])
    yield tmp_path
    for name in MINE:
        sys.modules.pop(name, None)


def write(folder, **modules):
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(code + "\n")


def test_the_folder_is_searched_once_an_option_names_a_module_of_it_and_last(here):
    write(here, named_here="import lies_beside", lies_beside="A = 1", json="wrong = 1")
    with pytest.raises(ImportError):
        import_module("lies_beside")
    path = list(sys.path)
    assert import_named("named_here").lies_beside.A == 1
    assert sys.path == path
    assert not hasattr(import_module("json"), "wrong")
    assert len([f for f in sys.meta_path if isinstance(f, named_code._FolderFinder)]) == 1
    import_named("named_here")
    assert len([f for f in sys.meta_path if isinstance(f, named_code._FolderFinder)]) == 1


def test_an_installed_module_is_imported_as_ever_and_the_folder_stays_shut(here):
    write(here, lies_beside="")
    before = list(sys.meta_path)
    assert import_named("fairaudit.errors") is import_module("fairaudit.errors")
    assert sys.meta_path == before
    assert find_spec("lies_beside") is None


@pytest.mark.parametrize("form", ["package", "namespace"])
def test_a_module_in_a_package_of_the_folder_is_found(here, form):
    (here / "in_a_folder").mkdir()
    if form == "package":
        (here / "in_a_folder" / "__init__.py").touch()
    write(here / "in_a_folder", inner="B = 2")
    make_findable("in_a_folder.inner")
    empty = code_digest(["no_such_module"])
    assert code_digest(["in_a_folder.inner"]) != empty
    assert import_named("in_a_folder.inner").B == 2


# Of another system; of the program's own, which is not installed everywhere; of the program.
@pytest.mark.parametrize("name", ["msvcrt", "ray", "vl_convert", "fairaudit"])
def test_what_the_program_or_python_imports_is_never_of_the_folder(here, name, monkeypatch):
    write(here, named_here="", **{name: "wrong = 1"})
    import_named("named_here")
    monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        found = find_spec(name)
    except ModuleNotFoundError:
        found = None
    assert found is None or str(here) not in str(found.origin)
    with pytest.raises(ConfigError, match="rename yours"):
        own_model(f"{name}:net", (2,), 2)
    named_code.put_on_path(str(here))  # as in the process of a trainer
    assert sys.path[-1] == str(here)
    found = find_spec(name)
    assert found is None or str(here) not in str(found.origin)
    assert find_spec("named_here").origin == str(here / "named_here.py")


@pytest.mark.parametrize("name", ["code", "numpy"])
def test_a_name_that_is_taken_is_said_to_be(here, name):
    write(here, **{name: "net = SPEC = 1"})
    for named in (lambda: own_model(f"{name}:net", (2,), 2), lambda: admit([f"{name}:SPEC"])):
        with refused_in_one_line(ConfigError, name) as caught:
            named()
        assert "rename yours" in caught.value.hint
    assert hidden(f"{name}.inner") == advice(name) != ""
    assert hidden("named_here") == ""
    assert "PYTHONPATH" in advice("named_here")


@pytest.mark.parametrize("name", ["", ".x", "a b", "a\0b", "x" * 5000, "a/b", "..", "__main__"])
def test_what_is_no_name_of_a_module_is_refused(here, name):
    write(here, named_here="")
    with refused_in_one_line(ConfigError, "PYTHONPATH" if name != "__main__" else "no MethodSpec"):
        admit([f"{name}:SPEC"])


def test_another_process_looks_in_the_folder_of_the_command(here, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    write(elsewhere, named_here="C = 3")
    named_code.look_in(str(elsewhere))
    assert import_named("named_here").C == 3

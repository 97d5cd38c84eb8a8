"""The pages in docs/: made by the program, and true of it."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def make():
    spec = importlib.util.spec_from_file_location("docs_make", DOCS / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_that_of_the_program(make):
    path = DOCS / "reference.md"
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(make.reference(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == make.reference(), "run: python docs/make.py reference"


def test_each_example_has_the_verdict_of_its_name(make):
    for name, rule in make.EXAMPLES.items():
        text = (DOCS / "examples" / f"{name}.md").read_text(encoding="utf-8")
        assert f"**{name.upper()}: " in text
        assert f"| {rule} |" in text
        assert f"fairaudit {' '.join(make.AUDIT)}" in text
        assert len(text.splitlines()) < 200


def test_pages_link_to_what_exists():
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())]
    assert links
    for page, link in links:
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_no_page_names_this_machine():
    for page in DOCS.rglob("*.*"):
        if page.suffix in {".md", ".svg"}:
            assert not re.search(r"/(home|root|tmp|work)/", page.read_text(encoding="utf-8")), page.name


def installs():
    """What each page tells pip to install, one requirement after the other."""
    root = DOCS.parent
    pages = [*DOCS.rglob("*.md"), *root.glob("*.md"), *root.glob(".pre-commit*.yaml")]
    for page in pages:
        if page.name == "CHANGELOG.md":
            continue
        for line in page.read_text(encoding="utf-8").splitlines():
            for found in re.findall(r"pip install ((?:-\S+ )*)(\"[^\"]+\"|'[^']+'|[^\s`&;)]+)", line):
                yield page.name, found[1].strip("\"'")


def test_pages_install_this_project_and_never_what_is_called_like_its_package():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] not in {"fairaudit", "fair-audit"}
    assert "fairaudit" in project["scripts"]
    found = list(installs())
    assert {page for page, _ in found} >= {"README.md", "ci.md", "cluster.md"}
    for page, wanted in found:
        is_checkout = re.fullmatch(r"\.(\[\w+\])?", wanted)
        is_repository = re.fullmatch(re.escape(project["name"]) + r" @ git\+https://\S+@v[\d.]+", wanted)
        assert is_checkout or is_repository, f"{page} installs {wanted}"


def test_what_an_error_says_to_install_is_what_the_project_declares():
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cluster = (DOCS.parent / "fairaudit" / "cluster.py").read_text(encoding="utf-8")
    assert re.findall(r"pip install '([^']+)'", cluster) == project["optional-dependencies"]["ray"]

"""The pages in docs/: made by the program, and true of it."""

import re

import pytest
from places import ROOT, program

from fairaudit.methods.catalog import Guarantee, catalog

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def make():
    return program("docs/make.py")


def test_the_reference_builds(make, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "dumb")
    text = make.reference()
    for heading in ("### fairaudit run", "## Settings", "## Metrics"):
        assert f"\n{heading}\n" in text


def test_pages_link_to_what_exists():
    pages = [*DOCS.rglob("*.md"), DOCS.parent / "README.md"]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
    ]
    assert links
    for page, link in links:
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_every_guarantee_that_is_called_established_has_its_section():
    text = (DOCS / "methods.md").read_text("utf-8")
    proofs = {}
    for section in re.split(r"^##+ ", text, flags=re.MULTILINE):
        heading, _, body = section.partition("\n")
        proofs |= dict.fromkeys(re.findall(r"`([\w-]+)`", heading), body)
    established = [spec for spec in catalog().values() if spec.guarantee is Guarantee.ESTABLISHED]
    assert len(established) >= 10
    for spec in established:
        assert re.search(r"Event: |sensitivity|moves by at most", proofs[spec.name]), spec.name
        for variant in spec.variants:
            if variant.guarantee is Guarantee.ESTABLISHED:
                assert f"`{variant.name}`" in text, variant.name


def test_files_that_the_page_on_architecture_names_exist():
    text = (DOCS / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`((?:\w+/)*\w+\.py|(?:cli|methods|tests)/\w+/)`", text))
    assert named
    for name in named:
        base = DOCS.parent if name.startswith("tests/") else DOCS.parent / "fairaudit"
        assert (base / name).exists(), name

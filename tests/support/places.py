"""Where things lie beside the package."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOANS = ROOT / "sample_data" / "loans.parquet"
TOYS = ROOT / "tests" / "toys"


def program(name):
    """The module of a file that is in no package, as ``benchmarks/coverage.py``."""
    path = ROOT / name
    spec = importlib.util.spec_from_file_location(f"{path.stem}_program", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def trainings(out):
    """The finished trainings in an output folder: file -> when it was written."""
    return {path: path.stat().st_mtime_ns for path in (out / "jobs").glob("*.safetensors")}

"""Array names are unique over all structs of the package (``echelon.sim.structs``)."""

from __future__ import annotations

import importlib
from collections import defaultdict
from pathlib import Path

from echelon.sim.structs import STRUCTS, Field, declaration_conflict

ROOT = Path(__file__).resolve().parents[2]


def modules_with_structs() -> list[str]:
    """Return the modules of the package that declare structs."""
    found = [p for p in (ROOT / "echelon").rglob("*.py") if "\n@array_struct\n" in p.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found]


def test_arrays_are_declared_by_one_struct():
    modules = modules_with_structs()
    for name in modules:
        importlib.import_module(name)
    declared: defaultdict[str, list[Field]] = defaultdict(list)
    for struct in STRUCTS:
        if struct.cls.__module__ in modules:
            for name, row in struct.fields.items():
                if not any(row is other for other in declared[name]):
                    declared[name].append(row)
    assert len(modules) > 5 and "hp" in declared
    conflicts = [str(declaration_conflict(name, *rows)) for name, rows in declared.items() if len(rows) > 1]
    assert not conflicts, "\n".join(conflicts)

"""No import cycle among files: top-level, function-level and type-checking imports all count."""

from graphlib import TopologicalSorter

import grimp

LAZY = {"echelon_cli.tui.app": "echelon_cli.tui.screens"}
"""Screens are loaded when first opened; the table of screens is in the app."""


def test_imports_have_no_cycle():
    graph = grimp.build_graph("echelon", "echelon_cli", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    for module, package in LAZY.items():
        imports[module] = {name for name in imports[module] if not name.startswith(package)}
    # a package's __init__ that re-exports lazily is an entry point, not a dependency of the modules below it
    imports["echelon"] = set()
    TopologicalSorter(imports).prepare()  # names the modules of a cycle

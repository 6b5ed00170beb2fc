"""The layers are import-linter's (pyproject.toml); within a package, too, no modules import each other in a circle."""

from graphlib import TopologicalSorter

import grimp


def test_no_import_circle():
    graph = grimp.build_graph("app", exclude_type_checking_imports=False)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    # Raises CycleError, with the circle, where there is one.
    TopologicalSorter(imports).prepare()
    assert len(imports) > 400

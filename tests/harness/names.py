"""`python -m tests.harness.names`: names of `app/` that say too little, counted against falling ceilings.

    functions   functions and methods whose name does not begin with a verb (`_converted`, `rows`)
    values      parameters and variables named `one`, `found`, `made`, `at` or `own`, outside comprehensions
    classes     names that more than one class has

The ceilings are in `tests/names.toml`. Whoever repairs names lowers them: a count below its ceiling fails as well as one
above it. With `--list`, each name is printed with its place.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CEILINGS: Final = ROOT / "tests" / "names.toml"
VAGUE: Final = frozenset({"one", "found", "made", "at", "own"})
VERBS: Final = frozenset(
    """
    abandon abort accept accepts aclose acquire activate add admit admits adopt advance advise agrees allow allows announce
    answer append apply approve are arm as ask assemble assess attach attempt authenticate authorise await beat become begin
    begins bind block bound breaks build call can cancel catch change charge check choose claim clean clear close collect
    commit compact compare compile complete compose compute conclude confirm connect connection_lost connection_made consume
    contains convert copy count covers create cut data_received decide declare decode decrypt delete deliver derive describe
    detect differs digest disable disarm discard disconnect discover dispatch do does download drain drop dump encode
    encrypt end enqueue ensure enter eof_received escape evaluate evict examine exceeds exchange execute exists exit expand
    expire expires explain export extend extract fail feed fetch fill filter find finish fit fits flatten flush fold follow
    follows forget fork format forward free freeze from gather generate get grant group guess handle has hash hide hold
    holds identify ignore import include increase infer inherit inject insert inspect install interrupt invalidate invoke is
    issue iterate join keep kill lacks lease leave let limit link list listen load lock log look looks lose maintain make
    map mark mask match matches may measure merge migrate mint mount move moves must name narrow needs negotiate normalize
    note notify observe of offer omit on open order overlaps override parse partition pass patch pause perform permits pin
    place plan poll post prefer prepare preview print probe process project propose prune publish put quote raise rank read
    reads reap rebuild receive recognise reconnect record redact redeem redirect rediscover reduce refer refers reflect
    refresh register reject rejects release reload relocate remember remove rename render renew repair repeat replace replay
    report request require requires reserve reset resolve respond responds restart restore restrict result resume retain
    retire retrieve retry return reuse revoke rewrap rewrite rotate round run sanitize save scan schedule score seal search
    see select send separate serialise serve serves set settle shape share shorten should show shut shutdown sign simplify
    skip slim sniff sort spawn spend split start stop store strip submit subscribe substitute suggest summarise sweep take
    takes throw to touch trace track translate trim truncate trust trusts try turn undo unite unpack unwrap update upgrade
    use uses validate verify visit wait wake walk warn watch with withdraw without wrap write
    """.split()  # noqa: SIM905
    # A list of strings would have a line for each.
)
"""First words of names, also those of predicates (`is`, `has`, `allows`) and of constructors (`of`, `from`, `with`)."""
_PROPERTIES: Final = (
    "property",
    "overload",
    "validator",
    "serializer",
    "setter",
    "router.",
    "command(",
    "callback(",
)


def count_names(folder: Path) -> dict[str, list[str]]:
    """Return the places (`path:line name`) of names that say too little, by the kind of name."""
    places: dict[str, list[str]] = {"functions": [], "values": [], "classes": []}
    trees: dict[str, ast.Module] = {}
    finders = {"functions": _find_functions, "values": _find_values}
    for path in sorted(folder.rglob("*.py")):
        if path.name.endswith("_pb2.py"):
            continue
        tree = ast.parse(path.read_text())
        file = path.relative_to(folder.parent)
        for kind, find in finders.items():
            places[kind] += [f"{file}:{line} {name}" for line, name in find(tree)]
        trees[str(file)] = tree
    for name, class_places in find_shared_class_names(trees).items():
        first, *others = class_places
        places["classes"] += [f"{place} {name}, and {first} {name}" for place in others]
    return places


def find_shared_class_names(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the names that more than one class has, sorted, each with the places (`path:line`) of its classes."""
    places: dict[str, list[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return {name: places[name] for name in sorted(places) if len(places[name]) > 1}


def _find_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
            decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
            if any(word in decorator for decorator in decorators for word in _PROPERTIES):
                continue
            name = node.name.strip("_")
            if name not in VERBS and name.partition("_")[0] not in VERBS:
                yield node.lineno, node.name


def _find_values(tree: ast.Module) -> Iterator[tuple[int, str]]:
    comprehended = {
        id(name)
        for node in ast.walk(tree)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if node.id in VAGUE and id(node) not in comprehended:
                yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in VAGUE:
            yield node.lineno, node.arg


def read_ceilings() -> dict[str, int]:
    """Return the ceilings by kind of name."""
    ceilings: dict[str, int] = tomllib.loads(CEILINGS.read_text())
    return ceilings


def main() -> None:
    """Print the counts and their ceilings, with `--list` all places."""
    ceilings = read_ceilings()
    for kind, places in count_names(ROOT / "app").items():
        print(f"{kind}: {len(places)} of {ceilings[kind]}")
        if "--list" in sys.argv[1:]:
            print("\n".join(places))


if __name__ == "__main__":
    main()

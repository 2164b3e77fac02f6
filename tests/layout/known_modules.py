"""The modules of the library, and what each imports."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ("ldp_flower", "clients", "strategies")


def modules(folder):
    return sorted((ROOT / folder).rglob("*.py"))


def library():
    """Return the path of every module by its absolute name."""
    found = {}
    for folder in LIBRARY:
        for path in modules(folder):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join(parts if folder == "ldp_flower" else ("ldp_flower", *parts))] = path
    return found


def imports(known, name, *, at_run_time=False):
    """Return which known modules a module imports, in functions too."""
    tree = ast.parse(known[name].read_text("utf-8"))
    if at_run_time:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = [ast.Pass()]
    package = name if known[name].name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: 1 - node.level or None] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                full = f"{stem}.{alias.name}"
                found.add(full if full in known else stem)
    return (found & set(known)) - {name}

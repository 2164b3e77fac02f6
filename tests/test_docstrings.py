"""A strategy's parameters are documented once: where they are declared, by what they mean there."""

import inspect
import re
from collections import Counter
from dataclasses import fields

import pytest

from ldp_flower.strategies import LdpStrategy
from ldp_flower.strategies.catalogue import PROTOCOLS, PUBLIC

MOST_REPEATED = 10  # entries; before parameters had moved to the families' bases they were 73


def every_class():
    """Return all strategies and their bases, a base before its subclasses."""
    found = [LdpStrategy]
    for kind in found:  # grows
        found += [sub for sub in kind.__subclasses__() if sub.__module__.startswith("ldp_flower.")]
    return list(dict.fromkeys(found))


def documented(kind):
    """Return the entries under Parameters in a class's own docstring, by name."""
    text = inspect.cleandoc(vars(kind)["__doc__"])
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n---|\Z)", text, re.DOTALL | re.M)
    entries = re.split(r"^(?=\S)", section[1], flags=re.M)[1:] if section else []
    named = {}
    for entry in entries:
        for name in entry.partition(" : ")[0].split(", "):
            assert name not in named, (kind, name)
            named[name] = entry.partition(" : ")[2].strip()
    return named


def arguments(kind):
    return {field.name for field in fields(kind) if field.init}


def test_all_strategies_are_looked_at():
    public = set(PUBLIC.values())
    classes = {kind for kind in public if isinstance(kind, type) and issubclass(kind, LdpStrategy)}
    assert len(classes) > 20
    assert classes <= set(every_class())


@pytest.mark.parametrize("kind", every_class(), ids=lambda kind: kind.__name__)
def test_a_class_documents_what_it_declares(kind):
    entries, declared = documented(kind), arguments(kind) & set(inspect.get_annotations(kind))
    assert declared <= set(entries) <= arguments(kind)
    for name in set(entries) - declared:  # inherited: said again if it means something else here
        above = [documented(base)[name] for base in kind.__mro__[1:] if has(base, name)]
        assert above and entries[name] not in above, name


def has(base, name):
    return base in every_class() and name in documented(base)


@pytest.mark.parametrize("kind", every_class()[1:], ids=lambda kind: kind.__name__)
def test_help_says_where_the_other_parameters_are(kind):
    """From base to base, until all are found."""
    base = kind.__mro__[1]
    assert arguments(base) <= set(documented(kind)) or base.__name__ in vars(kind)["__doc__"]


def test_few_parameters_are_described_twice():
    """An entry, its name, type and text, counts for each class but the first that has it."""
    entries = Counter(entry for kind in every_class() for entry in documented(kind).items())
    repeated = {entry: count for entry, count in entries.items() if count > 1}
    assert sum(repeated.values()) - len(repeated) <= MOST_REPEATED, repeated


@pytest.mark.parametrize("kind", PROTOCOLS.values(), ids=PROTOCOLS)
def test_help_states_the_guarantee_in_numbered_points(kind):
    sections = re.findall(
        r"^Guarantee\n-{9}\n(1\. .*?)(?=^\w|\Z)", inspect.getdoc(kind), re.S | re.M
    )
    assert len(sections) == 1

"""Isolation in the statistics: a user's value has the same bits whatever others hold.

Compared bit by bit and before any rounding, for every statistic that a query can name: a
server chooses queries, and other users of a node their records, so that the last bit decides.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from ldp_flower import Users
from ldp_flower.clients.statistics import compute, public_block, regression
from ldp_flower.clients.values import public_of, values_of
from ldp_flower.guarantee.messages import HASH_END, Query
from ldp_flower.questions import (
    WIRE_TYPES,
    MessageError,
    Per,
    UpdateQuestion,
    question_from_wire,
)
from ldp_flower.randomizers import Codebook, HybridMechanism, SampledCoordinate
from ldp_flower.randomizers.elementwise import padded_size
from ldp_flower.randomness import KeyedRandom, derive

NAMES = [
    name for name, form in WIRE_TYPES.items() if not issubclass(form.kinds[-1], UpdateQuestion)
]
DIMS = [1, 2, 3, 7, 8, 17, 64, 130]
BY_HAND = [7, 64]
SLOW = ("lasso_features", "pursued_features", "teacher")  # fitted user by user
FEW = [1, 3, 17]
NUMBERS = {
    "feature_bound": 0.9,
    "row_bound": 1.1,
    "residual_bound": 0.7,
    "target_bound": 0.8,
    "centre": 1.5,
    "log_range": 2.0,
    "cap": 2.0,
    "set_size": 3.0,
    "domain_size": 6.0,
    "ridge": 0.3,
    "of_rows": 4.0,
    "penalty": 0.1,
    "scale": 0.7,
    "scale_weight": 2.0,
    "smallest": 0.1,
    "per_octave": 2.0,
    "num_bins": 12.0,
    "bound": 3.0,
    "labels_per_user": 3.0,
    "label_bound": 0.8,
    "product_weight": 0.8,
    "square_weight": 0.6,
    "degree": 1.0,
    "stride": 2.0,
    "copies": 2.0,
    "seed": 5.0,
    "num_features": 4.0,
    "num_steps": 5.0,
    "step": 0.5,
    "length_scale": 0.7,
    "residual_scale": 0.7,
    "direction_scale": 1.3,
    "sparsity": 2.0,
    "radius": 5.0,
    "synthetic_seed": 3.0,
    "num_classes": 3.0,
    "share": 0.4,
    "weighted": 1.0,
    "constant": 0.6,
    "told": 1.5,
    "constant_bound": 2.0,
    "centre_bound": 2.0,
    "score_bound": 0.8,
}
ONE_COLUMN = ("shares_below", "cell", "grain", "grain_shares", "bin_shares")
TOGETHER = [{"scale", "scale_weight"}, {"num_answers", "synthetic_seed"}]
AROUND = [(1, 0), (0, 1), (2, 3), (9, 8)]


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    """Let a teacher take 20 steps instead of 300, each of which is like the one before."""
    monkeypatch.setattr(regression, "_MAX_STEPS", 20)


def own_rows(dim, rows=3):
    """Return rows of numbers that four bytes hold."""
    rng = np.random.default_rng([dim, rows])
    x = rng.standard_normal((rows, dim)).astype(np.float32).astype(np.float64)
    return x, rng.standard_normal(rows).astype(np.float32).astype(np.float64)


def numbers(names, dim):
    own = {"projected_dim": float(min(3, dim)), "num_answers": float(min(4, dim))}
    return {name: (NUMBERS | own)[name] for name in names}


def questions(name, dim):
    """Return questions: with coordinates and without, each optional number apart."""
    if name in ("table_cell", "level_rounding", "cell_shares", "moments"):
        yield from cells(name, dim)
        return
    if name in ("products", "correlation_spread"):
        yield from of_numbers(name, dim)
        return
    slots = WIRE_TYPES[name].slots
    optional = [{slot.wire} for slot in slots if slot.per is None and not slot.required]
    optional = [one for one in optional if not any(one <= pair for pair in TOGETHER)]
    wires = {slot.wire for slot in slots if slot.per is None}
    optional += [pair for pair in TOGETHER if pair <= wires]
    options = [set(), *optional, set().union(*optional)] if optional else [set()]
    naming = [slot for slot in slots if slot.per is Per.CHOSEN]
    without = [] if any(slot.required for slot in naming) else [False]
    for chosen, wanted in product(options, [*without, *[True for _ in naming]]):
        if name.startswith("rotated_") and chosen & {"scale", "constant"}:
            continue  # refused, see test_statistics.py
        required = {slot.wire for slot in slots if slot.per is None and slot.required}
        params = numbers(required | chosen, dim)
        mapped = int(params.get("projected_dim", params.get("num_features", dim)))
        mapped += "column" in name or name in ONE_COLUMN
        rng, arrays = np.random.default_rng(dim), {}
        if wanted:
            some = 1 if name in ONE_COLUMN else mapped // 2 + 1
            arrays["coordinates"] = rng.permutation(mapped)[:some]
        per_coordinate = len(arrays.get("coordinates", range(mapped)))
        lengths = {
            Per.FEATURE: mapped,
            Per.COORDINATE: per_coordinate,
            Per.INNER: per_coordinate,
            Per.COLUMN: dim + 1,
            Per.ONE: 1,
            Per.VALUE: padded_size(per_coordinate),
            Per.MARK: 3 * mapped if name.endswith("class_moves") else 5,  # of three classes
        }
        for slot in sorted(slots, key=lambda slot: slot.wire):
            moved = slot.wire in ("feature_centre", "offset") and "constant" in chosen
            if slot.per not in lengths or not (slot.required or moved):
                continue
            values = rng.standard_normal(lengths[slot.per])
            values = np.sign(values) if slot.wire == "signs" else values
            values = np.sort(values) if slot.per is Per.MARK else values
            arrays[slot.wire] = np.exp(values) if slot.wire in ("scales", "weights") else values
        try:
            question = question_from_wire(name, arrays, params)
        except MessageError as error:
            raise AssertionError(
                f"Expected examples of {name!r}, whose fields have to fit each other, in "
                f"questions(): {error}"
            ) from error
        width = question.width(dim)
        question.check(dim, width)
        yield question, width


def of_numbers(name, dim):
    """Return a question about all features and the target."""
    columns = np.arange(dim + 1)
    pairs = np.linspace(-0.5, 0.5, dim * (dim + 1) // 2)
    arrays = {"coordinates": columns, "lows": -1.0 - columns, "highs": 2.0 + columns}
    spread = {"means": columns / 9, "scales": 0.5 + columns, "correlations": pairs}
    of_spread = name == "correlation_spread"
    question = question_from_wire(
        name, arrays | (spread if of_spread else {}), {"bound": 3.0} if of_spread else {}
    )
    width = question.width(dim)
    question.check(dim, width)
    yield question, width


def cells(name, dim):
    """Return cells of categories, of a number, of both, and of two numbers that are cut."""
    levels = {"low": np.array([-1.0]), "high": np.array([1.0])}
    some = np.arange(dim)
    for sizes, number in [([dim - 1.0], True), ([], True), ([float(dim)], False), ([2.0], True)]:
        target = [dim] if sizes == [2.0] else some[: int(sum(sizes))]
        needs = {"level_rounding": True, "moments": True, "cell_shares": False}.get(name, number)
        if not all(sizes) or needs != number:
            continue
        arrays = {"coordinates": np.array([*target, *[dim - 1] * number]), "sizes": np.array(sizes)}
        params = {"levels": 5.0} if number and name != "moments" else {}
        question = question_from_wire(name, arrays | (levels if number else {}), params)
        width = question.width(dim)
        question.check(dim, width)
        yield question, width
        if name == "table_cell":
            yield replace(question, instead=np.ones(question.num_cells)), 1
    if name in ("table_cell", "cell_shares"):
        edges = np.array([[-1.0, 0.0, 0.5], [-0.2, 0.0, 0.0]])
        arrays = {"coordinates": np.array([0, dim]), "sizes": np.empty(0), "edges": edges}
        question = question_from_wire(name, arrays, {})
        yield question, question.width(dim)


def neighbours(dim):
    """Return rows and targets of users that somebody may put beside another."""
    found = {
        name: (np.full((rows, dim), number), np.full(rows, number))
        for name, number, rows in [
            ("not a number", np.nan, 2),
            ("infinite", -np.inf, 2),
            ("subnormal", 5e-324, 1),
            ("huge", 1.7e308, 2),
            ("zero", 0.0, 4),
            ("no rows", 0.0, 0),
        ]
    }
    found["one row"] = own_rows(dim, 1)
    found["a thousand rows"] = own_rows(dim, 1000)
    x, y = own_rows(dim, 5)
    x[2, 0], y[3] = np.nan, 1e300
    return found | {"a number missing": (x, y)}


def group(members):
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in members])])
    return Users(*(np.concatenate(parts) for parts in zip(*members, strict=True)), offsets)


def bits(array):
    return np.asarray(array).tobytes()


def cases(dims):
    for name in NAMES:
        for dim in FEW if name.endswith(SLOW) else dims:
            further = pytest.mark.long if dim in BY_HAND else pytest.mark.slow
            marks = () if dim in FEW else further
            yield pytest.param(name, dim, id=f"{name}-{dim}", marks=marks)


each = pytest.mark.parametrize(("name", "dim"), [*cases(FEW)])


@pytest.mark.parametrize(("name", "dim"), [*cases(DIMS)])
def test_no_neighbour_moves_a_bit(name, dim):
    for question, width in questions(name, dim):
        for rows in (1, 3):
            own = own_rows(dim, rows)
            alone = compute(group([own]), question)
            assert alone.shape == (1, width)
            for kind, (x, y) in neighbours(dim).items():
                for before, after in AROUND[: 1 if len(y) > 100 else None]:
                    members = [*[(x, y)] * before, own, *[(x, y)] * after]
                    values = compute(group(members), question)
                    assert values.dtype == np.float64 and values.flags.c_contiguous
                    assert bits(values[before]) == bits(alone[0]), kind


def in_columns(users):
    return np.asfortranarray(users.features), users.targets


def strided(users):
    wide = np.full((len(users.features), 2 * users.num_features), np.nan)
    wide[:, ::2] = users.features
    return wide[:, ::2], np.repeat(users.targets, 3)[::3]


def of_type(dtype):
    return lambda users: (users.features.astype(dtype), users.targets.astype(dtype))


LAYOUTS = {
    "float32": of_type(np.float32),
    "longdouble": of_type(np.longdouble),
    "other bytes": of_type(np.dtype(np.float64).newbyteorder()),
    "float32 features": lambda users: (users.features.astype(np.float32), users.targets),
    "float32 targets": lambda users: (users.features, users.targets.astype(np.float32)),
    "in columns": in_columns,
    "strided": strided,
}


@each
def test_the_type_that_a_node_keeps_moves_no_bit(name, dim):
    members = [own_rows(dim, rows) for rows in (2, 1, 0, 3)]
    for these in (members, members[1:2] * 5):
        users = group(these)
        others = {
            form: Users(*laid_out(users), users.offsets) for form, laid_out in LAYOUTS.items()
        }
        for question, _ in questions(name, dim):
            expected = bits(compute(users, question))
            public = bits(public_block(users, question)) if question.features_public else None
            for form, other in others.items():
                assert bits(compute(other, question)) == expected, form
                if question.features_public:
                    assert bits(public_block(other, question)) == public, form


def taking(users, forbidden):
    """Return a ``take`` that fails as soon as one of some users is among those asked for."""

    def take(slots):
        if np.isin(slots, forbidden).any():
            raise ValueError("a table that cannot be read")
        return users.take(slots)

    return take


@each
def test_a_user_whose_data_fail_moves_no_bit(name, dim):
    """The others are computed one by one then, and their reports must not say so."""
    users = group([own_rows(dim, rows) for rows in (2, 1, 0, 3, 9, 1)])
    slots = np.arange(len(users))
    for question, width in questions(name, dim):
        mechanism = SampledCoordinate(HybridMechanism(1.0), width)
        if width <= 130 and not name.endswith(("features", "items", "cell", *ONE_COLUMN)):
            mechanism = Codebook(1.0, width, 1.0, 8)
        query = Query(question, mechanism, 0, 0, HASH_END, 1)
        together = values_of(users.take, slots, query)
        apart = values_of(taking(users, [2, 4]), slots, query)
        states = derive(1, slots)
        reports = [mechanism.randomize(v, KeyedRandom(states), states) for v in (together, apart)]
        for user in (0, 1, 3, 5):
            assert bits(together[user]) == bits(apart[user])
            assert bits(reports[0][user]) == bits(reports[1][user])
        if question.features_public:
            whole, rest = (
                public_of(take, slots, query, dim) for take in (users.take, taking(users, [2, 4]))
            )
            np.testing.assert_array_equal(whole[[0, 1, 3, 5]], rest[[0, 1, 3, 5]])
            assert not rest[[2, 4]].any() and rest.shape == whole.shape


@pytest.mark.parametrize("name", NAMES)
def test_a_column_that_a_question_says_it_does_not_read_moves_no_bit(name):
    """Approved studies name columns, so that a column that is not named must not matter at all."""
    dim = 17
    users = group([own_rows(dim, rows) for rows in (2, 1, 0, 3, 9, 1)])
    slots, words = np.arange(len(users)), derive(3, np.arange(len(users)))
    for question, width in questions(name, dim):
        others = sorted({*range(dim + 1)} - {*question.reads(dim)})
        named = [slot for slot in WIRE_TYPES[name].slots if slot.per is Per.CHOSEN]
        whole = not (named and named[0].required) or name.startswith(("class_", "normal"))
        assert not (others and whole)  # their rows count if all entries are finite
        if not others or width > 130:
            continue
        query = Query(question, SampledCoordinate(HybridMechanism(1.0), width), 0, 0, HASH_END, 1)
        found = []
        for number in (0.0, 7.0, np.nan, np.inf):
            x, y = users.features.copy(), users.targets.copy()
            missing = np.zeros(x.shape, bool)
            x[:, [index for index in others if index < dim]] = number
            missing[:, [index for index in others if index < dim]] = np.isnan(number)
            if dim in others:
                y[:] = number
            changed = replace(users, features=x, targets=y, missing=missing)
            found.append(bits(values_of(changed.take, slots, query, words=words)))
        assert len(set(found)) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [5e-324, 1e-310, 1.7e308, np.inf, np.nan])
def test_no_number_is_an_error(name, number):
    dim = 3
    users = group([own_rows(dim), (np.full((2, dim), number), np.full(2, number))])
    with np.errstate(all="raise"):
        for question, width in questions(name, dim):
            assert compute(users, question).shape == (2, width)
            if question.features_public:
                public_block(users, question)


@pytest.mark.parametrize("dim", [8193, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["root_curvature", "distance_scale", "record", "gradient"])
def test_long_rows_are_no_exception(name, dim):
    own = own_rows(dim, 1)
    for question, _ in questions(name, dim):
        alone = compute(group([own]), question)
        for before, after in [(1, 0), (0, 2), (3, 1)]:
            beside = (np.full((1, dim), np.nan), np.zeros(1))
            users = group([*[beside] * before, own, *[beside] * after])
            values = compute(users, question)
            assert bits(values[before]) == bits(alone[0])

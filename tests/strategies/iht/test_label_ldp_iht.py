"""Label-LDP-IHT: utility on fresh seeds, the unit, the public block, and what it refuses."""

import dataclasses
import re

import numpy as np
import pytest
from flwr.app import Message

from ldp_flower import PrivacyPolicy, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.clients import LdpClientApp
from ldp_flower.clients.statistics import PUBLIC, compute, public_block
from ldp_flower.guarantee.messages import Report
from ldp_flower.questions import WIRE_TYPES, DrawnLabels, Labels
from ldp_flower.randomizers import GaussianMechanism, HybridMechanism, RandomizedResponse
from ldp_flower.simulation.grid import InProcessGrid
from ldp_flower.strategies import LabelLdpIht, TooFewReports
from ldp_flower.strategies.iht.label_fit import row_weights, typical_sizes
from ldp_flower.strategies.numerics.denoising import attenuation, clipped_square


def signs(seed, rows=8000, dim=400, sparsity=10):
    """Return the paper's data: signs, coefficients U[0, 1], noise U[-.05, .05]."""
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (rows, dim)).astype(np.float32)
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.uniform(0, 1, sparsity)
    return x, x @ theta + rng.uniform(-0.05, 0.05, rows), theta


def errors(strategy, seeds, **size):
    found = []
    for seed in seeds:
        x, y, theta = signs(seed, **size)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        found.append(np.linalg.norm(result.coef - theta) / np.linalg.norm(theta))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "median", "maximum"),
    [
        ({}, 0.12, 0.15),
        pytest.param({"solver": "lasso"}, 0.12, 0.15, marks=pytest.mark.long),
        pytest.param({"mechanism": "bit"}, 0.15, 0.2, marks=pytest.mark.long),
        pytest.param({"label_bound": 2.7}, 0.15, 0.2, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_relative_error_at_the_papers_largest_setting(options, median, maximum):
    found = errors(LabelLdpIht(400, sparsity=10, epsilon=2.0, **options), range(400, 406))
    assert np.median(found) <= median and max(found) <= maximum


@pytest.mark.long
@pytest.mark.parametrize(
    ("epsilon", "noise", "most"),
    [(1.0, 0.05, 0.06), (2.0, 0.05, 0.006), (4.0, 0.05, 0.004), (2.0, 0.5, 0.06)],
)
def test_rounds_are_several_times_sharper_than_one(epsilon, noise, most):
    """In seven other groups of four runs the mean was at most .040, .0035, .0019 and .042.

    One run in twenty clips residuals at the larger bound: the octaves of its labels do not look
    normal, or narrowly clipped reports seem to contradict others. Hence medians of eight runs are
    compared: four such runs are seen once in 2,700 groups.
    """
    rounds, one = [], []
    for seed in range(900, 908):
        x, y, theta = signs(seed)
        y = y + np.random.default_rng(seed).normal(0, noise, len(y))
        users = Users.from_rows(x, y)
        for method, found in (("auto", rounds), ("paper", one)):
            strategy = LabelLdpIht(400, sparsity=10, epsilon=epsilon, method=method)
            coef = simulate(strategy, users, seed=seed).coef
            found.append(np.linalg.norm(coef - theta) / np.linalg.norm(theta))
    assert np.median(rounds) < min(most, np.median(one) / 2)


def test_a_later_round_reports_what_the_prediction_leaves():
    users, theta = several(2, users=50)
    plain, less = (compute(users, Labels(3, 9.0, *given)) for given in ((), (theta, 0.25)))
    for i in range(len(users)):
        rows = slice(users.offsets[i], min(users.offsets[i] + 3, users.offsets[i + 1]))
        count = rows.stop - rows.start
        expected = users.targets[rows] - users.features[rows] @ theta - 0.25
        np.testing.assert_allclose(less[i, :count], expected, atol=1e-12)
        np.testing.assert_array_equal(plain[i, :count], users.targets[rows])
        assert not less[i, count:].any()
    for target in (np.nan, np.inf, -np.inf):
        broken = dataclasses.replace(users, targets=np.full_like(users.targets, target))
        np.testing.assert_array_equal(compute(broken, Labels(3, 9.0, theta, 0.25)), 0.0)


@pytest.mark.long
def test_pure_mechanisms_beat_the_gaussian():
    seeds = range(500, 504)
    pure = errors(LabelLdpIht(400, sparsity=10, epsilon=2.0), seeds)
    gaussian = errors(LabelLdpIht(400, sparsity=10, epsilon=2.0, delta=1e-3), seeds)
    assert max(pure) < min(gaussian) and np.median(gaussian) < 0.5


def test_next_to_no_noise_leaves_it_exact():
    strategy = LabelLdpIht(50, sparsity=10, epsilon=30.0, label_bound=20.0)
    assert max(errors(strategy, range(3), rows=2000, dim=50)) < 0.02


def several(seed, users=4000, labels=3, dim=30):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, labels + 3, users)
    x = rng.choice([-1.0, 1.0], (counts.sum(), dim))
    theta = np.zeros(dim)
    theta[[3, 20]] = 1.0, -0.7
    y = x @ theta + rng.normal(0, 0.1, len(x))
    return Users(x, y, np.concatenate([[0], np.cumsum(counts)])), theta


@pytest.mark.parametrize("options", [{}, {"delta": 1e-3}, {"mechanism": "bit"}], ids=str)
def test_users_with_several_rows_report_the_first_label(options):
    users, theta = several(0)
    result = simulate(LabelLdpIht(30, sparsity=2, epsilon=4.0, **options), users, seed=0)
    assert np.linalg.norm(result.coef - theta) < 0.4
    assert re.fullmatch("epsilon = 4.* per user \\(labels only\\)", str(result.privacy))


@pytest.mark.parametrize("solver", ["iht", "lasso"])
@pytest.mark.parametrize(("every", "told"), [(10_000, 0), (100, 7)])
def test_a_run_ends_if_hardly_any_report_has_features(solver, every, told):
    y = np.random.default_rng(0).normal(size=4_000)
    x = np.zeros((4_000, 5))
    x[every - 1 :: every] = 1.0
    strategy = LabelLdpIht(5, sparsity=2, epsilon=2.0, solver=solver)
    with pytest.raises(TooFewReports, match=f"Only {told} of the reports have features"):
        simulate(strategy, Users.from_rows(x, y), seed=0)


@pytest.mark.parametrize("solver", ["iht", "lasso"])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_run_with_features_in_one_row_of_ten_finds_nothing(solver, epsilon):
    y = np.random.default_rng(0).normal(size=4_000)
    x = np.zeros((4_000, 5))
    x[::10] = 1.0
    strategy = LabelLdpIht(5, sparsity=2, epsilon=epsilon, solver=solver)
    result = simulate(strategy, Users.from_rows(x, y), seed=0)
    assert not result.coef.any() and any("No coefficient exceeds" in each for each in result.notes)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (PrivacyPolicy(2.0, allow_inexact=True), "not declared the features public"),
        (PrivacyPolicy(2.0, features_public=True), "policy does not allow this mechanism"),
    ],
)
def test_clients_refuse_unless_their_operator_agrees(policy, message):
    x, y, _ = signs(0, rows=500, dim=20)
    strategy = LabelLdpIht(20, sparsity=3, epsilon=2.0, label_bound=2.0)
    with pytest.raises(RuntimeError, match=message):
        simulate(strategy, Users.from_rows(x, y), seed=0, policy=policy)


def test_bits_need_no_inexact_mechanism():
    x, y, _ = signs(0, rows=500, dim=20)
    strategy = LabelLdpIht(20, sparsity=3, epsilon=2.0, mechanism="bit")
    policy = PrivacyPolicy(2.0, features_public=True)
    result = simulate(strategy, Users.from_rows(x, y), seed=0, policy=policy)
    assert result.privacy.exact and result.num_reports == 500


def test_the_public_block_is_the_features_whatever_the_labels_are():
    users, _ = several(1, users=40)
    question = Labels(3, 1.0)
    found = public_block(users, question)
    for i in range(len(users)):
        rows = users.features[users.offsets[i] : users.offsets[i + 1]][:3]
        expected = np.zeros((3, 30), np.float32)
        expected[: len(rows)] = rows
        np.testing.assert_array_equal(found[i], expected)
    for other in (np.nan, np.inf, 1e300):
        changed = dataclasses.replace(users, targets=np.full_like(users.targets, other))
        np.testing.assert_array_equal(public_block(changed, question), found)


def test_no_other_protocol_sends_features():
    kinds = {kind for form in WIRE_TYPES.values() for kind in form.kinds}
    assert {kind for kind in kinds if kind.features_public} == set(PUBLIC) == {Labels, DrawnLabels}


@pytest.mark.parametrize("num_nodes", [7, 50])
def test_the_estimate_does_not_depend_on_the_number_of_nodes(num_nodes):
    x, y, _ = signs(0, rows=1000, dim=20)
    strategy = LabelLdpIht(20, sparsity=3, epsilon=4.0)
    one = simulate(strategy, Users.from_rows(x, y), seed=1)
    many = simulate(strategy, Users.from_rows(x, y), seed=1, num_nodes=num_nodes)
    assert one.coef.any()
    np.testing.assert_allclose(many.coef, one.coef, rtol=0, atol=1e-9)


def test_a_scale_that_cannot_be_learnt_is_called_a_guess():
    x, y, _ = signs(0, rows=300, dim=20)
    result = simulate(LabelLdpIht(20, sparsity=3, epsilon=0.2), Users.from_rows(x, y), seed=0)
    assert any("is a guess" in note for note in result.notes)
    assert np.isfinite(result.coef).all()


@pytest.mark.parametrize("factor", [1e-6, 0.01, 1.0, 300.0, 1e7])
def test_units_of_normal_labels_do_not_matter(factor):
    rng = np.random.default_rng(0)
    x, theta = rng.standard_normal((4000, 30)), np.zeros(30)
    theta[[2, 9, 25]] = 1.0, -0.7, 0.4
    y = x @ theta
    result = simulate(
        LabelLdpIht(30, sparsity=3, epsilon=4.0), Users.from_rows(x, factor * y), seed=0
    )
    assert np.linalg.norm(result.coef / factor - theta) < 0.1 * np.linalg.norm(theta)


LAWS = {
    "one in ten": lambda rng, u: (rng.random(len(u)) < 0.1 + 0.05 * u).astype(float),
    "three in ten": lambda rng, u: (rng.random(len(u)) < 0.3 + 0.15 * u).astype(float),
    "-1 and 1": lambda rng, u: np.where(rng.random(len(u)) < 0.4 + 0.2 * u, 1.0, -1.0),
    "counts": lambda rng, u: rng.poisson(1 + 0.5 * u).astype(float),
    "money": lambda rng, u: (
        (rng.random(len(u)) < 0.4) * rng.lognormal(0, 0.7, len(u)) * (1 + u / 2)
    ),
    "skewed": lambda rng, u: rng.lognormal(0, 0.5, len(u)) * (1 + u / 2),
    "normal, far from 0": lambda rng, u: 20 + u + rng.normal(0, 0.5, len(u)),
    "heavy tails": lambda rng, u: u + rng.standard_t(3, len(u)),
    "-1, 0 and 1": lambda rng, u: np.sign(np.round(u + rng.normal(0, 1, len(u)))),
    "a few -1": lambda rng, u: np.where(
        rng.random(len(u)) < 0.1 - 0.05 * u, -1.0, rng.random(len(u)) < 0.3 + 0.15 * u
    ),
}
BY_HAND = "three in ten", "counts", "normal, far from 0"


def of_a_law(law, seed, number):
    """Return rows of ten features, labels, and their least squares: what draws them is linear."""
    rng = np.random.default_rng([seed, list(LAWS).index(law)])
    x = rng.triangular(-1, 0.2, 1, (max(number, 10**6), 10))
    u = x @ np.array([0.8, -0.5, *np.zeros(8)])
    y = LAWS[law](rng, u)
    centred = x - x.mean(axis=0)
    truth = np.zeros(10)
    truth[:2] = np.linalg.lstsq(centred[:, :2], y - y.mean())[0]
    return x[:number], y[:number], truth


@pytest.mark.slow
@pytest.mark.parametrize(
    "law", [pytest.param(law, marks=pytest.mark.long) if law in BY_HAND else law for law in LAWS]
)
@pytest.mark.parametrize("bound", [None, pytest.param("declared", marks=pytest.mark.long)])
def test_labels_of_any_law_are_right_within_what_is_stated(law, bound):
    """Errors over the stated ones, 2 coefficients in 4 runs; 1.9 is passed once in 1,000 times."""
    scores = []
    for seed in range(4):
        x, y, truth = of_a_law(law, 700 + seed, 20_000)
        declared = float(np.abs(y).max()) if bound else None
        strategy = LabelLdpIht(10, sparsity=2, epsilon=4.0, label_bound=declared)
        result = simulate(strategy, Users.from_rows(x, y), seed=seed)
        found = np.flatnonzero(result.std_error[:2])
        scores += ((result.coef - truth)[found] / result.std_error[found]).tolist()
    assert len(scores) >= 6 and np.sqrt(np.mean(np.square(scores))) < 1.9


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize("lowest", [-1, 0])
def test_most_users_without_a_label_yet_report_theirs(share, lowest):
    """Whatever share reports octaves, and whether labels are two classes or three."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8000, 5)), rng.integers(lowest, 2, 8000).astype(float)
    strategy = LabelLdpIht(5, sparsity=2, epsilon=4.0, scale_share=share)
    _, octaves, checks, *labels = simulate(strategy, Users.from_rows(x, y), seed=0).steps
    left = 8000 - octaves.asked
    assert checks.asked == left // 4
    assert sum(step.asked for step in labels) == left - checks.asked


@pytest.mark.slow
def test_more_users_make_classes_sharper():
    """With 8,000 users one of two coefficients is mostly missed, with 50,000 both are found.

    In 24 other runs each, a median of .55, and at most .18. Before classes were told from other
    numbers, the error was .9 at both numbers.
    """
    errors = []
    for number in (8_000, 50_000):
        for seed in (710, 711, 712):
            x, y, truth = of_a_law("one in ten", seed, number)
            for bound in (None, 1.0):
                strategy = LabelLdpIht(10, sparsity=2, epsilon=4.0, label_bound=bound)
                coef = simulate(strategy, Users.from_rows(x, y), seed=seed).coef
                errors.append(np.linalg.norm(coef - truth) / np.linalg.norm(truth))
    assert np.median(errors[:6]) < 0.7 and max(errors[6:]) < 0.2


@pytest.mark.slow
def test_standard_errors_cover_what_is_found():
    """Where nothing is clipped: 95 % within two; below 88 % of 150 once in 2,000 times."""
    scores = []
    for seed in range(15):
        x, _, theta = signs(seed, rows=3000, dim=10)
        theta[:] = np.linspace(0.5, 1.5, 10)
        strategy = LabelLdpIht(10, sparsity=10, epsilon=4.0, label_bound=12.0)
        result = simulate(strategy, Users.from_rows(x, x @ theta), seed=seed)
        s = result.support
        scores += ((result.coef - theta)[s] / result.std_error[s]).tolist()
    assert len(scores) > 100 and np.mean(np.abs(scores) < 2) > 0.88


def test_what_clipping_keeps_of_normal_labels():
    """Half a million draws: standard errors are below 0.002."""
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((2, 500_000))
    y = 0.6 * x + 0.8 * noise
    for bound in (0.5, 1.0, 2.0):
        clipped = np.clip(y, -bound, bound)
        assert np.mean(clipped * x) / 0.6 == pytest.approx(attenuation(bound), abs=0.01)
        square = np.mean(clipped**2) / bound**2
        assert square == pytest.approx(clipped_square(bound), abs=0.005)


# ------------------------------------------------------------------------------- the audit


@pytest.mark.long
def test_every_query_is_audited():
    """The last of each kind in a run: its steps differ in the bound and the estimate only."""
    queries = {
        (number, query.statistic, type(query.randomizer)): query
        for number, run in enumerate(LabelLdpIht.audit_runs(4, 2.0))
        for query in recorded_queries(*run)
    }
    mechanisms = {mechanism for _, _, mechanism in queries}
    assert {HybridMechanism, GaussianMechanism, RandomizedResponse} <= mechanisms
    for query in queries.values():
        assert audit_handler(query, extreme_users(4), num_reports=400, seed=0).passed


@pytest.mark.slow
def test_the_audit_finds_noise_for_the_labels_noise_term(monkeypatch):
    """The paper's: as if labels could differ by their noise term only, a tenth of their range."""
    (_, query), *_ = [(run, recorded_queries(*run)[-1]) for run in LabelLdpIht.audit_runs(4, 2.0)]
    honest = HybridMechanism._draw
    assert isinstance(query.randomizer, HybridMechanism)
    monkeypatch.setattr(
        HybridMechanism, "_draw", lambda self, t, rng: t + 0.1 * (honest(self, t, rng) - t)
    )
    pair = {name: extreme_users(4)[name] for name in ("ones", "ones, minus")}
    audit = audit_handler(query, pair, num_reports=500, seed=0)
    assert audit.measured > 3 and not audit.passed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"delta": -0.1}, "Expected 0 < delta < 1, got -0.1"),
        ({"delta": 1e-3, "mechanism": "bit"}, "Expected delta > 0 with the Gaussian mechanism"),
        ({"mechanism": "gaussian"}, "Expected delta > 0 with the Gaussian mechanism"),
        ({"mechanism": "laplace"}, "Expected mechanism in .*, got 'laplace'"),
        ({"solver": "ridge"}, "Expected solver in .*, got 'ridge'"),
        ({"label_bound": 0.0}, "Expected label_bound > 0 and finite, got 0.0"),
        ({"scale_share": 1.0}, "Expected 0 < scale_share < 1, got 1.0"),
        ({"radius": -1.0}, "Expected radius > 0 and finite, got -1.0"),
        ({"sparsity": 9}, "Expected an integer 1 <= sparsity <= 8, got 9"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelLdpIht(**{"dim": 8, "sparsity": 2, "epsilon": 1.0} | arguments)


def test_a_block_of_another_shape_is_rejected(monkeypatch):
    x, y, _ = signs(0, rows=200, dim=6, sparsity=2)
    honest = PUBLIC[Labels]
    monkeypatch.setitem(PUBLIC, Labels, lambda users, p: honest(users, p)[:, :, :5])
    grid = InProcessGrid(LdpClientApp(lambda context: Users.from_rows(x, y)), 1)
    strategy = LabelLdpIht(6, sparsity=1, epsilon=2.0, label_bound=1.0)
    with pytest.raises(RuntimeError, match="1 rejected"):
        strategy.start(grid, timeout=5, num_nodes=1)


# ------------------------------------------------------------------------- forged features


class Forging(InProcessGrid):
    """A grid whose first node changes the features that it sends."""

    def __init__(self, sizes, x, y, change):
        users = Users.from_rows(x, y)
        ends = np.cumsum([0, *sizes])

        def load(context):
            number = int(context.node_config["partition-id"])
            return users.take(np.arange(ends[number], ends[number + 1]))

        super().__init__(
            LdpClientApp(load, seed=lambda c: c.node_config["partition-id"]), len(sizes)
        )
        self.change = change

    def _handle(self, message):
        reply = super()._handle(message)
        if message.metadata.dst_node_id != 1 or "config" not in reply.content:
            return reply
        arrays = dict(Report.from_record_dict(reply.content).arrays)
        if "public" in arrays:
            arrays["public"] = self.change(arrays["public"]).astype(np.float32)
        return Message(Report(arrays).to_record_dict(), reply_to=message)


def forged(features, sizes, change, **arguments):
    rng = np.random.default_rng(0)
    x = features(rng, (sum(sizes), 40))
    y = x[:, 3] - 0.7 * x[:, 7] + rng.normal(0, 0.5, len(x))
    strategy = LabelLdpIht(40, sparsity=2, epsilon=2.0, label_bound=4.0, **arguments)
    return strategy.start(Forging(sizes, x, y, change), num_nodes=len(sizes), seed=0)


def coin_flips(rng, shape):
    return rng.choice([-1.0, 1.0], shape)


def bells(rng, shape):
    return rng.standard_normal(shape)


def unequal(rng, shape):
    return rng.standard_normal(shape) * np.where(np.arange(shape[1]) < 8, 1.0, 0.01)


def one_entry(public):
    return 1e10 * np.eye(public.shape[-1])[0] * np.ones_like(public)


@pytest.mark.parametrize("solver", ["iht", "lasso"])
@pytest.mark.parametrize("features", [coin_flips, bells, unequal])
@pytest.mark.parametrize("change", [lambda public: 1e10 + public, one_entry], ids=["all", "one"])
def test_one_forged_row_moves_the_estimate_by_its_share(features, change, solver):
    """Its one label and its features are those of one row in 4,001: 0.01 is some 10 times that."""
    honest, lying = (
        forged(features, [1, 4000], c, solver=solver) for c in (lambda public: public, change)
    )
    assert honest.support.tolist() == lying.support.tolist() == [3, 7]
    assert np.abs(lying.coef - honest.coef).max() < 0.01
    assert "The features of 1 of 3601 rows are more than ten times as large" in lying.notes[0]
    assert not honest.notes


@pytest.mark.parametrize("features", [coin_flips, bells, unequal])
@pytest.mark.parametrize("factor", [-10, 10, -1e6, 1e-6])
def test_a_node_of_a_twentieth_moves_the_estimate_by_about_that(features, factor):
    """Of features of the other sign, counted in full, a twentieth would take a tenth away."""
    sizes = [200, 3800]
    honest, lying = (forged(features, sizes, lambda public, f=f: f * public) for f in (1.0, factor))
    assert lying.support.tolist() == [3, 7]
    moved = np.linalg.norm(lying.coef - honest.coef) / np.linalg.norm(honest.coef)
    assert moved < 0.15


def test_signs_count_in_full_and_units_do_not_matter():
    x = signs(0, rows=500, dim=20)[0]
    np.testing.assert_array_equal(typical_sizes(x), 1.0)
    np.testing.assert_array_equal(row_weights(x.astype(np.float64)), 1.0)
    rng = np.random.default_rng(0)
    bell, units = rng.standard_normal((4000, 5)), 10.0 ** np.arange(5)
    bell[rng.random(bell.shape) < 0.3] = 0.0
    np.testing.assert_allclose(typical_sizes(bell * units), typical_sizes(bell) * units)
    assert np.mean(row_weights(bell / typical_sizes(bell)) < 1) < 0.2
    assert typical_sizes(np.zeros((3, 2))).tolist() == [1, 1]


def test_features_on_unlike_scales_are_all_found():
    """Without a scale of their own, ages beside shares leave nothing but the ages' steps."""
    rng = np.random.default_rng(0)
    scales = np.where(np.arange(40) % 2, 10.0, 0.3)
    x = rng.standard_normal((8000, 40)) * scales
    theta = np.zeros(40)
    theta[[3, 8]] = 0.1, 4.0
    y = x @ theta + rng.normal(0, 0.5, 8000)
    result = simulate(LabelLdpIht(40, sparsity=2, epsilon=2.0), Users.from_rows(x, y), seed=0)
    assert result.support.tolist() == [3, 8]
    assert np.abs((result.coef - theta) * scales).max() < 0.15
    covered = np.abs(result.coef - theta)[[3, 8]] < 4 * result.std_error[[3, 8]]
    assert covered.all()

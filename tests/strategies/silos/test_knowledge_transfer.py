"""KnowledgeTransfer: utility with thousands of silos, what it asks, what it refuses."""

import numpy as np
import pytest
from scipy.special import expit

from ldp_flower import GeneratedUsers, PrivacyPolicy, Users, simulate
from ldp_flower.audit import audit_handler, extreme_users, recorded_queries
from ldp_flower.clients.statistics import compute
from ldp_flower.questions import Teacher
from ldp_flower.questions.public_maps import synthetic_features
from ldp_flower.randomizers import Codebook
from ldp_flower.strategies import KnowledgeTransfer

DIM, SPARSITY = 1000, 10


def truth(seed, dim, sparsity):
    rng = np.random.default_rng(seed)
    theta = np.zeros(dim)
    theta[rng.choice(dim, sparsity, replace=False)] = rng.standard_normal(sparsity)
    return theta


def silos(theta, how_many, rows, seed=0, link="identity"):
    """Return silos of records with uniform features, made while they are asked."""

    def generate(indices):
        x, y = [], []
        for index in indices:
            rng = np.random.default_rng([seed, int(index)])
            x.append(2 * rng.random((rows, len(theta)), np.float32) - 1)
            u = x[-1] @ theta
            if link == "logistic":
                y.append((rng.random(rows) < expit(u)).astype(float))
            else:
                y.append(u + rng.normal(0, 0.1**0.5, rows))
        return Users(np.concatenate(x), np.concatenate(y), rows * np.arange(len(x) + 1))

    return GeneratedUsers(how_many, len(theta), generate, 0)


def relative_error(result, theta):
    return np.linalg.norm(result.coef - theta) / np.linalg.norm(theta)


@pytest.mark.long
def test_three_thousand_silos_of_the_papers_first_setting():
    """Records are 100 a silo instead of 800, to save time: the teachers are worse."""
    theta = truth(8000, DIM, SPARSITY)
    strategy = KnowledgeTransfer(DIM, sparsity=SPARSITY, epsilon=2.0, radius=4.0)
    result = simulate(strategy, silos(theta, 3000, 100, 8000), seed=8000, num_nodes=12)
    assert relative_error(result, theta) <= 0.25
    assert str(result.privacy) == "epsilon = 2 per silo"
    assert [step.reports for step in result.steps[1:]] == [850, 850, 850, 150, 300]


def small(**options):
    return KnowledgeTransfer(40, **{"sparsity": 3, "epsilon": 4.0, "radius": 2.0} | options)


THETA = np.zeros(40)
THETA[[3, 20, 31]] = 1.0, -0.8, 0.6


@pytest.mark.parametrize("options", [{}, {"num_waves": 1}, {"num_answers": 30}])
def test_all_ways_find_the_coefficients(options):
    strategy = small(**options)
    users = silos(THETA, 400, 60)
    result = simulate(strategy, users, seed=0, policy=PrivacyPolicy(4.0))
    assert result.support.tolist() == [3, 20, 31]
    assert relative_error(result, THETA) < 0.25
    assert result.privacy.exact
    waves = options.get("num_waves", 3)
    assert [step.mechanism for step in result.steps[1:]] == (waves + 2) * ["Codebook"]
    assert sum(step.reports for step in result.steps[1:]) == 400  # every silo once


def test_classes():
    users = silos(2 * THETA, 300, 300, link="logistic")
    result = simulate(small(link="logistic", ridge=0.01, radius=4.0), users, seed=0)
    assert result.support.tolist() == [3, 20, 31]
    cosine = result.coef @ THETA / np.linalg.norm(result.coef) / np.linalg.norm(THETA)
    assert cosine > 0.95


@pytest.mark.slow
def test_later_waves_take_less_noise():
    users = silos(THETA, 450, 60)
    errors = {
        waves: [
            relative_error(simulate(small(num_waves=waves), users, seed=s), THETA) for s in range(3)
        ]
        for waves in (1, 3)
    }
    assert np.mean(errors[3]) < 0.7 * np.mean(errors[1])


LAWS = {
    "uniform": lambda rng, shape: rng.uniform(-1, 1, shape),
    "0/1": lambda rng, shape: (rng.random(shape) < 0.3).astype(float),
    "heavy-tailed": lambda rng, shape: np.clip(rng.standard_t(3, shape), -10, 10),
    "one factor": lambda rng, shape: (
        0.7 * (rng.standard_normal(shape) + rng.normal(size=(shape[0], 1)))
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("rows", "radius"), [(8, 2.0), (40, 2.0), (40, 0.7)])
def test_what_teachers_are_off_by_is_in_the_error(law, rows, radius):
    """600 silos of few records, or a radius of half the truth: z was 50 to 200, without a note."""
    rng = np.random.default_rng([len(law), rows])
    x = LAWS[law](rng, (600 * rows, 40))
    users = Users(x, x @ THETA + rng.normal(0, 0.3, 600 * rows), rows * np.arange(601))
    result = simulate(small(radius=radius), users, seed=1)
    found = result.support
    z = (result.coef - THETA)[found] / result.std_error[found]
    assert np.sqrt(np.mean(z**2)) < 2.5
    assert bool(result.notes) == (relative_error(result, THETA) > 0.4)


def test_too_few_silos_usually_return_zero_and_say_so():
    """No coefficient of noise passes in more than half of all runs; six of ten fails by 5 %."""
    users = silos(0 * THETA, 60, 20)
    runs = [simulate(small(epsilon=0.5), users, seed=seed) for seed in range(10)]
    zero = [run for run in runs if not run.coef.any()]
    assert len(zero) >= 6
    assert all("No coefficient exceeds the noise" in repr(run) for run in zero)
    assert all(np.linalg.norm(run.coef) <= 2.0 * (1 + 1e-12) for run in runs)


@pytest.mark.long
def test_a_report_depends_on_the_teacher_only_through_the_mechanism():
    """Every query of the audit's runs against whole handlers, exact mechanisms."""
    runs = list(KnowledgeTransfer.audit_runs(3, 2.0))
    queries = [question for run in runs for question in recorded_queries(*run)]
    assert {q.statistic for q in queries} == {"teacher", "logistic_teacher", "local_coefficients"}
    assert {type(q.randomizer) for q in queries} == {Codebook}
    for question in queries:
        users = {name: extreme_users(3)[name] for name in ("ones", "ones, minus", "NaN")}
        assert audit_handler(question, users, num_reports=300, seed=0).passed


def test_teachers_that_are_not_finite_or_too_long_stay_in_the_ball():
    x = np.array([[1e9, 0], [np.nan, 1], [1e-9, 0]])
    users = Users(x, np.array([1.0, 1, 1e9]), np.arange(4))
    found = compute(users, Teacher(np.zeros(2), sparsity=1, radius=2.0))
    assert np.isnan(found[1]).all()
    assert (np.linalg.norm(found[[0, 2]], axis=1) <= 2 * (1 + 1e-12)).all()


def test_synthetic_features_are_the_same_for_everybody_and_of_unit_columns():
    x = synthetic_features(7, 400, 30)
    np.testing.assert_array_equal(x, synthetic_features(7, 400, 30))
    assert not np.array_equal(x, synthetic_features(8, 400, 30))
    np.testing.assert_allclose(x.T @ x, np.eye(30), atol=0.3)
    assert np.abs(x).max() <= np.sqrt(3 / 400)


def test_the_mechanism_of_answers_has_room_for_nearly_all():
    rng = np.random.default_rng(0)
    x = synthetic_features(1, 30, 40)
    lengths = [np.linalg.norm(x @ (v / np.linalg.norm(v))) for v in rng.standard_normal((500, 40))]
    mechanism = small(num_answers=30).randomizer(1.0)
    assert np.mean(np.array(lengths) <= mechanism.radius) > 0.95


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": -1.0}, "Expected 1e-06 <= epsilon <= 100, got -1.0"),
        ({"sparsity": 41}, "Expected an integer 1 <= sparsity <= 40, got 41"),
        ({"radius": 0.0}, "Expected radius > 0 and finite, got 0.0"),
        ({"ridge": -1.0}, "Expected ridge > 0 and finite, got -1.0"),
        ({"link": "cosine"}, "Expected link in .*, got 'cosine'"),
        ({"num_waves": 0}, "Expected an integer num_waves >= 1, got 0"),
        ({"num_answers": 41}, "Expected an integer 1 <= num_answers <= 40, got 41"),
        ({"synthetic_seed": 0}, "Expected an integer 1 <= synthetic_seed"),
        ({"min_reports": 0}, "Expected an integer min_reports >= 1, got 0"),
    ],
)
def test_bad_arguments_are_refused_at_construction(arguments, message):
    with pytest.raises(ValueError, match=message):
        small(**arguments)

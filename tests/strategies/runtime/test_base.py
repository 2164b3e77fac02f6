"""What can go wrong between server and nodes, and what the result says about it."""

from dataclasses import dataclass

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import Strategy

from ldp_flower import InProcessGrid, PrivacyPolicy, Users
from ldp_flower.clients import LdpClientApp, LdpUpdateMod
from ldp_flower.guarantee.ledger import SqliteLedger
from ldp_flower.guarantee.messages import NodeKeys, Report
from ldp_flower.questions import Curvature, Gradient
from ldp_flower.questions.sparse import keep_largest
from ldp_flower.randomizers import RandomizedResponse, SubsetHypercube, Summary
from ldp_flower.strategies import Ask, LdpFedAvg, LdpIht, LdpStrategy, LinearResult, TooFewReports
from ldp_flower.strategies.runtime import FeatureStrategy, ask_on
from ldp_flower.strategies.runtime.run_store import RunStore

DIM = 8


def make_users(num_users=600, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (num_users, DIM))
    theta = np.zeros(DIM)
    theta[[1, 5]] = 0.6, -0.8
    return Users.from_rows(x, x @ theta), theta


class Grid(InProcessGrid):
    """A grid whose nodes may fall silent, fail, or answer something else."""

    def __init__(self, users, num_nodes, behave=lambda node, message, reply: reply, **arguments):
        def load(context):
            return users.partition(int(context.node_config["partition-id"]), num_nodes)

        super().__init__(LdpClientApp(load, **arguments), num_nodes)
        self.behave = behave
        self.asked = []

    def _handle(self, message):
        node = message.metadata.dst_node_id
        self.asked.append((message.metadata.message_type, message.metadata.group_id, node))
        return self.behave(node, message, super()._handle(message))


def is_census(message):
    return message.metadata.message_type == "query.census"


@dataclass(kw_only=True, eq=False, repr=False)
class Descent(FeatureStrategy[LinearResult]):
    """Twelve gradient steps with one record each, whose reports are summed up as signs."""

    def protocol(self, run):
        theta, cohorts = np.zeros(self.dim), run.equal_cohorts(run.num_unasked, 12)
        run.planned_steps = len(cohorts)
        for step, cohort in enumerate(cohorts):
            bound = 0.2 if step > 3 else 1.0
            question = Gradient(theta, feature_bound=1.0, residual_bound=bound)
            mechanism = SubsetHypercube(self.epsilon, self.dim, bound)
            answer = yield from ask_on(Ask(cohort, question, mechanism), step > 0)
            if answer is None:
                break
            theta = keep_largest(theta - 0.7 * answer.mean, 2)
        return LinearResult(coef=theta, std_error=np.full(self.dim, 0.1))


def iht(**arguments):
    return Descent(DIM, epsilon=4.0, **arguments)


def test_silent_failing_and_garbage_nodes_leave_an_estimate_over_the_others():
    users, theta = make_users(6000)

    def behave(node, message, reply):
        if is_census(message) or node > 9:
            return reply
        if node <= 6:
            return None
        if node <= 8:
            return Message(Error(2, "out of memory"), reply_to=message)
        garbage = RecordDict({"config": ConfigRecord({"x": 1}), "a": ArrayRecord([np.ones(3)])})
        return Message(garbage, reply_to=message)

    # Of 20 nodes 30 % are silent, 10 % fail, one answers garbage: 11 go on as they should.
    result = iht().start(Grid(users, 20, behave, seed=1), timeout=0.0, num_nodes=20, seed=1)
    assert np.linalg.norm(result.coef - theta) < 0.15
    assert result.support.tolist() == [1, 5]
    for step in result.steps[1:]:
        assert (step.silent, step.errors, step.rejected) == (6, 2, 1)
        assert step.reasons == {"error 2: out of memory": 2}
        assert step.reports < 0.65 * step.asked
    assert result.num_reports == sum(step.reports for step in result.steps[1:])
    assert 0.5 * 6000 < result.num_reports < 0.6 * 6000
    assert result.train_metrics_clientapp[1]["silent"] == 6


def test_nodes_that_fail_the_census_are_counted_and_left_out():
    users, _ = make_users()

    def behave(node, message, reply):
        if is_census(message) and node in (2, 3):
            return None if node == 2 else Message(Error(104, "no data"), reply_to=message)
        return reply

    result = iht().start(Grid(users, 6, behave, seed=1), timeout=0.3, num_nodes=6, seed=1)
    census = result.steps[0]
    assert (census.asked, census.reports, census.errors, census.silent) == (6, 4, 1, 1)
    assert result.num_users == 400


def test_nobody_answering_is_a_clear_exception_within_the_timeout():
    users, _ = make_users()
    with pytest.raises(TimeoutError, match=r"census within 0.2 s.*3 silent"):
        iht().start(Grid(users, 3, lambda *_: None), timeout=0.2, num_nodes=3)
    mute = Grid(users, 3, lambda node, message, reply: reply if is_census(message) else None)
    with pytest.raises(TooFewReports, match=r"Step 1 \(gradient\): 0 of .* 3 silent\."):
        iht().start(mute, timeout=0.2, num_nodes=3)


def test_a_census_that_all_answer_with_errors_has_not_timed_out():
    def fail(context):
        raise OSError("patient 4711 is not readable")

    grid = InProcessGrid(LdpClientApp(fail), 3)
    with pytest.raises(TooFewReports, match=r"No node answered .* 3 errors.*error 104") as told:
        iht().start(grid, num_nodes=3)
    assert "attach" not in str(told.value) and "4711" not in str(told.value)
    users, _ = make_users()
    some = Grid(users, 3, lambda node, message, reply: None if node == 1 else failed(message))
    with pytest.raises(TimeoutError, match=r"census within 0.2 s.*2 errors.*1 silent.*out of mem"):
        iht().start(some, timeout=0.2, num_nodes=3)


def failed(message):
    return Message(Error(2, "out of memory"), reply_to=message)


def with_train(app):
    @app.train()
    def train(message, context):
        return Message(RecordDict({"arrays": message.content["arrays"]}), reply_to=message)

    return app


def fails_first(message, context, call_next):
    raise KeyError("nobody sends this")


@pytest.mark.parametrize(
    ("strategy", "app", "advice"),
    [
        (iht(), ClientApp(), r"make it LdpClientApp\(load_users\), or attach\(app, load_users\)"),
        (
            LdpFedAvg(epsilon=4.0),
            with_train(ClientApp()),
            r"KeyError.*arrays.* put an instance first, ClientApp\(mods=\[LdpUpdateMod\(\)\]\)",
        ),
        (
            LdpFedAvg(epsilon=4.0),
            with_train(ClientApp(mods=[fails_first, LdpUpdateMod()])),
            r"nobody sends this.* came from a mod before LdpUpdateMod, .* put an instance first",
        ),
        (
            LdpFedAvg(epsilon=4.0),
            with_train(ClientApp(mods=[LdpUpdateMod])),
            r"LdpUpdateMod is passed as a class: put an instance first, ClientApp\(mods=\[LdpUpd",
        ),
    ],
    ids=["attach forgotten", "mod forgotten", "a mod fails before it", "brackets forgotten"],
)
def test_an_app_that_does_not_answer_is_told_what_it_lacks(strategy, app, advice):
    model = ArrayRecord([np.zeros(3)]) if strategy.carrier else None
    with pytest.raises(TooFewReports, match=advice):
        strategy.start(InProcessGrid(app, 2), model, num_nodes=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"timeout": "5"}, "timeout to be a number, got '5'"),
        ({"roster_timeout": None}, "roster_timeout to be a number, got None"),
        ({"timeout": float("nan")}, "0 <= timeout <= inf, got nan"),
        ({"roster_timeout": float("nan")}, "0 <= roster_timeout <= inf, got nan"),
        ({"roster_timeout": -1}, "0 <= roster_timeout <= inf, got -1"),
        ({"num_nodes": "4"}, "an integer num_nodes, got '4'"),
        ({"num_nodes": 0}, "an integer num_nodes >= 1, got 0"),
        ({"seed": "a"}, "an integer seed, got 'a'"),
        (
            {"store": "/nonexistent/folder/run.db"},
            r"a store .* /nonexistent/folder/run\.db: unable",
        ),
    ],
)
def test_bad_arguments_of_a_run_are_refused_by_name(arguments, message):
    users, _ = make_users()
    grid = Grid(users, 1)
    with pytest.raises(ValueError, match=f"Expected {message}"):
        iht().start(grid, **arguments)
    assert not grid.asked


def test_a_file_that_is_no_store_is_refused_by_name(tmp_path):
    (tmp_path / "notes.txt").write_text("no database, " * 100)
    users, _ = make_users()
    with pytest.raises(ValueError, match=r"a store .*notes\.txt: file is not a database"):
        iht().start(Grid(users, 1), store=tmp_path / "notes.txt")


def test_a_result_predicts_rows_of_its_own_width_only():
    users, _ = make_users()
    result = iht().start(Grid(users, 1, seed=1), num_nodes=1, seed=1)
    assert result.predict(users.features).shape == (600,)
    assert result.predict(users.features[0]).shape == ()
    with pytest.raises(ValueError, match=r"shape \(rows, 8\) or \(8,\), got \(600, 3\)"):
        result.predict(users.features[:, :3])


def test_missing_nodes_are_a_clear_exception():
    users, _ = make_users()
    with pytest.raises(TimeoutError, match=r"Waited 0.2 s for 5 nodes and found 3"):
        iht().start(Grid(users, 3), num_nodes=5, roster_timeout=0.2)


def test_a_roster_of_unknown_size_is_waited_for_until_it_is_still():
    users, _ = make_users()

    class Growing(Grid):
        late_nodes, calls = True, 0

        def get_node_ids(self):
            self.calls += 1
            return list(self.contexts)[: min(6, self.calls // 2)]

    result = iht().start(Growing(users, 6, seed=1), timeout=1, seed=1)
    assert result.steps[0].asked == 6


def test_too_few_users_are_refused_before_anybody_is_asked():
    users, _ = make_users(25)
    grid = Grid(users, 1)
    with pytest.raises(TooFewReports, match="25 users are too few for the cohorts"):
        LdpIht(DIM, epsilon=4.0, samples_per_user=5).start(grid, num_nodes=1)
    assert {kind for kind, _, _ in grid.asked} == {"query.census"}


def forged(change):
    """Answer as an honest node would, with one thing changed."""

    def behave(node, message, reply):
        if is_census(message) or node != 1:
            return reply
        arrays = dict(Report.from_record_dict(reply.content).arrays)
        change(arrays)
        return Message(Report(arrays).to_record_dict(), reply_to=message)

    return behave


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.update(count=a["count"] + 1000),
        lambda a: a.update(count=a["count"] * 0),
        lambda a: a.update(count=np.array([3.7])),
        lambda a: a.update(sum=a["sum"] + 1e6),
        lambda a: a.update(sum=a["sum"] * np.nan),
        lambda a: a.update(sum=a["sum"][:-1]),
        lambda a: a.update(sum=a["sum"].astype(np.float32)[:, None]),
        lambda a: a.update(sum_of_squares=-a["sum_of_squares"]),
        lambda a: a.update(sum_of_squares=a["sum_of_squares"] * 0.5),
    ],
)
def test_sums_that_no_honest_node_can_send_are_rejected(change):
    users, _ = make_users(4000)
    result = iht().start(Grid(users, 2, forged(change), seed=1), timeout=1, num_nodes=2, seed=1)
    assert all(step.rejected == 1 for step in result.steps[1:])


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a.update(slots=a["slots"] + 1000),
        lambda a: a.update(slots=np.repeat(a["slots"], 2), reports=np.repeat(a["reports"], 2)),
        lambda a: a.update(reports=a["reports"] + 200),
        lambda a: a.update(reports=a["reports"].astype(np.uint16)),
        lambda a: a.update(reports=a["reports"][:-1]),
        lambda a: a.update(reports=a["reports"][:, None]),
    ],
)
def test_reports_that_no_honest_user_can_send_are_rejected(change):
    users, _ = make_users(200)
    grid = Grid(users, 20, forged(change), seed=1)
    result = iht(min_reports=5).start(grid, timeout=1, num_nodes=20, seed=1)
    asked = [int(group) for _, group, node in grid.asked if node == 1 and group]
    assert asked
    rejected = [step.number for step in result.steps[1:] if step.rejected]
    # A hold-out cohort sends bits, which some changes leave what an honest user can send.
    bits = {step.number for step in result.steps if step.statistic == "squared_errors"}
    assert set(asked) - bits <= set(rejected) <= set(asked)
    assert f"{len(rejected)} answers of nodes were rejected" in repr(result)


class Mean(LdpStrategy):
    """Asks everybody for the mean of their gradients at zero."""

    randomizer = SubsetHypercube(4.0, DIM)

    part = 1

    def protocol(self, run):
        (everyone,) = run.cohorts([run.num_users // self.part])
        answer = yield Ask(everyone, Gradient(np.zeros(DIM)), self.randomizer)
        return LinearResult(coef=answer.mean, std_error=answer.std_error)


class Third(Mean):
    """Asks a third of the users."""

    part = 3


def test_a_node_that_lies_about_everything_moves_a_mean_by_its_users_share():
    users, _ = make_users(4000)
    num_nodes = 20

    def lying(sign):
        def behave(node, message, reply):
            if is_census(message) or node != 1:
                return reply
            arrays = dict(Report.from_record_dict(reply.content).arrays)
            # Every user sends the sign pattern that pulls hardest: the same for all.
            lie = np.full(DIM, sign * Mean.randomizer.bound)
            count = arrays["count"][0]
            arrays |= {"sum": count * lie, "sum_of_squares": count * lie**2}
            return Message(Report(arrays).to_record_dict(), reply_to=message)

        return behave

    def mean(behave):
        grid = Grid(users, num_nodes, behave, seed=1)
        return Mean(epsilon=4.0).start(grid, timeout=1, num_nodes=num_nodes, seed=1)

    honest = mean(lambda node, message, reply: reply)
    for sign in (-1, 1):
        result = mean(lying(sign))
        print(result, result.coef - honest.coef, Mean.randomizer.bound)
        moved = np.abs(result.coef - honest.coef).max()
        assert moved <= 2 * Mean.randomizer.bound / num_nodes


def test_a_node_that_answers_twice_counts_once():
    users, _ = make_users(4000)

    class Repeating(Grid):
        def pull_messages(self, message_ids):
            replies = list(super().pull_messages(message_ids))
            return [*replies, *replies]

    once, twice = (
        iht().start(kind(users, 4, seed=1), timeout=1, num_nodes=4, seed=1)
        for kind in (Grid, Repeating)
    )
    np.testing.assert_array_equal(once.coef, twice.coef)
    assert once.num_reports == twice.num_reports


def test_a_stopped_server_goes_on_where_it_was_and_nobody_answers_twice(tmp_path, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the next reply is always there
    users, _ = make_users()
    whole = iht().start(Grid(users, 6, seed=1), timeout=60, num_nodes=6, seed=1)

    class Crash(Exception):
        pass

    def crashing(node, message, reply):
        if message.metadata.group_id == "2" and node == 4:
            raise Crash
        return reply

    class OneByOne(Grid):
        """Hands over replies one at a time, as a network does."""

        def push_messages(self, messages):
            self.queue = {m.metadata.dst_node_id: m for m in messages}
            for number, message in self.queue.items():
                message.metadata.__dict__["_message_id"] = str(number)
            return [str(number) for number in self.queue]

        def pull_messages(self, message_ids):
            number = int(next(iter(message_ids)))
            return [self._handle(self.queue[number])]

    policy = PrivacyPolicy(4.0)
    grid = OneByOne(users, 6, crashing, seed=1, policy=policy)
    store = tmp_path / "run.db"
    with pytest.raises(Crash):
        iht().start(grid, timeout=60, num_nodes=6, seed=1, store=store)
    grid.behave = lambda node, message, reply: reply
    before = len(grid.asked)
    resumed = iht().start(grid, timeout=60, num_nodes=6, store=store)
    np.testing.assert_allclose(resumed.coef, whole.coef, atol=1e-12)
    # The second start asks nobody who has answered: neither the census nor step 1, and of
    # step 2 only the nodes from the crash on.
    again = grid.asked[before:]
    assert [entry for entry in again if entry[1] in ("", "1")] == []
    assert [node for _, step, node in again if step == "2"] == [4, 5, 6]
    with pytest.raises(ValueError, match="Expected a store of Descent"):
        iht(min_reports=11).start(grid, num_nodes=6, store=store)


def test_a_finished_run_can_be_read_again_from_its_store(tmp_path):
    users, _ = make_users()
    store = tmp_path / "run.db"
    first = iht().start(Grid(users, 6, seed=1), timeout=1, num_nodes=6, store=store)
    nobody = Grid(users, 6, lambda *_: None)
    second = iht().start(nobody, timeout=1, store=store)
    np.testing.assert_array_equal(first.coef, second.coef)
    assert nobody.asked == []


class Twice(LdpStrategy):
    """Asks one cohort twice and another once: costs must add up where cohorts overlap."""

    def protocol(self, run):
        one, two = run.cohorts([30, 30])
        question = Curvature(np.ones(DIM), cap=8.0)
        answer = None
        for cohort, epsilon in ((one, 0.5), (one, 0.75), (two, 1.0)):
            answer = yield Ask(cohort, question, RandomizedResponse(epsilon))
        return LinearResult(coef=np.array(answer.mean), std_error=np.array(answer.std_error))


def test_the_result_states_what_the_dearest_user_spent():
    users, _ = make_users(60)
    result = Twice(epsilon=1.25).start(Grid(users, 2, seed=1), timeout=1, num_nodes=2)
    assert result.privacy.epsilon == 1.25 and result.privacy.delta == 0
    assert result.privacy.seeded and result.privacy.exact
    assert str(result.privacy) == "epsilon = 1.25 per user"
    spent = [metrics["epsilon-spent"] for metrics in result.train_metrics_clientapp.values()]
    assert spent == [0.5, 1.25, 1.25]  # the third cohort is of others
    unseeded = Twice(epsilon=1.25).start(Grid(users, 2), timeout=1, num_nodes=2)
    assert not unseeded.privacy.seeded


def test_steps_that_are_not_planned_are_not_counted_beyond_the_plan(caplog):
    class Planned(Twice):
        def protocol(self, run):
            run.planned_steps = 2
            return (yield from super().protocol(run))

    with caplog.at_level("INFO", "flwr"):
        Planned(epsilon=1.25).start(Grid(make_users(60)[0], 2, seed=1), timeout=1, num_nodes=2)
    steps = [text.split("]")[0] for text in caplog.messages if text.startswith("[STEP ")]
    assert steps == ["[STEP 1 of 2", "[STEP 2 of 2", "[STEP 3"]


def test_a_policy_that_allows_one_answer_leaves_out_those_who_gave_it():
    users, _ = make_users(60)
    grid = Grid(users, 2, seed=1, policy=PrivacyPolicy(1.0))
    with pytest.raises(
        TooFewReports,
        match=r"0 of 30 answered, 30 could not afford it; .*error 102: No addressed user can afford"
        r".*30 users have spent budget\. No store was given",
    ):
        Twice(epsilon=1.25).start(grid, timeout=1, num_nodes=2)


def test_who_has_no_budget_is_told_by_a_code_whatever_the_words(monkeypatch):
    monkeypatch.setattr("ldp_flower.clients.node._EXHAUSTED", "Worded otherwise.")
    grid = Grid(make_users(60)[0], 2, seed=1, policy=PrivacyPolicy(1.0))
    with pytest.raises(TooFewReports, match=r"30 could not afford it; .*102: Worded otherwise"):
        Twice(epsilon=1.25).start(grid, timeout=1, num_nodes=2)


def test_flowers_own_loop_drives_the_protocol_to_the_same_bits():
    users, _ = make_users(3000)
    strategy, opened = iht(), {"num_nodes": 3, "timeout": 1, "seed": 1}
    expected = strategy.start(Grid(users, 3, seed=1), **opened)
    grid = Grid(users, 3, seed=1)
    with strategy.opened(grid, **opened) as run:
        with pytest.raises(RuntimeError, match="Descent has not ended after 0 steps"):
            run.result()
        rounds = len(expected.steps)  # one more than the protocol has: nobody is asked then
        by_flower = Strategy.start(strategy, grid, ArrayRecord(), num_rounds=rounds, timeout=1)
        assert strategy.configure_train(9, ArrayRecord(), ConfigRecord(), grid) == []
        result = run.result()
        assert run.result() is result
    assert result.train_metrics_clientapp == expected.train_metrics_clientapp
    np.testing.assert_array_equal(result.coef, expected.coef)
    np.testing.assert_array_equal(by_flower.arrays.to_numpy_ndarrays()[0], expected.coef)
    assert [step.reports for step in result.steps] == [step.reports for step in expected.steps]
    with pytest.raises(RuntimeError, match="FeatureStrategy runs its own rounds"):
        strategy.configure_train(1, ArrayRecord(), ConfigRecord(), grid)


def test_flowers_own_loop_asks_nothing_that_is_over_when_it_is_started_again(tmp_path):
    """Whoever did not answer in time is not asked on: what came next depended on the others."""
    users, _ = make_users(3000)
    opened = {"num_nodes": 3, "timeout": 1, "store": tmp_path / "run.db"}

    def silent_at_first(node, message, reply):
        return None if (node, message.metadata.group_id) == (2, "1") else reply

    grids = Grid(users, 3, silent_at_first, seed=1), Grid(users, 3, seed=1)
    results = []
    for grid, seed in zip(grids, ({"seed": 1}, {}), strict=True):
        strategy = iht()
        with strategy.opened(grid, **opened, **seed) as run:
            Strategy.start(strategy, grid, ArrayRecord(), num_rounds=20, timeout=1)
            results.append(run.result())
    np.testing.assert_array_equal(results[0].coef, results[1].coef)
    assert [step for _, step, _ in grids[1].asked] == []


def test_a_run_of_a_strategy_that_has_one_under_way_is_refused():
    users, _ = make_users(3000)
    strategy, opened = iht(), {"num_nodes": 3, "timeout": 1, "seed": 1}
    with strategy.opened(Grid(users, 3, seed=1), **opened):
        grid = Grid(users, 3, seed=1)
        with pytest.raises(RuntimeError, match="A run of this Descent is under way"):
            strategy.start(grid, **opened)
        assert grid.asked == []
    strategy.start(Grid(users, 3, seed=1), **opened)


def test_two_runs_of_one_strategy_share_nothing():
    users, _ = make_users(3000)
    strategy, opened = iht(), {"num_nodes": 3, "timeout": 1, "seed": 1}
    first, again = (strategy.start(Grid(users, 3, seed=1), **opened) for _ in range(2))
    np.testing.assert_array_equal(first.coef, again.coef)
    assert first.steps == again.steps and first.steps is not again.steps


def test_an_overridden_aggregate_train_gets_the_replies_of_every_step():
    class Counting(Descent):
        def aggregate_train(self, server_round, replies):
            counted.append(len(replies := list(replies)))
            return super().aggregate_train(server_round, replies)

    users, _ = make_users(3000)
    counted = []
    result = Counting(DIM, epsilon=4.0).start(
        Grid(users, 3, seed=1), num_nodes=3, timeout=1, seed=1
    )
    assert counted == [3] * (len(result.steps) - 1)


def test_flowers_own_methods_carry_the_protocol_too():
    users, theta = make_users(3000)
    evaluated = []
    result = iht().start(
        Grid(users, 3, seed=1),
        ArrayRecord(),
        num_rounds=3,
        timeout=1,
        evaluate_fn=lambda step, arrays: evaluated.append((step, arrays)),
        num_nodes=3,
        seed=1,
    )
    np.testing.assert_array_equal(result.arrays.to_numpy_ndarrays()[0], result.coef)
    ((step, arrays),) = evaluated
    assert step == len(result.steps) - 1
    np.testing.assert_array_equal(arrays.to_numpy_ndarrays()[0], result.coef)
    assert np.linalg.norm(result.coef - theta) < 0.2
    assert "3000 reports of 3000 users" in repr(result)
    np.testing.assert_allclose(result.predict(np.eye(DIM)), result.coef)


def test_summaries_of_hypercube_count_the_signs_of_the_users_asked():
    mechanism = SubsetHypercube(4.0, DIM)
    coins = NodeKeys(0, 0, 60).coins(1, 1, np.arange(60))
    reports = mechanism.randomize(np.zeros((60, DIM)), np.random.default_rng(0), coins)
    good = mechanism.summarize(reports, coins)
    assert mechanism.accepts(good, coins)
    unit = np.eye(DIM)[0] * mechanism.bound
    # a sum larger than its signs allow, signs of users that nobody assigned, half a sign
    for total, squares in (
        (good.sum + 61 * unit, good.sum_of_squares),
        (good.sum, good.sum_of_squares + (unit - np.roll(unit, 1)) * mechanism.bound),
        (good.sum, good.sum_of_squares + (unit - np.roll(unit, 1)) * mechanism.bound / 2),
    ):
        assert not mechanism.accepts(Summary(60, total, squares), coins)
    fewer = mechanism.summarize(reports[:50], coins[:50])
    assert mechanism.accepts(fewer, coins)
    assert not mechanism.accepts(Summary(51, fewer.sum, fewer.sum_of_squares), coins)


def raw(header):
    """Return a message whose one array is the given bytes instead of NumPy's format."""
    honest = ArrayRecord([np.zeros(4, np.uint8)])
    (name,) = honest
    forgery = Array(dtype="uint8", shape=(4,), stype="numpy.ndarray", data=header)
    config = ConfigRecord({"version": 1, "layout": "[]"})
    return RecordDict({"config": config, "arrays": ArrayRecord({name: forgery})})


def npy(shape):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "content",
    [
        raw(b""),
        raw(b"PK\x03\x04 no archive"),
        raw(npy((2**60,))),
        raw(npy((2**80,))),
        raw(npy("((")),
        *(
            Report({"slots": slots, "reports": np.zeros(1, np.uint8)}).to_record_dict()
            for slots in (np.zeros((1, 1), np.uint32), np.array(0, np.uint32), np.zeros(1))
        ),
        RecordDict(),
    ],
)
def test_forged_replies_are_rejected_and_stop_nobody(content, tmp_path):
    users, _ = make_users(4000)

    def behave(node, message, reply):
        forge = node == 1 and not is_census(message)
        return Message(content, reply_to=message) if forge else reply

    grid = Grid(users, 2, behave, seed=1)
    store = tmp_path / "run.db"
    result = iht().start(grid, timeout=1, num_nodes=2, seed=1, store=store)
    assert all(step.rejected == 1 for step in result.steps[1:])
    again = iht().start(grid, store=store)  # nor does it stop whoever reads the store
    np.testing.assert_array_equal(result.coef, again.coef)


@pytest.mark.parametrize("users", [float("inf"), -1, 2**40, 1.5e300])
def test_an_impossible_census_is_rejected(users):
    everyone, _ = make_users(1000)

    def behave(node, message, reply):
        if not is_census(message) or node != 1:
            return reply
        flags = {"seeded": 0, "rehearsing": 0, "simulated": 1}
        facts = {"group": 0, "first": 0, "users": users, **flags}
        return Message(RecordDict({"census": MetricRecord(facts)}), reply_to=message)

    result = iht().start(Grid(everyone, 2, behave, seed=1), timeout=1, num_nodes=2, seed=1)
    assert result.steps[0].rejected == 1 and result.num_users == 500


def test_a_node_may_claim_as_many_users_as_the_server_believes():
    everyone, _ = make_users(600)
    uneven = [everyone.take(np.arange(low, high)) for low, high in ((0, 250), (250, 600))]

    def mean(**arguments):
        app = LdpClientApp(lambda context: uneven[context.node_config["partition-id"]])
        return Mean(epsilon=4.0).start(InProcessGrid(app, 2), num_nodes=2, timeout=1, **arguments)

    assert mean(max_users_per_node=350).num_users == 600
    result = mean(max_users_per_node=349)
    assert result.num_users == 250
    assert result.steps[0].rejected == 1
    assert "1 answers of nodes were rejected" in repr(result)
    for wrong, of in ((0, "1 <= "), (1 << 25, "1 <= "), (10.5, "")):
        with pytest.raises(ValueError, match=f"Expected an integer {of}max_users_per_node"):
            mean(max_users_per_node=wrong)


def test_whoever_joins_later_is_asked_by_a_later_run():
    users, _ = make_users(4000)
    policy = PrivacyPolicy(Mean.randomizer.epsilon)

    class Filling(Grid):
        present = 5

        def get_node_ids(self):
            return list(self.contexts)[: self.present]

    grid = Filling(users, 8, seed=1, policy=policy)
    first = Mean(epsilon=4.0).start(grid, timeout=1, num_nodes=5, seed=1)
    assert first.num_users == first.num_reports == 2500
    grid.present = 8
    second = Mean(epsilon=4.0).start(grid, timeout=1, num_nodes=8, seed=2)
    # Those who have answered the first run have nothing left, and say so.
    assert (second.num_users, second.num_reports) == (4000, 1500)
    assert second.steps[1].reasons == {
        "error 102: No addressed user can afford this query: "
        "the cost is above what the privacy budget leaves.": 5
    }


def test_users_without_budget_are_counted_wherever_a_run_is_told_of(caplog):
    """Those of whole nodes, which say so, and those who are left out of a node's answer."""
    users, _ = make_users(600)
    grid = Grid(users, 3, seed=1, policy=PrivacyPolicy(4.0))
    Third(epsilon=4.0).start(grid, timeout=1, num_nodes=3, seed=1)
    with caplog.at_level("INFO", "flwr"):
        second = Mean(epsilon=4.0).start(grid, timeout=1, num_nodes=3, seed=2)
    assert (second.num_reports, second.no_budget) == (400, 200)
    assert second.steps[1].no_budget == 200 and not second.steps[1].errors
    assert "400 reports of 600 users in 2 steps; 200 could not afford a report" in repr(second)
    assert "400 of 600 answered, 200 could not afford it; nodes: 0 errors" in caplog.text
    assert "Step 0 (census): 3 of 3 answered, 200 users had no budget left" in caplog.text
    assert second.steps[0].no_budget == 200
    page = second.to_html()
    assert "of 600 users. 200 could not afford a report." in page and "no budget" in page
    third = Mean(epsilon=4.0)
    with pytest.raises(TooFewReports, match=r"0 of 600 answered, 600 could not afford it; .*102"):
        third.start(grid, timeout=1, num_nodes=3, seed=3)
    # A node that is lost says nothing of budgets.
    mute = Grid(users, 3, lambda n, m, reply: reply if is_census(m) or n > 1 else None, seed=1)
    assert Mean(epsilon=4.0).start(mute, timeout=0.1, num_nodes=3, seed=2).no_budget == 0


def test_a_node_cannot_claim_the_keys_of_another():
    everyone, _ = make_users(1000)

    def behave(node, message, reply):
        if is_census(message) and node == 1:
            reply.content["census"]["group"] = 2
        return reply

    result = iht().start(Grid(everyone, 2, behave, seed=1), timeout=1, num_nodes=2, seed=1)
    assert result.steps[0].rejected == 1


def test_nodes_without_users_are_not_enough():
    nobody = Users(np.zeros((0, DIM)), np.zeros(0), np.zeros(1, np.int64))
    with pytest.raises(
        TooFewReports, match=r"0 users are too few .* At least \d+ users are needed"
    ):
        iht().start(Grid(nobody, 2), timeout=1, num_nodes=2)


def deployed(tmp_path, num_users=600, num_nodes=3):
    """Return a grid of nodes with operators of their own, and their ledgers."""
    users, _ = make_users(num_users)
    users = Users(users.features, users.targets, users.offsets, np.arange(num_users).astype(str))
    grid = Grid(users, num_nodes)
    ledgers = []
    for number, context in grid.contexts.items():
        ledgers.append(SqliteLedger.create(path := tmp_path / f"{number}.db"))
        context.node_config |= {"max-epsilon": 4.0, "ledger-path": str(path)}
    return grid, ledgers


def test_a_seed_outside_simulations_is_refused_before_anybody_pays(tmp_path):
    grid, ledgers = deployed(tmp_path)
    store = tmp_path / "run.db"
    with pytest.raises(ValueError, match=r"Expected no seed outside a simulation.*same\s+users"):
        Mean(epsilon=4.0).start(grid, num_nodes=3, seed=7, store=store)
    assert {kind for kind, _, _ in grid.asked} == {"query.census"}
    assert not any(ledger.spent() for ledger in ledgers)
    # Nor has the store kept the seed for whoever leaves it out.
    found = Mean(epsilon=4.0).start(grid, num_nodes=3, store=store)
    assert found.num_reports == 600 and not found.privacy.seeded
    with RunStore(store).open() as kept:
        assert kept.get("salt") not in (None, 7)


def test_one_node_that_is_not_simulated_is_enough_to_refuse_a_seed(tmp_path):
    grid, _ = deployed(tmp_path)
    for number in (1, 2):
        del grid.contexts[number].node_config["max-epsilon"]
        del grid.contexts[number].node_config["ledger-path"]
    with pytest.raises(ValueError, match="Expected no seed"):
        Mean(epsilon=4.0).start(grid, num_nodes=3, seed=7)

"""Planning of a protocol: its expected error at some numbers, and changes that reduce it."""

import inspect
import math
from contextlib import suppress
from typing import Any

from ..expectation import NoPlan, Plannable, Setting, WouldRefuse, WrongSetting
from ..validation import Positive, check_integer, plain_arguments
from .result import Plan
from .variants import Variants


@plain_arguments
def plan(
    protocol: Any,
    *,
    num_users: int,
    rows_per_user: float = 1,
    num_features: int | None = None,
    epsilon: Positive | None = None,
    quality: float | None = None,
    variance_between: float | None = None,
    num_nodes: int | None = None,
    noise: str | None = None,
    target: Positive | None = None,
) -> Plan:
    """Return a plan with the expected error of a protocol, from public numbers alone.

    Parameters
    ----------
    protocol : LdpStrategy, or a class of it
        A strategy with its parameters; or a strategy's class, with ``epsilon`` and the other
        numbers from which its parameters follow.
    num_users : int
        Number of people that would be queried.
    rows_per_user : float (default: 1)
        Mean number of rows of a user.
    num_features : int, optional
        Number of features of a row, or of possible items. Only with a strategy's class.
    epsilon : float, optional
        Privacy parameter of each user. Required with a strategy's class, and only with it.
    quality : float, optional
        Quality of the same model without privacy: R2, or AUC.
    variance_between : float, optional
        Share of the variance of columns and residuals that lies between users, 0 to 1. If the
        rows of a user are alike, they tell as much as only a few different rows.
    num_nodes : int, optional
        Number of nodes that hold the users, with noise at the node or shared.
    noise : {"user", "node", "shared"}, optional
        Where noise is added. Only with a strategy's class. By default it is added at the node if
        ``num_nodes`` is given, and otherwise at the user.
    target : float, optional
        The desired error; by default half of the expected error.

    Returns
    -------
    Plan
        The plan, with the expected error, its range, its cost, and changes that reach the target.

    Raises
    ------
    NoPlan
        If the expected error of this protocol is not known; the message says why.
    ValueError
        If an argument is out of range or has no effect.

    Notes
    -----
    No data are read, and no user is queried. The protocol itself is run on synthetic users. There
    are 24 runs with the given numbers, or 3 runs if results state the error. With other numbers
    there are a sixth as many runs, on the synthetic users whose errors were nearest to the median.
    Between these numbers, the error is interpolated as a power of the number. With noise at the
    user, errors of quantiles, distributions, differences and frequent items follow from formulas,
    as does the noise of models that an app trains.
    """
    setting = Setting(
        num_users=num_users,
        rows_per_user=rows_per_user,
        num_features=num_features,
        quality=quality,
        variance_between=variance_between,
        num_nodes=num_nodes,
    )
    if num_nodes is not None:
        check_integer("num_nodes", num_nodes, 1, num_users)
    kind = protocol if inspect.isclass(protocol) else type(protocol)
    if not issubclass(kind, Plannable):
        raise ValueError(f"Expected a strategy or its class, got {kind.__name__}.")
    if kind is protocol:
        if epsilon is None:
            raise ValueError(f"Expected epsilon with the class {kind.__name__}, got None.")
        noise = noise or ("node" if num_nodes and "node" in kind.noises else "user")
    else:
        own = {
            "epsilon": epsilon,
            "noise": noise,
            **({"num_features": num_features} if kind.sized else {}),
        }
        for name, value in own.items():
            if value is not None:
                raise ValueError(
                    f"Expected no {name} with a strategy, which has its own, got {value!r}."
                )
        noise = getattr(protocol, "noise", "user")
    if kind.no_plan:
        raise NoPlan(kind.no_plan)
    if noise not in kind.noises:
        raise ValueError(f"Expected noise in {kind.noises} with {kind.__name__}, got {noise!r}.")
    if unread := setting.given() - {"num_users", "num_nodes"} - kind.plans_with:
        name = min(unread)
        text = f"Expected no {{}} with {kind.__name__}, whose plan does not depend on it, got "
        raise WrongSetting(name, f"{text}{getattr(setting, name)!r}.")
    epsilon = protocol.epsilon if epsilon is None else float(epsilon)
    return _plan_of(kind, Variants(protocol, setting, epsilon, noise), target)


def _plan_of(kind: Any, variants: Variants, target: float | None) -> Plan:
    """Return the plan of a strategy's class, with the changes that reach the target error."""
    expected, few = None, None
    try:
        expected = variants.expect()
    except WouldRefuse as error:
        few = error.refusal
    aim = target if target is not None else expected.value / 2 if expected else math.inf
    reached = min(aim, 1e300)
    # A refusal names what would not be refused by itself.
    starts = few if target is None else None
    changes: dict[str, float | None] = {
        "users": (starts and starts.needed) or variants.users_for(reached),
        "epsilon": (starts and starts.epsilon) or variants.epsilon_for(reached),
    }
    if variants.error() > reached and (features := variants.features_for(reached)) is not None:
        changes["features"] = features
    strategy = variants.strategy(variants.setting, variants.epsilon)
    delta = strategy.delta if variants.noise != "user" else 0.0
    if expected:
        delta = max((each.delta for each in expected.randomizers), default=0.0)
    return Plan(
        protocol=kind.__name__,
        question=kind.card.question,
        setting=variants.setting,
        epsilon=variants.epsilon,
        delta=delta,
        protects=kind.protects,
        noise=variants.noise,
        expected=expected,
        refusal=str(few or ""),
        target=aim if math.isfinite(aim) else math.nan,
        changes=changes,
        curve=_curve(variants),
        lower_bounds=strategy.lower_bounds(variants.setting),
    )


def _curve(variants: Variants) -> tuple[dict[str, float], ...]:
    """Return the errors at other users and epsilons; NaN where a run would be refused."""
    curve = []
    for users, epsilon in variants.points():
        error = low = high = math.nan
        with suppress(WouldRefuse):
            expected = variants.expect(epsilon, num_users=users)
            error, low, high = expected.value, expected.low, expected.high
        point = {"users": users, "epsilon": epsilon, "error": error, "low": low, "high": high}
        curve.append(point)
    return tuple(curve)

"""Mapped statistics: those of features after a public random map."""

from dataclasses import replace

from ldp_flower.messages import Arrays, MessageError
from ldp_flower.public_maps import fourier_features, frequencies, project, projection
from ldp_flower.users import Users

from .rows import Floats
from .statistic import Params, Statistic

_MAX_SEED = 1 << 53
_MAX_PROJECTED, _MAX_FOURIER = 1 << 13, 1 << 10  # a message can ask for it


def projected(inner: Statistic) -> Statistic:
    """Return the statistic of features that a random matrix projected.

    Its queries have two more numbers: ``seed`` and ``projected_dim``, see
    :func:`ldp_flower.public_maps.projection`.
    """

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        dim = int(params["projected_dim"])
        matrix = projection(int(params["seed"]), users.num_features, dim)
        return inner.compute(
            replace(users, features=project(users.features, matrix)), arrays, params
        )

    def mapped(num_features: int, params: Params) -> int:
        _integer("seed", params, _MAX_SEED)
        return _integer("projected_dim", params, min(num_features, _MAX_PROJECTED))

    return replace(
        inner,
        compute=compute,
        mapped=mapped,
        params=inner.params | {"seed", "projected_dim"},
    )


def fourier(inner: Statistic) -> Statistic:
    """Return the statistic of random Fourier features.

    Its queries have three more numbers: ``seed``, ``num_features`` (even) and
    ``length_scale``, see :func:`ldp_flower.public_maps.fourier_features`.
    """

    def compute(users: Users, arrays: Arrays, params: Params) -> Floats:
        drawn = frequencies(int(params["seed"]), users.num_features, int(params["num_features"]))
        features = fourier_features(users.features, drawn, params["length_scale"])
        return inner.compute(replace(users, features=features), arrays, params)

    def mapped(num_features: int, params: Params) -> int:
        _integer("seed", params, _MAX_SEED)
        count = _integer("num_features", params, _MAX_FOURIER)
        if count % 2:
            raise MessageError(f"Expected an even num_features, got {count}.")
        return count

    return replace(
        inner,
        compute=compute,
        mapped=mapped,
        params=inner.params | {"seed", "num_features", "length_scale"},
    )


def _integer(name: str, params: Params, high: int) -> int:
    value = params[name]
    if value != int(value) or value > high:
        raise MessageError(f"Expected an integer {name} of at most {high}, got {value}.")
    return int(value)

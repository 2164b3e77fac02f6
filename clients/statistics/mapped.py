"""Features after a public random map."""

from dataclasses import replace

from ldp_flower.guarantee.questions import Fourier, Projected
from ldp_flower.guarantee.users import Users
from ldp_flower.values.public_maps import fourier_features, frequencies, project, projection


def projected(users: Users, question: Projected) -> Users:
    """Return the users that :class:`Projected` is about."""
    matrix = projection(question.seed, users.num_features, question.projected_dim)
    return replace(users, features=project(users.features, matrix))


def fourier(users: Users, question: Fourier) -> Users:
    """Return the users that :class:`Fourier` is about."""
    drawn = frequencies(question.seed, users.num_features, question.num_features)
    features = fourier_features(users.features, drawn, question.length_scale)
    return replace(users, features=features)

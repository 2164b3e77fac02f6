"""How users rank features: the statistics that a vote may ask for."""

#: Names of the selectors, each with its statistic and that one's numbers.
SELECTORS: dict[str, tuple[str, dict[str, float]]] = {
    "ridge": ("correlated_features", {"ridge": 3.0}),
    "marginal": ("correlated_features", {}),
    "lasso": ("lasso_features", {"penalty": 0.6}),
    "post-lasso": ("post_lasso_features", {"penalty": 0.6}),
    "pursuit": ("pursued_features", {}),
}

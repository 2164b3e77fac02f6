"""From Flower's run configuration to a setting."""

from collections.abc import Mapping

from .population import Setting

Scalar = bool | int | float | str


def setting_of(run: Mapping[str, Scalar]) -> Setting:
    """Return the setting that a run asks for."""
    return Setting(
        num_users=int(run["num-users"]),
        samples_per_user=int(run["samples-per-user"]),
        dim=int(run["dim"]),
        epsilon=float(run["epsilon"]),
        design=str(run["design"]),
        sizes=str(run["sizes"]),
        signs=str(run["signs"]),
        positions=str(run["positions"]),
        scale=str(run["scale"]),
    )

"""Labels: targets that are places of classes, in every question by one convention.

Classes are 0, 1, ..., as a schema makes them of categories. Of two classes the first may also be
coded -1. A row with any other target is of no class: which one was meant is not guessed.
"""

import logging
from dataclasses import replace

import numpy as np

from ldp_flower.guarantee.users import Users


def with_places(users: Users, num_classes: int) -> Users:
    """Return the users with NaN in place of targets that are no label, and log how many."""
    targets = np.asarray(users.targets, np.float64)
    if num_classes == 2:
        targets = np.where(targets == -1, 0.0, targets)
    known = (targets >= 0) & (targets < num_classes) & (targets == np.floor(targets))
    if lost := int((~known & ~np.isnan(targets)).sum()):
        logging.getLogger(__name__).warning(
            "%d of %d rows have a label other than 0 to %d and are left out. Labels are the places "
            "of classes, 0, 1, ...: a Schema whose target is Categories makes them.",
            *(lost, len(known), num_classes - 1),
        )
    return replace(users, targets=np.where(known, targets, np.nan))

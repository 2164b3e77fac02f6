"""What the functions of this package are: one for a class of questions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldp_flower.guarantee.questions import Question
from ldp_flower.guarantee.users import Users
from ldp_flower.randomness import Words
from ldp_flower.validation import Floats

#: From users and a question of this class to values, shape (users, width).
Statistics = dict[type[Question], Callable[[Users, Any], Floats]]
#: Likewise, given the words, one for each user, by which they draw what is drawn.
Drawing = dict[type[Question], Callable[[Users, Any, Words], Floats]]
#: To a block of what is sent as it is beside the reports, with the users first.
Blocks = dict[type[Question], Callable[[Users, Any], NDArray[np.float32]]]
#: To the users that the question inside is about.
Views = dict[type[Question], Callable[[Users, Any], Users]]
#: From values of the question inside to values.
Turns = dict[type[Question], Callable[[Floats, Any], Floats]]

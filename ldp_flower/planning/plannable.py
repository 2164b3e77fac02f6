"""What makes a protocol one that can be planned."""

from typing import ClassVar, Self

from .expectation import Expectation, NoPlan
from .setting import Setting


class Plannable:
    """A protocol that tells what error to expect, or why it cannot."""

    #: Which numbers of a :class:`Setting` a plan reads, beside ``num_users``.
    plans_with: ClassVar[frozenset[str]] = frozenset()
    #: Whether a strategy knows by itself how many features a row has.
    sized: ClassVar[bool] = True
    #: Why there is no plan, in a whole sentence, where there is none.
    no_plan: ClassVar[str] = ""

    @classmethod
    def planned_for(cls, setting: Setting, epsilon: float) -> Self:
        """Return the protocol as it would ask people of whom only these numbers are known.

        Raises
        ------
        NoPlan
            If the protocol has no plan.
        """
        raise NoPlan(cls._why_not())

    def expect(self, setting: Setting) -> Expectation:
        """Return what this protocol, with its own parameters, is expected to do.

        Parameters
        ----------
        setting : Setting
            Public numbers; those that are not in ``plans_with`` are not read.

        Raises
        ------
        NoPlan
            If nobody can tell.
        WouldRefuse
            If a run with these numbers would be refused before anybody is asked.
        """
        raise NoPlan(self._why_not())

    @classmethod
    def _why_not(cls) -> str:
        return cls.no_plan or f"What error to expect of {cls.__name__} has not been worked out."

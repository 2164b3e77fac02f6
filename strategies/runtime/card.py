"""Card: a summary of a protocol, for those who choose one."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Card:
    """A summary of a protocol that helps to choose one; every list of protocols is made of cards.

    Texts are short and contain numbers. Some continue a sentence that begins with the words in
    brackets. The unit of protection is not on the card: it is the strategy's ``protects``.

    Parameters
    ----------
    question : str
        The quantity that the protocol estimates.
    guarantee : str
        The privacy parameters.
    rounds : str
        Number of rounds; every user answers once unless this text says otherwise.
    report : str
        Size of one report in bytes.
    use_when : str
        (Use it when ...)
    fails_when : str
        (It does not work ...)
    page : str
        Name of the page in ``docs`` with the measurements.
    """

    question: str
    guarantee: str
    rounds: str
    report: str
    use_when: str
    fails_when: str
    page: str

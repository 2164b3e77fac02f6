"""Card: what to know of a protocol before choosing it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Card:
    """What to know of a protocol before choosing it; every list of protocols is made of cards.

    Texts are short, with numbers, and go on from the words in brackets. Whom the protocol
    protects is the strategy's ``protects``.

    Parameters
    ----------
    question : str
        What it estimates.
    guarantee : str
        At which privacy parameters.
    rounds : str
        How often the server asks; every user answers once, unless it says otherwise.
    report : str
        Bytes of one report.
    use_when : str
        (Use it when ...)
    fails_when : str
        (It does not work ...)
    page : str
        Name of the page in ``docs`` that has the measurements.
    """

    question: str
    guarantee: str
    rounds: str
    report: str
    use_when: str
    fails_when: str
    page: str

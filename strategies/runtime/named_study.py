"""The approved study that a run belongs to: its name and signature in every query."""

from dataclasses import dataclass, field, replace
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ldp_flower.guarantee.messages import Query
from ldp_flower.guarantee.peers import read_key
from ldp_flower.guarantee.studies import signed_text


@dataclass(frozen=True)
class NamedStudy:
    """The study that a server names in its queries, and the key that signs them, if there is one.

    When a run starts, the key is read again from the file ``key``.
    """

    id: str
    private: Ed25519PrivateKey | None = field(default=None, repr=False)

    @classmethod
    def of(cls, study: str | None, key: str | None) -> Self | None:
        """Return the study named ``study``, with the key in the file ``key``.

        The key signs the study's queries. If ``key`` is None, queries are not signed. Return None
        if ``study`` is None.
        """
        if study is None:
            return None
        return cls(study, None if key is None else read_key(key))

    def naming(self, query: Query) -> Query:
        """Return a copy of the query that names this study, signed if there is a key."""
        named = replace(query, study=self.id)
        if self.private is None:
            return named
        text = signed_text(named.digest(), self.id)
        return replace(named, signature=self.private.sign(text))

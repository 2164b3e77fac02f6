"""What a server may send in place of a question: any name, arrays and numbers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AsSent:
    name: str
    arrays: dict = field(default_factory=dict)
    params: dict = field(default_factory=dict)

    def to_wire(self):
        return self.name, self.arrays, self.params

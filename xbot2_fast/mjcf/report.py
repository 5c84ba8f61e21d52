"""The conversion report: what the generator repaired, converted, guessed or dropped, link by link."""

import dataclasses
import json
from dataclasses import dataclass, field

KINDS = ("repaired", "converted", "guessed", "dropped", "noticed", "contact")


@dataclass(frozen=True, order=True)
class Note:
    """One thing the generator did. `kind` is one of KINDS, `link` the link it concerns ("" for the whole robot)."""

    link: str
    kind: str
    what: str


@dataclass
class Report:
    """Notes of one conversion, in the order in which they were made.

    Attributes:
        name: the robot's name in the output.
        notes: what was done; `contact` notes list link pairs that touch at q_init.
    """

    name: str
    notes: list[Note] = field(default_factory=list)

    def add(self, kind: str, link: str, what: str) -> None:
        if kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
        self.notes.append(Note(link, kind, what))

    def of(self, kind: str) -> list[Note]:
        """The notes of one kind."""
        return [note for note in self.notes if note.kind == kind]

    def to_dict(self) -> dict:
        return {"name": self.name, "notes": [dataclasses.asdict(note) for note in sorted(self.notes)]}

    def to_json(self) -> str:
        """The report as JSON text, notes sorted by link."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """One line a note, sorted by link."""
        return "".join(f"{note.link or '(robot)'}: {note.kind}: {note.what}\n" for note in sorted(self.notes))

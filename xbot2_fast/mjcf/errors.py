"""What the generator raises when an input cannot become a model."""

from collections.abc import Iterable


class ModelError(ValueError):
    """A URDF, SRDF, mesh or MJCF fragment that cannot be used.

    `problems` holds one text a problem; the message lists them all.
    """

    def __init__(self, message: str, problems: Iterable[str] = ()):
        self.problems = tuple(problems) or (message,)
        super().__init__("\n  - ".join((message, *self.problems)) if problems else message)

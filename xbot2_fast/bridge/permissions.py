"""Who may use the socket and the shared memory of a bridge."""

import grp
import os
from dataclasses import dataclass

OWNER_ONLY = 0o600


@dataclass(frozen=True)
class Access:
    """Mode bits and group of the socket and the segment; group -1 leaves the process's own."""

    mode: int = OWNER_ONLY
    group: int = -1

    @classmethod
    def parse(cls, text: "str | int | Access | None") -> "Access":
        """From an octal mode ("0666", 0o666), a group name ("robots": mode 0660), or None: the same user only.

        Raises:
            ValueError: neither, or a mode that does not let the owner read and write, or that allows execution.
        """
        if text is None:
            return cls()
        if isinstance(text, Access):
            return text
        if isinstance(text, str) and not text.isdigit():
            try:
                return cls(0o660, grp.getgrnam(text).gr_gid)
            except KeyError:
                raise ValueError(f"bridge mode: expected an octal mode such as 0666 or a group, got {text!r}") from None
        try:
            mode = int(text, 8) if isinstance(text, str) else int(text)
        except ValueError:
            mode = -1
        if mode < 0 or mode & ~0o666 or mode & 0o600 != 0o600:
            raise ValueError(f"bridge mode: expected an octal mode from 0600 to 0666, got {text!r}")
        return cls(mode)

    def apply(self, path: str) -> None:
        """Give a socket or a segment this mode and group, whatever the umask is."""
        if self.group != -1:
            os.chown(path, -1, self.group)
        os.chmod(path, self.mode)

"""Byte layout of a shared-memory segment, `xbot2-shm-v1`."""

from array import array
from dataclasses import asdict, dataclass

PROTOCOL = "xbot2-shm-v1"
MAGIC = 0x5842504253484D31  # "XBPBSHM1"
VERSION = 1
HEADER_SIZE = 128

JOINT_FIELDS = ("q", "dq", "tau", "k", "d", "qref", "vref", "tauref")  # of a state, in order
COMMAND_FIELDS = ("q", "dq", "tau", "k", "d")
IMU_FIELDS = {"quat_w": 4, "lin_acc_b": 3, "ang_vel_b": 3}
_WORD = 8
_LINE = 64


def _up(size: int) -> int:
    return -(-size // _LINE) * _LINE


def state_words(njoints: int, nimus: int) -> int:
    """Numbers in a state: time, eight per joint, ten per IMU."""
    return 1 + len(JOINT_FIELDS) * njoints + sum(IMU_FIELDS.values()) * nimus


@dataclass(frozen=True)
class Layout:
    """Where things are in the segment [bytes]; the discovery answer carries it as its `layout`."""

    magic: int
    version: int
    header_size: int
    total_size: int
    state_offset: int
    command_offset: int
    njoints: int
    nimus: int

    @classmethod
    def of(cls, njoints: int, nimus: int) -> "Layout":
        command_offset = _up(HEADER_SIZE + _WORD * state_words(njoints, nimus))
        total_size = _up(command_offset + _WORD * (1 + len(COMMAND_FIELDS) * njoints))
        return cls(MAGIC, VERSION, HEADER_SIZE, total_size, HEADER_SIZE, command_offset, njoints, nimus)

    def header(self, session: int) -> array:
        """The 16 words of the header of a server with this session."""
        return array(
            "Q",
            [
                self.magic, self.version, self.header_size, self.total_size, self.njoints, self.nimus, 0, 0,
                session, 0, 0, self.state_offset, self.command_offset, 0, 0, 0,
            ],
        )  # fmt: skip

    def message(self) -> dict[str, int]:
        return asdict(self)

"""Old path of MjXbot2Bridge."""

from xbot2_fast.bridge import MjXbot2Bridge as MjXbot2Bridge

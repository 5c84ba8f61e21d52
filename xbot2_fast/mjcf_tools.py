"""The old import path of MjcfGenerator."""

from xbot2_fast.mjcf import MjcfGenerator as MjcfGenerator

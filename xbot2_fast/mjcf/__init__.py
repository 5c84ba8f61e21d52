"""URDF to MuJoCo: MjcfGenerator and the stages it is made of."""

from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.generator import MjcfGenerator
from xbot2_fast.mjcf.report import Note, Report

__all__ = ["MjcfGenerator", "ModelError", "Note", "Report"]

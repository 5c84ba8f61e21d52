"""xbot2_fast: the MuJoCo simulator for robots that run the XBot2 middleware, with its hot paths compiled."""

from importlib import import_module
from importlib.util import find_spec

if find_spec("xbot2_fast._kernels._mujoco") is None:
    raise ImportError(
        "xbot2_fast: the compiled kernels are missing, so this is a source tree that was not built.\n"
        "In the clone's root Python finds the source tree before an installed package. Make it an editable install,\n"
        "    pip install meson-python meson ninja cython && pip install --no-build-isolation -e .\n"
        "or install it with 'pip install .' and use its scripts (xbot2-sim, mjctl) or another directory."
    )

# Public name -> module that defines it; resolved when first used, so that `import xbot2_fast` stays cheap.
_HOMES = {
    "MjcfGenerator": "xbot2_fast.mjcf",
    "MjXbot2Bridge": "xbot2_fast.bridge",
    "SimulatorWrapper": "xbot2_fast.simulator_wrapper",
}

__all__ = ["MjXbot2Bridge", "MjcfGenerator", "SimulatorWrapper", "__version__"]


def __getattr__(name: str):
    if name == "__version__":
        from importlib.metadata import version

        return version("xbot2-fast")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'xbot2_fast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""The terrain generator under its old path; it lives in `xbot2_fast.terrain`."""

from xbot2_fast.terrain import *  # noqa: F403

if __name__ == "__main__":
    import sys

    from xbot2_fast.terrain.command import main

    sys.exit(main())

"""The old client script: the same as `mjctl`."""

import sys

from xbot2_fast.mjctl import main

if __name__ == "__main__":
    sys.exit(main())

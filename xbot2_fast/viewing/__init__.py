"""Processes that show the simulation: a window, a browser's page, or one picture.

The simulator writes frames into shared memory and goes on; drawing happens in a process of its own with the lowest
priority, so that no step waits for it.
"""

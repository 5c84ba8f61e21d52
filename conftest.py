"""Plugins of the test run; they must be named in the root."""

pytest_plugins = ["tests.requirements"]

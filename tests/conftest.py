"""Options and rules that all tests share."""

import tempfile

import pytest

LONG = ("fuzz", "soak")


def pytest_addoption(parser):
    parser.addoption("--run-long", action="store_true", help="also run the tests marked fuzz or soak")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--run-long"):
        return
    long = [item for item in items if any(item.get_closest_marker(name) for name in LONG)]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in set(long)]


@pytest.fixture(scope="session", autouse=True)
def temporary_files_go_with_the_tests(tmp_path_factory):
    """What the package writes into the temporary folder, such as the history of a divergence."""
    tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = None

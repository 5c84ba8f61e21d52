"""Options and rules that all tests share."""

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

"""The command `xbot2-terrain`."""

import argparse
import dataclasses
import sys
from pathlib import Path

from xbot2_fast.terrain.configuration_file import load_configuration
from xbot2_fast.terrain.generator import TerrainGenerator
from xbot2_fast.terrain.presets import ROUGH_TERRAINS_CFG


def main(argv: list[str] | None = None) -> int:
    """Generate a world and print the path of its XML. Exit codes: 0; 1 with a line on stderr; 2 for bad arguments."""
    arguments = _parser().parse_args(argv)
    try:
        configuration = load_configuration(arguments.config) if arguments.config else ROUGH_TERRAINS_CFG
        if arguments.seed is not None:
            configuration = dataclasses.replace(configuration, seed=arguments.seed)
        generator = TerrainGenerator(configuration)
        path = generator.save(arguments.output_dir / arguments.filename)
        if arguments.picture:
            generator.picture(arguments.picture)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        sys.stderr.write(f"xbot2-terrain: {error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xbot2-terrain",
        description="Write a MuJoCo world of sub-terrains, its height fields and spawn_locations.yaml.",
        epilog="example: xbot2-terrain /tmp/world --config stairs.yaml --picture /tmp/world/stairs.png",
    )
    parser.add_argument("output_dir", type=Path, metavar="OUTPUT_DIR", help="folder of the world, made when missing")
    parser.add_argument("--filename", default="rough_terrain.xml", help="name of the XML (default: %(default)s)")
    parser.add_argument("--config", type=Path, metavar="YAML", help="configuration (default: ROUGH_TERRAINS_CFG)")
    parser.add_argument("--seed", type=int, help="in place of the configuration's seed")
    parser.add_argument("--picture", type=Path, metavar="PNG", help="also render the world from above and at an angle")
    return parser

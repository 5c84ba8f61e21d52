"""MjcfGenerator: URDF and fragments in, a MuJoCo model out."""

import copy
import logging
from collections.abc import Collection, Mapping
from pathlib import Path

import mujoco
import numpy as np
from lxml import etree

from xbot2_fast.actuation import apply_q_init
from xbot2_fast.mjcf import actuators, floating_base, srdf
from xbot2_fast.mjcf.assets import resolve_assets, store_assets
from xbot2_fast.mjcf.custom_tags import apply_custom_tags
from xbot2_fast.mjcf.errors import ModelError
from xbot2_fast.mjcf.fragment import load_fragment, make_independent
from xbot2_fast.mjcf.merge import Merger
from xbot2_fast.mjcf.output_folder import OutputFolder
from xbot2_fast.mjcf.packages import FileFinder
from xbot2_fast.mjcf.repair import REPAIRS, repair
from xbot2_fast.mjcf.report import Note, Report
from xbot2_fast.mjcf.urdf_block import take_block
from xbot2_fast.mjcf.urdf_to_mjcf import urdf_to_mjcf
from xbot2_fast.mjcf.validation import check_root, content_problems, refuse, structure_problems
from xbot2_fast.mjcf.xml_input import Element, parse_xml

logger = logging.getLogger(__name__)

Gain = actuators.Gain
ALL_REPAIRS = tuple(REPAIRS)


class MjcfGenerator:
    """Turns a URDF into a MuJoCo model and merges MJCF fragments into it.

    Construction reads and converts the URDF and writes `<name>.urdf`, `<name>.orig.xml` and `assets/` into the output
    folder; `merge_xml` adds fragments; `generate_mjcf_string` carries out the custom tags and writes `<name>.xml`.
    Files of an earlier run are replaced, other files in the folder are never touched.

    Args:
        name: name of the robot and of the files.
        urdf_str: the URDF's text, or its bytes.
        output_dir: folder for the output, made if missing; default `/tmp/<name>_mujoco`.
        copy_assets: copy mesh and texture files instead of linking to them, so that the folder can be moved.
        urdf_path: where the URDF came from; relative file names start there. Default: the working directory.
        packages: package name -> folder, looked at before ROS_PACKAGE_PATH, AMENT_PREFIX_PATH and rospkg.
        missing_assets: "error" refuses a URDF whose files are missing, "skip" leaves out what needs them.
        floating_base: give the root link a free joint and set the robot down on the ground at q_init.
        auto_actuators: "position", "intvelocity" or "motor": an actuator for every joint that has none.
        kp, kd: gains of the automatic actuators [Nm/rad, Nm s/rad]: a number, or joint name or regular expression ->
            number.
        repairs: which repairs to do, out of "effort", "limits", "joints", "roots", "inertia" and "mass"; default all.
            What would need another one is refused.
        lenient: custom tags and q_init joints that match nothing are reported instead of refused.
    Attributes:
        q_init: joint name -> initial position [rad or m]; complete after `generate_mjcf_string`.
        poses: the named poses of the merged SRDF.
        report: what was repaired, converted, guessed or dropped.
    Raises:
        ModelError: (a ValueError) with all problems of the URDF; nothing but the output folder was touched.
    """

    def __init__(
        self,
        name: str,
        urdf_str: str | bytes,
        output_dir: str | Path | None = None,
        copy_assets: bool = False,
        *,
        urdf_path: str | Path | None = None,
        packages: Mapping[str, str | Path] | None = None,
        missing_assets: str = "error",
        floating_base: bool = False,
        auto_actuators: str | None = None,
        kp: Gain = 100.0,
        kd: Gain = 5.0,
        lenient: bool = False,
        repairs: Collection[str] | None = None,
    ):
        _check_choice("missing_assets", missing_assets, ("error", "skip"))
        _check_choice("auto_actuators", auto_actuators, (None, *actuators.LAWS))
        if not name or "/" in name:
            raise ModelError(f"name: expected a name that can be a file's, got {name!r}")
        self.name = name
        self.q_init: dict[str, float] = {}
        self.poses: dict[str, srdf.Pose] = {}
        self.report = Report(name)
        self._pose: dict[str, float] = {}
        self._link_assets = not copy_assets
        self._skip_missing = missing_assets == "skip"
        self._floating_base = floating_base
        self._auto_actuators, self._kp, self._kd = auto_actuators, kp, kd
        self._lenient = lenient
        robot = parse_xml(urdf_str, f"URDF {urdf_path or name}")
        base = Path(urdf_path).absolute().parent if urdf_path is not None else None
        block, files = self._checked(robot, base, packages, ALL_REPAIRS if repairs is None else repairs)
        self._output = OutputFolder(Path(output_dir) if output_dir is not None else Path(f"/tmp/{name}_mujoco"), name)
        store_assets(files, self._output, self.report, link_assets=self._link_assets)
        self._output.write(f"{name}.urdf", _text(_with_mujoco_block(robot)))
        self._tree = urdf_to_mjcf(robot, name)
        self._roots = [body.get("name") for body in self._tree.iterfind("worldbody/body")]
        self._merger = Merger(self._tree)
        self._merge(block, base)
        self._output.write(f"{name}.orig.xml", _text(_relocated(self._tree, ".")))

    def _checked(
        self,
        robot: Element,
        base: Path | None,
        packages: Mapping[str, str | Path] | None,
        repairs: Collection[str],
    ) -> tuple[Element, dict[Element, Path]]:
        """Mend the URDF and find its files, or refuse it with all its problems; also takes its `<mujoco>` block."""
        for name in repairs:
            _check_choice("repairs", name, ALL_REPAIRS)
        check_root(robot)
        block, folders = take_block(robot, self.report)
        finder = FileFinder(
            packages, base, folders.get("meshdir", folders.get("assetdir", "")), folders.get("strippath") == "true"
        )
        problems = structure_problems(robot)
        if not problems:
            problems = content_problems(robot)
            if not problems:
                problems = repair(robot, self.report, repairs, floating_base=self._floating_base)
        files, missing = resolve_assets(robot, finder, self.report, skip_missing=self._skip_missing)
        refuse(robot, [*problems, *missing])
        return block, files

    @property
    def output_dir(self) -> Path:
        """The output folder, absolute."""
        return self._output.path

    def merge_xml(self, xml: str | Path) -> None:
        """Merge an MJCF fragment: XML text (str) or a file (Path).

        Elements are matched by tag and name (defaults by class, excludes and pairs by what they name, sections by tag)
        and extended, attributes included; everything else is appended. Directories, includes and units of a file hold
        for that file only.
        """
        self._merge(*load_fragment(xml))

    def _merge(self, fragment: Element, folder: Path | None) -> None:
        make_independent(
            fragment, folder, self._output, self.report, link_assets=self._link_assets, skip_missing=self._skip_missing
        )
        self._merger.merge(fragment)

    def merge_srdf(self, source: str | bytes | Path, pose: str | None = None) -> None:
        """Merge an SRDF: pairs that never collide are excluded from contact, group states become poses.

        Args:
            source: the SRDF's text (str or bytes) or its file (Path).
            pose: name of the pose that q_init starts from; joints in `<q_init>` tags override it.
        """
        pairs, poses = srdf.read_srdf(source)
        self.poses.update(poses)
        bodies = {body.get("name") for body in self._tree.iterfind("worldbody//body")}
        bodies.add("world")
        contact = etree.Element("contact")
        for pair in pairs:
            if not bodies.issuperset(pair):
                self.report.add("dropped", "", f"SRDF: disable_collisions of {pair[0]} and {pair[1]}: no such link")
            elif pair[0] == pair[1]:
                continue
            else:
                contact.append(etree.Element("exclude", body1=pair[0], body2=pair[1]))
        fragment = etree.Element("mujoco")
        fragment.append(contact)
        self._merger.merge(fragment)
        if pose is not None:
            self.use_pose(pose)

    def use_pose(self, name: str) -> None:
        """Start q_init from a pose of the merged SRDF; joints the model lacks, or that cannot move, are left out."""
        if name not in self.poses:
            known = ", ".join(sorted(self.poses)) or "none; merge an SRDF with group states first"
            raise ModelError(f"pose: no pose {name!r}; known poses: {known}")
        self._pose = self.poses[name]

    def generate_mjcf_string(self) -> str:
        """The final MJCF; `<name>.xml` beside its assets is the same with relative directories.

        The text compiles from any working directory, since it names the output folder absolutely.
        """
        self._finalize_xml()
        tree = copy.deepcopy(self._tree)
        for body in tree.iterfind("worldbody//body"):
            body.set("simple", "false")
        if self._auto_actuators:
            actuators.add_actuators(tree, self._auto_actuators, self._kp, self._kd)
        if self._floating_base:
            self._set_down(tree)
        path = self._output.write(f"{self.name}.xml", _text(_relocated(tree, ".")))
        logger.info("[MjcfGenerator] writing final mjcf to %s", path)
        return _text(_relocated(tree, str(self._output.path)))

    def create_mj_model_data(self) -> tuple[mujoco.MjModel, mujoco.MjData]:
        """Model and data of the final MJCF, with q_init applied to positions and actuators."""
        model = _compiled(self.generate_mjcf_string())
        data = mujoco.MjData(model)
        apply_q_init(model, data, self.q_init)
        self._report_contacts(model, data)
        return model, data

    def _report_contacts(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        """Note each pair of bodies that touch at q_init; `data` keeps its state."""
        probe = mujoco.MjData(model)
        probe.qpos[:] = data.qpos
        mujoco.mj_fwdPosition(model, probe)
        bodies = np.sort(model.geom_bodyid[probe.contact.geom], axis=1)
        for first, second in np.unique(bodies, axis=0):
            names = model.body(int(first)).name, model.body(int(second)).name
            note = Note(names[1], "contact", f"touches {names[0]!r} at q_init")
            if note not in self.report.notes:
                self.report.notes.append(note)

    def _finalize_xml(self) -> None:
        """Carry out and remove the custom tags, complete q_init and check its joints."""
        given: dict[str, float] = {}
        apply_custom_tags(self._tree, given, self.report, lenient=self._lenient)
        self._merger.forget()
        self.q_init.update(given)
        scalar = {
            joint.get("name")
            for joint in self._tree.iterfind("worldbody//joint")
            if joint.get("type", "hinge") in ("hinge", "slide")
        }
        for joint in [joint for joint in self.q_init if joint not in scalar]:
            problem = f"<q_init>: the model has no hinge or slide joint {joint!r}"
            if not self._lenient:
                raise ModelError(problem)
            self.report.add("dropped", "", problem)
            del self.q_init[joint]
        for joint, value in self._pose.items():
            if joint in scalar:
                self.q_init.setdefault(joint, value)

    def _set_down(self, tree: Element) -> None:
        """Free the root link and put it at the height where the robot just does not touch the ground."""
        if len(self._roots) != 1:
            raise ModelError(f"floating_base: expected one root link, the URDF has {', '.join(self._roots)}")
        (name,) = self._roots
        body = next(b for b in tree.iterfind("worldbody//body") if b.get("name") == name)
        if body.find("freejoint") is None and body.find("joint[@type='free']") is None:
            body.insert(0, etree.Element("freejoint", name=_free_name("floating_base", tree)))
        model = _compiled(_text(_relocated(tree, str(self._output.path))))
        data = mujoco.MjData(model)
        apply_q_init(model, data, self.q_init)
        down = floating_base.height_above_ground(model, data, model.body(name).id)
        position = np.array(body.get("pos", "0 0 0").split(), dtype=float)
        position[2] -= down
        body.set("pos", " ".join(repr(float(value)) for value in position))


def _check_choice(argument: str, value: object, choices: tuple) -> None:
    if value not in choices:
        raise ModelError(f"{argument}: expected one of {', '.join(map(str, choices))}, got {value!r}")


def _compiled(xml: str) -> mujoco.MjModel:
    try:
        return mujoco.MjModel.from_xml_string(xml)
    except ValueError as error:
        raise ModelError(f"MuJoCo refuses the model: {error}") from None


def _free_name(wanted: str, tree: Element) -> str:
    taken = {e.get("name") for e in tree.iterfind("worldbody//*") if e.tag in ("joint", "freejoint")}
    while wanted in taken:
        wanted += "_joint"
    return wanted


def _relocated(tree: Element, folder: str) -> Element:
    """A copy whose `<compiler>` finds the assets of the output folder from `folder`."""
    tree = copy.deepcopy(tree)
    compiler = tree.find("compiler")
    compiler.attrib.update({"meshdir": folder, "texturedir": folder})
    return tree


def _with_mujoco_block(robot: Element) -> Element:
    """The URDF with the block that makes MuJoCo's own importer read it like ours."""
    robot = copy.deepcopy(robot)
    for block in robot.findall("mujoco"):
        robot.remove(block)
    block = etree.Element("mujoco")
    options = {"fusestatic": "false", "discardvisual": "false", "angle": "radian", "strippath": "false", "meshdir": "."}
    etree.SubElement(block, "compiler", options)
    robot.insert(0, block)
    return robot


def _text(root: Element) -> str:
    etree.indent(root)
    return etree.tostring(root, encoding="unicode") + "\n"

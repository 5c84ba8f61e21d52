"""The panel in the browser: the run, the joints, and forms whose requests are those of mjctl."""

import math
from dataclasses import dataclass, field
from typing import Any

from mujoco.studio import messages, plugin
from mujoco.studio.dear_imgui import dear_imgui as imgui

from xbot2_fast.actuation import joint_actuator, scalar_joints
from xbot2_fast.viewing.link import Link

_SLOWEST, _FASTEST = 0.1, 10.0  # ends of the slider
_FRAME = 1 / 60  # s

# Keys as Dear ImGui names them -> GLFW key codes, which the key callback gets.
KEYS = {
    **{letter: ord(letter) for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
    **{f"N{digit}": ord(str(digit)) for digit in range(10)},
    **{f"Keypad{digit}": 320 + digit for digit in range(10)},
    **{f"F{number}": 289 + number for number in range(1, 13)},
    "Space": 32, "Apostrophe": 39, "Comma": 44, "Minus": 45, "Period": 46, "Slash": 47, "Semicolon": 59, "Equal": 61,
    "LeftBracket": 91, "Backslash": 92, "RightBracket": 93, "GraveAccent": 96, "Escape": 256, "Enter": 257, "Tab": 258,
    "Backspace": 259, "Insert": 260, "Delete": 261, "RightArrow": 262, "LeftArrow": 263, "DownArrow": 264,
    "UpArrow": 265, "PageUp": 266, "PageDown": 267, "Home": 268, "End": 269, "KeypadDecimal": 330, "KeypadDivide": 331,
    "KeypadMultiply": 332, "KeypadSubtract": 333, "KeypadAdd": 334, "KeypadEnter": 335, "KeypadEqual": 336,
}  # fmt: skip


@dataclass
class _Wrench:
    body: int = 0
    force: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    torque: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    duration: float = 1.0
    frame: int = 0


@dataclass
class _Payload:
    body: int = 0
    mass: float = 1.0
    position: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])


class Panel(plugin.ViewerPlugin):
    """Builds the panel at each frame. Nothing here changes the simulation: it sends keys and requests."""

    def __init__(self, link: Link):
        self._link = link
        model = link.model
        self._keys = [(getattr(imgui.Key, name), code) for name, code in KEYS.items()]
        self._bodies = [model.body(i).name or f"body {i}" for i in range(1, model.nbody)]
        self._joints = [
            (model.joint(j).name or f"joint {j}", j, joint_actuator(model, j)) for j in scalar_joints(model)
        ]
        self._advance = _FRAME
        self._rtf: float | None = None  # while the slider is held
        self._wrench = _Wrench()
        self._payload = _Payload()
        self._answer = ""
        self._layout: dict[str, list[int]] = {}
        self._reported: dict[str, list[int]] = {}

    # ---- keys

    @messages.handler
    def on_update(self, _: messages.UpdateEvent) -> None:
        for reply in self._link.replies:
            self._take(reply)
        self._link.replies.clear()
        if imgui.IsAnyItemActive():  # somebody types
            return
        for key, code in self._keys:
            if imgui.IsKeyPressed(key):
                self._link.send("key", code=code)

    def _take(self, reply: dict[str, Any]) -> None:
        self._answer = "done" if reply["ok"] else reply["error"]["message"]

    # ---- widgets

    @messages.handler
    def on_build_gui(self, _: messages.BuildGuiEvent) -> None:
        imgui.SetNextWindowPos(imgui.Vec2(10, 10), int(imgui.Cond.FirstUseEver))
        imgui.SetNextWindowSize(imgui.Vec2(380, 640), int(imgui.Cond.FirstUseEver))
        self._layout = {}
        if imgui.Begin("xbot2_fast")[0]:
            self._build_run()
            imgui.TextWrapped(self._answer or " ")  # always a line, so that an answer does not move the buttons
            if imgui.CollapsingHeader("Wrench", int(imgui.TreeNodeFlags.DefaultOpen)):
                self._build_wrench()
            if imgui.CollapsingHeader("Payload", int(imgui.TreeNodeFlags.DefaultOpen)):
                self._build_payload()
            if imgui.CollapsingHeader("Joints", int(imgui.TreeNodeFlags.DefaultOpen)):
                self._build_joints()
        imgui.End()
        if self._layout != self._reported:
            self._link.send("layout", widgets=self._layout)
            self._reported = self._layout

    def _build_run(self) -> None:
        info = self._link.info
        rtf = "" if info["rtf"] is None else f"{info['rtf']:.3f}"
        imgui.TextUnformatted(f"t = {self._link.data.time:.2f} s   RTF {rtf}   {'paused' if info['paused'] else ''}")
        if self._button("Resume" if info["paused"] else "Pause", "pause"):
            self._request("resume" if info["paused"] else "pause")
        imgui.SameLine()
        if self._button("Respawn", "respawn"):
            self._request("respawn")
        imgui.SameLine()
        if self._button("Advance", "advance"):
            self._request("advance", duration=self._advance)
        imgui.SameLine()
        imgui.SetNextItemWidth(80)
        self._advance = imgui.InputDouble("s##advance", self._advance, 0.0, 0.0, "%.4f")[1]
        self._build_speed(info["target_rtf"])

    def _build_speed(self, target: float | None) -> None:
        shown = self._rtf if self._rtf is not None else (_FASTEST if target is None else target)
        flags = int(imgui.SliderFlags.Logarithmic) | int(imgui.SliderFlags.AlwaysClamp)
        label = "target RTF (max)###rtf" if target is None and self._rtf is None else "target RTF###rtf"
        changed, value = imgui.SliderFloat(label, shown, _SLOWEST, _FASTEST, "%.2f", flags)
        self._note("rtf")
        if changed:
            self._rtf = value
            self._request("set_rtf", rtf=round(value, 2))
        elif not imgui.IsItemActive():
            self._rtf = None

    def _build_wrench(self) -> None:
        form = self._wrench
        form.body = self._combo("body##wrench", form.body, self._bodies)
        form.force = self._vector("force [N]", form.force, "force")
        form.torque = self._vector("torque [Nm]", form.torque, "torque")
        form.duration = imgui.InputDouble("duration [s]", form.duration, 0.0, 0.0, "%.3f")[1]
        form.frame = self._combo("frame", form.frame, ["world", "body"])
        if self._button("Apply wrench", "apply_wrench"):
            frame, body = ["world", "body"][form.frame], self._bodies[form.body]
            wrench = {"force": form.force, "torque": form.torque, "duration": form.duration, "frame": frame}
            self._request("apply_wrench", body=body, **wrench)

    def _build_payload(self) -> None:
        form = self._payload
        form.body = self._combo("body##payload", form.body, self._bodies)
        form.mass = imgui.InputDouble("mass [kg]", form.mass, 0.0, 0.0, "%.3f")[1]
        form.position = self._vector("position [m]", form.position, "position")
        if self._button("Add payload", "add_payload"):
            body = self._bodies[form.body]
            self._request("add_payload", body=body, mass=form.mass, position=form.position)
        imgui.SameLine()
        if self._button("Restore all", "restore"):
            self._request("restore")

    def _build_joints(self) -> None:
        model, data, frame = self._link.model, self._link.data, self._link.frame
        columns = ("joint", "q", "dq", "tau", "q ref", "dq ref", "tau ref")
        if not imgui.BeginTable("joints", len(columns), int(imgui.TableFlags.RowBg) | int(imgui.TableFlags.Resizable)):
            return
        for name in columns:
            imgui.TableSetupColumn(name)
        imgui.TableHeadersRow()
        for name, joint, actuator in self._joints:
            dof = model.jnt_dofadr[joint]
            q_ref = data.ctrl[actuator] if actuator >= 0 else math.nan
            row = (
                data.qpos[model.jnt_qposadr[joint]],
                data.qvel[dof],
                frame.torque[dof],
                q_ref,
                *frame.references[:, dof],
            )
            imgui.TableNextRow()
            imgui.TableNextColumn()
            imgui.TextUnformatted(name)
            for number in row:
                imgui.TableNextColumn()
                imgui.TextUnformatted("" if math.isnan(number) else f"{number:.3f}")
        imgui.EndTable()

    # ---- building blocks

    def _request(self, command: str, **fields: Any) -> None:
        self._answer = ""
        self._link.send("request", request={"command": command, **fields})

    def _note(self, name: str) -> None:
        """Remember where the last widget is, for whoever drives the page from outside."""
        low, high = imgui.GetItemRectMin(), imgui.GetItemRectMax()
        self._layout[name] = [round(v) for v in (low.x, low.y, high.x, high.y)]

    def _button(self, label: str, name: str) -> bool:
        pressed = imgui.Button(f"{label}###{name}")
        self._note(name)
        return pressed

    def _combo(self, label: str, index: int, items: list[str]) -> int:
        return imgui.Combo(label, index, items)[1]

    def _vector(self, label: str, values: list[float], name: str) -> list[float]:
        changed = imgui.InputFloatN(label, values, "%.3f")[1]
        self._note(name)
        return list(changed)

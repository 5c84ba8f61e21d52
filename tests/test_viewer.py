"""A real window on a virtual display, with real keys; pictures without a display."""

import math
import os
import re
import subprocess
import sys
import threading
import zlib

import mujoco
import numpy as np
import pytest

from tests.tools import display, eventually, needs
from xbot2_fast import SimulatorWrapper
from xbot2_fast.viewer import PictureError, Viewer, check_camera, take_picture
from xbot2_fast.viewing.frames import MAX_MARKERS, Frame, draw_markers, geom_bytes

MODEL = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <visual><headlight ambient=".9 .9 .9" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <camera name="top" pos="0 0 4"/>
    <geom type="plane" size="9 9 .1" rgba="0 .5 0 1" contype="0" conaffinity="0"/>
    <body name="ball" pos="0 0 .5"><freejoint/><geom size=".3" rgba="0 0 1 1" mass="1"/></body>
  </worldbody>
</mujoco>
"""


def sphere(colour, position, radius=0.2):
    """A source of one marker."""

    def source(scene):
        if scene.ngeom < scene.maxgeom:
            mujoco.mjv_initGeom(
                scene.geoms[scene.ngeom], mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, radius), np.array(position),
                np.eye(3).ravel(), np.array(colour, np.float32),
            )  # fmt: skip
            scene.ngeom += 1

    return source


RED, YELLOW = (1, 0, 0, 1), (1, 1, 0, 1)


# ---- frames


@pytest.fixture
def model():
    return mujoco.MjModel.from_xml_string(MODEL)


def test_markers_come_in_their_order_are_rebuilt_and_cut_at_the_capacity(model):
    scene = mujoco.MjvScene(model, 3)
    sources = [sphere(RED, [k, 0.0, 0.0]) for k in range(5)]
    for _ in range(2):
        draw_markers(scene, sources)
        assert [scene.geoms[i].pos[0] for i in range(scene.ngeom)] == [0, 1, 2]


def test_a_frame_carries_state_torques_and_markers_to_another_process_memory(model):
    fd = os.memfd_create("frame")
    os.truncate(fd, Frame.size(model))
    ours, theirs = Frame(model, fd), Frame(model, fd)
    os.close(fd)
    data, copy = mujoco.MjData(model), mujoco.MjData(model)
    data.qpos[:3] = [1, 2, 3]
    data.time = 4.0
    data.xfrc_applied[1, 2] = 7
    count = ours.write(model, data, [sphere(RED, [1.0, 2.0, 3.0]), sphere(YELLOW, [4.0, 5.0, 6.0])])
    theirs.read(model, copy)
    assert count == 2
    assert np.array_equal(copy.qpos, data.qpos)
    assert copy.time == 4.0
    assert np.array_equal(copy.xfrc_applied, data.xfrc_applied)
    assert np.allclose(copy.xpos[1], [1, 2, 3])
    scene = mujoco.MjvScene(model, MAX_MARKERS)
    geom_bytes(scene)[:2] = theirs.geoms[:2]
    assert list(scene.geoms[1].pos) == [4, 5, 6]
    assert np.array_equal(scene.geoms[1].rgba, np.float32(YELLOW))


# ---- pictures


def pixels_of(path) -> np.ndarray:
    """Decode what `picture.png` writes: RGB, filter 0."""
    blob = path.read_bytes()
    width, height = (int.from_bytes(blob[at : at + 4]) for at in (16, 20))
    length = int.from_bytes(blob[33:37])
    rows = np.frombuffer(zlib.decompress(blob[41 : 41 + length]), np.uint8).reshape(height, -1)
    return rows[:, 1:].reshape(height, width, 3).astype(int)


def is_colour(pixel, colour) -> bool:
    """Whether the channels that the colour has are bright and the others are not."""
    return all((value > 100) == bool(wanted) for value, wanted in zip(pixel, colour[:3], strict=True))


@pytest.mark.parametrize("backend", [None, "osmesa"])
def test_a_picture_needs_no_display_and_shows_markers_at_their_places(model, tmp_path, monkeypatch, backend):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if backend:
        monkeypatch.setenv("MUJOCO_GL", backend)
    data, path = mujoco.MjData(model), tmp_path / "a.png"
    take_picture(path, model, data, markers=[sphere(RED, [1.0, 0.0, 0.5])], camera="top", width=640, height=480)
    pixels = pixels_of(path)
    assert pixels.shape == (480, 640, 3)
    metre = 240 / math.tan(math.radians(45 / 2)) / 3.5  # pixels, at the height of the ball
    assert is_colour(pixels[240, 320], (0, 0, 1))
    assert is_colour(pixels[240, 320 + round(metre)], RED)
    assert is_colour(pixels[240, 320 - round(metre)], (0, 1, 0))


def test_a_picture_names_what_is_wrong(model, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="camera: expected one of top; got 'bottom'"):
        check_camera(model, "bottom")
    for name, problem in {"no/folder.png": "expected one in an existing folder", "": "expected a file's name"}.items():
        with pytest.raises(ValueError, match=f"file: {problem}"):
            take_picture(tmp_path / name, model, mujoco.MjData(model))
    monkeypatch.setenv("MUJOCO_GL", "none")
    with pytest.raises(PictureError, match="no picture in .*png: none: "):
        take_picture(tmp_path / "a.png", model, mujoco.MjData(model))


# ---- the window


@pytest.fixture(scope="module")
def screen():
    needs("Xvfb", "xdotool")
    with display() as name:
        yield name


class Window:
    """A simulator with a window, run by a thread."""

    def __init__(self, screen, tmp_path, monkeypatch, **arguments):
        monkeypatch.setenv("DISPLAY", screen)
        self.screen, self.folder = screen, tmp_path
        self.sim = SimulatorWrapper(
            mujoco.MjModel.from_xml_string(MODEL), socket_path=str(tmp_path / "sim.sock"), target_rtf=1.0, **arguments
        )
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while self.sim.running:
            self.sim.run()

    def xdotool(self, *words: str) -> str:
        done = subprocess.run(
            ["xdotool", *words], env={**os.environ, "DISPLAY": self.screen}, capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def shown(self) -> str:
        """Wait for the window; returns its id."""
        eventually(lambda: self.xdotool("search", "--onlyvisible", "--name", "."))
        eventually(lambda: self.sim.viewer._free)
        return self.xdotool("search", "--onlyvisible", "--name", ".").split()[0]

    def press(self, *keys: str) -> None:
        window = self.shown()
        self.xdotool("windowfocus", "--sync", window)
        for key in keys:
            self.xdotool("key", key)

    def close(self):
        self.sim._control.end()
        self.thread.join()
        self.sim.close()


@pytest.fixture
def window(screen, tmp_path, monkeypatch):
    made = []

    def make(**arguments) -> Window:
        made.append(Window(screen, tmp_path, monkeypatch, **arguments))
        return made[-1]

    yield make
    for opened in made:
        opened.close()


@pytest.mark.requirement("S0-039", "S0-040", "S0-050", "S0-051", "S0-053", "S0-054", "S0-055", "S0-061")
def test_the_default_keys_work_in_a_real_window(window):
    opened = window()
    sim = opened.sim
    opened.press("space")
    eventually(lambda: sim.paused and sim._rested)
    before = sim._loop.steps
    opened.press("Right", "Right")
    eventually(lambda: sim._loop.steps == before + 18)
    opened.press("equal", "KP_Add")
    eventually(lambda: sim.target_rtf == 1.2)
    opened.press("minus", "minus", "KP_Subtract")
    eventually(lambda: sim.target_rtf == 0.9)
    opened.press("space")
    eventually(lambda: not sim.paused)
    eventually(lambda: sim._loop.steps > before + 40)
    sim.set_paused()
    sim.data.qpos[0] = 3.0
    sim.set_paused(False)
    opened.press("r")
    eventually(lambda: sim.data.qpos[0] == 0)


@pytest.mark.requirement("S0-077", "S0-078")
def test_a_callback_of_ones_own_replaces_the_default_keys(window):
    keys = []
    opened = window(viewer_key_callback=keys.append)
    opened.press("space", "Right", "equal", "KP_Add", "KP_Subtract", "r")
    eventually(lambda: len(keys) >= 6)
    assert keys == [ord(" "), 262, ord("="), 334, 333, ord("R")]
    assert not opened.sim.paused
    assert opened.sim.target_rtf == 1.0


@pytest.mark.requirement("S0-061")
def test_closing_the_window_ends_the_run_also_in_a_pause(window):
    opened = window()
    name = opened.shown()
    opened.sim.set_paused()
    subprocess.run([sys.executable, "-c", CLOSE, opened.screen, name], check=True, timeout=60)
    eventually(lambda: not opened.sim.running)
    opened.thread.join()


# What a window manager sends when the user clicks on the cross.
CLOSE = """
import ctypes, sys
x = ctypes.CDLL("libX11.so.6")
class Message(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("sent", ctypes.c_int),
                ("display", ctypes.c_void_p),
                ("window", ctypes.c_ulong), ("kind", ctypes.c_ulong), ("format", ctypes.c_int),
                ("data", ctypes.c_long * 5), ("padding", ctypes.c_long * 24)]
x.XOpenDisplay.restype = ctypes.c_void_p
x.XInternAtom.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]; x.XInternAtom.restype = ctypes.c_ulong
x.XSendEvent.argtypes = [ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
x.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
d, window = x.XOpenDisplay(sys.argv[1].encode()), int(sys.argv[2])
protocols, delete = (x.XInternAtom(d, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
message = Message(33, 0, 1, d, window, protocols, 32)
message.data[0] = delete
x.XSendEvent(d, window, 0, 0, ctypes.byref(message))
x.XSync(d, 0)
"""


def test_markers_are_seen_in_the_window(window, tmp_path):
    opened = window()
    opened.sim._markers[:] = [sphere(RED, [0.0, 0.0, 1.0], 0.3)]
    opened.shown()
    shot = tmp_path / "screen.xwd"

    def red() -> int:
        subprocess.run([sys.executable, "-c", GRAB, opened.screen, str(shot)], check=True, timeout=60)
        image = np.load(shot.with_suffix(".npy")).astype(int)
        return int(((image[..., 0] > 150) & (image[..., 1] < 60) & (image[..., 2] < 60)).sum())

    eventually(lambda: red() > 500)


# Reads the screen through Xlib, which Xvfb brings; pixels are BGRX.
GRAB = """
import ctypes, sys, numpy as np
x = ctypes.CDLL("libX11.so.6")
class Image(ctypes.Structure):
    _fields_ = [(n, ctypes.c_int) for n in ("width", "height", "xoffset", "format")] + [("data", ctypes.c_void_p)]
x.XOpenDisplay.restype = ctypes.c_void_p
x.XGetImage.restype = ctypes.POINTER(Image)
x.XDefaultRootWindow.argtypes = [ctypes.c_void_p]; x.XDefaultRootWindow.restype = ctypes.c_ulong
x.XGetImage.argtypes = [ctypes.c_void_p, ctypes.c_ulong] + [ctypes.c_int] * 4 + [ctypes.c_ulong, ctypes.c_int]
d = x.XOpenDisplay(sys.argv[1].encode())
image = x.XGetImage(d, x.XDefaultRootWindow(d), 0, 0, 1280, 800, 0xFFFFFFFF, 2).contents
pixels = np.ctypeslib.as_array((ctypes.c_uint8 * (1280 * 800 * 4)).from_address(image.data)).reshape(800, 1280, 4)
np.save(sys.argv[2].replace(".xwd", ".npy"), pixels[..., 2::-1])
"""


ENDS = """
import sys, mujoco
from xbot2_fast import SimulatorWrapper
with SimulatorWrapper(mujoco.MjModel.from_xml_string(sys.argv[1]), socket_path=sys.argv[2]) as sim:
    while sim.viewer._free is False:
        sim.run()
    for _ in range(50):
        sim.run()
sys.exit(7)
"""


@pytest.mark.parametrize("times", [2, pytest.param(20, marks=pytest.mark.soak)])
def test_every_end_has_its_exit_code(screen, tmp_path, times):
    environment = {**os.environ, "DISPLAY": screen}
    for _ in range(times):
        done = subprocess.run(
            [sys.executable, "-c", ENDS, MODEL, str(tmp_path / "s.sock")], env=environment, timeout=120,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 7, done.stderr


def test_a_window_that_cannot_be_opened_leaves_the_simulation_running(tmp_path, monkeypatch, caplog, model):
    monkeypatch.setenv("DISPLAY", ":987")
    with SimulatorWrapper(model, socket_path=str(tmp_path / "s.sock"), target_rtf=math.inf) as sim:
        eventually(lambda: sim.run() and sim.viewer.failure)
        eventually(lambda: "running headless" in caplog.text)
        assert sim.run()
        assert sim.running


def test_headless_needs_no_viewer_module(tmp_path):
    code = (
        "import sys, mujoco\nfrom xbot2_fast import SimulatorWrapper\n"
        f"with SimulatorWrapper(mujoco.MjModel.from_xml_string('<mujoco/>'), viewer=False, "
        f"socket_path={str(tmp_path / 's.sock')!r}) as sim: sim.run()\n"
        "assert 'mujoco.viewer' not in sys.modules and 'mujoco.studio' not in sys.modules"
    )
    environment = {**os.environ, "MUJOCO_GL": "disable"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)


def test_pulling_with_the_mouse_acts_until_it_ends(tmp_path, model):
    from xbot2_fast.run_control import Requests, RunControl
    from xbot2_fast.viewer_user import ViewerUser

    data, requests = mujoco.MjData(model), Requests()
    user = ViewerUser(data, RunControl(), requests, lambda key: None, None)
    user(None, {"type": "pull", "forces": {"1": [1.0, 2, 3, 0, 0, 0]}})
    assert not data.xfrc_applied.any()  # carried out by the simulation thread
    requests.serve()
    assert list(data.xfrc_applied[1]) == [1, 2, 3, 0, 0, 0]
    user(None, {"type": "pull", "forces": {}})
    requests.serve()
    assert not data.xfrc_applied.any()
    requests.close()


@pytest.mark.requirement("S1-038")
def test_the_window_is_shown_the_forces_of_wrenches(tmp_path, model):
    """MuJoCo's own arrows of xfrc_applied are drawn from the data that the window's process holds."""
    seen = []
    data = mujoco.MjData(model)
    data.xfrc_applied[1, 0] = 42.0
    fd = os.memfd_create("frame")
    os.truncate(fd, Frame.size(model))
    frame = Frame(model, fd)
    os.close(fd)
    frame.write(model, data, [])
    copy = mujoco.MjData(model)
    frame.read(model, copy)
    option = mujoco.MjvOption()
    option.flags[mujoco.mjtVisFlag.mjVIS_PERTFORCE] = True
    scene = mujoco.MjvScene(model, 100)
    mujoco.mjv_updateScene(
        model, copy, option, mujoco.MjvPerturb(), mujoco.MjvCamera(), int(mujoco.mjtCatBit.mjCAT_ALL), scene
    )
    seen = [scene.geoms[i].type for i in range(scene.ngeom)]
    assert int(mujoco.mjtGeom.mjGEOM_ARROW) in seen


def test_a_viewer_says_why_it_shows_nothing(model):
    viewer = Viewer("picture", model, mujoco.MjData(model), options={"file": "/nowhere/x.png"})
    eventually(lambda: not viewer.running)
    viewer.close()
    assert "camera" in viewer.failure  # arguments of the kind are missing


# ---- the command line


def xbot2_sim(tmp_path, *words: str) -> subprocess.CompletedProcess:
    shared = ["--headless", "--disable-ros", "--target-rtf", "max", "--socket-path", str(tmp_path / "s.sock")]
    return subprocess.run(
        [sys.executable, "-m", "xbot2_fast.simulate", *shared, "--output-dir", str(tmp_path / "model"), *words],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip


def test_the_command_line_writes_a_picture_of_the_end_of_the_run(tmp_path, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    done = xbot2_sim(tmp_path, "--duration", "0.1", "--screenshot", str(tmp_path / "a.png"))
    assert done.returncode == 0, done.stderr
    pixels = pixels_of(tmp_path / "a.png")
    assert pixels.shape == (720, 1280, 3)
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100


def test_the_command_line_names_a_camera_that_is_not_there(tmp_path):
    done = xbot2_sim(tmp_path, "--screenshot", str(tmp_path / "a.png"), "--camera", "nowhere")
    assert done.returncode == 1
    assert "camera: expected one of" in done.stderr
    assert not (tmp_path / "a.png").exists()


@pytest.mark.parametrize(("name", "cause"), [("missing/a.png", "make .*missing first"), (".", "got the folder")])
def test_the_command_line_refuses_a_picture_it_cannot_write_before_it_runs(tmp_path, name, cause):
    done = xbot2_sim(tmp_path, "--screenshot", str(tmp_path / name))
    assert done.returncode == 1
    assert re.search(f"file: expected .*{cause}", done.stderr)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_the_command_line_refuses_what_is_no_port(tmp_path, port):
    done = xbot2_sim(tmp_path, f"--web={port}")
    assert done.returncode == 2
    assert "expected a port, 0 to 65535" in done.stderr

"""The browser viewer in a real Chromium."""

import socket
import threading

import mujoco
import pytest

from tests.browser import Browser
from tests.tools import eventually, needs
from xbot2_fast import SimulatorWrapper

MODEL = """
<mujoco>
  <option timestep="0.002" gravity="0 0 0"/>
  <visual><headlight ambient=".9 .9 .9" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <body name="ball"><freejoint/><geom size=".3" rgba="0 0 1 1" mass="100000"/>
      <body name="arm" pos="0 0 -.6"><joint name="elbow" axis="0 1 0"/><geom size=".05" rgba="0 0 1 1"/></body></body>
  </worldbody>
  <actuator><position name="elbow" joint="elbow"/></actuator>
</mujoco>
"""


@pytest.fixture
def sim(tmp_path):
    needs("chromium")
    path = str(tmp_path / "sim.sock")
    sim = SimulatorWrapper(mujoco.MjModel.from_xml_string(MODEL), socket_path=path, web_port=0, target_rtf=1.0)
    thread = threading.Thread(target=lambda: [sim.run() for _ in iter(lambda: sim.running, False)])
    thread.start()
    try:
        eventually(lambda: sim.viewer.url or sim.viewer.failure)
        assert sim.viewer.failure is None
        yield sim
    finally:
        sim._control.end()
        thread.join()
        sim.close()


@pytest.fixture
def browser(tmp_path):
    browser = Browser(tmp_path / "chromium")
    yield browser
    browser.close()


@pytest.fixture
def page(sim, browser):
    """The browser that controls."""
    page = browser.open(sim.viewer.url, lambda: frames_pass(sim))
    eventually(lambda: blue(page) > 50)
    return page


def frames_pass(sim) -> None:
    seen = sim.viewer.frames
    eventually(lambda: sim.viewer.frames >= seen + 8)


def blue(page) -> int:
    """Pixels of the robot's colour, right of the panel."""
    pixels = page.pixels()[:, 100:]
    return int((pixels[..., 2] > 40 + 2 * pixels[..., :2].max(axis=-1)).sum())


def red(page) -> int:
    pixels = page.pixels()[:, 100:]
    return int((pixels[..., 0] > 60 + 2 * pixels[..., 1:].max(axis=-1)).sum())


def inside(sim, widget: str, share: float = 0.5) -> tuple[float, float]:
    """A point of a widget, at this share of its width, where the panel itself says that it is."""
    left, top, right, bottom = sim.viewer.layout[widget]
    return left + share * (right - left), (top + bottom) / 2


def space_pauses_and_resumes(sim, page):
    page.click(600, 400)
    page.press(" ")
    eventually(lambda: sim.paused)
    page.press(" ")
    eventually(lambda: not sim.paused)


def the_pause_button_pauses_and_resumes(sim, page):
    page.click(*inside(sim, "pause"))
    eventually(lambda: sim.paused)
    page.click(*inside(sim, "pause"))
    eventually(lambda: not sim.paused)


def the_advance_button_advances_while_paused(sim, page):
    sim.set_paused()
    eventually(lambda: sim._rested)
    steps = sim._loop.steps
    page.click(*inside(sim, "advance"))
    eventually(lambda: sim._loop.steps == steps + 9)
    sim.set_paused(False)


def the_slider_changes_the_speed(sim, page):
    page.click(*inside(sim, "rtf", 0.75))
    eventually(lambda: sim.target_rtf > 1.5)
    page.click(*inside(sim, "rtf", 0.02))
    eventually(lambda: sim.target_rtf < 0.2)


def the_form_applies_a_wrench_and_its_arrow_appears(sim, page):
    sim.set_target_rtf(0.1)
    assert red(page) == 0
    page.click(*inside(sim, "force", 0.1))
    page.press("a", control=True)
    for key in "400":
        page.press(key)
    page.press("Enter")
    page.click(*inside(sim, "apply_wrench"))
    eventually(lambda: sim._commands.wrenches.active())
    sim.set_paused()  # the wrench lasts a second, which may be less than the browser needs to draw
    eventually(lambda: red(page) > 10)
    sim.set_paused(False)
    eventually(lambda: not sim._commands.wrenches.active())
    eventually(lambda: red(page) == 0)
    sim.set_target_rtf(1.0)


def the_form_adds_a_payload(sim, page):
    page.click(*inside(sim, "add_payload"))
    eventually(lambda: sim._commands.properties.payloads)
    page.click(*inside(sim, "restore"))
    eventually(lambda: not sim._commands.properties.payloads)


def a_second_page_watches_and_does_not_control(sim, browser):
    watcher = browser.open(sim.viewer.url, lambda: frames_pass(sim))
    eventually(lambda: blue(watcher) > 50)
    watcher.click(600, 400)
    watcher.press(" ")
    assert not sim.paused
    watcher.click(*inside(sim, "pause"))
    assert not sim.paused


def test_a_session_in_the_browser(sim, browser, page):
    """One test, since each part would start a browser of its own, which draws without a GPU in seconds a frame."""
    assert blue(page) > 50, "the robot is not seen"
    space_pauses_and_resumes(sim, page)
    the_pause_button_pauses_and_resumes(sim, page)
    the_advance_button_advances_while_paused(sim, page)
    the_slider_changes_the_speed(sim, page)
    the_form_applies_a_wrench_and_its_arrow_appears(sim, page)
    the_form_adds_a_payload(sim, page)
    a_second_page_watches_and_does_not_control(sim, browser)
    no_other_address_of_the_machine_answers(sim)


def no_other_address_of_the_machine_answers(sim):
    port = int(sim.viewer.url.rsplit(":", 1)[1].rstrip("/"))
    with socket.create_connection(("127.0.0.1", port), timeout=10):
        pass
    for address in ["127.0.0.2", "::1", *other_addresses()]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, port), timeout=10)


def other_addresses() -> set[str]:
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing; names the address that packets would have
        addresses.add(probe.getsockname()[0])
    return addresses - {"127.0.0.1", "::1"}


# ---- without a browser


def test_the_server_is_bound_to_the_loopback_address_only():
    from xbot2_fast.viewing.web import bind_loopback

    with bind_loopback(0) as first, bind_loopback(0) as second:
        assert first.getsockname()[0] == second.getsockname()[0] == "127.0.0.1"
        first.listen()
        port = first.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"port {port} is taken: choose another one with --web PORT"):
            bind_loopback(port)


@pytest.mark.parametrize(
    ("path", "headers", "refused"),
    [
        ("/", {"Host": "127.0.0.1:8080"}, False),
        ("/state", {"Host": "localhost:8080", "Origin": "http://localhost:8080"}, False),
        ("/", {"Host": "evil.example:8080"}, True),
        ("/ui", {"Host": "127.0.0.1:8080", "Origin": "http://evil.example"}, True),
        ("/drop?sid=1", {"Host": "127.0.0.1:8080"}, True),
    ],
)
def test_other_sites_and_uploads_are_refused(path, headers, refused):
    from websockets.datastructures import Headers
    from websockets.http11 import Request

    from xbot2_fast.viewing.web import _refusal

    answer = _refusal(Request(path, Headers(headers)))
    assert (answer is not None) == refused
    assert answer is None or answer.status_code == 403


def test_nothing_that_studio_sends_reaches_the_simulator():
    from mujoco.studio import messages

    from xbot2_fast.viewing.web import _Endpoint

    sent = []

    class Link:
        send = staticmethod(lambda *args, **kwargs: sent.append(args))

    _Endpoint(Link()).send_to_sim(messages.LoadModelEvent(path="/tmp/other.xml"))
    assert sent == []

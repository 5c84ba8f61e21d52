"""MuJoCo Studio in a browser, reachable from this machine only."""

import socket

import mujoco
from mujoco.studio import messages, viewer_protocol, web_viewer
from mujoco.studio.web import web_server
from websockets.datastructures import Headers
from websockets.http11 import Response

from xbot2_fast.viewing.frames import MAX_MARKERS, geom_bytes
from xbot2_fast.viewing.link import Link, SimulatorGone
from xbot2_fast.viewing.panel import Panel

LOOPBACK = "127.0.0.1"
_FIRST_PORT, _PORTS = 8080, 20


def run(link: Link, port: int) -> None:
    """Serve the page until the simulator is gone.

    Args:
        port: 0 takes the first free one from 8080 on.
    Raises:
        RuntimeError: the port is taken, or the server would listen on another address than 127.0.0.1.
    """
    web_server.bind_public_socket = lambda host, wanted=0: bind_loopback(wanted)
    web_server.serve = _guarded(web_server.serve)
    web_viewer._print_url_banner = lambda host, port: None  # it names addresses that we do not listen on
    endpoint = _Endpoint(link)
    config = viewer_protocol.ViewerConfig(title="xbot2_fast", gfx="web", http_port=port)
    viewer = web_viewer.WebViewer(config, endpoint, model=link.model, plugins=[Panel(link)])
    address, bound_port = viewer._http_sock.getsockname()[:2]
    if address != LOOPBACK:
        viewer.close()
        raise RuntimeError(f"the browser viewer would listen on {address}, not only on {LOOPBACK}: refused")
    link.model, link.data = viewer.model, viewer.data  # frames go straight to what Studio shows
    mujoco.mjv_defaultFreeCamera(viewer.model, viewer.camera)
    endpoint.show_in(viewer)
    link.send("ready", url=f"http://{LOOPBACK}:{bound_port}/")
    viewer_protocol.run_viewer_loop(viewer)


def bind_loopback(port: int) -> socket.socket:
    """A TCP socket bound to 127.0.0.1, at this port or, for 0, the first free one from 8080 on."""
    for candidate in [port] if port else range(_FIRST_PORT, _FIRST_PORT + _PORTS):
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((LOOPBACK, candidate))
        except OSError:
            bound.close()
        else:
            return bound
    taken = f"port {port} is" if port else f"ports {_FIRST_PORT} to {_FIRST_PORT + _PORTS - 1} are"
    raise RuntimeError(f"{taken} taken: choose another one with --web PORT")


def _guarded(serve):
    """Studio's server, but deaf to other web sites that the user's browser visits, and to uploads of models."""

    def guarded_serve(*args, process_request, **kwargs):
        def process(connection, request):
            return _refusal(request) or process_request(connection, request)

        return serve(*args, process_request=process, **kwargs)

    return guarded_serve


def _refusal(request) -> Response | None:
    host = request.headers.get("Host", "")
    origin = request.headers.get("Origin")
    if host.rsplit(":", 1)[0] not in (LOOPBACK, "localhost") or origin not in (None, f"http://{host}"):
        return Response(403, "Forbidden", Headers(), b"open this page as http://127.0.0.1\n")
    if request.path.split("?")[0] == "/drop":
        return Response(403, "Forbidden", Headers(), b"the model cannot be replaced\n")
    return None


class _Endpoint:
    """Stands where Studio's simulation side would: takes our frames, and lets nothing of Studio's into the simulator.

    Studio's messages would load models, or overwrite states and options; a user acts through our panel's requests only.
    """

    def __init__(self, link: Link):
        self._link = link
        self._viewer: viewer_protocol.Viewer | None = None

    def show_in(self, viewer: viewer_protocol.Viewer) -> None:
        self._scene = mujoco.MjvScene(viewer.model, MAX_MARKERS)
        self._bytes = geom_bytes(self._scene)
        self._geoms = list(self._scene.geoms)
        self._viewer = viewer

    def send_to_sim(self, message: messages.Message) -> None:
        pass

    def get_sim_events(self) -> list[messages.Event]:
        try:
            fresh = self._link.receive(timeout=0)
        except SimulatorGone:
            return [messages.ExitEvent()]
        if fresh and self._viewer is not None:
            count = self._link.info["markers"]
            self._bytes[:count] = self._link.geoms[:count]
            self._viewer.extra_geoms[:] = self._geoms[:count]
        return []

    def get_sim_snapshots(self) -> list[messages.Snapshot]:
        return []

    def close(self) -> None:
        pass

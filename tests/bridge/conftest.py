"""A small robot whose bridge runs in this process."""

import json
import os
import socket
import threading

import mujoco
import pytest

from xbot2_fast.bridge import BridgeClient, MjXbot2Bridge

ROBOT = """
<mujoco>
  <option timestep="0.001"/><default><joint armature=".1"/></default>
  <worldbody>
    <body name="base" pos="0 0 1"><freejoint name="root"/>
      <geom size=".1" mass="5"/><site name="imu" quat="0.9 0.1 0.2 0.3" pos="0.1 0 0"/>
      <body name="arm" pos="0 .2 0"><joint name="shoulder" axis="0 1 0" range="-3 3"/>
        <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/>
        <body name="hand" pos=".3 0 0"><joint name="slider" type="slide" axis="1 0 0" range="-1 1"/>
          <joint name="wrist" axis="0 0 1" range="-2 2"/>
          <geom size=".05" mass=".5"/><site name="hand_imu"/></body></body>
      <body name="wheel" pos="0 -.2 0"><joint name="wheel" axis="0 1 0"/><geom size=".1" mass="1"/></body>
    </body>
  </worldbody>
  <actuator>
    <position name="wrist" joint="wrist" kp="20" kv="1"/>
    <position name="shoulder" joint="shoulder" kp="30" kv="2" gear="4"/>
    <position name="slider" joint="slider" kp="100" kv="5"/>
  </actuator>
  <sensor>
    <jointpos joint="wrist"/>
    <framequat objtype="site" objname="imu"/>
    <gyro name="gyro" site="imu"/>
    <jointvel joint="wheel"/>
    <accelerometer name="acc" site="imu"/>
    <accelerometer name="hand_acc" site="hand_imu"/>
    <touch site="imu"/>
    <gyro name="hand_gyro" site="hand_imu"/>
  </sensor>
</mujoco>
"""


class Sim:
    """A model, its data and its bridge; `step()` is one step of the simulation."""

    def __init__(self, xml, path, **options):
        self.model = mujoco.MjModel.from_xml_string(xml)
        self.data = mujoco.MjData(self.model)
        self.path = str(path)
        self.bridge = MjXbot2Bridge("test", self.model, self.data, self.path, **options)

    def step(self, count=1):
        for _ in range(count):
            self.bridge.receive()
            mujoco.mj_step(self.model, self.data)
            self.bridge.send_state()

    def connect(self, **options):
        """A client of this bridge, which is stepped until the client has its answer."""
        found = []
        options.setdefault("client_path", f"{self.path}.client.{os.getpid()}.{id(found)}")
        thread = threading.Thread(target=lambda: found.append(BridgeClient(self.path, **options)))
        thread.start()
        while thread.is_alive():
            self.bridge.receive()
            thread.join(0.001)
        return found[0]


class Peer:
    """A bound datagram socket that plays controller by hand."""

    def __init__(self, path):
        self.path = str(path)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(5)

    def send(self, server, data):
        """A datagram, JSON where it is not bytes already, to a server or a path."""
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.socket.sendto(data, server if isinstance(server, str) else server.endpoint.path)

    def ask(self, server):
        self.send(server, {"type": "discovery"})

    def read(self):
        return json.loads(self.socket.recv(1 << 20))

    def close(self):
        self.socket.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()


def control(n, value=0.0, **more):
    """A control message for n joints; every number is `value` but for the fields given."""
    command = {name: [value] * n for name in ("q", "dq", "tau", "k", "d")} | more
    return {"type": "control", "joint_command": command}


@pytest.fixture
def peer(tmp_path):
    with Peer(tmp_path / "peer") as peer:
        yield peer


@pytest.fixture
def make_sim(tmp_path):
    """Make simulations whose bridges are closed at the end."""
    made = []

    def make(xml=ROBOT, path=None, **options):
        made.append(Sim(xml, path or tmp_path / f"s{len(made)}", **options))
        return made[-1]

    yield make
    for sim in made:
        sim.bridge.close()


@pytest.fixture(params=["shm", "json"])
def transport(request):
    return request.param

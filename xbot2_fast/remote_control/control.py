"""What a simulation can be told to do: the command table filled with the commands that need the model and data only."""

from typing import Any

import mujoco
import numpy as np

from xbot2_fast import overlays
from xbot2_fast._kernels._chain import BodyChain
from xbot2_fast.faults import Faults
from xbot2_fast.properties import ModelProperties
from xbot2_fast.remote_control.fault_commands import FaultCommands
from xbot2_fast.remote_control.property_commands import PropertyCommands
from xbot2_fast.remote_control.state_commands import StateCommands
from xbot2_fast.remote_control.table import CommandTable, Request
from xbot2_fast.remote_control.wrench_commands import WrenchCommands
from xbot2_fast.wrenches import shared_engine


class RemoteControl:
    """The commands of one simulation, without a socket. Calls on the simulation thread, between steps.

    What `restore` goes back to are the properties at construction.

    Attributes:
        table: the commands; other parts of the simulator register theirs there.
        properties: contact, bodies, payloads, limits.
        wrenches: the wrench engine of the data; its `stage` runs before mj_step.
        faults: joint and sensor faults; `before` and `after` are stages.
        state: status, list, get_state and set_state; takes more status by `add_status`.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData):
        self.model = model
        self.data = data
        self.table = CommandTable(model)
        self.wrenches = shared_engine(model, data)
        self.properties = ModelProperties(model)
        self.faults = Faults(model, data)
        WrenchCommands(self.table, model, data, self.wrenches)
        # Faults before properties, which have the last word in a restore.
        self._fault_commands = FaultCommands(self.table, self.faults)
        PropertyCommands(self.table, self.properties)
        self.state = StateCommands(self.table, model, data)
        self.state.add_status(self._status)
        self._chain: BodyChain | None = None  # of the bodies that have markers
        self._chained: set[int] = set()

    def handle(self, request: Request) -> dict[str, Any]:
        """Check a request, carry it out and return its result.

        Raises:
            CommandError: the request was refused; nothing was changed.
        """
        return self.table.handle(request)

    def close(self) -> None:
        """End the process that matches patterns. Idempotent."""
        self.table.close()

    def _status(self) -> dict[str, Any]:
        bodies = self.table.names.of("bodies")
        return {
            "wrenches": self.wrenches.count(),
            "payloads": {
                bodies[body]: {"mass": payload.mass, "position": list(payload.position)}
                for body, payload in self.properties.payloads.items()
            },
            "faults": self._fault_commands.active(),
            "gravity": self.model.opt.gravity.tolist(),
        }

    # ---- overlays

    def update_visuals(self, scene: mujoco.MjvScene) -> None:
        """Append the payload spheres and force arrows of now to a viewer's scene, under its lock."""
        payloads, forces = self.properties.payloads, self.wrenches.net()
        if not payloads and not forces:
            return
        chain = self._chain_of({*payloads, *forces})
        for body, payload in payloads.items():
            pose = chain.poses[chain.slot(body)]
            overlays.add_payload_sphere(scene, pose[:3] + pose[7:].reshape(3, 3) @ payload.position, payload.mass)
        for body, (force, _) in forces.items():
            if body == 0:
                continue  # nothing moves the world
            com, axes = np.zeros(3), np.zeros(9)
            chain.inertia(body, com, axes)
            overlays.add_force_arrow(scene, com, force)

    def _chain_of(self, bodies: set[int]) -> BodyChain:
        if self._chain is None or bodies != self._chained:
            self._chain, self._chained = BodyChain(self.model, self.data, bodies), bodies
        self._chain.refresh()
        return self._chain

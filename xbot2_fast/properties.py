"""Properties of a running model: contact, mass, payload, torque limits and gravity, and how they are undone."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

CONTACT = ("friction", "solref", "solimp", "margin", "gap", "condim", "priority")

_MANAGED = (
    *(f"geom_{name}" for name in CONTACT),
    "body_mass", "body_ipos", "body_iquat", "body_inertia",
    "jnt_actfrcrange", "jnt_actfrclimited",
)  # fmt: skip
# What MuJoCo derives constants from; the others act as they are.
_SOURCES = ("geom_margin", "geom_gap", "body_mass", "body_ipos", "body_iquat", "body_inertia")


@dataclass(frozen=True)
class Payload:
    """A point mass [kg] fixed to a body at a position [m] in the body's frame."""

    mass: float
    position: tuple[float, float, float]


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], centre of mass [m] and orientation (w x y z) of the principal axes in the body's frame, and the
    principal moments of inertia [kg m^2] about the centre of mass."""

    mass: float
    com: NDArray[np.float64]
    quat: NDArray[np.float64]
    inertia: NDArray[np.float64]

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray], body: int) -> "Inertial":
        return cls(
            float(arrays["body_mass"][body]), arrays["body_ipos"][body].copy(), arrays["body_iquat"][body].copy(),
            arrays["body_inertia"][body].copy(),
        )  # fmt: skip

    def with_payload(self, payload: Payload) -> "Inertial":
        """The body and the payload as one, by the parallel-axis theorem."""
        mass = self.mass + payload.mass
        position = np.array(payload.position)
        com = (self.mass * self.com + payload.mass * position) / mass
        flat = np.zeros(9)
        mujoco.mju_quat2Mat(flat, self.quat)
        axes = flat.reshape(3, 3)
        # about the common centre of mass, along the principal axes of the body alone
        inertia = (
            np.diag(self.inertia)
            + _steiner(self.mass, axes.T @ (self.com - com))
            + _steiner(payload.mass, axes.T @ (position - com))
        )
        if not np.any(inertia[np.triu_indices(3, 1)]):
            return Inertial(mass, com, self.quat, np.diagonal(inertia).copy())
        moments, turn = np.linalg.eigh(inertia)
        turn[:, 0] *= np.sign(np.linalg.det(turn))  # a rotation, not a reflection
        quat = np.zeros(4)
        mujoco.mju_mat2Quat(quat, (axes @ turn).ravel())
        return Inertial(mass, com, quat, moments)


def _steiner(mass: float, offset: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inertia of a point mass about the origin of its offset [kg m^2]."""
    return mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))


class ModelProperties:
    """Edits of a live model, between two steps, and the way back to its properties at construction.

    The state (qpos, qvel, act, time, warm start) is never touched: MuJoCo's derived constants are computed on data of
    our own. On any error the model is as it was, to the bit.
    """

    def __init__(self, model: mujoco.MjModel):
        self.model = model
        self.payloads: dict[int, Payload] = {}
        """Payloads by body id."""
        self._start: dict[str, NDArray] = {name: getattr(model, name).copy() for name in _MANAGED}
        self._start_gravity = model.opt.gravity.copy()
        self._scratch = mujoco.MjData(model)
        self._trial: mujoco.MjModel | None = None

    # ---- contact

    def geoms_of(self, bodies: Sequence[int]) -> list[int]:
        """Ids of the geoms directly on the bodies."""
        first, count = self.model.body_geomadr, self.model.body_geomnum
        return [geom for body in bodies for geom in range(first[body], first[body] + count[body])]

    def set_contact(self, geoms: Sequence[int], parameters: Mapping[str, Any]) -> None:
        """Set contact parameters (names of CONTACT -> value as MuJoCo stores it) of geoms.

        Raises:
            ValueError: MuJoCo cannot derive its constants from them.
        """
        ids = np.fromiter(geoms, dtype=np.intp)
        changes = {f"geom_{name}": (ids, value) for name, value in parameters.items()}
        self._change(changes, derive={"margin", "gap"} & parameters.keys())

    # ---- bodies

    def check_body(self, bodies: Sequence[int], com: Sequence[float] | None = None) -> None:
        """Whether mass and, unless None, centre of mass [m, body frame] of these bodies may change.

        Raises:
            ValueError: the world; or a body that MuJoCo compiled as simple and whose inertial frame would move.
        """
        for body in bodies:
            if body == 0:
                raise ValueError("the world has no mass to change")
            if com is not None:
                self._try_frame(body, np.asarray(com), self.model.body_iquat[body])

    def set_body(self, bodies: Sequence[int], mass: float | None = None, com: Sequence[float] | None = None) -> None:
        """Set total mass [kg] and/or centre of mass [m, body frame]. Rotational inertia stays; payload markers go.

        Raises:
            ValueError: MuJoCo cannot derive its constants from them.
        """
        ids = np.fromiter(bodies, dtype=np.intp)
        changes: dict[str, tuple[NDArray, Any]] = {}
        if mass is not None:
            changes["body_mass"] = (ids, mass)
        if com is not None:
            changes["body_ipos"] = (ids, np.asarray(com))
        self._change(changes, derive=True)
        for body in bodies:
            self.payloads.pop(body, None)

    def check_payload(self, bodies: Sequence[int], payload: Payload) -> None:
        """Whether these bodies can carry the payload.

        Raises:
            ValueError: as `check_body`; or a body without mass or inertia at the start.
        """
        self.check_body(bodies)
        for body in bodies:
            start = Inertial.of(self._start, body)
            if not (start.mass > 0 and np.all(start.inertia > 0)):
                raise ValueError(f"body {self.model.body(body).name!r} has no positive mass and inertia to start from")
            loaded = start.with_payload(payload)
            self._try_frame(body, loaded.com, loaded.quat)

    def add_payload(self, bodies: Sequence[int], payload: Payload) -> None:
        """Fix a payload to each body, instead of an earlier one, from the properties of the start.

        Raises:
            ValueError: MuJoCo cannot derive its constants from the result.
        """
        loaded = [Inertial.of(self._start, body).with_payload(payload) for body in bodies]
        ids = np.fromiter(bodies, dtype=np.intp)
        changes = {
            "body_mass": (ids, np.array([inertial.mass for inertial in loaded])),
            "body_ipos": (ids, np.array([inertial.com for inertial in loaded])),
            "body_iquat": (ids, np.array([inertial.quat for inertial in loaded])),
            "body_inertia": (ids, np.array([inertial.inertia for inertial in loaded])),
        }
        self._change(changes, derive=True)
        for body in bodies:
            self.payloads[body] = payload

    # ---- joints and gravity

    def set_torque_limits(self, joints: Sequence[int], limit: float) -> None:
        """Limit the net actuator torque [Nm] of hinges or force [N] of slides to [-limit, limit]."""
        for joint in joints:
            self.model.jnt_actfrcrange[joint] = (-limit, limit)
            self.model.jnt_actfrclimited[joint] = True

    def set_gravity(self, gravity: Sequence[float]) -> None:
        """Set gravity [m/s^2, world frame]."""
        self.model.opt.gravity[:] = gravity

    # ---- the way back

    def restore(self) -> None:
        """All properties managed here as they were at construction; payloads are gone."""
        derive = any(not np.array_equal(getattr(self.model, name), self._start[name]) for name in _SOURCES)
        for name, values in self._start.items():
            getattr(self.model, name)[:] = values
        self.model.opt.gravity[:] = self._start_gravity
        self.payloads.clear()
        if derive:
            self._derive(self.model)

    def _change(self, changes: Mapping[str, tuple[NDArray, Any]], derive: Any) -> None:
        before = {name: getattr(self.model, name)[ids].copy() for name, (ids, _) in changes.items()}
        for name, (ids, value) in changes.items():
            getattr(self.model, name)[ids] = value
        if not derive:
            return
        try:
            self._derive(self.model)
        except mujoco.FatalError as error:
            for name, (ids, _) in changes.items():
                getattr(self.model, name)[ids] = before[name]
            self._derive(self.model)
            raise ValueError(f"MuJoCo refuses the change: {error}") from None

    def _try_frame(self, body: int, com: NDArray[np.float64], quat: NDArray[np.float64]) -> None:
        """Move a body's inertial frame on a copy of the model; only a body compiled as simple may refuse."""
        if not self.model.body_simple[body]:
            return
        if self._trial is None:
            self._trial = copy.copy(self.model)
        trial = self._trial
        before = trial.body_ipos[body].copy(), trial.body_iquat[body].copy()
        trial.body_ipos[body], trial.body_iquat[body] = com, quat
        try:
            self._derive(trial)
        except mujoco.FatalError:
            name = self.model.body(body).name
            raise ValueError(
                f"body {name!r} is compiled as simple, so its centre of mass and principal axes cannot move: "
                'compile it with <body simple="false">'
            ) from None
        finally:
            trial.body_ipos[body], trial.body_iquat[body] = before

    def _derive(self, model: mujoco.MjModel) -> None:
        """MuJoCo's constants of a model, computed on data of our own: mj_setConst resets the state of its data."""
        try:
            mujoco.mj_setConst(model, self._scratch)
        except mujoco.FatalError:
            self._scratch = mujoco.MjData(self.model)  # the old one's stack was left in the middle of the work
            raise

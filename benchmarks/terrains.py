"""Terrains of many sizes and kinds, with a robot of 17 geoms in the excluded groups above them."""

import mujoco
import numpy as np

ROBOT = (
    '<body name="base" pos="0.03 0.07 0.6" euler="0 0 17"><freejoint/><geom size=".1" group="1"/>'
    + "".join(
        f'<body pos="{x} {y} 0"><joint axis="0 1 0"/><geom size=".05" group="1"/><geom size=".05" group="0"/>'
        '<body pos="0 0 -.2"><joint axis="0 1 0"/>'
        '<geom size=".05" group="1"/><geom size=".05" group="0"/></body></body>'
        for x in (0.2, -0.2)
        for y in (0.1, -0.1)
    )
    + "</body>"
)
PLANE = '<geom type="plane" size="0 0 1" group="2"/>'


def _model(world: str, assets: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(f"<mujoco>{assets}<worldbody>{PLANE}{world}{ROBOT}</worldbody></mujoco>")


def boxes(n: int) -> mujoco.MjModel:
    """About n boxes of 0.45 m in a square, with random heights."""
    side = round(n**0.5)
    height = np.random.default_rng(0).uniform(0.05, 0.2, (side, side))
    return _model(
        "".join(
            f'<geom type="box" group="2" size=".225 .225 {height[i, j]:.4f}" '
            f'pos="{(i - side / 2) * 0.45:.4f} {(j - side / 2) * 0.45:.4f} 0"/>'
            for i in range(side)
            for j in range(side)
        )
    )


def plane() -> mujoco.MjModel:
    return _model("")


def height_field(n: int) -> mujoco.MjModel:
    """A rough field of n x n samples over 20 x 20 m."""
    model = _model(
        '<geom type="hfield" hfield="field" group="2"/>',
        f'<asset><hfield name="field" nrow="{n}" ncol="{n}" size="10 10 .3 .1"/></asset>',
    )
    model.hfield_data[:] = np.random.default_rng(0).random(n * n)
    return model


def mesh(n: int = 224) -> mujoco.MjModel:
    """A rough sheet of 2 (n - 1)^2 triangles over 20 x 20 m, closed below."""
    x, y = np.meshgrid(np.linspace(-10, 10, n), np.linspace(-10, 10, n), indexing="ij")
    z = np.random.default_rng(0).random((n, n)) * 0.1
    vertices = np.concatenate([np.stack([x, y, z], -1).reshape(-1, 3), [[-10, -10, -1], [10, -10, -1], [0, 10, -1]]])
    i, j = (a.ravel() for a in np.meshgrid(range(n - 1), range(n - 1), indexing="ij"))
    a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + j + 1, i * n + j + 1
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1), [[n * n, n * n + 1, n * n + 2]]])
    spec = mujoco.MjSpec.from_string(f"<mujoco><worldbody>{PLANE}{ROBOT}</worldbody></mujoco>")
    spec.add_mesh(
        name="sheet",
        uservert=vertices.ravel(),
        userface=faces.ravel(),
        inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL,
    )
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="sheet", group=2)
    return spec.compile()


def free_bodies(n: int) -> mujoco.MjModel:
    """n free boxes strewn over the plane."""
    rng = np.random.default_rng(0)
    side = n**0.5
    place = rng.uniform(-side / 2, side / 2, (n, 2))
    return _model(
        "".join(
            f'<body pos="{x:.4f} {y:.4f} .1" euler="0 0 {rng.uniform(0, 90):.2f}"><freejoint/>'
            '<geom type="box" size=".1 .1 .1" group="2"/></body>'
            for x, y in place
        )
    )

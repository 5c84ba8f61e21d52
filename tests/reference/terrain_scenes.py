"""Random scenes with every geom type, posed in every way, and the rays that are hardest on an index of them."""

import mujoco
import numpy as np

TYPES = ("plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "hfield", "mesh", "sdf")
CUBE = "-1 -1 -1  1 -1 -1  -1 1 -1  1 1 -1  -1 -1 1  1 -1 1  -1 1 1  1 1 1"

OCTAHEDRON = "1 0 0  -1 0 0  0 1 0  0 -1 0  0 0 1  0 0 -1"


def _text(values):
    return " ".join(repr(float(v)) for v in np.atleast_1d(values))


def _terrain_mesh(rng, n):
    """A bumpy sheet with some flat and some vertical faces, over a floor that gives it volume."""
    z = rng.random((n, n)) * rng.choice([0.0, 0.3, 1.0], size=(n, n))
    x, y = np.meshgrid(np.linspace(-1, 1, n), np.linspace(-1, 1, n), indexing="ij")
    x[1:-1, 1:-1] += rng.normal(size=(n - 2, n - 2)) * rng.choice([0.0, 0.05])
    vertices = np.concatenate([np.stack([x, y, z], -1).reshape(-1, 3), [[-1, -1, -1], [1, -1, -1], [1, 1, -1]]])
    i, j = (a.ravel() for a in np.meshgrid(range(n - 1), range(n - 1), indexing="ij"))
    a, b, c, d = i * n + j, (i + 1) * n + j, (i + 1) * n + j + 1, i * n + j + 1
    faces = np.concatenate([np.stack([a, b, c], -1), np.stack([a, c, d], -1), [[n * n, n * n + 1, n * n + 2]]])
    return f'vertex="{_text(vertices.ravel())}" face="{" ".join(map(str, faces.ravel()))}"'


def _assets(rng):
    k = int(rng.integers(2, 9))
    elevation = rng.random((k, k + 1)) * rng.choice([0.0, 1.0], size=(k, k + 1))
    elevation[0, 0] = 1.0
    materials = "".join(f'<material name="m{a}" rgba="1 1 1 {a}"/>' for a in (0, 1))
    return (
        f'<asset>{materials}<mesh name="cube" vertex="{CUBE}" scale=".3 .2 .1"/>'
        f'<mesh name="sheet" inertia="shell" {_terrain_mesh(rng, int(rng.integers(3, 9)))}/>'
        f'<hfield name="field" nrow="{k}" ncol="{k + 1}" '
        f'size="1.5 1 {rng.choice([0.5, 0.02])} {rng.choice([0.5, 0.001])}"'
        f' elevation="{_text(elevation.ravel())}"/></asset>'
    )


def _size(rng, kind):
    scale, flat = rng.choice([0.01, 0.2, 0.2, 1.0]), rng.choice([1.0, 1.0, 1.0, 1e-4])
    return {
        "plane": f'size="{rng.choice([0, 0.7])} {rng.choice([0, 1.1])} 1"',
        "hfield": 'hfield="field"',
        "mesh": f'mesh="{rng.choice(["cube", "sheet"])}"',
        "sdf": 'mesh="cube"',
    }.get(kind, f'size="{_text((0.2 + rng.random(3)) * (scale, scale, scale * flat))}"')


def _rotation(rng, kind):
    draw = rng.random()
    if draw < 0.5:
        return ""
    if draw < 0.65:
        return f'euler="0 0 {rng.uniform(-180, 180)}"'
    if draw < 0.75:
        return f'euler="{rng.choice([0, 90, 180])} {rng.choice([0, 90])} {rng.choice([0, 90, 45])}"'
    return f'quat="{_text(rng.normal(size=4))}"' if kind != "plane" or draw < 0.9 else ""


def _geom(rng, place, kinds):
    kind = str(rng.choice(kinds))
    look = rng.random()
    colour = 'rgba="1 1 1 0"' if look < 0.12 else f'material="m{rng.integers(0, 2)}"' if look < 0.3 else ""
    if look > 0.95:
        colour = 'material="m1" rgba="1 1 1 0"'
    spread = place * rng.choice([1.0, 1.0, 1.0, 0.2])
    pos = rng.uniform(-1, 1, 3) * (spread, spread, 1.0)
    if rng.random() < 0.4:
        pos = np.round(pos * 5) / 5  # equal tops, shared edges, ties
    place = f'pos="{_text(pos)}" {_rotation(rng, kind)}'
    return f'<geom type="{kind}" {_size(rng, kind)} {place} group="{rng.integers(0, 6)}" {colour}/>'


STATIC = ["plane", *(["box"] * 6), "sphere", "capsule", "ellipsoid", "cylinder", "hfield", "hfield", "mesh", "mesh"]
MOVING = ["box", "sphere", "capsule", "ellipsoid", "cylinder", "hfield", "mesh"]


def _body(rng, place, kinds, depth=1):
    how = rng.random()
    joint = (
        "<freejoint/>"
        if how < 0.4
        else ""
        if how < 0.75
        else '<joint type="hinge" axis=".3 .4 1"/><joint type="slide"/>'
    )
    mocap = ' mocap="true"' if joint == "" and rng.random() < 0.5 else ""
    inertial = '<inertial pos=".1 0 0" mass="1" diaginertia=".1 .1 .1"/>'
    child = ""
    if depth and rng.random() < 0.5:
        hinge = '<joint type="hinge" axis="1 .2 0"/>' if rng.random() < 0.5 else ""
        child = f'<body pos=".3 .1 .2">{hinge}{inertial}{_geom(rng, 0.5, kinds)}</body>'
    pos = _text(rng.uniform(-1, 1, 3) * (place, place, 1))
    inside = "".join(_geom(rng, 0.5, kinds) for _ in range(rng.integers(1, 4)))
    return f'<body pos="{pos}" {_rotation(rng, "box")}{mocap}>{joint}{inertial}{inside}{child}</body>'


def random_scene(rng, sdf=False):
    """A model with a robot, body `base`, and up to 60 static and 10 moving things around it."""
    place = rng.choice([1.0, 3.0, 10.0])
    static, moving = STATIC + ["sdf"] * sdf, MOVING + ["sdf"] * sdf
    geoms = "".join(_geom(rng, place, static) for _ in range(rng.integers(0, 60)))
    bodies = "".join(_body(rng, place, moving) for _ in range(rng.integers(0, 10)))
    offset = rng.choice([0, 0, 0, 1, 1e3, 1e6])
    origin = _text(np.round(rng.normal(size=3), 3) * offset * (1, 1, 1e-3))
    xml = f"""<mujoco><option><flag contact="disable"/></option>{_assets(rng)}<worldbody>
      <body name="origin" pos="{origin}">{geoms}</body>{bodies}
      <body name="base" pos="{origin}" {_rotation(rng, "box")}><freejoint/><geom size=".1" group="1"/>
        <body pos=".2 0 0"><joint/><geom size=".05" group="0"/></body></body></worldbody></mujoco>"""
    return mujoco.MjModel.from_xml_string(xml)


def randomise(rng, model, data):
    """Another state, and live edits of what rays may see."""
    data.qpos[:] = model.qpos0 + rng.normal(size=model.nq) * rng.choice([0.0, 0.3, 2.0])
    data.mocap_pos[:] += rng.normal(size=data.mocap_pos.shape) * 0.3
    data.mocap_quat[:] = rng.normal(size=data.mocap_quat.shape)
    if rng.random() < 0.5:
        for _ in range(3):
            geom = int(rng.integers(0, model.ngeom))
            if model.geom_bodyid[geom] < model.body("base").id:
                model.geom_group[geom] = rng.integers(-1, 8)
            model.geom_rgba[geom, 3] = rng.integers(0, 2)
            model.mat_rgba[rng.integers(0, model.nmat), 3] = rng.integers(0, 2)
        if rng.random() < 0.3:
            model.hfield_data[:] = rng.random(model.hfield_data.shape) * rng.choice([1.0, 1.5])


def random_origins(rng, model, data, n):
    """Origins over the scene, at and in geoms, on their rims, and on the lines of height fields and meshes."""
    kinds = [_over, _at_centres, _on_rims, _far_above, _on_field_lines, _on_mesh_edges]
    parts = [kind(rng, model, data, n // len(kinds) + 1) for kind in kinds]
    return np.ascontiguousarray(np.concatenate(parts)[:n])


def _geoms(rng, model, n):
    return rng.integers(0, model.ngeom, n)


def _over(rng, model, data, n):
    centre = data.geom_xpos[_geoms(rng, model, n)]
    return centre + rng.normal(size=(n, 3)) * (1.0, 1.0, 0.3) + (0, 0, rng.choice([0.0, 1.0, 3.0]))


def _at_centres(rng, model, data, n):
    centre = data.geom_xpos[_geoms(rng, model, n)].copy()
    centre[:, 2] += rng.choice([0.0, 0.0, 1.0, 2.0], n)
    return centre + rng.choice([0.0, 1e-16, 1e-12, 1e-9, 1e-5], (n, 1)) * rng.normal(size=(n, 3))


def _on_rims(rng, model, data, n):
    """Corners and tangents in the geom's own frame: size(1 +- 1e-16..1e-5) along random axes."""
    g = _geoms(rng, model, n)
    size = np.maximum(model.geom_size[g], 0.01)
    direction = rng.choice([-1.0, -0.5, 0.0, 0.3, 1.0], (n, 3)) * (
        1 + rng.choice([0, 1, -1], (n, 3)) * 10.0 ** rng.uniform(-16, -5, (n, 1))
    )
    rim = np.einsum("nij,nj->ni", data.geom_xmat[g].reshape(n, 3, 3), size * direction)
    return data.geom_xpos[g] + rim + np.array([0, 0, 1.0]) * rng.choice([0.0, 1.0, 2.0], (n, 1))


def _far_above(rng, model, data, n):
    origins = _on_rims(rng, model, data, n)
    origins[:, 2] += rng.choice([100.0, 900.0, 5000.0, 1e5], n)
    return origins


def _on_field_lines(rng, model, data, n):
    fields = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD)
    if len(fields) == 0:
        return _over(rng, model, data, n)
    g = rng.choice(fields, n)
    nrow, ncol = model.hfield_nrow[0], model.hfield_ncol[0]
    sx, sy = model.hfield_size[0, :2]
    u, v = rng.integers(0, ncol, n) / (ncol - 1), rng.integers(0, nrow, n) / (nrow - 1)
    along = rng.random(n)
    mixed = rng.integers(0, 4, n)
    u = np.where(mixed == 1, along, u)
    v = np.where(mixed == 2, along, v)
    u, v = np.where(mixed == 3, along / (ncol - 1), u), np.where(mixed == 3, along / (nrow - 1), v)
    local = np.stack([(2 * u - 1) * sx, (2 * v - 1) * sy, np.ones(n)], -1)
    local += rng.choice([0.0, 1e-16, 1e-10, 1e-7, 1e-4], (n, 1)) * rng.normal(size=(n, 3))
    return data.geom_xpos[g] + np.einsum("nij,nj->ni", data.geom_xmat[g].reshape(n, 3, 3), local)


def _on_mesh_edges(rng, model, data, n):
    """Over, and just over, vertices and edges of meshes."""
    meshes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)
    if len(meshes) == 0:
        return _over(rng, model, data, n)
    g = rng.choice(meshes, n)
    mesh = model.geom_dataid[g]
    face = model.mesh_face[model.mesh_faceadr[mesh] + rng.integers(0, model.mesh_facenum[mesh])]
    corners = model.mesh_vert[model.mesh_vertadr[mesh][:, None] + face].astype(float)
    along = rng.choice([0.0, 0.0, 0.5, 1.0], (n, 1)) * rng.random((n, 1))
    local = corners[:, 0] + along * (corners[:, 1] - corners[:, 0])
    local += rng.choice([0.0, 1e-16, 1e-10, 1e-8, 1e-6, 1e-4], (n, 1)) * rng.normal(size=(n, 3))
    above = rng.choice([0.0, 1e-10, 1e-8, 1e-6, 1.0, 2.0], (n, 1)) * np.array([0, 0, 1.0])
    return data.geom_xpos[g] + np.einsum("nij,nj->ni", data.geom_xmat[g].reshape(n, 3, 3), local) + above


def second_pass(rng, origins, distances):
    """Origins on, and within rounding of, the surfaces just hit."""
    hit = distances >= 0
    again = origins[hit].copy()
    again[:, 2] -= distances[hit] * (1 + rng.choice([0.0, 1e-16, -1e-16, 1e-12, -1e-9], hit.sum()))
    again[:, :2] += rng.choice([0.0, 1e-16, 1e-9], (hit.sum(), 1)) * rng.normal(size=(hit.sum(), 2))
    return np.ascontiguousarray(again)


def box_test_scene(rng):
    """Geoms whose box MuJoCo misses by rounding though rays meet it: thin boxes, specks, meshes on edge."""
    assets = geoms = ""
    for k in range(4):
        box = (*rng.uniform(0.01, 1.0, 2), 10 ** rng.uniform(-9, -4))
        radius, angle = rng.uniform(1.39e-5, 1.43e-5), rng.uniform(0.05, 1.5)
        field = (radius * np.cos(angle), radius * np.sin(angle), rng.uniform(1.5e-6, 3e-6), 1e-3)
        edge = 10 ** rng.uniform(-2, 0)
        assets += f'<hfield name="speck{k}" nrow="2" ncol="3" size="{_text(field)}"/>'
        assets += f'<mesh name="octahedron{k}" vertex="{OCTAHEDRON}" scale="{_text([edge] * 3)}"/>'
        geoms += f'<geom type="box" size="{_text(box)}" pos="{4 * k} 0 0"/>'
        geoms += f'<geom type="hfield" hfield="speck{k}" pos="{4 * k} 4 0"/>'
        geoms += f'<geom type="mesh" mesh="octahedron{k}" pos="{4 * k} 8 {rng.normal()}" euler="0 45 0"/>'
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><default><geom group="2"/></default><asset>{assets}</asset><worldbody>{geoms}'
        '<body name="base"><freejoint/><geom size=".1" group="1"/></body></worldbody></mujoco>'
    )
    model.hfield_data[:] = rng.uniform(0.5, 1.0, model.hfield_data.shape)
    return model


def box_test_origins(rng, model, data, n):
    """Origins above the geoms of box_test_scene where rounding decides, and which geom each is aimed at."""
    geoms = rng.integers(0, model.ngeom - 1, n)
    above = {
        mujoco.mjtGeom.mjGEOM_BOX: _above_box_corner,
        mujoco.mjtGeom.mjGEOM_HFIELD: _above_field_rim,
        mujoco.mjtGeom.mjGEOM_MESH: _above_mesh_edge,
    }
    offsets = [above[mujoco.mjtGeom(model.geom_type[geom])](rng, model, geom) for geom in geoms]
    return data.geom_xpos[geoms] + offsets, geoms


def _below_a_power(rng, exponent, steps):
    """A height whose square is just below 2**exponent.

    In MuJoCo's test of a box's bounding sphere, b*b - a*c >= 0, b*b is this square, and c is it and little more, above
    the power, less the radius squared: there c is rounded twice as coarsely.
    """
    height = 2.0 ** (0.5 * exponent)
    return height - rng.integers(1, steps) * np.spacing(0.5 * height)


def _above_box_corner(rng, model, geom):
    x, y, _ = rng.choice([-1.0, 1.0], 3) * model.geom_size[geom] * (1 - rng.choice([0.0, 1e-16, 1e-13, 1e-10]))
    return x, y, rng.uniform(0.0, 3.0) if rng.random() < 0.5 else _below_a_power(rng, rng.integers(10, 20), 6)


def _above_field_rim(rng, model, geom):
    """As near to the rim as the closed form goes; the higher the ray starts, the more of it is left to MuJoCo."""
    sx, sy, top, _ = model.hfield_size[model.geom_dataid[geom]]
    height = _below_a_power(rng, 19, 4)
    inset = (2e-9 + 1e-9 * height) * rng.uniform(1.0, 1.1)
    return (*(rng.choice([-1.0, 1.0], 2) * (sx - inset, sy - inset)), 0.5 * top + height)


def _above_mesh_edge(rng, model, geom):
    """Through two opposite edges of the mesh's box, so that rounding may put each hit outside of both faces."""
    size = model.geom_size[geom]
    height = 10 ** rng.uniform(0, 2.9) if rng.random() < 0.7 else 1.5 * rng.random() * size[2]
    return rng.choice([0.0, 1e-16, 1e-14, 1e-12]) * rng.normal(), rng.uniform(-1, 1) * size[1], height

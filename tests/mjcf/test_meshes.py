"""Meshes: every format is read, degenerate ones are stood in for, and equal input gives equal bytes."""
# ruff: noqa: E501  (XML in one piece)

import contextlib
import hashlib
import os
import re
import struct
import subprocess
import sys
import threading
import warnings
import zipfile

import mujoco
import numpy as np
import pytest
import trimesh

from tests.centauro import robots_folder
from tests.mjcf.urdfs import INERTIAL, generate, joint, link, robot
from xbot2_fast.mjcf import MjcfGenerator, ModelError, mesh_conversion, mesh_files, mesh_jobs
from xbot2_fast.mjcf.mesh_files import MeshError, read_mesh, write_stl
from xbot2_fast.mjcf.mesh_jobs import Job, run_jobs
from xbot2_fast.mjcf.output_folder import content_hash


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def shared_cache(monkeypatch, request):
    """The user's cache, for whole robots; what this version converted before is what it would make again."""
    request.getfixturevalue("own_cache")
    monkeypatch.delenv("XDG_CACHE_HOME")


def with_mesh(file, role="visual", attributes="", material="") -> str:
    mesh = (
        f'<{role}><origin xyz="0 0 1"/><geometry><mesh filename="{file}" {attributes}/></geometry>{material}</{role}>'
    )
    return robot(link("base"), link("tip", INERTIAL + mesh), joint("j", "base", "tip"))


def model_and_notes(urdf, folder, **arguments):
    generator = generate(urdf, folder, **arguments)
    model, _ = generator.create_mj_model_data()
    return model, [note.what for note in generator.report.notes]


def bounds(model, geom=0):
    """Bounds of a mesh geom in its body's frame."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mesh = model.geom_dataid[geom]
    start, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    body = model.geom_bodyid[geom]
    points = data.geom_xpos[geom] + model.mesh_vert[start : start + count] @ data.geom_xmat[geom].reshape(3, 3).T
    local = (points - data.xpos[body]) @ data.xmat[body].reshape(3, 3)
    return local.min(axis=0), local.max(axis=0)


BOX = trimesh.creation.box((0.2, 0.4, 0.6))


@pytest.mark.parametrize("suffix", ["ply", "off", "glb", "gltf", "obj", "stl", "stl_ascii", "dae"])
@pytest.mark.parametrize("role", ["visual", "collision"])
def test_every_format_keeps_its_shape(tmp_path, suffix, role):
    file = tmp_path / f"box.{suffix.removesuffix('_ascii')}"
    if suffix == "gltf":
        for name, content in trimesh.exchange.gltf.export_gltf(trimesh.Scene(BOX)).items():
            (tmp_path / name).write_bytes(content)
        file = tmp_path / "model.gltf"
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pycollada's
            content = BOX.export(file_type=suffix)
        if suffix == "dae":
            content = content.replace(b"Y_UP", b"Z_UP")  # pycollada's default, which trimesh does not mean
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    model, notes = model_and_notes(with_mesh(file, role), tmp_path)
    low, high = bounds(model)
    np.testing.assert_allclose(low, [-0.1, -0.2, 0.7], atol=1e-6)
    np.testing.assert_allclose(high, [0.1, 0.2, 1.3], atol=1e-6)
    assert bool(notes) == (suffix not in ("obj", "stl"))


COLLADA = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit name="centimeter" meter="0.01"/><up_axis>{up}</up_axis></asset>
<library_effects>{effects}</library_effects>
<library_materials><material id="m0"><instance_effect url="#e0"/></material>
<material id="m1"><instance_effect url="#e1"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>
<source id="p"><float_array id="pa" count="24">0 0 0 10 0 0 10 20 0 0 20 0 0 0 30 10 0 30 10 20 30 0 20 30</float_array>
<technique_common><accessor source="#pa" count="8" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
<param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
<triangles count="4" material="s0"><input semantic="VERTEX" source="#v" offset="0"/><p>0 2 1 0 3 2 0 1 5 0 5 4</p></triangles>
<polylist count="4" material="s1"><input semantic="VERTEX" source="#v" offset="0"/><vcount>4 4 4 4</vcount>
<p>4 5 6 7 1 2 6 5 2 3 7 6 3 0 4 7</p></polylist>
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node><translate>0 0 {lift}</translate><instance_geometry url="#g">
<bind_material><technique_common><instance_material symbol="s0" target="#m0"/><instance_material symbol="s1" target="{m1}"/>
</technique_common></bind_material></instance_geometry></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""


def collada(up="Z_UP", lift=0, m1="#m1") -> str:
    effects = "".join(
        f'<effect id="e{i}"><profile_COMMON><technique sid="t"><phong><diffuse><color>{color} 1</color></diffuse></phong>'
        "</technique></profile_COMMON></effect>"
        for i, color in enumerate(["1 0 0", "0 0 1"])
    )
    return COLLADA.format(up=up, lift=lift, effects=effects, m1=m1)


# The box's far corner, 0.1 x 0.2 x 0.3 m along the file's x, y and z, raised by 0.5 m along its z; in the URDF's axes.
AXES = {
    "Z_UP": ([0, 0, 0.5], [0.1, 0.2, 0.8]),
    "Y_UP": ([0, -0.8, 0], [0.1, -0.5, 0.2]),
    "X_UP": ([-0.2, -0.8, 0], [0, -0.5, 0.1]),
}


@pytest.mark.parametrize("up", AXES)
def test_collada_units_axes_and_node_transforms(tmp_path, up):
    (tmp_path / "m.dae").write_text(collada(up, lift=50))
    model, notes = model_and_notes(with_mesh("m.dae", "collision"), tmp_path, urdf_path=tmp_path / "r.urdf")
    low, high = bounds(model)
    np.testing.assert_allclose(low - [0, 0, 1], AXES[up][0], atol=1e-6)
    np.testing.assert_allclose(high - [0, 0, 1], AXES[up][1], atol=1e-6)
    assert any("unit of 0.01 m applied" in note for note in notes)
    assert any(f"up-axis {up} applied" in note for note in notes) == (up != "Z_UP")


def test_the_up_axis_that_meshlab_writes_over_anything_is_reported_and_not_applied(tmp_path):
    tool = "<asset><contributor><authoring_tool>VCGLib | MeshLab</authoring_tool></contributor>"
    (tmp_path / "m.dae").write_text(collada("Y_UP").replace("<asset>", tool))
    model, notes = model_and_notes(with_mesh(tmp_path / "m.dae"), tmp_path)
    assert any("up-axis Y_UP was not applied: MeshLab writes it over any coordinates" in note for note in notes)
    np.testing.assert_allclose(bounds(model)[1], [0.1, 0.2, 1.3], atol=1e-6)


def placed(robot: str, link_name: str, tmp_path):
    """Bounds of each mesh geom of a link in the link's frame, by group (1 visual, 0 collision), and the link's notes."""
    urdf = robots_folder() / robot
    generator = MjcfGenerator("r", urdf.read_bytes(), tmp_path / "out", urdf_path=urdf)
    model, _ = generator.create_mj_model_data()
    body = model.body(link_name).id
    found: dict[int, list] = {0: [], 1: []}
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] == body and model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            found[int(model.geom_group[geom])].append(bounds(model, geom))
    joined = {
        group: (np.min([low for low, _ in parts], axis=0), np.max([high for _, high in parts], axis=0))
        for group, parts in found.items()
        if parts
    }
    return joined, [note.what for note in generator.report.notes if note.link == link_name]


def test_icubs_thigh_reaches_from_hip_to_knee(tmp_path, shared_cache):
    """Its 56 meshes are y up and say so: taken as z up, the thigh would point sideways, along x."""
    found, notes = placed("icub_description/robots/icub.urdf", "l_upper_leg", tmp_path)
    for low, high in found.values():
        assert -0.26 < low[1] < -0.2236 < 0 <= high[1] + 1e-3  # the knee is at y = -0.2236, the hip at 0
        assert max(abs(low[0]), abs(high[0])) < 0.1
    assert len(found) == 2
    assert sum("up-axis Y_UP applied" in note for note in notes) == 2


@pytest.mark.parametrize("number", [1, 3, 4])
def test_tiagos_collisions_lie_over_their_visuals(tmp_path, shared_cache, number):
    """Its collisions are MeshLab's, z up under Y_UP, its visuals STL; turned, arm 3 would share 7 % with its visual."""
    found, notes = placed("tiago_description/robots/tiago.urdf", f"arm_{number}_link", tmp_path)
    np.testing.assert_allclose(found[0], found[1], atol=0.01)
    assert any("up-axis Y_UP was not applied" in note for note in notes)


def test_gltf_coordinates_are_taken_as_z_up_and_that_is_reported(tmp_path):
    BOX.export(tmp_path / "box.glb")
    model, notes = model_and_notes(with_mesh(tmp_path / "box.glb"), tmp_path)
    assert any("its coordinates are taken as z up, as in RViz" in note for note in notes)


def test_collada_materials_become_one_geom_each(tmp_path):
    (tmp_path / "m.dae").write_text(collada())
    material = '<material name="green"><color rgba="0 1 0 1"/></material>'
    model, notes = model_and_notes(with_mesh(tmp_path / "m.dae", material=material), tmp_path)
    np.testing.assert_allclose(model.geom_rgba, [[1, 0, 0, 1], [0, 0, 1, 1]])
    assert sorted(model.mesh_facenum) == [4, 8]
    assert any("2 colours" in note for note in notes)


def test_collada_with_broken_materials_still_shows(tmp_path):
    (tmp_path / "m.dae").write_text(collada(m1="#lost"))
    model, notes = model_and_notes(with_mesh(tmp_path / "m.dae"), tmp_path)
    assert model.mesh_facenum.sum() == 12
    assert any("materials are broken" in note for note in notes)


def test_obj_of_several_objects_is_read_whole(tmp_path):
    low, high = BOX.copy(), BOX.copy()
    high.apply_translation([0, 0, 2])
    text, offset = "", 1
    for name, mesh in (("a", low), ("b", high)):
        text += f"o {name}\n" + "".join("v {} {} {}\n".format(*v) for v in mesh.vertices)
        text += "".join("f {} {} {}\n".format(*(face + offset)) for face in mesh.faces)
        offset += len(mesh.vertices)
    (tmp_path / "two.obj").write_text(text)
    model, notes = model_and_notes(with_mesh(tmp_path / "two.obj", "collision"), tmp_path)
    assert model.nmeshface == 24
    assert any("several objects" in note for note in notes)


# ---- degenerate meshes

QUAD = np.array([[[0, 0, 0], [1, 0, 0], [1, 1, 0]], [[0, 0, 0], [1, 1, 0], [0, 1, 0]]], float)
SHAPES = {
    "quad": QUAD,
    "triangle": QUAD[:1],
    "line": np.array([[[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 0, 0], [2, 0, 0], [3, 0, 0]]], float),
    "point": np.zeros((4, 3, 3)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_flat_collisions_become_their_bounding_box(tmp_path, shape):
    write_stl(tmp_path / "m.stl", SHAPES[shape])
    model, notes = model_and_notes(with_mesh(tmp_path / "m.stl", "collision", 'scale="0.1 -0.2 1"'), tmp_path)
    assert model.geom_type[0] == mujoco.mjtGeom.mjGEOM_BOX
    extent = np.ptp(SHAPES[shape].reshape(-1, 3), axis=0) * [0.1, 0.2, 1]
    np.testing.assert_allclose(model.geom_size[0] * 2, np.maximum(extent, 1e-3), atol=1e-9)
    middle = (SHAPES[shape].max((0, 1)) + SHAPES[shape].min((0, 1))) / 2 * [0.1, -0.2, 1]
    np.testing.assert_allclose(model.geom_pos[0] - [0, 0, 1], middle, atol=1e-9)
    assert any("bounding box" in note for note in notes)


@pytest.mark.parametrize(("shape", "kind"), [("quad", "mesh"), ("triangle", "box"), ("line", "box"), ("point", "box")])
def test_flat_visuals_still_show(tmp_path, shape, kind):
    write_stl(tmp_path / "m.stl", SHAPES[shape])
    model, notes = model_and_notes(with_mesh(tmp_path / "m.stl"), tmp_path)
    assert model.geom_type[0] == getattr(mujoco.mjtGeom, f"mjGEOM_{kind.upper()}")
    assert any(("shell" if kind == "mesh" else "bounding box") in note for note in notes)


@pytest.mark.parametrize("role", ["visual", "collision"])
def test_tiny_meshes_are_kept_as_shells(tmp_path, role):
    BOX.export(tmp_path / "m.stl")
    model, notes = model_and_notes(with_mesh(tmp_path / "m.stl", role, 'scale="1e-5 1e-5 1e-5"'), tmp_path)
    assert model.geom_type[0] == mujoco.mjtGeom.mjGEOM_MESH
    assert any("shell" in note for note in notes)


def dense_sphere(tmp_path):
    sphere = trimesh.creation.icosphere(7)  # 327,680 faces
    sphere.export(tmp_path / "m.stl")
    return tmp_path / "m.stl", sphere


def test_too_many_faces_are_simplified_for_visuals_and_hulled_for_collisions(tmp_path):
    file, sphere = dense_sphere(tmp_path)
    model, notes = model_and_notes(with_mesh(file), tmp_path / "v")
    assert model.nmeshface <= 200_000
    assert any(note.startswith("visual mesh m.stl: 327680 faces simplified to ") for note in notes)
    job = Job(content_hash(file), ".stl", "collision", file)
    hull, _ = read_mesh(job.folder / run_jobs([job])[job].files[0], ".stl")
    volume = mesh_conversion._volume(mesh_files.joined(hull))
    assert volume == pytest.approx(sphere.volume, rel=1e-4)


def test_inverted_and_mirrored_meshes(tmp_path):
    inverted = BOX.copy()
    inverted.invert()
    inverted.export(tmp_path / "m.stl")
    model, _ = model_and_notes(with_mesh(tmp_path / "m.stl", "collision", 'scale="-1 1 1"'), tmp_path)
    np.testing.assert_allclose(bounds(model)[1], [0.1, 0.2, 1.3], atol=1e-6)


# ---- what is no mesh


@pytest.mark.parametrize("suffix", [".stl", ".dae", ".obj", ".ply", ".glb", ".off", ".xyzzy"])
def test_junk_is_refused_with_its_name(tmp_path, suffix):
    (tmp_path / f"junk{suffix}").write_bytes(bytes(range(256)) * 20)
    with pytest.raises(ModelError, match=rf"link 'tip': .*junk\{suffix}: it (is|has) n"):
        generate(with_mesh(tmp_path / f"junk{suffix}"), tmp_path)


@pytest.mark.parametrize("suffix", [".3mf", ".zae", ".zip", ".xyz", ".msh", ""])
def test_other_formats_are_refused_unread(tmp_path, suffix):
    """Archives among them: a few kilobytes can unpack to any size."""
    with zipfile.ZipFile(tmp_path / f"m{suffix}", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("3D/3dmodel.model", bytes(10_000_000))
    with pytest.raises(ModelError, match=r"link 'tip': .*it is not of a format that is read: \.stl, \.obj, \.dae"):
        generate(with_mesh(tmp_path / f"m{suffix}"), tmp_path)


LAUGHS = "".join(f'<!ENTITY e{k + 1} "{f"&e{k};" * 10}">' for k in range(12))


@pytest.mark.parametrize("entities", [f'<!ENTITY e0 "1 ">{LAUGHS}', '<!ENTITY e12 SYSTEM "file:///etc/passwd">'])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_in_collada_are_refused(tmp_path, entities, encoding):
    text = collada().replace(
        '<?xml version="1.0"?>', f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [{entities}]>'
    )
    (tmp_path / "m.dae").write_bytes(text.replace(">0 0 0 10", ">&e12; 0 0 0 10").encode(encoding))
    with pytest.raises(ModelError, match=r"m\.dae: it declares XML entities"):
        generate(with_mesh(tmp_path / "m.dae"), tmp_path)


# A bitmap's header that announces 60,000 x 60,000 pixels: more than memory.
BOMB = struct.pack("<2sIIIIiiHHIIiiII", b"BM", 54, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [("t.jpg", b"junk", ""), ("t.jpg", b"\x89PNG\r\n\x1a\n junk", ""), ("t.bmp", BOMB, " .*bomb")],
    ids=["junk", "junk behind a PNG's signature", "bomb"],
)
def test_textures_that_are_no_image_are_refused_with_their_name(tmp_path, name, content, why):
    (tmp_path / name).write_bytes(content)
    material = f'<material name="m"><texture filename="{name}"/></material>'
    shape = f'<visual><geometry><box size="1 1 1"/></geometry>{material}</visual>'
    with pytest.raises(ModelError, match=rf"link 'a': .*{re.escape(name)}: it is not a readable image{why}"):
        generate(robot(link("a", shape)), tmp_path, urdf_path=tmp_path / "r.urdf")


def test_huge_files_are_refused_unread(tmp_path):
    with (tmp_path / "huge.stl").open("wb") as file:
        file.truncate(mesh_files.LARGEST_FILE)  # sparse
    with pytest.raises(MeshError, match="it has 500 MB; meshes of 500 MB and more are refused"):
        read_mesh(tmp_path / "huge.stl", ".stl")


def test_undefined_corners_are_left_out(tmp_path):
    broken = np.concatenate([BOX.triangles, np.full((1, 3, 3), np.nan), np.full((1, 3, 3), np.inf)])
    write_stl(tmp_path / "m.stl", broken)
    parts, notes = read_mesh(tmp_path / "m.stl", ".stl")
    assert len(parts[0].corners) == 12
    assert notes == ["2 triangles with infinite or undefined corners left out"]


@pytest.mark.parametrize("suffix", ["stl", "obj"])
def test_a_file_with_undefined_corners_is_written_anew_without_them(tmp_path, suffix):
    content = BOX.export(file_type="obj")
    if suffix == "obj":
        (tmp_path / "m.obj").write_text(content + "\nv inf 0 0\nf 1 2 9\n")
    else:
        write_stl(tmp_path / "m.stl", np.concatenate([BOX.triangles, np.full((1, 3, 3), np.inf)]))
    model, notes = model_and_notes(with_mesh(tmp_path / f"m.{suffix}"), tmp_path)
    assert any("1 triangles with infinite or undefined corners left out" in note for note in notes)
    np.testing.assert_allclose(bounds(model)[1], [0.1, 0.2, 1.3], atol=1e-6)
    assert (tmp_path / "out" / "assets" / "0_m.stl").read_bytes().startswith(b"binary STL")


# ---- files


def test_one_file_is_stored_once_for_each_content_and_referred_to_by_scale(tmp_path):
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        (BOX if folder != "c" else trimesh.creation.box((1, 1, 1))).export(tmp_path / folder / "m.stl")
    shapes = "".join(
        f'<visual><geometry><mesh filename="{folder}/m.stl" scale="{scale}"/></geometry></visual>'
        for folder, scale in [
            ("a", "1 1 1"),
            ("b", "1 1 1"),
            ("a", "2 2 2"),
            ("c", "1 1 1"),
            ("a", "2.0 2 2"),
            ("a", "2"),
        ]
    )
    model, _ = model_and_notes(robot(link("a", shapes)), tmp_path, urdf_path=tmp_path / "r.urdf")
    assert sorted(p.name for p in (tmp_path / "out" / "assets").iterdir()) == ["0_m.stl", "1_m.stl"]
    assert model.nmesh == 3


@pytest.mark.parametrize(
    "form", ["{0}/m m.stl", "{0}/m%20m.stl", "file://{0}/m%20m.stl", "m m.stl", "model://pkg/m m.stl"]
)
def test_ways_to_name_a_file(tmp_path, monkeypatch, form):
    (tmp_path / "pkg").mkdir()
    for folder in (tmp_path, tmp_path / "pkg"):
        BOX.export(folder / "m m.stl")
    monkeypatch.setenv("GAZEBO_MODEL_PATH", str(tmp_path))
    urdf = with_mesh(form.format(tmp_path)).replace('filename="', "filename='").replace('.stl"', ".stl'")
    assert model_and_notes(urdf, tmp_path, urdf_path=tmp_path / "r.urdf")[0].nmesh == 1


def test_plugin_files_are_nobodys_asset(tmp_path):
    gazebo = '<gazebo><plugin name="p" filename="libplugin.so"><mesh filename="x.stl"/></plugin></gazebo>'
    urdf = robot(link("a"), gazebo)
    model_and_notes(urdf, tmp_path)
    assert not (tmp_path / "out" / "assets").exists()
    assert 'filename="libplugin.so"' in (tmp_path / "out" / "r.urdf").read_text()


def test_textures_become_materials(tmp_path):
    from PIL import Image

    for suffix in ("png", "jpg"):
        Image.new("RGB", (4, 4), (255, 0, 0)).save(tmp_path / f"red.{suffix}")
        material = f'<material name="t"><texture filename="red.{suffix}"/></material>'
        shape = f'<visual><geometry><box size="1 1 1"/></geometry>{material}</visual>'
        model, _ = model_and_notes(robot(link("a", shape)), tmp_path / suffix, urdf_path=tmp_path / "r.urdf")
        assert (model.ntex, model.nmat) == (1, 1)
        assert model.geom_matid[0] == 0


# ---- determinism


def tree_hash(folder) -> dict[str, str]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_equal_input_gives_equal_bytes_whatever_the_hash_seed(tmp_path):
    (tmp_path / "m.dae").write_text(collada())
    BOX.export(tmp_path / "b.ply")
    shapes = "".join(f'<visual><geometry><mesh filename="{f}"/></geometry></visual>' for f in ("m.dae", "b.ply"))
    (tmp_path / "r.urdf").write_text(robot(link("a", shapes)))
    code = (
        "import sys; from xbot2_fast.mjcf import MjcfGenerator; "
        "g = MjcfGenerator('r', open('r.urdf').read(), 'out', urdf_path='r.urdf'); g.generate_mjcf_string(); "
        "open('report.json', 'w').write(g.report.to_json())"
    )
    results = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(tmp_path / f"cache{seed}")}
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)
        results.append((tree_hash(tmp_path / "out"), (tmp_path / "report.json").read_text()))
    assert results[0] == results[1]


def test_any_number_of_workers_gives_the_same_bytes(tmp_path, monkeypatch):
    jobs = []
    for k in range(5):
        file = tmp_path / f"m{k}.ply"
        trimesh.creation.box((1, 1, 1 + k)).export(file)
        jobs.append(Job(content_hash(file), ".ply", "visual", file))
    (tmp_path / "junk.ply").write_bytes(b"junk")
    jobs.append(Job("junk", ".ply", "visual", tmp_path / "junk.ply"))
    caches = []
    for workers in (0, 1, 3):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / f"c{workers}"))
        results = run_jobs(jobs, workers)
        assert isinstance(results[jobs[-1]], MeshError)
        assert all(results[job].files == ["0.stl"] for job in jobs[:-1])
        caches.append(tree_hash(tmp_path / f"c{workers}"))
    assert caches[0] == caches[1] == caches[2]


def test_workers_do_not_import_the_folder_they_run_in(tmp_path, monkeypatch):
    """As in the root of a clone whose kernels were not built in place."""
    (tmp_path / "xbot2_fast").mkdir()
    (tmp_path / "xbot2_fast" / "__init__.py").write_text("raise ImportError('a source tree')")
    monkeypatch.chdir(tmp_path)
    trimesh.creation.box((1, 1, 1)).export(tmp_path / "box.ply")
    job = Job("box", ".ply", "visual", tmp_path / "box.ply")
    assert run_jobs([job], workers=1)[job].files == ["0.stl"]


def test_a_worker_that_dies_costs_its_mesh_only(tmp_path, monkeypatch):
    BOX.export(tmp_path / "good.ply")
    os.mkfifo(tmp_path / "stuck.stl")  # its reader waits until someone writes
    (tmp_path / "empty.ply").touch()
    jobs = [Job(path.name, path.suffix, "visual", path) for path in sorted(tmp_path.iterdir()) if path.is_file()]
    stuck = Job("stuck", ".stl", "visual", tmp_path / "stuck.stl")
    started = []
    start = mesh_jobs._Worker._start

    def recorded(worker):
        start(worker)
        started.append(worker._process)

    monkeypatch.setattr(mesh_jobs._Worker, "_start", recorded)

    def kill():
        with (tmp_path / "stuck.stl").open("wb"):  # opens once the worker reads
            started[-1].kill()

    killer = threading.Thread(target=kill)
    killer.start()
    results = run_jobs([stuck, *jobs], workers=1)
    killer.join()
    by_name = {job.path.name: result for job, result in results.items()}
    assert by_name["good.ply"].files == ["0.stl"]
    assert str(by_name["stuck.stl"]) == "the process that converted it died (out of memory?)"
    assert isinstance(by_name["empty.ply"], MeshError)
    assert "died" not in str(by_name["empty.ply"])  # the next worker looked at it
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_dead_worker_is_reported_with_link_and_file(tmp_path, monkeypatch):
    """Every worker of this test ends before it reads a line."""
    BOX.export(tmp_path / "b.ply")
    monkeypatch.setattr(mesh_jobs, "_SMALL", 0)
    monkeypatch.setattr(mesh_jobs, "_COMMAND", ["true"])
    with pytest.raises(ModelError, match=r"link 'tip': .*b\.ply: the process that converted it died"):
        generate(with_mesh(tmp_path / "b.ply"), tmp_path)


def test_an_unexpected_error_names_the_mesh(tmp_path, monkeypatch):
    BOX.export(tmp_path / "b.ply")

    def odd(*arguments):
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(mesh_jobs, "convert_mesh", odd)
    with pytest.raises(ModelError, match=r"link 'tip': .*b\.ply: it cannot be converted \(ZeroDivisionError: odd\)"):
        generate(with_mesh(tmp_path / "b.ply"), tmp_path)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_progress_bar_on_a_terminal_only(tmp_path, terminal):
    for k in range(2):
        trimesh.creation.box((1, 1, 1 + k)).export(tmp_path / f"m{k}.ply")
    shapes = "".join(f'<visual><geometry><mesh filename="m{k}.ply"/></geometry></visual>' for k in range(2))
    (tmp_path / "r.urdf").write_text(robot(link("a", shapes)))
    command = [sys.executable, "-m", "xbot2_fast.mjcf.command", "r.urdf", "-o", "out"]
    ours, theirs = os.openpty() if terminal else os.pipe()
    done = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "TERM": "xterm"}, stderr=theirs, stdout=subprocess.DEVNULL
    )
    os.close(theirs)
    written = b""
    with contextlib.suppress(OSError):  # how a terminal says that its other end is closed
        while block := os.read(ours, 4096):
            written += block
    os.close(ours)
    assert done.wait() == 0
    assert (b"converting meshes" in written) == terminal
    assert (b"100%" in written) == terminal


def test_a_second_run_converts_nothing(tmp_path, monkeypatch):
    BOX.export(tmp_path / "b.ply")
    model_and_notes(with_mesh(tmp_path / "b.ply"), tmp_path)

    def never(*arguments):
        raise AssertionError("converted again")

    monkeypatch.setattr("xbot2_fast.mjcf.mesh_jobs.convert_mesh", never)
    model_and_notes(with_mesh(tmp_path / "b.ply"), tmp_path)

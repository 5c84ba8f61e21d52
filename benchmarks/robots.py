"""The robots that the benchmarks step."""

import mujoco

from xbot2_fast.mjcf import MjcfGenerator
from xbot2_fast.robots import demo


def quadruped(folder) -> tuple[mujoco.MjModel, dict[str, float]]:
    """The packaged demo robot, 12 joints, and its initial configuration."""
    urdf, fragments = demo()
    generator = MjcfGenerator("demo", urdf.read_bytes(), output_dir=folder, urdf_path=urdf)
    for fragment in fragments:
        generator.merge_xml(fragment)
    model, _ = generator.create_mj_model_data()
    return model, generator.q_init


def _leg(name: str, x: float, y: float) -> str:
    joints = ["1 0 0", "0 1 0", "0 0 1", "0 1 0", "0 1 0", "1 0 0"]
    lengths = [0.02, 0.02, 0.2, 0.2, 0.03, 0.02]
    text, end = "", ""
    at = f"{x} {y} 0"
    for k, (axis, length) in enumerate(zip(joints, lengths, strict=True)):
        text += (
            f'<body pos="{at}"><joint name="{name}{k}" axis="{axis}" range="-1.5 1.5" armature=".01"/>'
            f'<geom type="capsule" fromto="0 0 0 0 0 {-length}" size=".03" mass="{0.3 + 2 * length}" contype="0"/>'
        )
        at, end = f"0 0 {-length}", end + "</body>"
    return text + '<geom type="sphere" pos="0 0 -.02" size=".04" mass=".2"/>' + end


def humanoid_29() -> mujoco.MjModel:
    """A floating torso on four six-jointed limbs and a five-jointed neck: 29 joints, four feet on the floor."""
    limbs = [
        _leg(f"limb{k}_", x, y) for k, (x, y) in enumerate([(0.2, 0.15), (0.2, -0.15), (-0.2, 0.15), (-0.2, -0.15)])
    ]
    neck = "".join(
        f'<body pos="0 0 .05"><geom size=".03" mass=".3" contype="0"/>'
        f'<joint name="neck{k}" axis="{"0 1 0" if k % 2 else "0 0 1"}" range="-1 1" armature=".01"/>'
        for k in range(5)
    )
    names = [f"limb{i}_{k}" for i in range(4) for k in range(6)] + [f"neck{k}" for k in range(5)]
    actuators = "".join(f'<position name="{name}" joint="{name}" kp="200" kv="10"/>' for name in names)
    return mujoco.MjModel.from_xml_string(
        f"""<mujoco><option timestep="0.001" integrator="implicitfast"/><worldbody>
        <geom type="plane" size="5 5 .1"/>
        <body pos="0 0 .56"><freejoint/><geom type="box" size=".3 .2 .08" mass="12" contype="0"/><site name="imu"/>
        {"".join(limbs)}{neck}{"</body>" * 5}</body></worldbody><actuator>{actuators}</actuator>
        <sensor><gyro name="gyro" site="imu"/><accelerometer name="acc" site="imu"/></sensor></mujoco>"""
    )

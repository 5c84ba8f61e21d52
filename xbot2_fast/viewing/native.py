"""MuJoCo's passive viewer in a window."""

import threading

import mujoco
import mujoco.viewer
import numpy as np

from xbot2_fast.viewing.frames import geom_bytes
from xbot2_fast.viewing.link import Link, SimulatorGone


def run(link: Link) -> None:
    """Show frames until the window is closed or the simulator is gone."""
    before = set(threading.enumerate())
    handle = mujoco.viewer.launch_passive(
        link.model, link.data, key_callback=lambda key: link.send("key", code=int(key))
    )
    threads = [thread for thread in threading.enumerate() if thread not in before]
    try:
        _show(link, handle)
    except SimulatorGone:
        pass
    finally:
        handle.close()
        for thread in threads:
            thread.join()


def _show(link: Link, handle: mujoco.viewer.Handle) -> None:
    geoms = geom_bytes(handle.user_scn)
    pulled = False
    link.send("ready")
    while handle.is_running():
        if not link.receive(timeout=0.05):
            continue
        count = min(link.info["markers"], len(geoms))
        with handle.lock():
            geoms[:count] = link.geoms[:count]
            handle.user_scn.ngeom = count
        handle.set_texts(_status(link.info))
        handle.sync()  # shows xfrc_applied, then zeroes it and puts in what the mouse pulls with
        pull = _pull(link.data)
        if pull or pulled:
            link.send("pull", forces=pull)
        pulled = bool(pull)


def _pull(data: mujoco.MjData) -> dict[str, list[float]]:
    """Body id -> force and torque of the mouse."""
    bodies = np.flatnonzero(data.xfrc_applied.any(axis=1))
    return {str(body): data.xfrc_applied[body].tolist() for body in bodies}


def _status(info: dict) -> tuple:
    rtf = "" if info["rtf"] is None else f"{info['rtf']:.2f}"
    target = "max" if info["target_rtf"] is None else f"{info['target_rtf']:.1f}"
    state = "paused" if info["paused"] else "running"
    return (
        mujoco.mjtFontScale.mjFONTSCALE_100, mujoco.mjtGridPos.mjGRID_TOPLEFT,
        "RTF\nTarget\nState", f"{rtf}\n{target}\n{state}",
    )  # fmt: skip

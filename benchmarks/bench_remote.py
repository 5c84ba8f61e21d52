"""Remote control: what it costs when idle, what wrenches cost, how fast requests are answered at real time."""

import json
import subprocess
import sys
from statistics import median

import mujoco
import numpy as np
import pytest

from benchmarks.interleave import compare, report
from tests.reference.wrenches import ReferenceEngine
from tests.remote_control import robots
from xbot2_fast._kernels._loop import StepLoop
from xbot2_fast.remote_control import RemoteControlServer
from xbot2_fast.simulator_wrapper import SimulatorWrapper
from xbot2_fast.wrenches import Wrench, WrenchEngine

CLIENT = """
import json, sys, time, zmq
endpoint, clients, rate, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
context = zmq.Context()
sockets = []
for _ in range(clients):
    socket = context.socket(zmq.REQ)
    socket.connect(endpoint)
    sockets.append(socket)
poller = zmq.Poller()
for socket in sockets:
    poller.register(socket, zmq.POLLIN)
request = json.dumps({"id": 1, "command": "list_wrenches"}).encode()
sent, due, times = {}, {s: 0.0 for s in sockets}, []
end = time.perf_counter() + seconds
while time.perf_counter() < end:
    now = time.perf_counter()
    for socket in sockets:
        if socket not in sent and now >= due[socket]:
            sent[socket] = now
            due[socket] = now + clients / rate
            socket.send(request)
    if len(sent) < clients:
        ready = poller.poll(0)
    else:
        ready = poller.poll(100)
    for socket, _ in ready:
        assert json.loads(socket.recv())["ok"]
        times.append(time.perf_counter() - sent.pop(socket))
times.sort()
print(json.dumps({"count": len(times), "median": times[len(times) // 2], "p99": times[int(len(times) * 0.99)]}))
"""


def test_idle_server(benchmark):
    """A step with a server that nobody talks to, over one without: < 0.2 us (the existing simulator: 11 us)."""
    model = robots.model()
    data = mujoco.MjData(model)
    server = RemoteControlServer(model, data, "tcp://127.0.0.1:*")
    try:
        bare, served = StepLoop(model, data), StepLoop(model, data)
        served.before(server.stage, 0)
        assert server.process_requests() == 0
        assert served.pre_step() == 0

        def steps(loop):  # 13 us each, as those of a quadruped
            def run():
                for _ in range(200):
                    loop.pre_step()
                    loop.step()

            return run

        result = compare(steps(bare), steps(served), rounds=60)
        cost = (result.candidate - result.baseline) / 200
        paired = result.baseline * (result.ratio - 1) / 200
        benchmark.extra_info["cost_us"] = paired * 1e6
        report(benchmark, steps(served), result)
        print(f"idle server: {paired * 1e6:.3f} us a step (medians apart: {cost * 1e6:.3f} us)")
        assert paired < 0.4e-6
    finally:
        server.close()


def test_32_wrenches(benchmark):
    """32 active wrenches, half of them in body frames, on 8 bodies: < 1 us a step."""
    model = robots.model()
    data = mujoco.MjData(model)
    engine, nobody = WrenchEngine(model, data), WrenchEngine(model, mujoco.MjData(model))
    reference_data = mujoco.MjData(model)
    reference = ReferenceEngine(model, reference_data)
    for k in range(32):
        wrench = Wrench(1 + k % 8, (1.0, k, 2.0), (0.1, 0.2, k), 1e6, "body" if k % 2 else "world")
        engine.add([wrench])
        reference.add(wrench)
    engine.apply()
    reference.apply()
    assert data.xfrc_applied.tobytes() == reference_data.xfrc_applied.tobytes()
    result = compare(lambda: nobody.stage.apply(0.0), lambda: engine.stage.apply(0.0), rounds=60, calls=2000)
    cost = result.candidate - result.baseline
    benchmark.extra_info["cost_us"] = cost * 1e6
    report(benchmark, lambda: engine.stage.apply(0.0), result)
    print(f"32 wrenches: {cost * 1e6:.3f} us a step")
    assert cost < 2e-6


def at_real_time(tmp_path, clients, rate, seconds=3.0):
    """Answer a client process at RTF 1 and 1 ms steps: (what the client saw, RTF, lateness of the steps [s])."""
    import time

    model = robots.model()
    model.opt.timestep = 0.001
    with SimulatorWrapper(
        model, viewer=False, socket_path=str(tmp_path / "s"), remote_control_endpoint="tcp://127.0.0.1:*"
    ) as sim:
        for _ in range(100):
            sim.run()
        process = subprocess.Popen(
            [sys.executable, "-c", CLIENT, sim.remote_control.endpoint, str(clients), str(rate), str(seconds)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        start, time_at_start, starts = time.perf_counter(), sim.data.time, []
        while process.poll() is None:
            sim.run()
            starts.append(time.perf_counter() - start - (sim.data.time - time_at_start))
        wall = time.perf_counter() - start
        rtf = (sim.data.time - time_at_start) / wall
        seen = json.loads(process.stdout.read())
        process.stdout.close()
    late = np.array(starts) - min(starts)
    return seen, rtf, {"median": float(np.median(late)), "p99": float(np.quantile(late, 0.99))}


def test_round_trip_at_real_time(benchmark, tmp_path):
    """One client, RTF 1, 1 ms steps: median < 0.35 ms (the existing simulator: 1.04 ms)."""
    runs = [at_real_time(tmp_path, 1, 1e9, 2.0) for _ in range(3)]
    trip = median(seen["median"] for seen, _, _ in runs)
    benchmark.extra_info.update(round_trip_ms=trip * 1e3, runs=[seen["median"] * 1e3 for seen, _, _ in runs])
    benchmark.extra_info.update(rtf=[rtf for _, rtf, _ in runs], lateness=[late for _, _, late in runs])
    benchmark.pedantic(lambda: None, rounds=1)
    print(f"round trip: {[round(seen['median'] * 1e3, 3) for seen, _, _ in runs]} ms, RTF {[r for _, r, _ in runs]}")
    assert trip < 0.7e-3


def test_5000_requests_a_second_by_8_clients(benchmark, tmp_path):
    """8 clients that ask for 5,000 requests/s in all, RTF 1, 1 ms steps: all answered, the RTF kept."""
    seconds = 4.0
    seen, rtf, late = at_real_time(tmp_path, 8, 5200, seconds)
    rate = seen["count"] / seconds
    benchmark.extra_info.update(requests_per_s=rate, rtf=rtf, round_trip=seen, lateness=late)
    benchmark.pedantic(lambda: None, rounds=1)
    print(f"{rate:.0f} requests/s, RTF {rtf:.4f}, lateness {late}, round trip {seen}")
    assert rate > 2500
    assert rtf > 0.97


@pytest.mark.parametrize("command", ["--help"])
def test_mjctl_help(benchmark, command):
    """`mjctl --help` from the start of the process: < 0.15 s."""
    arguments = [sys.executable, "-m", "xbot2_fast.mjctl", command]
    assert "torque-limits" in subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    empty = [sys.executable, "-c", "pass"]
    result = compare(
        lambda: subprocess.run(empty, check=True),
        lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL),
        rounds=10,
    )
    report(benchmark, lambda: subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL), result)
    assert result.candidate < 0.3

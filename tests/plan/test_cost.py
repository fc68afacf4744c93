"""The cost model: equal to the measurement on one device, monotone, and limited by memory."""

import itertools
import json
from dataclasses import replace

import pytest

from s7.cli.main import main
from s7.plan.cost import TWO_PASSES, Assumptions, Cost, Measurements, counts

MEASURED = Measurements(
    parameters=100_000,
    length=1000,
    filled=0.8,
    blocks=4,
    exchange_bytes=256,
    batch=16,
    step_seconds=0.034,
    memory_bytes=170e6,
    other_batch=8,
    other_seconds=0.018,
    other_bytes=90e6,
    input_seconds=0.001,
    about={"task": "pendulum", "model": "s7", "preset": "ours", "machine": "a machine"},
)


@pytest.fixture
def cost() -> Cost:
    return Cost(MEASURED)


def test_the_line_through_the_measurements():
    assert MEASURED.event_seconds == pytest.approx(2e-6)
    assert MEASURED.fixed_seconds == pytest.approx(2e-3)
    assert MEASURED.event_bytes == pytest.approx(1e4)
    assert MEASURED.fixed_bytes == pytest.approx(10e6)
    assert MEASURED.is_consistent
    busy = replace(MEASURED, other_seconds=0.1)
    assert not busy.is_consistent
    assert (busy.event_seconds, busy.fixed_seconds) == (0, MEASURED.step_seconds)


def test_one_device_is_the_measurement(cost):
    for predicted in (cost.data_parallel(1), cost.sequence_parallel(1)):
        assert predicted.seconds == pytest.approx(MEASURED.step_seconds)
        assert predicted.events_per_second == pytest.approx(0.8 * 16_000 / 0.034)
        assert predicted.memory_bytes == pytest.approx(MEASURED.memory_bytes)
        assert predicted.efficiency == pytest.approx(1)
        assert predicted.limit == "compute"


def test_more_devices_are_faster_but_less_efficient(cost):
    rows = [cost.data_parallel(devices) for devices in counts(1000)]
    assert [row.devices for row in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000]
    for fewer, more in itertools.pairwise(rows):
        assert more.events_per_second > fewer.events_per_second
        assert more.efficiency <= fewer.efficiency
        assert more.memory_bytes == fewer.memory_bytes
    split = [cost.sequence_parallel(devices) for devices in counts(1000)]
    # Two passes over half of the events are almost as much arithmetic as one over all of them.
    once = MEASURED.step_seconds - MEASURED.fixed_seconds
    assert split[1].parts["compute"] == pytest.approx(MEASURED.fixed_seconds + TWO_PASSES * once / 2)
    for fewer, more in itertools.pairwise(split):
        assert more.memory_bytes < fewer.memory_bytes
        assert more.efficiency < fewer.efficiency


def test_slower_links_and_faster_devices():
    slow, fast = Cost(MEASURED, Assumptions(bandwidth=1e6)), Cost(MEASURED, Assumptions(speed=1000.0))
    assert slow.data_parallel(8).limit == "all-reduce"
    assert slow.sequence_parallel(1000).limit == "state exchange"
    assert fast.data_parallel(64).limit == "all-reduce"
    assert fast.data_parallel(1).events_per_second == pytest.approx(
        1000 * Cost(MEASURED).data_parallel(1).events_per_second
    )
    assert Cost(replace(MEASURED, input_seconds=0.1)).data_parallel(4).limit == "input"
    with pytest.raises(ValueError, match="must be positive"):
        Assumptions(bandwidth=0.0)


def test_memory_limits_the_batch(cost):
    assert cost.largest_batch(170e6) == 16
    assert cost.largest_batch(169e6) == 15
    assert cost.memory(cost.largest_batch(16e9)) <= 16e9 < cost.memory(cost.largest_batch(16e9) + 1)
    assert cost.largest_batch(15e6) == 0
    assert cost.devices_for_one_sequence(15e6) == 2
    assert cost.largest_batch(5e6) == 0
    assert cost.devices_for_one_sequence(5e6) is None


def test_measurements_are_read_as_written(tmp_path):
    MEASURED.write(tmp_path / "file.json")
    assert Measurements.read(tmp_path / "file.json") == MEASURED
    (tmp_path / "file.json").write_text('{"length": 3}')
    with pytest.raises(ValueError, match=r"file.json: not the measurements of s7 plan"):
        Measurements.read(tmp_path / "file.json")


def test_the_command(tmp_path, capsys):
    path = tmp_path / "file.json"
    MEASURED.write(path)
    plan = ["plan", "pendulum", "--measurements", str(path), "--devices", "64"]
    assert main([*plan, "--memory", "16GB"]) == 0
    out = capsys.readouterr().out
    assert "16 GB per device: the largest batch per device is 1,599" in out
    assert "measured (a machine)" in out
    assert "links of 1.25 GB/s and 50 µs" in out
    assert main([*plan, "--memory", "15MB"]) == 0
    assert "no whole sequence fits (20 MB); split sequences over 2 devices or more" in capsys.readouterr().out
    assert main([*plan, "--memory", "5MB"]) == 0
    assert "nothing fits; the model alone takes 10 MB" in capsys.readouterr().out
    assert main([*plan, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["data_parallel"][0]["seconds"] == pytest.approx(0.034)
    assert len(record["sequence_parallel"]) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["text"], "measurements of task pendulum, not text"),
        (["pendulum", "--set", "model.width=3"], "omit --set and --preset"),
        (["pendulum", "--memory", "much"], "expected a size in bytes, such as 16GB"),
        (["pendulum", "--devices", "0"], "at least 1"),
    ],
)
def test_errors_are_one_line(arguments, message, tmp_path, capsys):
    MEASURED.write(tmp_path / "file.json")
    assert main(["plan", *arguments, "--measurements", str(tmp_path / "file.json")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1

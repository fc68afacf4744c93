"""Formats that are read by optional packages: AEDAT 4 and bags of ROS."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest

import s7
from s7.events.container import Events
from tests.events.streams import assert_same
from tests.events.writers import some_events
from tests.real_data import real_file

X, Y, P, T = some_events(40, 30)
EVENTS = Events(X, Y, T + 10**15, P, (64, 48))


@pytest.mark.skipif(find_spec("aedat") is None, reason="aedat is missing; pip install 's7-ssm[aedat4]'")
def test_a_real_aedat4_file_is_read(tmp_path):
    path = real_file("event_files/sample.aedat4")
    events = s7.read_events(path)
    assert (len(events), events.sensor) == (111_954, (320, 240))
    assert (int(events.t[0]), int(events.t[-1])) == (1605537493718345, 1605537494308262)
    assert (events.x[:3].tolist(), events.y[:3].tolist(), events.p[:3].tolist()) == (
        [154, 149, 148],
        [204, 206, 199],
        [0, 0, 1],
    )
    assert sum(len(chunk) for chunk in s7.read_events(path, chunks=10_000)) == 111_954
    cut = tmp_path / "a.aedat4"
    # Cut off in the description of the streams, and in the third packet.
    for size, at in ((300, 14), (15_000, 10_682)):
        cut.write_bytes(path.read_bytes()[:size])
        with pytest.raises(ValueError, match=rf"^{cut}: byte {at}: damaged \(.*\); get it again$"):
            s7.read_events(cut)


@pytest.mark.parametrize(("start", "extra"), [(b"#!AER-DAT4.0\r\n", "aedat4"), (b"#ROSBAG V2.0\n", "ros")])
def test_without_the_package_the_error_names_the_extra(start, extra, tmp_path, monkeypatch):
    for module in ("aedat", "rosbags", "rosbags.rosbag1"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "a").write_bytes(start)
    with pytest.raises(ModuleNotFoundError, match=rf"which is missing; pip install 's7-ssm\[{extra}\]'$"):
        s7.read_events(tmp_path / "a")


EVENT = "uint16 x\nuint16 y\ntime ts\nbool polarity\n"
ARRAY = "Header header\nuint32 height\nuint32 width\ndvs_msgs/Event[] events\n"
PACKET = (
    "std_msgs/Header header\nuint32 height\nuint32 width\nuint64 seq\nuint64 time_base\nstring encoding\n"
    "bool is_bigendian\nuint8[] events\n"
)
needs_rosbags = pytest.mark.skipif(find_spec("rosbags") is None, reason="rosbags is missing; pip install 's7-ssm[ros]'")


def bag_writer(path, version):
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin
    from rosbags.rosbag2 import Writer as Writer2

    if version == 1:
        return Writer1(path)
    return Writer2(path, version=9, storage_plugin=StoragePlugin.MCAP if version == "mcap" else StoragePlugin.SQLITE3)


def typestore(version):
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if version == 1 else Stores.ROS2_HUMBLE)
    event, array = EVENT, ARRAY
    if version != 1:
        event, array = (
            event.replace("time ts", "builtin_interfaces/Time ts"),
            array.replace("Header h", "std_msgs/Header h"),
        )
    store.register(get_types_from_msg(event, "dvs_msgs/msg/Event"))
    store.register(get_types_from_msg(array, "dvs_msgs/msg/EventArray"))
    store.register(get_types_from_msg(PACKET, "event_camera_msgs/msg/EventPacket"))
    return store


def header(store, version):
    types = store.types
    stamp = types["builtin_interfaces/msg/Time"](sec=1, nanosec=2)
    first = {"seq": 1} if version == 1 else {}
    return types["std_msgs/msg/Header"](**first, stamp=stamp, frame_id="abc")


def array_message(store, version, events):
    types = store.types
    made = [
        types["dvs_msgs/msg/Event"](
            x=int(x),
            y=int(y),
            ts=types["builtin_interfaces/msg/Time"](sec=int(t // 10**6), nanosec=int(t % 10**6 * 1000)),
            polarity=bool(p),
        )
        for x, y, t, p in zip(events.x, events.y, events.t, events.p, strict=True)
    ]
    return types["dvs_msgs/msg/EventArray"](header=header(store, version), height=48, width=64, events=made)


def packet_message(store, version, words):
    kind = store.types["event_camera_msgs/msg/EventPacket"]
    return kind(
        header=header(store, version),
        height=48,
        width=64,
        seq=3,
        time_base=4,
        encoding="evt3",
        is_bigendian=False,
        events=np.frombuffer(words, np.uint8),
    )


def write_bag(path, version, kind, messages):
    store = typestore(version)
    serialize = store.serialize_ros1 if version == 1 else store.serialize_cdr
    with bag_writer(path, version) as bag:
        topic = bag.add_connection("/events", kind, typestore=store)
        for number, message in enumerate(messages(store)):
            bag.write(topic, number, serialize(message, kind))
    return path if version == 1 else next(path.glob("*.mcap" if version == "mcap" else "*.db3"))


@needs_rosbags
@pytest.mark.parametrize("version", [1, "mcap", "db3"])
def test_arrays_of_events_in_bags_are_read(version, tmp_path):
    parts = [EVENTS[:7], EVENTS[7:7], EVENTS[7:8], EVENTS[8:]]
    kind = "dvs_msgs/msg/EventArray"
    path = write_bag(
        tmp_path / "a.bag", version, kind, lambda store: [array_message(store, version, part) for part in parts]
    )
    assert_same(s7.read_events(path), EVENTS)


@needs_rosbags
@pytest.mark.parametrize("version", [1, "mcap"])
def test_packets_of_words_in_bags_are_read(version, tmp_path):
    near = Events(X, Y, T, P, (64, 48))
    words = s7.write_events(tmp_path / "a.raw", near).read_bytes().partition(b"% end\n")[2]
    pieces = [words[:20], words[20:21], words[21:]]
    kind = "event_camera_msgs/msg/EventPacket"
    path = write_bag(
        tmp_path / "a.bag", version, kind, lambda store: [packet_message(store, version, piece) for piece in pieces]
    )
    assert_same(s7.read_events(path), near)


@needs_rosbags
def test_damaged_bags_are_rejected(tmp_path):
    kind = "dvs_msgs/msg/EventArray"
    path = write_bag(tmp_path / "a.bag", 1, kind, lambda store: [array_message(store, 1, EVENTS)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=rf"^{path}: .*damaged"):
        s7.read_events(path)
    store = typestore(1)
    with bag_writer(tmp_path / "b.bag", 1) as bag:
        bag.add_connection("/image", "std_msgs/msg/Header", typestore=store)
    with pytest.raises(ValueError, match=r"b\.bag: has no topic of events .*; it has "):
        s7.read_events(tmp_path / "b.bag")

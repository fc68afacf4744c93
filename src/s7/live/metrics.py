"""Counters of a server, in the text format of Prometheus."""

import resource
import threading
import time
from collections import Counter

from s7.live.latency import Latencies

# Upper edges of the buckets of the latency histogram, in seconds.
EDGES = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0)


class Metrics:
    """What a server did since its start."""

    def __init__(self) -> None:
        self.open_connections = 0
        self.sessions = 0
        self.connections = 0
        self.messages = 0
        self.bytes = 0
        self.events = 0
        self.dropped = 0
        self.answers = 0
        # Closed connections by code, and refused requests by HTTP status.
        self.closed: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()
        self.latency = Latencies()
        self._lock = threading.Lock()

    def count(self, *, events: int = 0, dropped: int = 0, answers: int = 0, latency: float | None = None) -> None:
        """Count what a worker did; several threads may do so at once."""
        with self._lock:
            self.events += events
            self.dropped += dropped
            self.answers += answers
            if latency is not None:
                self.latency.add(latency)

    def text(self) -> str:
        """All metrics, as Prometheus reads them."""
        lines: list[str] = []
        gauges: dict[str, tuple[str, float]] = {
            "connections_open": ("Open connections.", self.open_connections),
            "sessions": ("Streams in memory, of open and of lost connections.", self.sessions),
            "resident_memory_peak_bytes": ("Peak memory.", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
        }
        counters: dict[str, tuple[str, float]] = {
            "connections_total": ("Accepted connections.", self.connections),
            "messages_total": ("Received messages.", self.messages),
            "received_bytes_total": ("Bytes of received messages.", self.bytes),
            "events_total": ("Events that models have read.", self.events),
            "events_dropped_total": ("Events dropped by the limits of rate and lag.", self.dropped),
            "answers_total": ("Predictions.", self.answers),
            "cpu_seconds_total": ("Processor time of the server.", time.process_time()),
        }
        for kind, metrics in (("gauge", gauges), ("counter", counters)):
            for name, (text, value) in metrics.items():
                lines += [*_head(name, kind, text), f"s7_{name} {value}"]
        lines += _head("connections_closed_total", "counter", "Closed connections by WebSocket code.")
        lines += [f's7_connections_closed_total{{code="{code}"}} {n}' for code, n in sorted(self.closed.items())]
        lines += _head("requests_refused_total", "counter", "Refused requests by HTTP status.")
        lines += [f's7_requests_refused_total{{status="{code}"}} {n}' for code, n in sorted(self.refused.items())]
        return "\n".join([*lines, *self._histogram(), ""])

    def _histogram(self) -> list[str]:
        lines = _head("latency_seconds", "histogram", "From the arrival of events until their answer.")
        for edge, count in zip(EDGES, self.latency.below(EDGES), strict=True):
            lines.append(f's7_latency_seconds_bucket{{le="{edge:g}"}} {count}')
        lines.append(f's7_latency_seconds_bucket{{le="+Inf"}} {len(self.latency)}')
        return [*lines, f"s7_latency_seconds_sum {self.latency.total}", f"s7_latency_seconds_count {len(self.latency)}"]


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP s7_{name} {text}", f"# TYPE s7_{name} {kind}"]

"""Time of work on a device: by the clock on a CPU, by the device's events on CUDA."""

import time

import torch
import warp as wp

MS_PER_S = 1e3


class Stopwatch:
    """Measures the time from ``start`` until all work that was queued before ``stop`` is done."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self._began = 0.0
        self._events = [] if device == "cpu" else [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def start(self) -> None:
        if self.device == "cpu":
            self._began = time.perf_counter()
            return
        wp.synchronize_device(self.device)
        self._events[0].record()

    def stop(self) -> float:
        """Wait for the device and return the time since ``start`` [s]."""
        if self.device == "cpu":
            return time.perf_counter() - self._began
        # Warp may use another stream than torch: the last event comes after the work of all streams.
        wp.synchronize_device(self.device)
        self._events[1].record()
        self._events[1].synchronize()
        return self._events[0].elapsed_time(self._events[1]) / MS_PER_S

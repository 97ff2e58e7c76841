"""Demonstrations: what a policy observed, did and achieved in recorded matches, as data to learn from.

A recording is a folder of safetensors shards and ``manifest.json``, which lists them with their hashes and is written
after them. ``load`` reads one, ``echelon.training.demonstrations`` records one (``echelon demos record``).
"""

from __future__ import annotations

from echelon.demos.format import Manifest, ShardEntry
from echelon.demos.reader import Demonstrations, Shard, load
from echelon.demos.writer import DemoWriter

__all__ = ["DemoWriter", "Demonstrations", "Manifest", "Shard", "ShardEntry", "load"]

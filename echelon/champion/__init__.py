"""The champion in the box: the best policy so far with its configuration, and one recorded match of it.

``model.safetensors`` and ``manifest.json`` are a policy folder, as ``echelon policy export --policy`` writes it:
wherever a policy is named, ``champion`` names this one. It plays in the environment configuration of its manifest,
whatever the defaults become. ``just champion RUN`` replaces all three files. Nothing heavy is loaded here.
"""

from pathlib import Path

NAME = "champion"
"""Name of the policy for commands and configurations."""
FOLDER = Path(__file__).resolve().parent
MATCH = FOLDER / "match.ecr"
"""Recorded match, with its world."""
MAX_BYTES = 2 << 20
"""Largest size of the folder's data: it is part of every installation."""

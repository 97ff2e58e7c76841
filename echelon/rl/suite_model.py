"""Model over the suite layout: set encoders for contacts and squad, then fusion and the recurrent core.

``flat_obs_to_suite_obs`` splits the 706 core columns; the optional tail (local map, extras) has separate
encoders. The blocks at the end of a row join the rows of contacts and the ego state (``JOINED_TO``). Block sizes are
defined in ``echelon.env.layout``.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from echelon.actions import TARGET_DIM
from echelon.env import layout
from echelon.env.layout import FLAT_OBS_DIM
from echelon.rl.actor_critic import ActorCritic, TargetContacts, init_encoder
from echelon.rl.deepset import DeepSetEncoder, EntityRows, EntitySets, LayerNorm, rows_of

__all__ = ["FLAT_OBS_DIM", "CombatSuiteActorCritic", "SuiteEncoder", "SuiteObservation", "flat_obs_to_suite_obs"]

SQUAD_WIDTH = 32
FUSION_WIDTH = 128
MAP_HIDDEN = 64
MAP_WIDTH = 48
EXTRAS_WIDTH = 48
TARGET_KEY_DIM = 16
"""Width of the keys by which a pointer head compares contacts."""
JOINED_TO = {"aiming": "contacts", "course": "ego_state"}
"""Field of ``SuiteObservation`` whose rows each block of ``END_BLOCKS`` widens."""
HOSTILE = layout.position(layout.CONTACT).hostile
"""Column of a contact row that is 1 for a hostile mech, the only kind that can be targeted."""


@dataclass(frozen=True)
class SuiteObservation:
    """Blocks of an observation, each ``[..., rows, features]`` or ``[..., features]``; masks are 1 for padding.

    Contacts and squad mates may be packed: rows of all observations in the order of the flattened leading axes.
    ``EntitySets`` need no mask.
    """

    contacts: Tensor | EntityRows | EntitySets
    contact_mask: Tensor | None
    squad: Tensor | EntityRows | EntitySets
    squad_mask: Tensor | None
    ego_state: Tensor
    suite_descriptor: Tensor
    panel_stats: Tensor
    tail: Tensor | None = None
    """Local map and extras ``[..., tail columns]``; None if the layout has none of them."""


def flat_obs_to_suite_obs(
    flat_obs: Tensor,
    max_contacts: int = layout.MAX_CONTACTS,
    contact_dim: int = layout.CONTACT_DIM,
    max_squad: int = layout.MAX_SQUAD,
    squad_dim: int = layout.SQUAD_DIM,
    ego_dim: int = layout.EGO_DIM,
    panel_dim: int = layout.PANEL_DIM,
) -> SuiteObservation:
    """Return the blocks of ``flat_obs [..., N]`` as views; raise ``ValueError`` if N is not the sum of their sizes."""
    sizes = (
        max_contacts * contact_dim,
        max_contacts,
        max_squad * squad_dim,
        max_squad,
        ego_dim,
        layout.SUITE_DESCRIPTOR_DIM,
        panel_dim,
    )
    if flat_obs.shape[-1] != sum(sizes):
        raise ValueError(f"flat observation has {flat_obs.shape[-1]} columns, expected {sum(sizes)}")
    contacts, contact_mask, squad, squad_mask, ego, descriptor, panel = flat_obs.split(sizes, -1)
    return SuiteObservation(
        contacts=contacts.unflatten(-1, (max_contacts, contact_dim)),
        contact_mask=contact_mask,
        squad=squad.unflatten(-1, (max_squad, squad_dim)),
        squad_mask=squad_mask,
        ego_state=ego,
        suite_descriptor=descriptor,
        panel_stats=panel,
    )


def joined_width(name: str) -> int:
    """Return the columns by which ``END_BLOCKS`` widen each row of a field of ``SuiteObservation``."""
    return sum(len(block.features) for block in layout.END_BLOCKS if JOINED_TO[block.name] == name)


def join_end_blocks(obs: SuiteObservation, columns: Tensor) -> SuiteObservation:
    """Return ``obs`` with its rows widened by the ``columns [..., N]`` of ``END_BLOCKS``."""
    assert isinstance(obs.contacts, Tensor), "rows are widened before they are packed"
    wider = {"contacts": obs.contacts, "ego_state": obs.ego_state}
    for block, part in zip(
        layout.END_BLOCKS, columns.split([block.width for block in layout.END_BLOCKS], -1), strict=True
    ):
        name = JOINED_TO[block.name]
        rows = part.unflatten(-1, (block.rows, len(block.features))) if block.rows > 1 else part
        wider[name] = torch.cat([wider[name], rows], -1)
    return replace(obs, **wider)


class SuiteEncoder(nn.Module):
    """Encode a ``SuiteObservation`` with one leading axis ``B`` to ``[B, FUSION_WIDTH]``."""

    def __init__(
        self,
        contact_dim: int,
        squad_dim: int,
        ego_dim: int,
        panel_dim: int,
        hidden_dim: int,
        map_width: int = 0,
        extra_width: int = 0,
        key_dim: int = 0,
    ) -> None:
        super().__init__()
        self.tail_widths = (map_width, extra_width)
        self.contact_encoder = DeepSetEncoder(contact_dim, hidden_dim, hidden_dim, key_dim=key_dim)
        self.squad_encoder = DeepSetEncoder(squad_dim, SQUAD_WIDTH, SQUAD_WIDTH)
        self.ego_encoder = nn.Sequential(nn.Linear(ego_dim, hidden_dim), LayerNorm(hidden_dim), nn.ReLU())
        width = 2 * hidden_dim + SQUAD_WIDTH + layout.SUITE_DESCRIPTOR_DIM + panel_dim
        self.map_encoder: nn.Sequential | None = None
        if map_width:
            self.map_encoder = nn.Sequential(
                nn.Linear(map_width, MAP_HIDDEN), nn.ReLU(), nn.Linear(MAP_HIDDEN, MAP_WIDTH), nn.ReLU()
            )
            width += MAP_WIDTH
        self.extras_encoder: nn.Sequential | None = None
        if extra_width:
            self.extras_encoder = nn.Sequential(nn.Linear(extra_width, EXTRAS_WIDTH), nn.ReLU())
            width += EXTRAS_WIDTH
        self.fusion = nn.Sequential(
            nn.Linear(width, FUSION_WIDTH),
            LayerNorm(FUSION_WIDTH),
            nn.ReLU(),
            nn.Linear(FUSION_WIDTH, FUSION_WIDTH),
            LayerNorm(FUSION_WIDTH),
            nn.ReLU(),
        )
        init_encoder(self)

    def forward(self, obs: SuiteObservation) -> Tensor:
        """Return features ``[B, FUSION_WIDTH]``; raise ``ValueError`` if the tail has another width than built for."""
        return self.encode_with_keys(obs, 0)[0]

    def encode_with_keys(self, obs: SuiteObservation, slots: int) -> tuple[Tensor, Tensor | None]:
        """Return features ``[B, FUSION_WIDTH]`` and the keys of the first contact slots ``[B, slots, K]``.

        Raises ``ValueError`` if the tail has another width than built for.
        """
        contacts, keys = self.contact_encoder.encode_with_keys(obs.contacts, obs.contact_mask, slots)
        parts = [contacts, self.squad_encoder(obs.squad, obs.squad_mask), self.ego_encoder(obs.ego_state)]
        parts += [obs.suite_descriptor, obs.panel_stats]
        tail_width = 0 if obs.tail is None else obs.tail.shape[-1]
        if tail_width != sum(self.tail_widths):
            raise ValueError(f"observation tail has {tail_width} columns, expected {sum(self.tail_widths)}")
        if obs.tail is not None:
            encoders = (self.map_encoder, self.extras_encoder)
            for encoder, part in zip(encoders, obs.tail.split(self.tail_widths, -1), strict=True):
                if encoder is not None:
                    parts.append(encoder(part))
        return self.fusion(torch.cat([part.to(parts[0].dtype) for part in parts], -1)), keys


class CombatSuiteActorCritic(ActorCritic):
    """Suite observations to actions ``[..., action_dim]`` in (-1, 1) and a value."""

    def __init__(  # noqa: PLR0913 - sizes of every block and options of the model
        self,
        action_dim: int,
        contact_dim: int = layout.CONTACT_DIM,
        squad_dim: int = layout.SQUAD_DIM,
        ego_dim: int = layout.EGO_DIM,
        panel_dim: int = layout.PANEL_DIM,
        hidden_dim: int = 64,
        lstm_hidden_dim: int = 128,
        max_contacts: int = layout.MAX_CONTACTS,
        max_squad: int = layout.MAX_SQUAD,
        *,
        map_width: int = 0,
        extra_width: int = 0,
        **options: Any,
    ) -> None:
        """``options`` are the keyword arguments of ``ActorCritic``."""
        super().__init__(FUSION_WIDTH, action_dim, lstm_hidden_dim, target_key_dim=TARGET_KEY_DIM, **options)
        self.hidden_dim = hidden_dim
        self.max_contacts = max_contacts
        self.max_squad = max_squad
        self.encoder = SuiteEncoder(
            contact_dim, squad_dim, ego_dim, panel_dim, hidden_dim, map_width, extra_width, key_dim=self.target_key_dim
        )

    def encode(self, obs: SuiteObservation) -> Tensor:
        lead = obs.ego_state.shape[:-1]
        return self.encoder(_flatten_leading_axes(obs, len(lead))).view(*lead, FUSION_WIDTH)

    def encode_with_targets(self, obs: SuiteObservation) -> tuple[Tensor, TargetContacts | None]:
        if not self.target_key_dim:
            return self.encode(obs), None
        lead = obs.ego_state.shape[:-1]
        features, keys = self.encoder.encode_with_keys(_flatten_leading_axes(obs, len(lead)), TARGET_DIM)
        assert keys is not None
        return features.view(*lead, FUSION_WIDTH), TargetContacts(
            keys.view(*lead, *keys.shape[1:]), _hostile(obs).view(*lead, TARGET_DIM)
        )


def _hostile(obs: SuiteObservation) -> Tensor:
    """Return whether each slot that an action can target has a hostile contact ``[..., TARGET_DIM]``."""
    contacts, mask = obs.contacts, obs.contact_mask
    if isinstance(contacts, Tensor):
        assert mask is not None, "tensors of entities need a mask"
        return (contacts[..., :TARGET_DIM, HOSTILE] > 0) & (mask[..., :TARGET_DIM] < 1.0)
    if isinstance(contacts, EntitySets):
        rows, sets = rows_of(contacts), len(contacts.chosen)
    else:
        assert mask is not None, "rows of entities need a mask"
        rows, sets = contacts, mask.numel() // mask.shape[-1]
    return rows.by_slot(rows.features[:, HOSTILE : HOSTILE + 1], sets, TARGET_DIM) > 0


def _flatten_leading_axes(obs: SuiteObservation, axes: int) -> SuiteObservation:
    if axes == 1:
        return obs
    parts = {item.name: getattr(obs, item.name) for item in fields(obs)}
    flat = {name: part.flatten(0, axes - 1) for name, part in parts.items() if isinstance(part, Tensor)}
    return replace(obs, **flat)

"""Entities that a native operation packs, against padded ones."""

import pytest
import torch

from echelon.rl.deepset import DeepSetEncoder, EntitySets

WIDTH, KEYS, KEY_SLOTS, CLIP = 7, 16, 3, 10


def battle(sets: int, slots: int, share: float) -> tuple[torch.Tensor, EntitySets]:
    """Return observations, a mask before the features of two blocks, and their entities."""
    torch.manual_seed(0)
    obs = 4.0 * torch.randn(sets, 1 + slots + WIDTH * slots)
    obs[:, 1 : 1 + slots] = (torch.rand(sets, slots) >= share).float()
    return obs, entities_of(obs, slots)


def entities_of(obs: torch.Tensor, slots: int) -> EntitySets:
    first = 1 + slots
    scale, shift = 1.0 + torch.arange(obs.shape[1]) / 50.0, torch.arange(obs.shape[1]) / 9.0
    return EntitySets.of(obs, (1, first), (first, 5, first + 5 * slots, 2), scale, shift, CLIP)


def dense(obs: torch.Tensor, slots: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what ``entities_of`` packs as a padded tensor ``[R, S, F]``, and its mask."""
    first, columns = 1 + slots, torch.arange(obs.shape[1])
    scaled = (obs * (1.0 + columns / 50.0) + columns / 9.0).clamp(-CLIP, CLIP)
    parts = scaled[:, first : first + 5 * slots], scaled[:, first + 5 * slots :]
    return torch.cat([part.unflatten(1, (slots, -1)) for part in parts], -1), obs[:, 1:first]


def results(encoder: DeepSetEncoder, *inputs) -> list[torch.Tensor]:
    encoding, keys = encoder.encode_with_keys(*inputs, KEY_SLOTS)
    assert keys is not None
    torch.manual_seed(1)
    parts = [encoding, keys]
    return [*parts, *torch.autograd.grad(parts, list(encoder.parameters()), [torch.randn_like(x) for x in parts])]


@pytest.mark.parametrize("aggregation", ["mean", "sum"])
@pytest.mark.parametrize(("sets", "slots", "share"), [(1, 4, 0.0), (5, 4, 1.0), (150, 9, 0.3), (40, 20, 0.9)])
def test_encoded_sets_equal_padded_ones(sets, slots, share, aggregation):
    obs, entities = battle(sets, slots, share)
    chosen = torch.randint(sets, (2 * sets,))
    encoder = DeepSetEncoder(WIDTH, 32, 8, aggregation, KEYS)
    features, mask = dense(obs[chosen], slots)
    expected = results(encoder, features, mask)
    for got, plain in zip(results(encoder, entities._replace(chosen=chosen), None), expected, strict=True):
        torch.testing.assert_close(got, plain, rtol=1e-4, atol=1e-5)


def test_a_set_is_encoded_alone_as_among_others():
    _, entities = battle(150, 9, 0.5)
    encoder = DeepSetEncoder(WIDTH, 32, 8, key_dim=KEYS)
    whole = encoder.encode_with_keys(entities, None, KEY_SLOTS)
    for row in (0, 77, 149):
        alone = encoder.encode_with_keys(entities._replace(chosen=torch.tensor([row])), None, KEY_SLOTS)
        assert torch.equal(alone[1], whole[1][row : row + 1])
        torch.testing.assert_close(alone[0], whole[0][row : row + 1])


def test_entities_that_are_not_numbers_stay_so_and_padding_is_never_read():
    obs, _ = battle(3, 4, 1.0)
    obs[:, 1:5] = torch.tensor([0.0, 1.0, float("nan"), 0.0])
    obs[1, 5] = float("nan")
    packed = entities_of(obs, 4)
    assert packed.slots.tolist() == [0, 3] * 3 and packed.offsets.tolist() == [0, 2, 4, 6]
    assert packed.features.isnan().nonzero().tolist() == [[2, 0]]
    torch.testing.assert_close(packed.features[::2, 6], dense(obs, 4)[0][:, 0, 6])

"""Adam against that of torch, step by step."""

import torch

from echelon.training.ppo.optimizer import Adam, load_moments, saved_state


def test_adam_equals_that_of_torch_across_a_save_and_a_step_that_changes_nothing():
    torch.manual_seed(0)
    start = [torch.randn(3, 2), torch.randn(4), torch.randn(5)]
    mine, plain = ([tensor.clone().requires_grad_() for tensor in start] for _ in range(2))
    rates = [torch.tensor(0.1), torch.tensor(0.2)]
    groups = [[{"params": of[:2], "lr": rates[0]}, {"params": of[2:], "lr": rates[1]}] for of in (mine, plain)]
    adam, expected = Adam(groups[0], 0.01), torch.optim.Adam(groups[1], eps=0.01, fused=True)
    adam.found_inf = torch.zeros(())
    for step in range(6):
        for parameter, twin in zip(mine, plain, strict=True):
            parameter.grad = torch.randn_like(parameter)
            twin.grad = parameter.grad.clone()
        mine[1].grad = plain[1].grad = None
        rates[0].fill_(0.1 / (step + 1))
        before = [parameter.detach().clone() for parameter in mine]
        adam.found_inf.fill_(1.0)
        adam.step()
        assert all(map(torch.equal, mine, before)), "a gradient overflowed"
        adam.found_inf.fill_(0.0)
        adam.step()
        expected.step()
        assert all(map(torch.equal, mine, plain))
        state = saved_state(adam)
        assert state["adam"].keys() == {"0", "2"} and int(state["adam"]["2"]["step"]) == step + 1
        adam = Adam(groups[0], 0.01)
        load_moments(adam, state)
        adam.found_inf = torch.zeros(())
    adam.zero_grad()
    assert all(parameter.grad is None for parameter in mine)
    assert torch.equal(mine[1], start[1])

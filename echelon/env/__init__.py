"""The environment: observations, rewards, referee, and the Gymnasium and PettingZoo interfaces over one engine."""

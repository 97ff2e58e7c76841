"""Networks: recurrent actor-critic over flat and suite observations, action distributions, checkpoints."""

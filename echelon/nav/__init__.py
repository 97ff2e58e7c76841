"""Navigation: the graph of walkable cells, cost-to-zone fields and alternative paths."""

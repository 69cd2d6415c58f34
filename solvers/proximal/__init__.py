"""The proximal point method: steps, working sets that grow, and when they end."""

"""How well it works: datasets, metrics, runs, controls and synthetic worlds. Nothing on the route path imports this."""

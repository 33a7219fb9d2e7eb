"""From terms to data that an engine runs: scalars, and the steps of a plan."""

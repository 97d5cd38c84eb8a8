"""From plan to results: workers, their data, the run directory."""

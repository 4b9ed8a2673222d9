"""Selection of tasks and labels: the sections ``cluster`` and ``ordering``."""

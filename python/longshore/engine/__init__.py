"""Our own controller of runs, for workload managers that only know single jobs."""

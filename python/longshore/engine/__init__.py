"""Engine: Longshore's controller of runs, for workload managers that know only single jobs."""

"""Ways to pack tasks into clusters, each of which becomes a job: all of them implement `ClusteringAlgorithm`."""

"""Clustering algorithms, each an implementation of `ClusteringAlgorithm`."""

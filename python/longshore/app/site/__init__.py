"""Profiles of sites: checked against what their workload manager answers, and written from that."""

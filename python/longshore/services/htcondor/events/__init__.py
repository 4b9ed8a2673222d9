"""Conversion of HTCondor's logs into the events of a run."""

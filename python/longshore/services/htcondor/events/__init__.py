"""From HTCondor's logs to the events of a run."""

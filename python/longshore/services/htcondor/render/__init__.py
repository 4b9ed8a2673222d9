"""From a workflow to the files that HTCondor reads."""

"""The dashboard: the list of runs and the page of each, served to browsers of this host."""

"""Choice of the site of a run: match of candidates, selection by their state, and the record of both."""

"""Records of a run: submissions, attempts, events, states, reports, run-time history."""

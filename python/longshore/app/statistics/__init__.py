"""Statistics of the attempts of runs, and requests that fit what their jobs used."""

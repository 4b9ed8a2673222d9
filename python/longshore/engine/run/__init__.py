"""Engine of one run: its main loop, its service, and the calls of executor and service capabilities."""

"""Control of a live or ended run: cancel, steer, restart and resume."""

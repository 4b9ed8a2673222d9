"""Control of runs that were submitted: cancel, steer, restart, resume, clean, archive, notices, doctor."""

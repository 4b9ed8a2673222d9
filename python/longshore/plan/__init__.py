"""From tasks to jobs: packing, translating, ordering; all of it pure."""

"""Python interface for scientists: `longshore.submit`, `longshore.open`, `longshore.Workflow`, and runs as objects.

Each method calls the use cases that the command of its name calls: there is no second way to do anything.
"""

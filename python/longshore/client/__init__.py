"""Python interface for scientists: `longshore.submit`, `longshore.open`, `longshore.Workflow`, and runs as objects.

Each method is a use case of `longshore.app.api`, as each command is: there is no second way to do anything.
"""

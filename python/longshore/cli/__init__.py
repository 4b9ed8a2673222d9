"""The command line: click commands that call one use case each, and their results as text or JSON.

What only one command of a module needs is imported in its function: imports take most of the time of a short command.
"""

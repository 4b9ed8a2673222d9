"""The command line: click commands, each of which calls one use case, and the formatting of results."""

"""The command line: click commands that call one use case each, and the ways of showing what they return."""

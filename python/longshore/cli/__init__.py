"""The command line: click commands that call one use case each, and the formatting of results."""

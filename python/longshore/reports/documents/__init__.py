"""The JSON documents that commands print with ``--json``, declared as records."""

"""The JSON documents that commands print with ``--json``, declared as records.

``python -m tests.house.schemas`` writes ``etc/schema`` from them.
"""

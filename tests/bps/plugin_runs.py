"""A run of two tasks in commands, for plug-ins of BPS."""

from __future__ import annotations

from typing import Final

ISR: Final = "echo {visit} > {raw}"
"""Command of the first task."""
COMMANDS: Final = f"""\
pipeline:
  dimensions: {{visit: [1, 2]}}
  tasks:
    isr:
      dimensions: [visit]
      outputs: {{raw: "raw_{{visit}}.txt"}}
      command: {ISR}
    sum:
      inputs: [raw]
      outputs: {{total: total.txt}}
      command: [sh, -c, 'cat "$@" > "$0"', "{{total}}", "{{raw}}"]
requestMemory: 100
finalJob: {{whenRun: ALWAYS, command1: echo last}}
"""

"""Does what a user's own script does instead of Longshore: writes the DAG of a graph file, and submits it.

Usage: python bare_dag.py, in a folder with ``graph.json``. It imports what it needs, and nothing of Longshore.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

_DESCRIPTION = """\
SUBMIT-DESCRIPTION one {
  executable = /bin/true
  request_cpus = 1
  request_memory = 50
  request_disk = 1M
  should_transfer_files = NO
  output = logs/$(name).$(Cluster).log
  error = logs/$(name).$(Cluster).log
}
"""


def main() -> None:
    """Write a node with its name for each task, and submit the DAG."""
    tasks = json.loads(Path("graph.json").read_text("utf-8"))["workflow"]["specification"]["tasks"]
    Path("logs").mkdir()
    with Path("hand.dag").open("w", encoding="utf-8") as dag:
        dag.write(_DESCRIPTION)
        dag.writelines(
            f'JOB n{number} one\nVARS n{number} name="{task["name"]}"\n' for number, task in enumerate(tasks)
        )
    subprocess.run(["condor_submit_dag", "hand.dag"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

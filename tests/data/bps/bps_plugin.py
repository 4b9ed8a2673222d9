"""A plug-in of BPS for tests: it writes down what it gets, and reports what a file says."""

import json
import os
from pathlib import Path

from lsst.ctrl.bps import BaseWmsService, BaseWmsWorkflow, WmsJobReport, WmsRunReport, WmsStates


class FileWorkflow(BaseWmsWorkflow):
    def write(self, out_prefix):
        pass


class FileService(BaseWmsService):
    def prepare(self, config, generic_workflow, out_prefix=None):
        if config["operator"] == "nobody":
            raise RuntimeError("nobody may not run")
        nodes = {name: generic_workflow.get_job(name) for name in generic_workflow}
        jobs = [each for each in nodes.values() if hasattr(each, "arguments")]
        final = generic_workflow.get_final()
        found, template = config.search("subDirTemplate", {"replaceVars": False})
        seen = {
            "nodes": {name: type(node).__name__ for name, node in nodes.items()},
            "edges": sorted(generic_workflow.edges()),
            "groups": {name: sorted(node) for name, node in nodes.items() if not hasattr(node, "arguments")},
            "jobs": {
                job.name: {
                    "label": job.label,
                    "program": job.executable.src_uri,
                    "line": f"{job.executable.src_uri} {job.arguments}".format(**job.cmdvals),
                    "memory": job.request_memory,
                    "cpus": job.request_cpus,
                    "walltime": job.request_walltime,
                    "retries": job.number_of_retries,
                    "environment": job.environment,
                    "tags": job.tags,
                    "quanta": dict(job.quanta_counts),
                    "queue": job.queue,
                    "inputs": [file.src_uri for file in generic_workflow.get_job_inputs(job.name, transfer_only=False)],
                }
                for job in [*jobs, *([final] if final else [])]
            },
            "final": final.name if final else None,
            "attributes": generic_workflow.run_attrs,
            "defined": [config["timestamp"], config["uniqProcName"]],
            "config": [config["submitPath"], config["wmsServiceClass"], found and template],
        }
        Path("seen.json").write_text(json.dumps(seen))
        made = FileWorkflow(generic_workflow.name, config)
        made.submit_path = out_prefix
        return made

    def submit(self, workflow, **kwargs):
        workflow.run_id = "77"
        Path("said_state").write_text("RUNNING")
        return workflow

    def restart(self, wms_workflow_id):
        with Path("restarted").open("a") as file:
            print(wms_workflow_id, file=file)
        if Path("closed").exists():
            return None, None, "the queue is closed"
        Path("said_state").write_text("SUCCEEDED")
        return "78", "name", ""

    def report(self, wms_workflow_id=None, user=None, hist=0, pass_thru=None, is_global=False, return_exit_codes=False):
        state = WmsStates[_state_file().read_text()]
        jobs = json.loads((_state_file().parent / "seen.json").read_text())["jobs"]
        reports = [WmsJobReport(f"{wms_workflow_id}.{name}", name, job["label"], state) for name, job in jobs.items()]
        return [WmsRunReport(wms_id=wms_workflow_id, state=state, jobs=reports)], ""

    def cancel(self, wms_id, pass_thru=None):
        if pass_thru == "refuse":
            return False, f"{wms_id} may not be ended"
        _state_file().write_text("DELETED")
        return True, ""


def _state_file():
    return Path(os.environ["FILE_SERVICE"]) / "said_state"

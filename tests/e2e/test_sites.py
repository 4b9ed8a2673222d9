"""Runs at sites: what a profile says holds for jobs on this machine, and a note names its keys without effect."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
from tests.command import Cli, CommandResult
from tests.e2e.conftest import LeftBehind
from tests.waiting import eventually
from tests.workflows import Tasks, WriteRun

from longshore.config.plugins import shipped_path

CONFIGURATION = 3
PREPARATION = 7
TWO: Tasks = {"a": ("A", []), "b": ("B", [])}
SiteWriter = Callable[[str, str], Path]


@pytest.fixture
def write_site(own_environment: Path) -> SiteWriter:
    """Writes a profile where a user keeps them."""

    def write(name: str, text: str) -> Path:
        path = own_environment / ".config" / "longshore" / "sites" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return path

    return write


def done(cli: Cli, *words: str | Path, env: dict[str, str] | None = None) -> CommandResult:
    """Submit and wait for a good end."""
    ran = cli("submit", *words, "--wait", "--json", env=env)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    return ran


def log(ran: CommandResult, name: str = "a.1.log") -> str:
    """What a job of a submitted run said."""
    return next(Path(ran.json["submit_dir"], "logs").rglob(name)).read_text("utf-8")


# ------------------------------------------------------------------------------------------------------- which site


def test_no_site_for_a_service_that_runs_elsewhere(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = """
from longshore.contract.service import ServiceTraits
from longshore.services.local.service import LocalService


class Far(LocalService):
    traits = ServiceTraits()
"""
    (tmp_path / "far.py").write_text(text, "utf-8")
    path = write_run("wmsServiceClass: far.Far\n")
    source = str(Path(shipped_path("etc")).parent / "python")
    ran = cli("submit", path.name, env={"PYTHONPATH": f"{tmp_path}:{source}:{os.environ.get('PYTHONPATH', '')}"})
    assert ran.returncode == CONFIGURATION, ran.stderr
    assert "run.yaml:2:18: 'computeSite' must name the site of 'far.Far' at which jobs run" in ran.stderr
    assert "longshore site list" in ran.stderr


def test_an_unknown_site(cli: Cli, write_run: WriteRun, left_behind: LeftBehind) -> None:
    ran = cli("submit", write_run().name, "--compute-site", "lokal")
    assert ran.returncode == CONFIGURATION
    assert "there is no site 'lokal'" in ran.stderr
    assert "Did you mean 'local'?" in ran.stderr
    assert not left_behind()


def test_a_site_path_that_is_not_there(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run().name, "--site-path", "nowhere")
    assert ran.returncode == CONFIGURATION
    assert "'sitePath' names 'nowhere', which is no directory" in ran.stderr


def test_a_site_of_a_directory_of_ones_own(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bench.yaml").write_text("{service: local, environment: {WHERE: bench}}", "utf-8")
    path = write_run("runQuantumCommand: 'echo $WHERE'\n")
    ran = done(cli, path.name, "--site-path", "mine", "--compute-site", "bench")
    assert log(ran) == "bench\n"
    assert ran.json["site"] == "bench"
    assert Path(ran.json["submit_dir"], "inputs", "bench.yaml").exists(), "kept with the run"


def test_labels_may_run_at_sites_of_their_own(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("one", "{service: local, environment: {WHERE: one}}")
    write_site("two", "{service: local, environment: {WHERE: two}, setup: {job: ['S=set']}}")
    text = "computeSite: one\npipetask: {B: {computeSite: two}}\nrunQuantumCommand: 'echo $WHERE $S'\n"
    ran = done(cli, write_run(text, TWO).name)
    assert (log(ran), log(ran, "b.1.log")) == ("one\n", "two set\n")


def test_a_cluster_may_run_at_a_site_of_its_own(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("one", "{service: local, environment: {WHERE: one}}")
    write_site("two", "{service: local, environment: {WHERE: two}, computeCloud: sky}")
    text = """computeSite: one
pipetask: {A: {computeSite: one}}
cluster: {A: {computeSite: two}}
site: {two: {environment: {SITE: '2'}}}
cloud: {sky: {environment: {CLOUD: 'c'}}}
runQuantumCommand: 'echo $WHERE $SITE $CLOUD'
"""
    ran = done(cli, write_run(text, TWO).name)
    assert (log(ran), log(ran, "b.1.log")) == ("two 2 c\n", "one\n")


def test_all_sites_of_a_run_belong_to_one_manager(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("far", "service: slurm")
    ran = cli("submit", write_run("pipetask: {A: {computeSite: far}}\nrunQuantumCommand: x\n").name)
    assert ran.returncode == CONFIGURATION
    assert "the site 'far' of 'A' belongs to 'slurm', and this run to 'local'" in ran.stderr


# ----------------------------------------------------------------------------------------------------------- ceilings


LIMITED = "{service: local, resources: {cpus: 8, memory: 8 GiB}, limits: {cpus: 2, memory: 1 GiB, running: 1}}"


def test_what_nobody_asked_for_is_lowered_with_a_note(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("small", LIMITED)
    ran = done(cli, write_run("runQuantumCommand: 'echo $LONGSHORE_JOB_MEMORY_MB'\n").name, "--compute-site", "small")
    assert log(ran) == "1024\n"
    (note,) = [note for note in ran.json["notes"] if "limits" in note]
    assert note == "'requestMemory' is 2048 MiB by default; lowered to 1 GiB, the 'limits.memory' of the site 'small'"


@pytest.mark.parametrize(
    "key", ["requestCpus: 4", "pipetask: {A: {requestCpus: 4}}", "site: {small: {requestCpus: 4}}"]
)
def test_what_a_user_asks_for_beyond_a_ceiling_is_refused(
    key: str, cli: Cli, write_run: WriteRun, write_site: SiteWriter, left_behind: LeftBehind
) -> None:
    path = write_site("small", LIMITED)
    ran = cli("submit", write_run(f"runQuantumCommand: 'true'\n{key}\n").name, "--compute-site", "small")
    assert ran.returncode == PREPARATION, ran.stderr
    where = re.escape(f"'limits.cpus' of the site 'small' is 2 ({path}:1:")
    assert re.search(rf"run\.yaml:3:\d+: job 'a' asks for 4 by 'requestCpus'; {where}", ran.stderr), ran.stderr
    assert not left_behind()


def test_a_ceiling_cannot_be_raised(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("small", LIMITED)
    text = "runQuantumCommand: 'true'\nrequestCpus: 4\nlimits: {cpus: 8}\nsite: {small: {limits: {cpus: 9}}}\n"
    ran = cli("submit", write_run(text).name, "--compute-site", "small")
    assert ran.returncode == PREPARATION
    assert "'limits.cpus' is 9" in ran.stderr
    assert "above the 2 of the site 'small'" in ran.stderr


def test_no_more_run_at_once_than_the_site_allows(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("small", LIMITED)
    text = "runQuantumCommand: 'date +%s%N; sleep 0.3; date +%s%N'\nlimits: {running: 5}\n"
    ran = done(cli, write_run(text, TWO).name, "--compute-site", "small")
    (first, last), (begin, end) = sorted([[int(word) for word in log(ran, f"{job}.1.log").split()] for job in "ab"])
    assert last <= begin, "one after the other"
    assert end > begin
    assert first < last
    assert any("'limits.running' is 5" in note for note in ran.json["notes"])


SHARED = "{service: local, resources: {cpus: 8, memory: 8 GiB}, limits: {perUser: {jobs: 1, cpus: 3}}}"


def test_a_limit_over_all_runs_of_a_user_holds_across_runs(
    cli: Cli, write_run: WriteRun, write_site: SiteWriter
) -> None:
    write_site("small", SHARED)
    text = "runQuantumCommand: 'date +%s%N; sleep 0.4; date +%s%N'\n"
    run = write_run(text, TWO).name
    first = cli("submit", run, "--compute-site", "small", "--json")
    second = done(cli, run, "--compute-site", "small")
    eventually(lambda: cli("status", first.json["submit_dir"], "--json").json["state"] == "SUCCEEDED")
    spans = sorted([int(word) for word in log(ran, f"{job}.1.log").split()] for ran in (first, second) for job in "ab")
    assert all(end <= begin for (_, end), (begin, _) in pairwise(spans)), "one after the other, whosever run"


def test_a_job_that_never_fits_a_limit_over_all_runs_is_refused(
    cli: Cli, write_run: WriteRun, write_site: SiteWriter
) -> None:
    write_site("small", SHARED)
    ran = cli("submit", write_run("runQuantumCommand: 'true'\nrequestCpus: 4\n").name, "--compute-site", "small")
    assert ran.returncode == PREPARATION, ran.stderr
    assert "asks for 4 by 'requestCpus'; 'limits.perUser.cpus' of the site 'small' is 3" in ran.stderr


# ---------------------------------------------------------------------------------------------------- what jobs inherit


def test_secrets_and_variables_of_schedulers_are_not_inherited(cli: Cli, write_run: WriteRun) -> None:
    env = {"MY_TOKEN": "s3cret", "SLURM_JOB_ID": "7", "MINE": "yes"}
    ran = done(cli, write_run("runQuantumCommand: 'env | sort'\n").name, env=env)
    lines = log(ran).splitlines()
    assert "MINE=yes" in lines
    assert not [line for line in lines if line.startswith(("MY_TOKEN", "SLURM_"))]
    (note,) = [note for note in ran.json["notes"] if "inherit" in note]
    assert note.startswith("jobs do not inherit MY_TOKEN, SLURM_JOB_ID: ")
    kept = [path for path in Path(ran.json["submit_dir"]).rglob("*") if path.is_file()]
    assert not [path for path in kept if b"s3cret" in path.read_bytes()], "no values are written"


@pytest.mark.parametrize(
    ("rule", "seen"),
    [
        ("none", []),
        ("[MINE]", ["MINE=yes"]),
        ("[M*]", ["MINE=yes"]),
        ("[M*, MY_TOKEN]", ["MINE=yes", "MY_TOKEN=s3cret"]),
        ("all", ["MINE=yes"]),
    ],
)
def test_what_a_site_lets_jobs_inherit(rule: str, seen: list[str], cli: Cli, write_run: WriteRun) -> None:
    text = f"inheritEnvironment: {rule}\nrunQuantumCommand: 'env | grep ^M | sort'\nenvironment: {{X: '1'}}\n"
    text = text.replace("sort'", "sort; echo X=$X'")
    ran = done(cli, write_run(text).name, env={"MY_TOKEN": "s3cret", "MINE": "yes"})
    assert [line for line in log(ran).splitlines() if line.startswith(("MINE", "MY_"))] == seen
    assert "X=1" in log(ran), "what the configuration sets is always there"


# ------------------------------------------------------------------------------------------------------------- set-up


def test_set_up_lines_run_in_the_job(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    lines = '    - X="it\'s set"\n    - |\n      if true; then\n        export Y=2\n      fi\n'
    write_site("s", f"service: local\nsetup:\n  job:\n{lines}")
    ran = done(cli, write_run("runQuantumCommand: 'echo \"$X\" $Y'\n").name, "--compute-site", "s")
    assert log(ran) == "it's set 2\n"
    table = Path(ran.json["submit_dir"], "wms", "jobs.tsv").read_text("utf-8")
    assert "export Y=2" in table, "by hand as well"


def test_set_up_lines_of_a_command_in_words(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("s", "{service: local, setup: {job: ['export X=1']}}")
    ran = done(cli, write_run("runQuantumCommand: [sh, -c, 'echo $X \"$0\"', 'a b']\n").name, "--compute-site", "s")
    assert log(ran) == "1 a b\n"


def test_a_set_up_line_that_fails_ends_the_job(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("s", "{service: local, setup: {job: ['false']}, numberOfRetries: 0}")
    ran = cli("submit", write_run("runQuantumCommand: 'echo no'\n").name, "--compute-site", "s", "--wait", "--json")
    assert ran.returncode == 19
    assert log(ran) == "longshore: a set-up line of the site 's' failed: false\n"


def test_modules_without_a_module_command(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    write_site("s", "{service: local, modules: [gcc/13]}")
    ran = done(cli, write_run().name, "--compute-site", "s", env={"LMOD_PKG": "", "MODULESHOME": ""})
    assert any("loads 'gcc/13'" in note for note in ran.json["notes"])


def test_modules_are_loaded(cli: Cli, write_run: WriteRun, write_site: SiteWriter, tmp_path: Path) -> None:
    (tmp_path / "init").mkdir()
    (tmp_path / "init" / "sh").write_text('module() { LOADED="$LOADED $*"; }\n', "utf-8")
    write_site("s", "{service: local, modules: [gcc/13, 'odd name']}")
    path = write_run("runQuantumCommand: 'echo $LOADED'\n")
    ran = done(cli, path.name, "--compute-site", "s", env={"MODULESHOME": str(tmp_path), "LMOD_PKG": ""})
    assert log(ran) == "load gcc/13 load odd name\n"


# ------------------------------------------------------------------------------------------- files, and ignored keys


def test_scratch_umask_and_group(cli: Cli, write_run: WriteRun, write_site: SiteWriter, tmp_path: Path) -> None:
    (tmp_path / "fast").mkdir()
    group = str(os.getgid())
    write_site("s", f'{{service: local, scratch: "{tmp_path}/fa{{end}}", end: st, umask: "0007", group: "{group}"}}')
    text = "runQuantumCommand: 'echo $TMPDIR; touch $LONGSHORE_JOB_RUN_DIR/made'\n"
    ran = done(cli, write_run(text).name, "--compute-site", "s")
    assert log(ran).startswith(f"{tmp_path}/fast/longshore-")
    assert not list((tmp_path / "fast").iterdir())
    root = Path(ran.json["submit_dir"])
    assert stat.S_IMODE(root.stat().st_mode) == 0o2770
    for name in ("made", "run.json", "workflow.jsonl", "logs/A/00/a.1.log"):
        assert stat.S_IMODE((root / name).stat().st_mode) == 0o660, name


def test_scratch_that_is_not_there(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    profile = write_site("s", "{service: local, scratch: /nowhere/fast}")
    ran = cli("submit", write_run().name, "--compute-site", "s")
    assert ran.returncode == PREPARATION
    assert f"{profile}:1:27: 'scratch' of the site 's' is '/nowhere/fast', which is no directory" in ran.stderr
    assert "leave the key out" in ran.stderr


def test_a_template_of_the_site(cli: Cli, write_run: WriteRun, write_site: SiteWriter) -> None:
    path = write_site("s", "{service: local, templates: {run-job: mine.j2}}")
    path.with_name("mine.j2").write_text("#!/bin/sh\necho mine\n", "utf-8")
    ran = done(cli, write_run().name, "--compute-site", "s")
    assert Path(ran.json["submit_dir"], "wms", "run-job").read_text("utf-8") == "#!/bin/sh\necho mine\n"


def test_keys_of_a_profile_that_the_service_does_not_use_are_told_by_the_check_of_the_site_alone(
    cli: Cli, write_run: WriteRun, write_site: SiteWriter
) -> None:
    said = "partitions: [{name: p}], directives: [-x], qos: q, container: c, fileSystem: transfer, setup: {submit: [x]}"
    profile = write_site("s", f"{{service: local, {said}}}")
    ran = done(cli, write_run("mailTo: me\n").name, "--compute-site", "s")
    told = [note for note in ran.json["notes"] if "has no effect" in note]
    assert [note.partition(" has no effect")[0].rpartition(" ")[2] for note in told] == ["'mailTo'"]
    checked = cli("site", "check", "s")
    assert checked.returncode == 0
    lines = [line for line in checked.stdout.splitlines() if "has no effect" in line]
    assert [re.findall("'[^']+'", line)[0] for line in lines] == [
        "'partitions'",
        "'directives'",
        "'qos'",
        "'container'",
        "'setup.submit'",
        "'fileSystem: transfer'",
    ]
    assert all(line.startswith(f"{profile}:1:") for line in lines)
    assert "and this site's is 'local'" in lines[0]


# -------------------------------------------------------------------------------------------------- list and show


def checked(ran: CommandResult, kind: str) -> None:
    assert ran.returncode == 0, ran.stderr
    jsonschema.validate(ran.json, json.loads(shipped_path("etc", "schema", f"{kind}.json").read_text("utf-8")))


def test_a_list_of_sites(cli: Cli, write_site: SiteWriter, own_environment: Path) -> None:
    path = write_site("mine", "# Mine\ninherits: slurm-cluster\ntitle: |\n  My own\n  cluster\n")
    write_site("broken", "service: [\n")
    (own_environment / ".config/longshore/longshore.yaml").write_text("site: {here: {service: local}}\n", "utf-8")
    ran = cli("site", "list", "--json")
    checked(ran, "sites")
    sites = {site["name"]: site for site in ran.json["sites"]}
    assert list(sites) == sorted(sites)
    assert sites["local"]["service"] == "local"
    assert sites["local"]["place"] == "package"
    assert (sites["mine"]["service"], sites["mine"]["place"]) == ("slurm", "user")
    assert sites["mine"]["origin"]["file"] == str(path)
    assert sites["here"]["place"] == "configuration"
    assert sites["broken"]["error"]
    text = cli("site", "list")
    assert text.returncode == 0
    assert re.search(r"^local +local +This machine \(.*local\.yaml\)$", text.stdout, re.MULTILINE)
    assert re.search(r"^broken +- +cannot be used: ", text.stdout, re.MULTILINE)


def test_one_site(cli: Cli) -> None:
    ran = cli("site", "show", "slurm-debug", "--json")
    checked(ran, "site_profile")
    assert ran.json["chain"] == ["slurm-cluster", "slurm-debug"]
    assert ran.json["values"]["limits"]["running"] == 10
    assert ran.json["origins"]["limits.running"]["file"].endswith("slurm-debug.yaml")
    assert ran.json["origins"]["limits.queued"]["file"].endswith("slurm-cluster.yaml")
    text = cli("site", "show", "slurm-debug")
    assert re.search(r"^limits\.running: 10  # .*slurm-debug\.yaml:\d+:\d+$", text.stdout, re.MULTILINE)


def test_a_site_that_is_not_there(cli: Cli) -> None:
    ran = cli("site", "show", "locl", "--json")
    assert ran.returncode == CONFIGURATION
    assert ran.json["error"]["message"] == "there is no site 'locl'"


def test_a_package_brings_sites(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    package = tmp_path / "lib" / "campus_sites"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('it must not be imported')\n", "utf-8")
    (package / "quad.yaml").write_text("{service: local, environment: {WHERE: quad}}", "utf-8")
    about = tmp_path / "lib" / "campus_sites-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: campus-sites\nVersion: 1.0\n", "utf-8")
    (about / "entry_points.txt").write_text("[longshore.sites]\ncampus = campus_sites\n", "utf-8")
    source = str(Path(shipped_path("etc")).parent / "python")
    env = {"PYTHONPATH": f"{tmp_path / 'lib'}:{source}"}
    ran = done(cli, write_run("runQuantumCommand: 'echo $WHERE'\n").name, "--compute-site", "quad", env=env)
    assert log(ran) == "quad\n"
    listed = cli("site", "list", "--json", env=env).json["sites"]
    assert [site["place"] for site in listed if site["name"] == "quad"] == ["installed"]


# --------------------------------------------------------------------------------------------------- disabled sites


def test_a_disabled_site_is_refused_with_its_reason_and_listed_with_it(
    cli: Cli, write_run: WriteRun, write_site: SiteWriter
) -> None:
    base = write_site("base", 'title: The base\nservice: local\ndisabled: "moved to the new hall until May"\n')
    write_site("heir", "inherits: base\n")
    write_site("kept", "inherits: base\ndisabled: null\n")
    said = f"{base}:3:11: the site 'heir' is disabled: moved to the new hall until May"
    run = write_run("runQuantumCommand: 'true'\ncomputeSite: heir\n")
    for words in ("submit", "config lint", "ping --config"):
        refused = cli(*words.split(), run)
        assert refused.returncode == CONFIGURATION, refused.stdout + refused.stderr
        assert said in (refused.stderr + refused.stdout).replace(": error: ", ": ")
    assert "longshore site list" in cli("submit", run).stderr
    listed = {each["name"]: each["disabled"] for each in cli("site", "list", "--json").json["sites"]}
    assert (listed["heir"], listed["kept"]) == ("moved to the new hall until May", None)
    assert "heir" in (shown := cli("site", "list").stdout)
    assert "disabled: moved to the new hall until May" in shown
    # What enables one is nearer: the heir's own key, or a section of the user's file.
    done(cli, write_run("runQuantumCommand: 'true'\ncomputeSite: kept\n"))
    done(cli, write_run("runQuantumCommand: 'true'\ncomputeSite: heir\nsite: {heir: {disabled: null}}\n"))


def test_a_section_of_the_configuration_can_disable_a_site(cli: Cli, write_run: WriteRun) -> None:
    refused = cli("submit", write_run("computeSite: mine\nsite: {mine: {service: local, disabled: no quota left}}\n"))
    assert refused.returncode == CONFIGURATION
    assert "the site 'mine' is disabled: no quota left" in refused.stderr


def test_no_profile_has_the_name_that_stands_for_all_sites(cli: Cli, tmp_path: Path) -> None:
    refused = cli("site", "init", "auto", "--wms-service-class", "local", "--output", str(tmp_path))
    assert (refused.returncode, "'computeSite: auto' stands for all of them" in refused.stderr) == (2, True)
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize("text", ["service: [local\n", "service: local\npartitions: [{nmae: x}]\n"])
def test_a_profile_that_cannot_be_read_or_has_a_wrong_value_has_a_status_of_its_own(
    text: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "s.yaml").write_text(text, "utf-8")
    checked = cli("site", "check", "s", "--site-path", str(tmp_path))
    assert (checked.returncode, "s.yaml:" in checked.stderr + checked.stdout) == (CONFIGURATION, True)

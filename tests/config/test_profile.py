"""What the jobs of a label get: searched once, wrong values named with their place, the rest left to the job."""

from __future__ import annotations

import shlex
import time

import pytest
from tests.config.profiles import config_of, profile_of, scope_of

from longshore.config.interpolate import Scope
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.templates import Field, Template, protect_text
from longshore.errors import ConfigError, ReferenceCycleError, UndefinedVariableError
from longshore.jobs.commands import shell_assignment, substitute_inherited
from longshore.model.workflow import MIB, Request


def line_of(profile: JobProfile) -> Template:
    assert isinstance(profile.command, Template)
    return profile.command


class TestRequest:
    def test_nothing_said_is_nothing_asked(self) -> None:
        profile = profile_of("{}")
        assert profile.settings.request == Request()
        assert profile.settings.defaulted == ()
        assert profile.settings.number_of_retries == 0
        assert profile.command is None
        assert profile.settings.working_directory is None

    def test_everything_said(self) -> None:
        profile = profile_of(
            "{requestCpus: 2, requestMemory: 1.5G, requestDisk: 100, requestWalltime: 1:30:00,"
            " requestResources: {gpu: 1}}"
        )
        assert profile.settings.request == Request(
            cpus=2, memory_b=1536 * MIB, disk_b=100 * MIB, walltime_s=5400.0, resources={"gpu": 1}
        )

    def test_an_unquoted_time_is_not_45045(self) -> None:
        assert profile_of("requestWalltime: 12:30:45").settings.request.walltime_s == 45045.0
        assert profile_of("requestWalltime: 1:30").settings.request.walltime_s == 5400.0

    def test_null_and_zero_ask_for_nothing(self) -> None:
        profile = profile_of("{requestMemory: null, requestDisk: 0, requestWalltime: 0, requestResources: {gpu: null}}")
        assert profile.settings.request == Request()

    def test_what_nobody_chose_is_known(self) -> None:
        defaults = "{requestCpus: 1, requestMemory: 2048, requestResources: {a: 1}}"
        assert profile_of("{}", defaults=defaults).settings.defaulted == (
            "requestCpus",
            "requestMemory",
            "requestResources",
        )
        mine = profile_of("requestMemory: 2048", defaults=defaults, service="requestCpus: 2")
        assert mine.settings.defaulted == ("requestCpus", "requestResources")
        assert profile_of("pipetask: {isr: {requestCpus: 1}}", defaults=defaults).settings.defaulted == (
            "requestMemory",
            "requestResources",
        )

    def test_variables(self) -> None:
        assert profile_of("{base: 2, requestCpus: '{base}', requestMemory: '{base}G'}").settings.request == Request(
            cpus=2, memory_b=2048 * MIB
        )

    def test_values_of_a_job(self) -> None:
        profile = profile_of(
            "{requestCpus: 3, requestMemory: '{size}M', requestWalltime: '{hours}:00',"
            " requestResources: {a: 1, gpu: '{n}'}}",
            free="size hours n",
        )
        assert set(profile.request) == {"requestMemory", "requestWalltime", "requestResources.gpu"}
        asked = profile.request_of({"size": 7, "hours": 2, "n": 4})
        assert asked == Request(cpus=3, memory_b=7 * MIB, walltime_s=7200.0, resources={"a": 1, "gpu": 4})
        with pytest.raises(ConfigError, match=r"file.yaml:1:33: 'requestMemory' must be an amount"):
            profile.request_of({"size": "x", "hours": 2, "n": 4})

    def test_without_values_of_a_job_it_is_the_very_same(self) -> None:
        profile = profile_of("requestCpus: 2")
        assert profile.request_of({}) is profile.settings.request

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("requestCpus: 0", "file.yaml:1:14: 'requestCpus' must be a whole number of at least 1"),
            ("requestCpus: 1.5", "'requestCpus' must be a whole number"),
            ("requestMemory: lots", "'requestMemory' must be an amount"),
            ("requestDisk: [1]", "'requestDisk' must be an amount"),
            ("requestWalltime: soon", "'requestWalltime' must be a time span"),
            ("requestResources: 3", "'requestResources' must be a map, not '3'"),
            ("requestResources: {cpus: 3}", "'cpus' is asked for by 'requestCpus'"),
            ("requestResources: {gpu: x}", "1:25: 'requestResources.gpu' must be"),
            ("requestResources: {mem: '{visit}'}", "'mem' is asked for by 'requestMemory'"),
            ("numberOfRetries: -1", "'numberOfRetries' must be a whole number"),
            ("retryUnlessExit: '1'", "'retryUnlessExit' must be an exit code"),
            ("memoryMultiplier: much", "'memoryMultiplier' must be a number"),
            ("memoryMultiplier: [2]", "'memoryMultiplier' must be a number"),
            ("queue: [a]", "'queue' must be one value"),
            ("computeSite: [a]", "'computeSite' must be text"),
            ("workingDirectory: [a]", "'workingDirectory' must be text"),
        ],
    )
    def test_wrong_values(self, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            profile_of(text, free="visit")


class TestSections:
    TEXT = """
        queue: root
        pipetask: {isr: {queue: task, priority: 1}, other: {queue: other}}
        cluster: {c1: {priority: 2}, isr: {priority: 3}}
        site: {s1: {priority: 4, category: site}}
        cloud: {k1: {category: cloud, mailTo: me}}
    """

    def test_the_label_chooses(self) -> None:
        assert profile_of(self.TEXT).settings.attributes["queue"] == "task"
        assert profile_of(self.TEXT, "nope").settings.attributes["queue"] == "root"

    def test_the_cluster_wins_and_is_the_label_where_there_is_none(self) -> None:
        assert profile_of(self.TEXT, cluster="c1").settings.attributes["priority"] == 2
        assert profile_of(self.TEXT).settings.attributes["priority"] == 3

    def test_site_and_cloud(self) -> None:
        settings = profile_of(self.TEXT, "nope", site="s1", cloud="k1").settings
        assert settings.attributes == {"queue": "root", "priority": 4, "category": "site", "mailTo": "me"}
        assert (settings.site, settings.cloud) == ("s1", "k1")

    def test_a_task_may_choose_its_site_and_the_site_its_cloud(self) -> None:
        text = """
            computeSite: s1
            pipetask: {isr: {computeSite: s2}}
            site: {s1: {queue: one}, s2: {queue: two, computeCloud: '{mine}'}}
            cloud: {k2: {category: k}}
            mine: k2
        """
        settings = profile_of(text).settings
        assert (settings.site, settings.cloud, settings.attributes) == ("s2", "k2", {"queue": "two", "category": "k"})
        assert profile_of(text, "nope").settings.site == "s1"
        assert profile_of(text, site="s1").settings.site == "s1"


class TestRetries:
    @pytest.mark.parametrize(
        ("text", "retries", "multiplier"),
        [
            ("{numberOfRetries: 0, memoryMultiplier: 2}", 0, 2.0),
            ("{numberOfRetries: 3, memoryMultiplier: 1}", 3, None),
            ("{numberOfRetries: 3, memoryMultiplier: 0.5}", 3, None),
            ("memoryMultiplier: 1.5", 5, 1.5),
            ("memoryMultiplier: '{m}'\nm: 3", 5, 3.0),
            ("memoryMultiplier: true", 0, None),
            ("memoryMultiplier: null", 0, None),
        ],
    )
    def test_rows_52_and_53(self, text: str, retries: int, multiplier: float | None) -> None:
        settings = profile_of(text).settings
        assert settings.number_of_retries == retries
        assert settings.attributes.get("memoryMultiplier") == multiplier

    def test_exit_codes(self) -> None:
        assert profile_of("retryUnlessExit: [1, 2]").settings.retry_unless_exit == (1, 2)
        assert profile_of("retryUnlessExit: null", defaults="retryUnlessExit: 1").settings.retry_unless_exit == ()


class TestAttributes:
    def test_what_is_given_is_kept(self) -> None:
        text = (
            "{preemptible: false, requestMemoryMax: 4G, accountingGroup: 'g.{label}', mailTo: '', queue: null,"
            " attrs: {a: 1}}"
        )
        assert profile_of(text, free="label visit").settings.attributes == {
            "preemptible": False,
            "requestMemoryMax": 4096 * MIB,
            "accountingGroup": "g.isr",
        }

    def test_the_label_of_the_job_is_that_of_its_cluster(self) -> None:
        settings = profile_of("category: '{label}.{jobLabel}'", free="label jobLabel", cluster="c").settings
        assert settings.attributes["category"] == "isr.c"
        assert profile_of("{category: '{label}', label: mine}").settings.attributes["category"] == "mine"

    def test_what_differs_from_job_to_job_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"1:8: 'queue' must be the same for all jobs .* uses 'tract', 'visit'"):
            profile_of("queue: 'q{visit}{tract}'", free="visit tract")

    def test_working_directory(self) -> None:
        assert profile_of("workingDirectory: '${PWD}/x'").settings.working_directory == "/here/x"


class TestEnvironment:
    def test_values_are_text(self) -> None:
        profile = profile_of(
            "environment: {A: 1, B: false, C: 'one {v} three', D: 1.50, E: null, F: '', G: '{no}'}\nv: two"
        )
        assert profile.settings.environment == {
            "A": "1",
            "B": "false",
            "C": "one two three",
            "D": "1.50",
            "F": "",
            "G": "",
        }

    def test_all_sections_are_merged(self) -> None:
        text = """
            environment: {A: root, B: root, C: root, D: root, E: root, F: root, G: root, H: null}
            cloud: {k: {environment: {B: cloud, C: cloud, D: cloud, E: cloud, F: cloud, G: cloud}}}
            site: {s: {environment: {C: site, D: site, E: site, F: site, G: site}}}
            pipetask: {isr: {environment: {D: task, E: task, F: task, G: task, H: task}}}
            cluster: {c: {environment: {E: cluster, F: cluster, G: cluster}}}
            payload: {environment: {F: payload, G: payload}}
            bps_cmdline: {environment: {G: cmdline}}
        """
        profile = profile_of(text, cluster="c", site="s", cloud="k")
        names = ["root", "cloud", "site", "task", "cluster", "payload", "cmdline", "task"]
        assert profile.settings.environment == dict(zip("ABCDEFGH", names, strict=True))

    def test_null_takes_back(self) -> None:
        text = "{environment: {A: 1}, pipetask: {isr: {environment: {A: null}}, other: {environment: null}}}"
        assert profile_of(text).settings.environment == {}
        assert profile_of(text, "other").settings.environment == {"A": "1"}

    def test_variables_of_the_environment_wait_for_the_job(self) -> None:
        text = """
            environment:
              A: '${FOO}/<ENV:FOO>/$NOPE/$<FOO>/$<NOPE>'
              B: '$FOO/{visit}'
              C: '$$(X) $(Y) $$ {root}'
              PATH: '$HOME/bin:${PATH}'
            root: '{deeper}'
            deeper: '${FOO}'
            queue: '{root}'
        """
        profile = profile_of(text, free="visit")
        assert profile.settings.environment == {
            "A": "<ENV:FOO>/<ENV:FOO>/<ENV:NOPE>/<ENV:FOO>/$<NOPE>",
            "C": "$$(X) $(Y) $$ <ENV:FOO>",
            "PATH": "<ENV:HOME>/bin:<ENV:PATH>",
        }
        assert profile.environment["B"].render({"visit": "{x}"}) == "<ENV:FOO>/{x}"
        assert profile.settings.attributes["queue"] == "fooval"

    def test_data_has_no_variables_of_the_environment(self) -> None:
        profile = profile_of("environment: {A: '<{visit}>{visit}', B: '$FOO'}", free="visit")
        value = profile.environment["A"].render({"visit": "ENV:FOO><ENV:FOO>"}, quote=protect_text)
        assert substitute_inherited({"A": value}, {"FOO": "f"}) == {"A": "<ENV:FOO><ENV:FOO>>ENV:FOO><ENV:FOO>"}
        assert shell_assignment("A", value, {"FOO": "f"}) == "'A=<ENV:FOO><ENV:FOO>>ENV:FOO><ENV:FOO>'"

    def test_null_is_no_text(self) -> None:
        with pytest.raises(ConfigError, match=r"'\{n\}' has no value: 'n' is null at .*:\d+:\d+"):
            profile_of("n: null\nenvironment: {A: 'x{n}'}")

    def test_lines_before_and_after_are_lines_for_a_shell(self) -> None:
        with pytest.raises(ConfigError, match="'<raw>' may mean the variable 'raw' or two redirections"):
            profile_of("raw: x\npreCmdline: 'wc <raw>count'")

    def test_what_is_searched_first_is_merged_last(self) -> None:
        text = """
            environment: {A: 1, B: 1}
            payload: {environment: {C: 1}}
            finalJob: {environment: {B: 2, C: null}}
        """
        config = config_of(text)
        profile = compile_profile(config, "finalJob", Scope(searchobj=config.node_at("finalJob")))
        assert profile.settings.environment == {"A": "1", "B": "2"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("environment: x", "1:14: 'environment' must be a map, not 'x'"),
            ("environment: {A: [1]}", "1:18: 'environment.A' must be one value"),
            ("environment: {A: {b: 1}}", "'environment.A' must be one value"),
            ("environment: {'': 1}", "'' cannot be the name"),
            ("environment: {'a=b': 1}", "'a=b' cannot be the name"),
            ('environment: {"a\\0": 1}', "cannot be the name"),
            ('environment: {A: "\\0"}', "1:18: the text has the null character"),
            ("environment: {A: '{A}'}\nA: '{A}'", "'A' -> 'A'"),
        ],
    )
    def test_wrong_values(self, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            profile_of(text)


class TestCommand:
    def test_a_line_keeps_what_is_the_shells(self) -> None:
        text = (
            "runQuantumCommand: \"{prog} -v {visit} $HOME/${X:-1} <ENV:FOO> | awk '{print $1}' {{a}}\"\nprog: 'my prog'"
        )
        command = line_of(profile_of(text, free="visit"))
        assert command.parts == ("my prog -v ", Field("visit"), " $HOME/${X:-1} ${FOO} | awk '{print $1}' {a}")
        assert command.render({"visit": "1;2"}, shlex.quote).startswith("my prog -v '1;2' ")

    def test_a_list_is_word_by_word_and_expanded(self) -> None:
        profile = profile_of("runQuantumCommand: [prog, -n, 3, '$FOO/<ENV:FOO>', '{visit}', '']", free="visit")
        assert isinstance(profile.command, tuple)
        assert [word.render({"visit": "a b"}) for word in profile.command] == [
            "prog",
            "-n",
            "3",
            "fooval/<ENV:FOO>",
            "a b",
            "",
        ]

    def test_null_is_none(self) -> None:
        assert profile_of("runQuantumCommand: null", defaults="runQuantumCommand: x").command is None

    def test_a_command_per_label(self) -> None:
        text = "{runQuantumCommand: all, pipetask: {isr: {runQuantumCommand: mine}}}"
        assert line_of(profile_of(text)).parts == ("mine",)
        assert line_of(profile_of(text, "other")).parts == ("all",)

    def test_free_names_win_over_variables(self) -> None:
        assert line_of(profile_of("{runQuantumCommand: 'x {visit}', visit: 5}", free="visit")).names == {"visit"}

    def test_what_the_workload_manager_fills_in(self) -> None:
        assert line_of(profile_of("runQuantumCommand: 'x {wmsAttemptNum}'")).parts == ("x <WMS:attemptNum>",)

    def test_an_undefined_variable(self) -> None:
        with pytest.raises(UndefinedVariableError) as caught:
            profile_of("runQuantumCommand: 'x {vist}'", free="visit")
        assert str(caught.value).splitlines() == [
            "file.yaml:1:20: the command uses '{vist}', which nothing defines",
            "Did you mean 'visit'? If no variable is meant, double the braces: '{{vist}}'.",
        ]

    def test_an_undefined_variable_in_a_variable_has_its_own_place(self) -> None:
        with pytest.raises(UndefinedVariableError, match=r"file.yaml:2:4: the command uses '{zzz}'") as caught:
            profile_of("runQuantumCommand: ['x', '{a}']\na: '{zzz}'")
        assert caught.value.hint.startswith("If no variable")

    def test_what_may_be_absent(self) -> None:
        text = "runQuantumCommand: 'x {extraRunQuantumOptions}{runPreCmdOpts}{inCollection}{dataQuery}.'"
        assert line_of(profile_of(text)).parts == ("x .",)

    def test_a_ring(self) -> None:
        with pytest.raises(ReferenceCycleError, match="'runQuantumCommand' -> 'runQuantumCommand'"):
            profile_of("runQuantumCommand: 'x {runQuantumCommand}'")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("runQuantumCommand: ''", "names no program"),
            ("runQuantumCommand: '  '", "names no program"),
            ("runQuantumCommand: []", "names no program"),
            ("runQuantumCommand: ['', x]", "names no program"),
            ("runQuantumCommand: {a: 1}", "1:20: 'runQuantumCommand' must be text or a list of texts"),
            ("runQuantumCommand: [echo, [1]]", "1:27: 'runQuantumCommand' must be text or a list of texts"),
            ("runQuantumCommand: [echo, null]", "must be text"),
            ("runQuantumCommand: [echo, null]", "must be text or a list of texts, not 'null'"),
        ],
    )
    def test_wrong_values(self, text: str, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            profile_of(text)


def test_cost_grows_with_labels_not_with_jobs() -> None:
    text = (
        "runQuantumCommand: 'x {visit} {queue} {label}'\nqueue: '{a}'\na: b\n"
        "environment: {A: '{visit}', B: 1}\nrequestMemory: '{m}'"
    )
    config = config_of(text)
    start = time.process_time()
    profiles = [compile_profile(config, f"t{i}", scope_of(("visit", "label", "m"), site="s")) for i in range(12)]
    for i in range(100_000):
        profile = profiles[i % 12]
        values = {"visit": i, "label": profile.settings.label, "m": 5}
        line_of(profile).render(values, shlex.quote)
        profile.environment["A"].render(values)
    # About 0.3 s on a quiet machine; BPS, which searches per job, takes 10 to 38.
    assert time.process_time() - start < 30

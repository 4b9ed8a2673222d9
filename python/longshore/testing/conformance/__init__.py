"""Conformance tests for services and executors: a class for the core of each, and one per capability.

A test module of the plug-in derives its classes from them, under names that pytest collects::

    from longshore.testing.conformance.executor import EndRetentionConformance, ExecutorConformance
    from longshore.testing.conformance.service import EngineServiceConformance


    class TestMyExecutor(ExecutorConformance, EndRetentionConformance):
        patience_s = 120.0  # the queue is slow

        @pytest.fixture
        def make_executor(self):
            return lambda: MyExecutor({"partition": "debug"})

        @pytest.fixture
        def run(self, tmp_path):
            return RunPaths(tmp_path)  # visible to jobs, too


    class TestMyService(EngineServiceConformance):
        @pytest.fixture
        def service(self):
            return MyService()

        @pytest.fixture
        def scratch(self, tmp_path):
            return tmp_path

The class of the core fails for a capability whose class is missing. Jobs are real. pytest is not imported here, so
tests loop where they might be parametrized.
"""

"""Lint notes values in quotation marks of a command that it cannot know."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.plan.lint_file import lint_file

TEXT = """\
pipeline:
  dimensions: {sample: ["S 1"]}
  tasks:
    a:
      dimensions: [sample]
      outputs: {o: "{sample}.txt"}
      command: |
        COMMAND
"""


@pytest.mark.parametrize(
    ("command", "is_noted"),
    [
        ("echo `echo {sample}` > {o}", True),
        ('echo "@RG ID:{sample}" {sample} > {o}', False),
        ("sh <<'END' > {o}\n        echo \"{sample}\"\n        END", False),
        ("cat <<END > {o}\n        {sample}\n        END", True),
    ],
)
def test_a_value_in_unknown_quotation_marks_is_noted(
    command: str, is_noted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(TEXT.replace("COMMAND", command))
    findings = lint_file(Path("run.yaml"), now=0).findings
    hints = [each.hint for each in findings if "quotation marks around '{sample}' are not known" in each.message]
    hint = "A value with a blank may be wrong there. Begin the command with 'value={sample}', and use \"$value\"."
    assert hints == ([hint] if is_noted else [])

"""Lines for burst buffers: where they stand in a script, and what is refused."""

from __future__ import annotations

import pytest
from tests.services.slurm.scripts import script

from longshore.errors import ConfigError
from longshore.services.slurm.script import insert_buffer_lines


@pytest.mark.parametrize(
    ("own", "words", "hint"),
    [
        ({"BB": ["#DW jobdw"]}, "'#DW jobdw' under 'slurm.BB' is no line of #BB", "'slurm: {DW: [...]}'"),
        ({"DW": ["#SBATCH --bb=x"]}, "'#SBATCH --bb=x' under 'slurm.DW' is no line of #DW", "directives"),
        ({"DW": "--bbf=x"}, "'--bbf=x' under 'slurm.DW' is no line of #DW", "directives"),
        ({"DW": ["#DW"]}, "'slurm.DW' has an empty line", "Leave it out."),
        ({"DW": ["jobdw\x07"]}, "'slurm.DW' cannot be", ""),
        ({"sbatch": ["#BB create"]}, "'#BB create' is no option of sbatch", "'slurm: {BB: [...]}'"),
        ({"directives": ["-N 1", "#DW jobdw"]}, "'#DW jobdw' is no option of sbatch", "'slurm: {DW: [...]}'"),
    ],
)
def test_a_line_in_the_wrong_place_is_refused_with_the_right_one(own: dict[str, object], words: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        script(own=own)
    assert words in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_the_lines_stand_before_the_first_command_of_any_template() -> None:
    # Behind a command, neither Slurm nor its plug-ins read a line.
    template = "#!/bin/bash -l\n# ours\n\n#SBATCH -N 1\n\n# more\nmodule load x\n#SBATCH -n 1\n"
    assert insert_buffer_lines(template, ["#DW a", "#DW b"]).split("\n")[3:7] == ["#SBATCH -N 1", "#DW a", "#DW b", ""]
    assert insert_buffer_lines("#!/bin/sh\ntrue\n", ["#BB a"]) == "#!/bin/sh\n#BB a\ntrue\n"
    assert insert_buffer_lines(template, []) == template

"""What draws the pictures of the site: a terminal that obeys what Longshore writes, and films of what it showed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.recordings.drawing import draw_film
from tests.recordings.terminal import Cell, Frame, Recorder, Screen

REDRAWN = """
import sys
sys.stdout.write("first\\n" + "\\x1b[32mone\\x1b[0m of 2\\n")
sys.stdout.flush()
sys.stdout.write("\\x1b[1A\\x1b[2Kone\\rtwo of 2\\n")
"""


def words(frame: Frame) -> list[str]:
    return ["".join(cell.character for cell in row) for row in frame.rows]


def frame_at(at_s: float, text: str) -> Frame:
    return Frame(at_s, (tuple(Cell(character, "") for character in text),))


def test_a_screen_has_colours_and_lines_that_were_drawn_anew() -> None:
    screen = Screen()
    screen.write("a\r\n\x1b[1;31mred\x1b[0m b\r\n")
    assert screen.frame(0).rows[1][:4] == (*(Cell(each, "1 31") for each in "red"), Cell(" ", ""))
    screen.write("\x1b[1A\x1b[2Kshorter\r\n\x1b[?25lend\x1b[K")
    assert words(screen.frame(0)) == ["a", "shorter", "end"]


def test_a_recorder_keeps_what_a_program_showed_on_a_terminal(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, {}, width=40)
    assert recorder.run("program", [sys.executable, "-c", REDRAWN]) == 0
    assert (
        recorder.run("fail", [sys.executable, "-c", "import os; print(os.get_terminal_size()[0]); raise SystemExit(3)"])
        == 3
    )
    assert words(recorder.frames[0]) == ["$ program", ""]
    assert words(recorder.frames[-1]) == ["$ program", "first", "two of 2", "$ fail", "40", ""]


def test_a_film_shows_each_frame_for_its_time_and_what_is_too_short_for_eyes_not_at_all() -> None:
    frames = [frame_at(0, "begin"), frame_at(2, "flash"), frame_at(2.01, "a < b"), frame_at(4, "end")]
    film = draw_film(frames, columns=20, title="A film")
    assert re.findall(r"<tspan[^>]*>([^<]*)", film) == ["begin", "a &lt; b", "end"]
    assert "#f0{animation:k0 10.0s" in film
    assert "@keyframes k1{0%{visibility:hidden}20.10%{visibility:visible}40.00%{visibility:hidden}" in film
    assert film.count('visibility="hidden"') == 2, "without animation the last frame is seen"


def test_a_picture_of_one_frame_does_not_move() -> None:
    assert "animation" not in draw_film([frame_at(1, "all")], columns=20, title="A picture")

"""Makes ``python -m longshore`` work, in a file of its own because Python looks for it by this name."""

from longshore.cli.start import run_program

if __name__ == "__main__":
    run_program()

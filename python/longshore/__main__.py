"""``python -m longshore``."""

from longshore.cli.start import main

if __name__ == "__main__":
    main()

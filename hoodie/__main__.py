"""The command ``hoodie``, as ``python -m hoodie``."""

from hoodie.cli.main import main

if __name__ == "__main__":
    main()

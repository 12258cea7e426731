"""``python -m hoodie.utilities.streamer`` is ``hoodie streamer``."""

from __future__ import annotations

import sys

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.utilities.streamer.command import run_command


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def main() -> int:
    """Run the command line of this process.

    Returns:
        The exit code: 0, 1 for an error, 2 for a wrong call, 130 for an interrupt.
    """
    try:
        run_command(sys.argv[1:], _say, print)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except HoodieException as error:
        _say(f"hoodie: {error}")
        return 2 if isinstance(error, HoodieConfigException) else 1
    except Exception as error:
        # Of a user's class, or of the machine: its type tells more than its text.
        _say(f"hoodie: {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

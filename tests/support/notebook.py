"""Run a notebook's cells in one namespace; write what they print and draw into it.

``python -m tests.support.notebook docs/notebooks/a-table.ipynb`` runs it and stores the outputs.
"""

from __future__ import annotations

import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib as mpl


def run_cells(notebook: dict[str, Any]) -> list[tuple[str, bytes | None]]:
    """Run the code cells of a notebook.

    Returns:
        What each code cell printed, and its picture (PNG) if it drew one.
    """
    mpl.use("Agg")
    from matplotlib import pyplot

    names: dict[str, Any] = {}
    found = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
        picture = None
        if pyplot.get_fignums():
            image = io.BytesIO()
            pyplot.gcf().savefig(image, format="png", dpi=80)
            picture = image.getvalue()
            pyplot.close("all")
        found.append((out.getvalue(), picture))
    return found


def outputs_of(printed: str, picture: bytes | None) -> list[dict[str, Any]]:
    """The outputs of a cell as notebooks store them."""
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if picture is not None:
        image = base64.b64encode(picture).decode()
        outputs.append({"data": {"image/png": image}, "metadata": {}, "output_type": "display_data"})
    return outputs


def main() -> None:
    """Run a notebook and store its outputs."""
    path = Path(sys.argv[1])
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, found) in enumerate(zip(code, run_cells(notebook), strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, outputs_of(*found)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

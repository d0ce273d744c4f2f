"""The clients from npm that tests run unchanged: what scripts/fetch_node_clients brings.

ctest takes the exit code 77 for "skipped".
"""

import os
import pathlib
import shutil
import sys


def folder():
    """Where they lie, with bin/node and node_modules; ends the test without them."""
    found = os.environ.get("NEXUS_NODE_CLIENTS")
    if found:
        return pathlib.Path(found)
    if not shutil.which("node") or not shutil.which("npm"):
        print("skipped: node or npm isn't in PATH")
        sys.exit(77)
    sys.exit("NEXUS_NODE_CLIENTS isn't set: run scripts/test, or give it what "
             "scripts/fetch_node_clients prints")


FOLDER = folder()
NODE = str(FOLDER / "bin" / "node")


def program(name):
    """The command of a package's program, under the node that was chosen for it."""
    return [NODE, str(FOLDER / "node_modules" / ".bin" / name)]

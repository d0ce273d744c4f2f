"""OpenAI's own client for JavaScript against `nexus serve`: starts the server, and runs
openai_node_client.mjs, which asks it as the client's users would.

Run by ctest with NEXUS_BIN set to the program and NEXUS_NODE_CLIENTS to what
scripts/fetch_node_clients prints; scripts/test brings it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import node_clients
from serve_e2e_test import MODEL, TOOLS, WEATHER, Server

SCRIPT = pathlib.Path(__file__).resolve().parent / "openai_node_client.mjs"


def main():
    server = Server(env={"NEXUS_API_KEY": "a key"})
    try:
        with tempfile.TemporaryDirectory(prefix="nexus-node-") as folder:
            # `import` looks for packages beside the script, and nowhere else.
            folder = pathlib.Path(folder)
            (folder / "node_modules").symlink_to(node_clients.FOLDER / "node_modules")
            script = shutil.copy(SCRIPT, folder)
            given = {"url": f"http://127.0.0.1:{server.port}/v1", "key": "a key",
                     "model": MODEL, "tools": TOOLS, "messages": WEATHER}
            code = subprocess.run(
                [node_clients.NODE, script], timeout=500, check=False,
                env={**os.environ, "NEXUS_TEST": json.dumps(given)}).returncode
    finally:
        stopped = server.stop()
    return code or stopped


if __name__ == "__main__":
    sys.exit(main())

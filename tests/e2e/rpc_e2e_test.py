"""A model whose layers are held by llama.cpp's own RPC server: `nexus ... --rpc`.

What a server that isn't there or isn't one does needs nothing; the rest needs what
scripts/fetch_llama_server builds, and without it ctest says that this was skipped.
"""

import json
import pathlib
import socket
import subprocess
import sys
import threading
import time
import unittest

from serve_e2e_test import BIN, MODEL, TOOLS, Server, free_port

ROOT = pathlib.Path(__file__).parents[2]
found = subprocess.run([ROOT / "scripts" / "fetch_llama_server", "--where"],
                       stdout=subprocess.PIPE, text=True)
RPC_SERVER = (pathlib.Path(found.stdout.strip()).with_name("ggml-rpc-server")
              if found.returncode == 0 else None)


class RpcServer:
    def __init__(self):
        port = free_port()
        self.endpoint = f"127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [RPC_SERVER, "--host", "127.0.0.1", "--port", str(port), "--threads", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "ggml-rpc-server doesn't listen"
                time.sleep(0.05)

    def stop(self):
        self.process.kill()
        self.process.wait()


def doctor(*flags):
    return subprocess.run(
        [BIN, "doctor", "--model", MODEL, "--threads", "1", *flags],
        capture_output=True, text=True, timeout=120)


class NoRpcServerTest(unittest.TestCase):
    def test_says_that_nothing_listens(self):
        endpoint = f"127.0.0.1:{free_port()}"
        done = doctor("--rpc", endpoint)
        self.assertGreater(done.returncode, 0)
        self.assertIn(endpoint, done.stdout)
        self.assertIn("ggml-rpc-server", done.stdout)

    def test_says_that_another_program_listens(self):
        listener = socket.create_server(("127.0.0.1", 0))
        listener.settimeout(60)

        def answer():
            client, _ = listener.accept()
            client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            client.close()

        thread = threading.Thread(target=answer)
        thread.start()
        endpoint = f"127.0.0.1:{listener.getsockname()[1]}"
        done = doctor("--rpc", endpoint)
        thread.join()
        listener.close()
        self.assertGreater(done.returncode, 0)  # not a signal
        self.assertIn(endpoint, done.stdout)

    def test_says_what_an_endpoint_looks_like(self):
        done = doctor("--rpc", "http://gpu1")
        self.assertGreater(done.returncode, 0)
        self.assertIn("HOST:PORT", done.stdout)


@unittest.skipUnless(RPC_SERVER, "no ggml-rpc-server here; scripts/fetch_llama_server")
class RpcTest(unittest.TestCase):
    def setUp(self):
        self.remotes = [RpcServer(), RpcServer()]
        self.addCleanup(lambda: [remote.stop() for remote in self.remotes])
        self.endpoints = ",".join(remote.endpoint for remote in self.remotes)

    def test_a_call_is_routed_and_spliced_through_two_servers(self):
        server = Server("--rpc", self.endpoints)
        try:
            # A block that is compiled here serves there: one store for both.
            registry = pathlib.Path(server.dir.name) / "tools.jsonl"
            registry.write_text("".join(json.dumps(tool) + "\n" for tool in TOOLS))
            subprocess.run(
                [BIN, "compile", "--model", MODEL, "--tools", registry, "--store",
                 server.dir.name + "/store", "--threads", "1"],
                check=True, capture_output=True, timeout=300)
            status, _, text = server.request("GET", "/v1/nexus/server")
            self.assertEqual(status, 200)
            self.assertIsNone(json.loads(text)["splicing"])
            answer = server.chat(tools=TOOLS, nexus=True)
            call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
            self.assertEqual(call["name"], "get_weather")
            self.assertIn("city", json.loads(call["arguments"]))
            self.assertEqual(answer["nexus"]["tier"], "splice", answer["nexus"])
            self.assertGreater(answer["nexus"]["spliced_tokens"], 0)
        finally:
            self.assertEqual(server.stop(), 0)

    def test_some_layers_stay_here(self):
        server = Server("--rpc", self.remotes[0].endpoint, "--rpc-layers", "10")
        try:
            answer = server.chat(tools=TOOLS)
            self.assertTrue(answer["choices"][0]["message"]["tool_calls"])
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    passed = unittest.main(verbosity=2, exit=False).result.wasSuccessful()
    if passed and RPC_SERVER is None:
        print("skipped: no ggml-rpc-server here; scripts/fetch_llama_server builds it")
        sys.exit(77)
    sys.exit(0 if passed else 1)

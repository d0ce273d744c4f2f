"""The official MCP inspector, as npm has it, against `nexus mcp`: its --cli over stdio,
from a file as desktop clients have it, and over streamable HTTP.

Run by ctest with NEXUS_BIN set to the program and NEXUS_NODE_CLIENTS to what
scripts/fetch_node_clients prints; scripts/test brings it.
"""

import json
import os
import subprocess
import unittest

import node_clients
from gateway_e2e_test import ANSWER_S, BIN, CACHE, Folder, HttpGateway


class InspectorTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)

    def inspect(self, server, method, *more, code=0):
        """The result that the inspector prints, or what it says on stderr."""
        done = subprocess.run(
            [*node_clients.program("mcp-inspector"), "--cli", "--quiet", *server,
             "--connect-timeout", str(1000 * ANSWER_S), "--method", method, *more],
            capture_output=True, text=True, timeout=3 * ANSWER_S, check=False,
            stdin=subprocess.DEVNULL,
            # Its own settings lie in the home folder: none of the developer's.
            env={**os.environ, "HOME": str(self.folder.path)})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout) if code == 0 else done.stderr

    def stdio(self, *flags):
        config = self.folder.path / "desktop.json"
        config.write_text(json.dumps({"mcpServers": {"nexus": {
            "command": BIN, "args": ["mcp", "--config", str(self.folder.config), *flags],
            "env": {"NEXUS_CONFIG": os.devnull, "NEXUS_CACHE_DIR": str(CACHE)}}}}))
        return ["--config", str(config), "--server", "nexus"]

    def http(self, *flags):
        gateway = HttpGateway(self.folder, *flags)
        self.addCleanup(lambda: self.assertEqual(gateway.stop(), 0))
        self.url = gateway.url
        return ["--server-url", self.url, "--transport", "http", "--stored-auth-only",
                "--header", "Authorization: Bearer a key"]

    def find_and_call(self, server):
        # Strict: its checks of how portable schemas are find nothing either.
        tools = self.inspect(server, "tools/list", "--strict")["tools"]
        self.assertEqual([tool["name"] for tool in tools], ["find_tool", "call_tool"])
        found = self.inspect(server, "tools/call", "--tool-name", "find_tool",
                             "--tool-arg", "query=What is 17.5 plus 24.25?")
        name = found["structuredContent"]["tools"][0]["name"]
        self.assertEqual(name, "everything__get-sum")
        answer = self.inspect(
            server, "tools/call", "--tool-name", "call_tool", "--tool-args-json",
            json.dumps({"name": name, "arguments": {"a": 17.5, "b": 24.25}}))
        self.assertIn("41.75", answer["content"][0]["text"])

    def offers(self, server):
        resources = self.inspect(server, "resources/list")["resources"]
        self.assertTrue(resources)
        prompts = self.inspect(server, "prompts/list")["prompts"]
        self.assertIn("everything__simple-prompt", [one["name"] for one in prompts])
        return resources

    def test_finds_and_calls_over_stdio(self):
        self.find_and_call(self.stdio())

    def test_finds_and_calls_over_http(self):
        self.find_and_call(self.http())

    def test_resources_and_prompts_over_stdio(self):
        server = self.stdio()
        resources = self.offers(server)
        read = self.inspect(server, "resources/read", "--uri", resources[0]["uri"])
        self.assertTrue(read["contents"])
        prompt = self.inspect(server, "prompts/get", "--prompt-name",
                              "everything__simple-prompt")
        self.assertTrue(prompt["messages"])

    def test_resources_and_prompts_over_http(self):
        server = self.http("--expose", "all")
        self.offers(server)
        self.assertTrue(
            self.inspect(server, "resources/templates/list")["resourceTemplates"])
        tools = self.inspect(server, "tools/list")["tools"]
        self.assertEqual(len(tools), 36)

    def test_a_client_of_either_era_is_understood(self):
        # "modern" never shakes hands, "auto" only where it has to.
        for server in (self.stdio(), self.http()):
            for era in ("legacy", "auto", "modern"):
                tools = self.inspect(server, "tools/list", "--protocol-era", era)["tools"]
                self.assertEqual(len(tools), 2, era)

    def test_without_a_handshake(self):
        for server in (self.stdio(), self.http()):
            self.find_and_call([*server, "--protocol-era", "modern"])
            resources = self.inspect([*server, "--protocol-era", "modern"],
                                     "resources/list")["resources"]
            self.assertTrue(self.inspect(
                [*server, "--protocol-era", "modern"], "resources/read", "--uri",
                resources[0]["uri"])["contents"])

    def test_errors_are_the_inspectors_own(self):
        self.assertIn("none__none", self.inspect(
            self.stdio(), "tools/call", "--tool-name", "none__none", code=5))
        self.http()
        stranger = ["--server-url", self.url, "--transport", "http",
                    "--stored-auth-only"]
        self.assertIn("auth_required", self.inspect(stranger, "tools/list", code=3))


if __name__ == "__main__":
    unittest.main(verbosity=2)

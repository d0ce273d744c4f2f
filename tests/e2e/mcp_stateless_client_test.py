"""The official MCP SDK for Python of today against `nexus mcp`, as its users write it, over
stdio and over HTTP: it does without a handshake, and what it sends is looked at to see so.

Run by ctest with NEXUS_BIN set to the program and NEXUS_MCP_STATELESS_PYTHON to what
scripts/fetch_mcp_client --stateless prints; scripts/test brings it.
"""

import asyncio
import contextlib
import json
import os
import sys
import unittest

try:
    from mcp.client.client import Client
except ImportError:
    # ctest runs this with any Python: change over to the one with the SDK.
    python = os.environ.get("NEXUS_MCP_STATELESS_PYTHON")
    if not python:
        sys.exit("NEXUS_MCP_STATELESS_PYTHON isn't set: run scripts/test, or give it what "
                 "scripts/fetch_mcp_client --stateless prints")
    os.execv(python, [python, *sys.argv])

import httpx2
from mcp import MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from gateway_e2e_test import ANSWER_S, BIN, Folder, HttpGateway

REVISION = "2026-07-28"
HERE = os.path.dirname(os.path.abspath(__file__))


class SdkTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        # One whose lists change when its tools are called.
        self.folder = Folder(suite={
            "command": sys.executable,
            "args": [os.path.join(HERE, "conformance_server.py")]})
        self.addCleanup(self.folder.close)
        self.sent = []  # methods, in order

    @contextlib.asynccontextmanager
    async def over_stdio(self, *flags):
        transcript = self.folder.path / "sent.jsonl"
        server = StdioServerParameters(
            command="sh",
            args=["-c", 'tee "$0" | exec "$@"', str(transcript), BIN, "mcp", "--config",
                  str(self.folder.config), *flags],
            env={**os.environ})
        with open(os.devnull, "w") as log:
            async with Client(stdio_client(server, errlog=log)) as client:
                yield client
        self.sent = [json.loads(line)["method"]
                     for line in transcript.read_text().splitlines()]

    @contextlib.asynccontextmanager
    async def over_http(self, *flags):
        gateway = HttpGateway(self.folder, *flags)

        async def note(request):
            self.assertEqual(request.method, "POST")
            self.assertEqual(request.headers["mcp-protocol-version"], REVISION)
            self.sent.append(json.loads(request.content)["method"])

        try:
            async with httpx2.AsyncClient(
                    headers={"Authorization": "Bearer a key"}, timeout=ANSWER_S,
                    event_hooks={"request": [note]}) as http:
                async with Client(
                        streamable_http_client(gateway.url, http_client=http)) as client:
                    yield client
        finally:
            self.assertEqual(gateway.stop(), 0)

    async def find_and_call(self, client):
        self.assertEqual(client.protocol_version, REVISION)
        self.assertEqual(client.server_info.name, "nexus")
        listed = await client.list_tools()
        self.assertEqual([tool.name for tool in listed.tools],
                         ["find_tool", "call_tool"])
        found = await client.call_tool("find_tool",
                                       {"query": "What is 17.5 plus 24.25?"})
        self.assertFalse(found.is_error)
        tool = found.structured_content["tools"][0]
        self.assertEqual(tool["name"], "everything__get-sum")
        answer = await client.call_tool(
            "call_tool", {"name": tool["name"], "arguments": {"a": 17.5, "b": 24.25}})
        self.assertIn("41.75", answer.content[0].text)
        wrong = await client.call_tool(
            "call_tool", {"name": tool["name"], "arguments": {"a": "x", "b": 1}})
        self.assertTrue(wrong.is_error)

    async def everything(self, client):
        """With --expose all, where the SDK checks results against output schemas."""
        self.assertEqual(client.protocol_version, REVISION)
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        self.assertGreater(len(tools), 36)
        image = await client.call_tool("everything__get-tiny-image", {})
        self.assertIn("image", [part.type for part in image.content])
        weather = await client.call_tool("everything__get-structured-content",
                                         {"location": "Chicago"})
        self.assertIn("temperature", weather.structured_content)
        # Its headers must say what a schema marks.
        marked = await client.call_tool("suite__test_marked_parameter",
                                        {"region": "été"})
        self.assertFalse(marked.is_error)
        progress = []

        async def on_progress(done, total, message):
            progress.append((done, total))

        await client.call_tool("everything__trigger-long-running-operation",
                               {"duration": 1, "steps": 2},
                               progress_callback=on_progress)
        self.assertEqual(progress, [(1, 2), (2, 2)])
        with self.assertRaises(MCPError) as unknown:
            await client.call_tool("none__none", {})
        self.assertEqual(unknown.exception.error.code, -32602)
        prompts = (await client.list_prompts()).prompts
        self.assertIn("everything__simple-prompt", [prompt.name for prompt in prompts])
        self.assertTrue((await client.get_prompt("everything__simple-prompt")).messages)
        resources = (await client.list_resources()).resources
        self.assertTrue((await client.read_resource(resources[0].uri)).contents)
        self.assertTrue((await client.list_resource_templates()).resource_templates)
        async with client.listen(tools_list_changed=True,
                                 prompts_list_changed=True) as news:
            self.assertTrue(news.honored.tools_list_changed)
            await client.call_tool("suite__test_trigger_tool_change", {})
            event = await asyncio.wait_for(anext(news), ANSWER_S)
            self.assertEqual(type(event).__name__, "ToolsListChanged")
        names = [tool.name for tool in (await client.list_tools()).tools]
        self.assertIn("suite__another_tool_0", names)

    def check_transcript(self):
        self.assertIn("tools/call", self.sent)
        self.assertIn("server/discover", self.sent)
        self.assertNotIn("initialize", self.sent)
        self.assertNotIn("notifications/initialized", self.sent)

    async def test_finds_and_calls_over_stdio(self):
        async with self.over_stdio() as client:
            await self.find_and_call(client)
        self.check_transcript()

    async def test_finds_and_calls_over_http(self):
        async with self.over_http() as client:
            await self.find_and_call(client)
        self.check_transcript()

    async def test_everything_over_stdio(self):
        async with self.over_stdio("--expose", "all") as client:
            await self.everything(client)
        self.check_transcript()

    async def test_everything_over_http(self):
        async with self.over_http("--expose", "all") as client:
            await self.everything(client)
        self.check_transcript()


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""The official MCP SDK for Python against `nexus mcp`, as its users write it, over stdio
and over HTTP.

Run by ctest with NEXUS_BIN set to the program and NEXUS_MCP_PYTHON to what
scripts/fetch_mcp_client prints; scripts/test brings it.
"""

import contextlib
import os
import sys
import unittest

try:
    import mcp
except ImportError:
    # ctest runs this with any Python: change over to the one with the SDK.
    python = os.environ.get("NEXUS_MCP_PYTHON")
    if not python:
        sys.exit("NEXUS_MCP_PYTHON isn't set: run scripts/test, or give it what "
                 "scripts/fetch_mcp_client prints")
    os.execv(python, [python, *sys.argv])

import httpx
from mcp import types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from gateway_e2e_test import ANSWER_S, BIN, Folder, HttpGateway


class SdkTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.folder = Folder()
        self.addCleanup(self.folder.close)
        self.heard = []

    async def on_message(self, message):
        if isinstance(message, types.ServerNotification):
            self.heard.append(message.root.method)

    @contextlib.asynccontextmanager
    async def over_stdio(self, *flags):
        server = mcp.StdioServerParameters(
            command=BIN, args=["mcp", "--config", str(self.folder.config), *flags],
            env={**os.environ})
        with open(os.devnull, "w") as log:
            async with stdio_client(server, errlog=log) as (read, write):
                async with mcp.ClientSession(
                        read, write, message_handler=self.on_message) as session:
                    yield session

    @contextlib.asynccontextmanager
    async def over_http(self, *flags):
        gateway = HttpGateway(self.folder, *flags)
        try:
            async with httpx.AsyncClient(headers={"Authorization": "Bearer a key"},
                                         timeout=ANSWER_S) as http:
                async with streamable_http_client(gateway.url, http_client=http) as (
                        read, write, _):
                    async with mcp.ClientSession(
                            read, write, message_handler=self.on_message) as session:
                        yield session
        finally:
            gateway.stop()

    async def find_and_call(self, session):
        info = await session.initialize()
        self.assertEqual(info.serverInfo.name, "nexus")
        await session.send_ping()
        listed = await session.list_tools()
        self.assertEqual([tool.name for tool in listed.tools],
                         ["find_tool", "call_tool"])
        found = await session.call_tool("find_tool",
                                        {"query": "What is 17.5 plus 24.25?"})
        self.assertFalse(found.isError)
        tool = found.structuredContent["tools"][0]
        self.assertEqual(tool["name"], "everything__get-sum")
        answer = await session.call_tool(
            "call_tool", {"name": tool["name"], "arguments": {"a": 17.5, "b": 24.25}})
        self.assertIn("41.75", answer.content[0].text)
        wrong = await session.call_tool(
            "call_tool", {"name": tool["name"], "arguments": {"a": "x", "b": 1}})
        self.assertTrue(wrong.isError)

    async def everything(self, session):
        """With --expose all, where the SDK checks results against output schemas."""
        await session.initialize()
        await session.set_logging_level("warning")
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        self.assertEqual(len(tools), 36)
        image = await session.call_tool("everything__get-tiny-image", {})
        self.assertIn("image", [part.type for part in image.content])
        weather = await session.call_tool("everything__get-structured-content",
                                          {"location": "Chicago"})
        self.assertIn("temperature", weather.structuredContent)
        self.assertIsNotNone(
            tools["everything__get-structured-content"].outputSchema)
        progress = []

        async def on_progress(done, total, message):
            progress.append((done, total))

        await session.call_tool("everything__trigger-long-running-operation",
                                {"duration": 1, "steps": 2},
                                progress_callback=on_progress)
        self.assertEqual(progress, [(1, 2), (2, 2)])
        with self.assertRaises(mcp.McpError) as unknown:
            await session.call_tool("none__none", {})
        self.assertEqual(unknown.exception.error.code, -32602)
        prompts = (await session.list_prompts()).prompts
        self.assertIn("everything__simple-prompt", [prompt.name for prompt in prompts])
        prompt = await session.get_prompt("everything__simple-prompt")
        self.assertTrue(prompt.messages)
        resources = (await session.list_resources()).resources
        read = await session.read_resource(resources[0].uri)
        self.assertTrue(read.contents)
        self.assertTrue(
            (await session.list_resource_templates()).resourceTemplates)

    async def test_finds_and_calls_over_stdio(self):
        async with self.over_stdio() as session:
            await self.find_and_call(session)

    async def test_finds_and_calls_over_http(self):
        async with self.over_http() as session:
            await self.find_and_call(session)

    async def test_everything_over_stdio(self):
        async with self.over_stdio("--expose", "all") as session:
            await self.everything(session)

    async def test_everything_over_http(self):
        async with self.over_http("--expose", "all") as session:
            await self.everything(session)

    async def test_hears_that_its_list_has_grown(self):
        async with self.over_stdio("--expose", "routed") as session:
            await session.initialize()
            await session.call_tool("find_tool", {"query": "add two numbers",
                                                  "limit": 1})
            names = [tool.name for tool in (await session.list_tools()).tools]
            self.assertEqual(names, ["find_tool", "call_tool", "everything__get-sum"])
            self.assertIn("notifications/tools/list_changed", self.heard)


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""`nexus mcp` in front of the reference servers, as a client sees it: the real program,
raw JSON-RPC over stdio and over HTTP.

Run by ctest with NEXUS_BIN set to the program; scripts/fetch_mcp_servers brings the
servers. Only the standard library is used.
"""

import contextlib
import http.client
import json
import os
import pathlib
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

BIN = os.environ["NEXUS_BIN"]
# A developer's own settings must not decide what is tested.
for _name in ("MCP", "ENCODER", "API_KEY"):
    os.environ.pop("NEXUS_" + _name, None)
os.environ["NEXUS_CONFIG"] = os.devnull
CACHE = pathlib.Path(
    os.environ.get("NEXUS_CACHE_DIR")
    or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nexus"
    )
)
DEMO = CACHE / "mcp-servers" / "demo.mcp.json"
README = pathlib.Path(__file__).resolve().parents[2] / "README.md"
ANSWER_S = 60  # a busy machine; nothing here takes a second on an idle one


def demo_servers():
    assert DEMO.exists(), "run scripts/fetch_mcp_servers first"
    return json.loads(DEMO.read_text())["mcpServers"]


class Folder:
    """A folder with a configuration of the reference servers, and notes of its own."""

    def __init__(self, **more):
        self.dir = tempfile.TemporaryDirectory(prefix="nexus-gateway-")
        self.path = pathlib.Path(self.dir.name)
        self.files = self.path / "files"
        self.files.mkdir()
        (self.files / "hello.txt").write_text("line one\nline two\n")
        servers = demo_servers()
        servers["filesystem"]["args"][-1] = str(self.files)
        servers["memory"]["env"]["MEMORY_FILE_PATH"] = str(self.path / "memory.jsonl")
        servers.update(more)
        self.config = self.path / "servers.json"
        self.config.write_text(json.dumps({"mcpServers": servers}))

    def close(self):
        self.dir.cleanup()


class HttpGateway:
    """`nexus mcp` over HTTP, on a free port; `key` None: it wants none."""

    def __init__(self, folder, *flags, key="a key"):
        self.process = subprocess.Popen(
            [BIN, "mcp", "--config", str(folder.config), "--http", "127.0.0.1:0",
             *flags],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ if key is None else {**os.environ, "NEXUS_API_KEY": key})
        found = re.search(r"http://\S+:(\d+)/mcp$", self.process.stdout.readline())
        self.url = found.group()
        self.port = int(found.group(1))

    def stop(self):
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=ANSWER_S)
        self.process.stdout.close()
        return code


class Client:
    """A raw client over stdio."""

    def __init__(self, *flags, argv=None, cwd=None, handshake=True):
        self.stderr = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            argv or [BIN, "mcp", *map(str, flags)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self.stderr, text=True, cwd=cwd)
        self.lines = queue.Queue()
        self.notes = []  # notifications, in order
        self.next_id = 0
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        if handshake:
            self.info = self.ask("initialize", {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}})
            self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))  # anything else on stdout is a fault
        self.lines.put(None)

    def write(self, message):
        text = message if isinstance(message, str) else json.dumps(message)
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def send(self, method, params=None):
        self.next_id += 1
        message = {"jsonrpc": "2.0", "id": self.next_id, "method": method}
        if params is not None:
            message["params"] = params
        self.write(message)
        return self.next_id

    def notify(self, method, params):
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def read(self):
        message = self.lines.get(timeout=ANSWER_S)
        if message is None:
            raise AssertionError("the gateway ended: " + self.log())
        return message

    def answer(self, wanted):
        """The whole response to a request; notifications before it are kept."""
        while True:
            message = self.read()
            if message.get("id") == wanted and "method" not in message:
                return message
            self.notes.append(message)

    def ask(self, method, params=None):
        response = self.answer(self.send(method, params))
        assert "result" in response, response
        return response["result"]

    def error(self, method, params=None):
        response = self.answer(self.send(method, params))
        assert "error" in response, response
        return response["error"]

    def call(self, name, /, **arguments):
        return self.ask("tools/call", {"name": name, "arguments": arguments})

    def find(self, query, **more):
        result = self.call("find_tool", query=query, **more)
        assert not result.get("isError"), result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return result["structuredContent"]

    def note(self, method, from_index=0):
        """The next notification of a kind, waited for."""
        for message in self.notes[from_index:]:
            if message.get("method") == method:
                return message
        while True:
            message = self.read()
            self.notes.append(message)
            if message.get("method") == method:
                return message

    def log(self):
        self.stderr.seek(0)
        return self.stderr.read()

    def wait_for_log(self, text):
        until = time.monotonic() + ANSWER_S
        while text not in self.log():
            if time.monotonic() > until:
                return False
            time.sleep(0.05)
        return True

    def close(self):
        """Ends as a client does, by closing the input; gives the exit code."""
        self.process.stdin.close()
        code = self.process.wait(timeout=ANSWER_S)
        self.reader.join()
        self.process.stdout.close()
        self.stderr.close()
        return code


@contextlib.contextmanager
def client(*flags, **options):
    one = Client(*flags, **options)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(BrokenPipeError):
            one.close()


def text_of(result):
    return result["content"][0]["text"]


class StdioTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.client = Client("--config", cls.folder.config)

    @classmethod
    def tearDownClass(cls):
        assert cls.client.close() == 0
        cls.folder.close()

    def test_shows_two_tools(self):
        tools = self.client.ask("tools/list")["tools"]
        self.assertEqual([tool["name"] for tool in tools], ["find_tool", "call_tool"])
        self.assertIn("everything, filesystem, memory", tools[0]["description"])

    def test_routes_a_question_and_calls_the_tool(self):
        found = self.client.find("What is 17.5 plus 24.25?")
        self.assertEqual(found["decision"], "route", found)
        tool = found["tools"][0]
        self.assertEqual(tool["name"], "everything__get-sum")
        self.assertEqual(set(tool["inputSchema"]["properties"]), {"a", "b"})
        result = self.client.call("call_tool", name=tool["name"],
                                  arguments={"a": 17.5, "b": 24.25})
        self.assertIn("41.75", text_of(result))

    def test_asks_back_or_abstains_with_the_reason(self):
        found = self.client.find("Sing me a song about the sea")
        self.assertNotEqual(found["decision"], "route", found)
        self.assertTrue(found["reason"])

    def test_marks_what_destroys_and_what_only_reads(self):
        found = self.client.find("write_file", limit=10)
        tools = {tool["tool"]: tool for tool in found["tools"]}
        self.assertIs(tools["write_file"].get("destructive"), True)
        found = self.client.find("read_text_file", limit=10)
        tools = {tool["tool"]: tool for tool in found["tools"]}
        self.assertIs(tools["read_text_file"].get("readOnly"), True)

    def test_wrong_arguments_can_be_mended(self):
        wrong = self.client.call("call_tool", name="everything__get-sum",
                                 arguments={"a": "seventeen", "b": 1})
        self.assertTrue(wrong["isError"])
        self.assertIn("a:", text_of(wrong))
        self.assertIn("number", text_of(wrong))

    def test_content_comes_through_whole(self):
        image = self.client.call("call_tool", name="get-tiny-image",
                                 server="everything")
        kinds = [part["type"] for part in image["content"]]
        self.assertIn("image", kinds)
        part = image["content"][kinds.index("image")]
        self.assertEqual(part["mimeType"], "image/png")
        self.assertGreater(len(part["data"]), 1000)
        structured = self.client.call(
            "call_tool", name="everything__get-structured-content",
            arguments={"location": "New York"})
        self.assertIn("temperature", structured["structuredContent"])
        links = self.client.call("call_tool", name="everything__get-resource-links",
                                 arguments={"count": 2})
        self.assertIn("resource_link", [p["type"] for p in links["content"]])

    def test_a_servers_own_error_comes_through(self):
        result = self.client.call(
            "call_tool", name="filesystem__read_text_file",
            arguments={"path": str(self.folder.files / "none.txt")})
        self.assertTrue(result["isError"])
        self.assertIn("none.txt", text_of(result))

    def test_progress_goes_ahead_with_the_clients_token(self):
        before = len(self.client.notes)
        self.client.ask("tools/call", {
            "name": "call_tool",
            "arguments": {"name": "everything__trigger-long-running-operation",
                          "arguments": {"duration": 1, "steps": 2}},
            "_meta": {"progressToken": "mine"}})
        progress = [note["params"] for note in self.client.notes[before:]
                    if note["method"] == "notifications/progress"]
        self.assertEqual([p["progress"] for p in progress], [1, 2])
        self.assertEqual({p["progressToken"] for p in progress}, {"mine"})

    def test_a_cancelled_call_is_not_answered(self):
        slow = self.client.send("tools/call", {
            "name": "everything__trigger-long-running-operation",
            "arguments": {"duration": 2, "steps": 1}})
        self.client.notify("notifications/cancelled", {"requestId": slow})
        self.assertEqual(self.client.ask("ping"), {})
        time.sleep(2.5)
        self.client.ask("ping")
        self.assertNotIn(slow, [note.get("id") for note in self.client.notes])

    def test_prompts_and_resources(self):
        prompts = self.client.ask("prompts/list")["prompts"]
        names = [prompt["name"] for prompt in prompts]
        self.assertIn("everything__simple-prompt", names)
        prompt = self.client.ask("prompts/get", {"name": "everything__simple-prompt"})
        self.assertTrue(prompt["messages"])
        resources = self.client.ask("resources/list")["resources"]
        self.assertTrue(resources)
        read = self.client.ask("resources/read", {"uri": resources[0]["uri"]})
        self.assertTrue(read["contents"])
        self.assertTrue(
            self.client.ask("resources/templates/list")["resourceTemplates"])

    def test_bad_input_ends_nothing(self):
        for line, code in (("{", -32700), ("[1", -32700), ("7", -32600),
                           ('{"jsonrpc":"2.0","id":"x","method":7}', -32600),
                           ('[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600)):
            self.client.write(line)
            message = self.client.read()
            self.assertEqual(message["error"]["code"], code, line)
        self.assertEqual(self.client.error("no/such")["code"], -32601)
        self.assertEqual(self.client.error("tools/call", {"name": 7})["code"], -32602)
        self.assertEqual(
            self.client.error("tools/call", {"name": "none__none"})["code"], -32602)
        self.assertEqual(self.client.ask("ping"), {})


class ReadmeTest(unittest.TestCase):
    def test_the_desktop_clients_entry_works_as_written(self):
        blocks = re.findall(r"```json\n(.*?)```", README.read_text(), re.DOTALL)
        entry = next(server for block in blocks
                     for server in json.loads(block)["mcpServers"].values()
                     if "mcp" in server["args"])
        self.assertEqual(entry["command"], "nexus")
        folder = Folder()
        self.addCleanup(folder.close)
        # All that a user must fill in; desktop clients start their servers anywhere.
        argv = [str(folder.config) if arg == "/path/to/servers.json"
                else arg for arg in entry["args"]]
        self.assertNotEqual(argv, entry["args"])
        with client(argv=[BIN, *argv], cwd="/") as one:
            found = one.find("read the file hello.txt")
            self.assertEqual(found["tools"][0]["server"], "filesystem", found)
            read = one.call("call_tool", name="filesystem__read_text_file",
                            arguments={"path": str(folder.files / "hello.txt")})
            self.assertIn("line two", text_of(read))


class ExposureTest(unittest.TestCase):
    def setUp(self):
        self.folder = Folder()

    def tearDown(self):
        self.folder.close()

    def names(self, one):
        return [tool["name"] for tool in one.ask("tools/list")["tools"]]

    def test_all_shows_every_tool(self):
        with client("--config", self.folder.config, "--expose", "all") as one:
            tools = one.ask("tools/list")["tools"]
            self.assertEqual(len(tools), 36)
            for tool in tools:
                self.assertRegex(tool["name"], r"^[a-zA-Z0-9_-]{1,64}$")
            echo = one.call("everything__echo", message="over here")
            self.assertIn("over here", text_of(echo))

    def test_routed_grows_with_the_conversation(self):
        with client("--config", self.folder.config, "--expose", "routed") as one:
            self.assertEqual(self.names(one), ["find_tool", "call_tool"])
            one.find("read a text file", limit=2)
            one.note("notifications/tools/list_changed")
            names = self.names(one)
            self.assertEqual(len(names), 4)
            self.assertTrue(names[2].startswith("filesystem__read"), names)

    def test_rules_keep_tools_back(self):
        with client("--config", self.folder.config, "--expose", "all", "--allow",
                    "filesystem/*", "--deny", "*/move*", "--deny", "nothing/*") as one:
            names = self.names(one)
            self.assertTrue(names)
            self.assertTrue(all(name.startswith("filesystem__") for name in names))
            self.assertNotIn("filesystem__move_file", names)
            # The rules are checked once all servers have listed their tools, which
            # is behind the first list that a client may see.
            self.assertTrue(one.wait_for_log("nothing/*"), one.log())
        with client("--config", self.folder.config, "--expose", "all",
                    "--read-only") as one:
            tools = one.ask("tools/list")["tools"]
            self.assertTrue(tools)
            for tool in tools:
                self.assertIs(tool["annotations"]["readOnlyHint"], True)
            refused = one.error("tools/call", {
                "name": "filesystem__write_file",
                "arguments": {"path": str(self.folder.files / "x"), "content": "x"}})
            self.assertEqual(refused["code"], -32602)
            self.assertFalse((self.folder.files / "x").exists())


class TroubleTest(unittest.TestCase):
    def test_one_dead_server_hides_nothing_and_comes_back(self):
        folder = Folder(gone={"command": "no-such-program-here"})
        self.addCleanup(folder.close)
        with client("--config", folder.config) as one:
            found = one.find("add two numbers")
            self.assertEqual(found["missing"][0]["server"], "gone")
            self.assertEqual(found["tools"][0]["name"], "everything__get-sum")
            # Its process is ours to end: a child of the gateway.
            children = subprocess.run(
                ["pgrep", "-P", str(one.process.pid), "-f", "server-everything"],
                capture_output=True, text=True).stdout.split()
            self.assertEqual(len(children), 1)
            os.kill(int(children[0]), signal.SIGKILL)
            deadline = time.monotonic() + ANSWER_S
            errors = set()
            while True:
                sum_of = one.call("call_tool", name="everything__get-sum",
                                  arguments={"a": 1, "b": 2})
                if not sum_of.get("isError"):
                    break
                errors.add(text_of(sum_of))
                self.assertLess(time.monotonic(), deadline, errors)
                time.sleep(0.05)
            for error in errors:
                self.assertIn("everything", error)
            # The others went on meanwhile.
            listed = one.call("call_tool", name="filesystem__list_allowed_directories")
            self.assertFalse(listed.get("isError"))

    def test_handshake_comes_first(self):
        folder = Folder()
        self.addCleanup(folder.close)
        with client("--config", folder.config, handshake=False) as one:
            self.assertEqual(one.error("tools/list")["code"], -32602)
            for asked, agreed in (("2025-06-18", "2025-06-18"),):
                info = one.ask("initialize", {
                    "protocolVersion": asked, "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"}})
                self.assertEqual(info["protocolVersion"], agreed)

    def test_says_what_is_wrong_with_the_command_line(self):
        folder = Folder()
        self.addCleanup(folder.close)
        for flags, code, words in (
                ([], 2, "--config"),
                (["--config", folder.path / "none.json"], 3, "none.json"),
                (["--config", folder.config, "--expose", "some"], 2, "expose"),
                (["--config", folder.config, "--http", "nowhere"], 2, "HOST:PORT"),
                (["--config", folder.config, "--http", "0.0.0.0:0"], 2,
                 "NEXUS_API_KEY")):
            done = subprocess.run([BIN, "mcp", *map(str, flags)], timeout=ANSWER_S,
                                  capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(words, done.stderr)


class HttpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Folder()
        cls.gateway = HttpGateway(cls.folder, "--expose", "routed")
        cls.port = cls.gateway.port

    @classmethod
    def tearDownClass(cls):
        assert cls.gateway.stop() == 0
        cls.folder.close()

    def request(self, method, message=None, session=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                timeout=ANSWER_S)
        self.addCleanup(connection.close)
        all_headers = {"Authorization": "Bearer a key",
                       "Accept": "application/json, text/event-stream",
                       "Content-Type": "application/json",
                       "MCP-Protocol-Version": "2025-11-25"}
        if session:
            all_headers["Mcp-Session-Id"] = session
        all_headers.update({k.replace("_", "-"): v for k, v in headers.items()})
        body = json.dumps(message) if message is not None else None
        connection.request(method, "/mcp", body, all_headers)
        return connection.getresponse()

    def rpc(self, method, params=None, **more):
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {},
                **more}

    def events(self, response):
        self.assertEqual(response.status, 200)
        self.assertEqual(response.getheader("Content-Type"), "text/event-stream")
        return [json.loads(line[len("data: "):])
                for line in response.read().decode().splitlines()
                if line.startswith("data: ")]

    def session(self):
        response = self.request("POST", self.rpc("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}))
        self.assertEqual(response.status, 200)
        response.read()
        session = response.getheader("Mcp-Session-Id")
        done = self.request("POST", {"jsonrpc": "2.0",
                                     "method": "notifications/initialized"}, session)
        self.assertEqual(done.status, 202)
        return session

    def test_a_session_from_handshake_to_delete(self):
        session = self.session()
        found = self.events(self.request("POST", self.rpc("tools/call", {
            "name": "find_tool", "arguments": {"query": "add two numbers"}}), session))
        self.assertEqual(found[0]["method"], "notifications/tools/list_changed")
        tools = found[1]["result"]["structuredContent"]["tools"]
        self.assertEqual(tools[0]["name"], "everything__get-sum")
        called = self.events(self.request("POST", self.rpc("tools/call", {
            "name": "everything__get-sum", "arguments": {"a": 1, "b": 2}}), session))
        self.assertIn("3", text_of(called[-1]["result"]))
        self.assertEqual(self.request("DELETE", session=session).status, 200)
        self.assertEqual(
            self.request("POST", self.rpc("ping"), session).status, 404)

    def test_strangers_stay_out(self):
        self.assertEqual(
            self.request("POST", self.rpc("ping"), Authorization="Bearer no").status,
            401)
        self.assertEqual(
            self.request("POST", self.rpc("ping"), Origin="http://evil.test").status,
            403)
        self.assertEqual(self.request("POST", self.rpc("ping")).status, 400)
        self.assertEqual(self.request("POST", self.rpc("ping"), "no one").status, 404)

    def test_the_servers_dont_learn_the_key(self):
        session = self.session()
        answer = self.events(self.request("POST", self.rpc("tools/call", {
            "name": "everything__get-env", "arguments": {}}), session))[-1]
        self.assertNotIn("a key", json.dumps(answer))


if __name__ == "__main__":
    unittest.main(verbosity=2)

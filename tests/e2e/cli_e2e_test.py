"""The real program on real models and real MCP servers, as a user runs it.

Run by ctest with NEXUS_BIN set to the program. Weights and servers are brought by
scripts/test beforehand; what is missing is a failure with the command that brings it.
Only the standard library is used.
"""

import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["NEXUS_BIN"]
# A developer's own settings must not decide what is tested.
for _name in ("MODEL", "STORE", "MCP", "TOOLS", "ENCODER", "CTX", "THREADS"):
    os.environ.pop("NEXUS_" + _name, None)
os.environ["NEXUS_CONFIG"] = os.devnull
CACHE = pathlib.Path(
    os.environ.get("NEXUS_CACHE_DIR")
    or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nexus"
    )
)
MCP = CACHE / "mcp-servers" / "demo.mcp.json"
SMALL = "smollm2-135m"
DEFAULT = "qwen2.5-coder-0.5b"

REGISTRY = [
    {
        "name": "book_berth",
        "description": "Books a berth for a vessel at the quay.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "vessel": {"type": "string", "description": "Name of the vessel"},
                "nights": {"type": "integer", "minimum": 1, "maximum": 30},
                "side": {"type": "string", "enum": ["port", "starboard"]},
            },
            "required": ["vessel", "side"],
        },
    },
    {
        "type": "function",
        "function": {
            "name": "tide_table",
            "description": "Times of high and low water on a date.",
            "parameters": {
                "type": "object",
                "properties": {"date": {"type": "string", "format": "date"}},
                "required": ["date"],
            },
        },
    },
]


class CliTest(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="nexus-e2e-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        self.store = self.dir / "store"
        self.registry = self.dir / "tools.jsonl"
        self.registry.write_text("\n".join(json.dumps(t) for t in REGISTRY) + "\n")

    def run_nexus(self, *args, code=0, **kwargs):
        done = subprocess.run(
            [BIN, *map(str, args)],
            capture_output=True,
            text=True,
            timeout=500,
            **kwargs,
        )
        self.assertEqual(
            done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}"
        )
        return done

    def json(self, *args, code=0):
        done = self.run_nexus(*args, "--json", code=code)
        value = json.loads(done.stdout)
        self.assertEqual(value["schema_version"], 1)
        return value

    def small(self):
        return ["--model", SMALL, "--store", self.store, "--tools", self.registry]

    def blocks(self):
        return sorted(self.store.glob("*.nxb"))

    def berths(self, count):
        """A registry of as many tools, each with a description of its own."""
        registry = self.dir / "berths.jsonl"
        with registry.open("w") as file:
            for i in range(count):
                tool = {**REGISTRY[0], "name": f"book_berth_{i}"}
                tool["description"] += f" Quay {i}, pier {i * 7}."
                file.write(json.dumps(tool) + "\n")
        return registry


class RegistryTest(CliTest):
    def test_both_dialects_are_listed_with_token_counts(self):
        listed = self.json("tools", "--tools", self.registry, "--model", SMALL)
        self.assertEqual(
            [t["name"] for t in listed["tools"]], ["book_berth", "tide_table"]
        )
        for tool in listed["tools"]:
            self.assertLess(tool["ir_tokens"], tool["schema_tokens"])
        # What was listed is a registry, and the same one.
        again = self.dir / "listed.json"
        again.write_text(json.dumps({"tools": listed["tools"]}))
        relisted = self.json("tools", "--tools", again, "--model", SMALL)
        self.assertEqual([t["schema_hash"] for t in relisted["tools"]],
                         [t["schema_hash"] for t in listed["tools"]])

    def test_route_explains_its_decision(self):
        routed = self.json(
            "route", "when is high tide tomorrow?", "--tools", self.registry
        )
        self.assertEqual(routed["tool"], "tide_table")
        self.assertTrue(routed["reason"])
        self.assertIn("scan", routed["latency_us"])

    def test_an_exact_name_wins(self):
        routed = self.json("route", "call book_berth now", "--tools", self.registry)
        self.assertEqual(routed["candidates"][0]["tool"], "book_berth")
        self.assertTrue(routed["candidates"][0]["exact_name"])


class SpliceTest(CliTest):
    def ask(self, *more, code=0):
        return self.json(
            "ask", "Book a berth for the Maria, port side", *self.small(), *more,
            "--tool", "book_berth", code=code,
        )

    def test_a_compiled_schema_is_spliced_and_the_call_is_valid(self):
        before = self.ask()
        self.assertEqual(before["tier"]["tier"], "prefill")
        self.assertIn("nexus compile", " ".join(before["tier"]["reasons"]))
        compiled = self.json("compile", *self.small())
        self.assertEqual((compiled["compiled"], compiled["failures"]), (2, []))
        after = self.ask("--tier", "splice")
        self.assertEqual(after["tier"]["tier"], "splice")
        self.assertGreater(after["tier"]["spliced_tokens"], 50)
        self.assertTrue(after["call"]["valid"], after)
        self.assertIn(after["call"]["arguments"]["side"], ["port", "starboard"])
        again = self.json("compile", *self.small())
        self.assertEqual((again["compiled"], again["already_present"]), (0, 2))

    def test_a_second_start_restores_the_exact_cells(self):
        first = self.ask()
        self.assertEqual(first["tier"]["tier"], "prefill")
        second = self.ask()
        self.assertEqual(second["tier"]["tier"], "exact-variant")
        self.assertEqual(first["call"]["arguments"], second["call"]["arguments"])

    def test_inspect_shows_a_block_and_refuses_a_damaged_one(self):
        self.json("compile", *self.small(), "--only", "tide_table")
        block = self.blocks()[0]
        shown = self.json("inspect", block)
        self.assertEqual(shown["tool"], "tide_table")
        self.assertEqual(shown["kind"], "splice")
        damaged = self.dir / "damaged.nxb"
        damaged.write_bytes(block.read_bytes()[:-100])
        done = self.run_nexus("inspect", damaged, code=4)
        self.assertIn("damaged.nxb", done.stderr)
        foreign = self.dir / "foreign.nxb"
        foreign.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))
        self.assertIn("foreign.nxb", self.run_nexus("inspect", foreign, code=4).stderr)

    def test_blocks_of_another_model_are_not_used(self):
        self.json("compile", *self.small())
        asked = self.json(
            "ask", "Book a berth for the Maria, port side", "--model", DEFAULT,
            "--store", self.store, "--tools", self.registry, "--tool", "book_berth",
        )
        self.assertEqual(asked["tier"]["tier"], "prefill")

    def test_two_processes_may_compile_the_same_tools(self):
        args = [BIN, "compile", *map(str, self.small()), "--json"]
        both = [
            subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        for process in both:
            out, err = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 0, err)
            self.assertEqual(json.loads(out)["failures"], [])
        self.assertEqual(len(self.blocks()), 2)
        for block in self.blocks():
            self.json("inspect", block)

    def test_ctrl_c_while_compiling_loses_nothing_and_a_rerun_goes_on(self):
        registry = self.berths(6)
        args = ["--model", SMALL, "--store", self.store, "--tools", registry]
        process = subprocess.Popen(
            [BIN, "compile", *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        deadline = time.monotonic() + 240
        while not self.blocks() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        kept = len(self.blocks())
        self.assertGreater(kept, 0)
        self.assertLess(kept, 6)
        self.assertEqual([p for p in self.store.iterdir() if ".tmp" in p.name], [])
        for block in self.blocks():
            self.json("inspect", block)
        rest = self.json("compile", *args)
        self.assertEqual(rest["already_present"], kept)
        self.assertEqual(rest["compiled"] + kept, 6)

    def test_ctrl_c_ends_the_embedding_of_a_long_registry(self):
        registry = self.berths(4000)
        process = subprocess.Popen(
            [BIN, "route", "a berth", "--tools", str(registry), "--threads", "1"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NEXUS_CACHE_DIR": str(self.dir)},
        )
        time.sleep(3)
        self.assertIsNone(process.poll(), "4,000 tools embedded in three seconds?")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)

    def test_a_damaged_block_is_compiled_again(self):
        self.json("compile", *self.small())
        for block in self.blocks():
            data = bytearray(block.read_bytes())
            data[len(data) // 2] ^= 0xFF
            block.write_bytes(bytes(data))
        again = self.json("compile", *self.small())
        self.assertEqual((again["compiled"], again["already_present"]), (2, 0))

    def test_a_full_disk_leaves_nothing_half_written(self):
        def limit():
            # A write past 64 kB fails as on a full disk, instead of a signal.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        done = subprocess.run(
            [BIN, "compile", *map(str, self.small())],
            capture_output=True, text=True, timeout=300, preexec_fn=limit,
        )
        self.assertNotEqual(done.returncode, 0)
        self.assertGreater(done.returncode, 0, "must not die of a signal")
        self.assertIn("nexus: ", done.stderr)
        self.assertEqual(self.blocks(), [])
        self.assertEqual(
            [p for p in self.store.glob("*") if "tmp" in p.name.lower()], []
        )
        self.assertEqual(self.json("compile", *self.small())["compiled"], 2)

    def test_bench_ttft_shows_speed_and_fidelity_of_one_run(self):
        bench = self.json(
            "bench", "ttft", "--model", SMALL, "--store", self.store,
            "--tools", self.registry, "--schema-tokens", 300, "--runs", 3,
            "--fidelity-tokens", 16,
        )
        for key in (
            "model", "n_past", "schema_tokens", "query_tokens", "ttft_ms", "ratio",
            "recompute_share", "kl_mean", "top1", "n",
        ):
            self.assertIn(key, bench)
        for arm in ("prefill", "exact_prefix", "splice", "all_schemas"):
            self.assertGreater(bench["ttft_ms"][arm], 0)
        for arm in ("splice", "exact_prefix", "all_schemas"):
            self.assertGreater(bench["ratio"][arm], 0)
        self.assertEqual((bench["n_past"], bench["query_tokens"]), (256, 40))
        self.assertGreater(bench["ratio"]["splice"], 1.5)
        self.assertGreater(bench["ratio"]["exact_prefix"], 1.5)
        self.assertLess(bench["kl_mean"], 0.5)
        self.assertGreater(bench["top1"], 0.5)


# An MCP server of three tools, one of which only reads; writes down what is called.
GATE_SERVER = """
import json, sys
def tool(name, text, hints):
    return {"name": name, "description": text, "annotations": hints, "inputSchema": {
        "type": "object", "properties": {"gate": {"type": "string",
        "enum": ["north", "south"]}}, "required": ["gate"]}}
TOOLS = [tool("open_gate", "Opens a gate of the yard.", {"readOnlyHint": False}),
         tool("shut_gate", "Shuts a gate of the yard.", {}),
         tool("watch_gate", "Shows the camera of a gate of the yard.",
              {"readOnlyHint": True})]
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"],
                  "capabilities": {"tools": {}},
                  "serverInfo": {"name": "gates", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": TOOLS}
    elif asked["method"] == "tools/call":
        with open(sys.argv[1], "a") as log:
            log.write(asked["params"]["name"] + "\\n")
        result = {"content": [{"type": "text", "text": "done"}]}
    else:
        result = {}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


class CloseCallTest(CliTest):
    """What may change things is run only when it is clear that it is meant."""

    def setUp(self):
        super().setUp()
        script, self.log = self.dir / "gates.py", self.dir / "called"
        script.write_text(GATE_SERVER)
        self.mcp = self.dir / "gates.mcp.json"
        self.mcp.write_text(json.dumps({"mcpServers": {"gates": {
            "command": sys.executable, "args": [str(script), str(self.log)]}}}))

    def ask(self, question, *more, code=0, json_too=True):
        # No margin reaches a tau of 1: every question is a close call.
        args = ("ask", question, "--mcp", self.mcp, "--model", SMALL, "--store",
                self.store, "--execute", "--no-learn", "--tau", 1, *more)
        if json_too:
            return self.json(*args, code=code)
        return self.run_nexus(*args, code=code).stdout

    def called(self):
        return self.log.read_text().split() if self.log.exists() else []

    def test_a_tool_that_may_write_is_not_run_on_a_close_call(self):
        asked = self.ask("Open the north gate", code=7)
        self.assertEqual(asked["route"]["outcome"], "re-rank")
        self.assertEqual(asked["tool"], "gates/open_gate")
        self.assertTrue(asked["call"]["valid"])
        self.assertIn("changes things", asked["not_run"])
        self.assertNotIn("result", asked)
        shown = self.ask("Shut the south gate", code=7, json_too=False)
        self.assertIn("doesn't say that it only reads", shown)
        self.assertIn("--yes", shown)
        for tool in ("open_gate", "shut_gate", "watch_gate"):
            self.assertIn(tool, shown)
        self.assertEqual(self.called(), [])

    def test_it_is_run_when_the_user_says_so_or_it_only_reads(self):
        self.assertEqual(self.ask("Open the north gate", "--yes")["result"]["text"],
                         "done")
        self.ask("Open the north gate", "--tool", "shut_gate")
        self.ask("Use open_gate on the north gate")
        watched = self.ask("Show me the camera of the south gate")
        self.assertEqual(watched["route"]["outcome"], "re-rank")
        self.assertEqual(self.called(),
                         ["open_gate", "shut_gate", "open_gate", "watch_gate"])

    def test_two_names_are_no_choice(self):
        asked = self.ask("First open_gate, then shut_gate, both north", code=7)
        self.assertEqual(asked["route"]["rule"], "exact-names")
        self.assertEqual(self.called(), [])

    def test_an_abstention_shows_the_candidates_too(self):
        shown = self.ask("What is the share price of Siemens?", code=7,
                         json_too=False)
        self.assertIn("no tool fits", shown)
        self.assertIn("open_gate", shown)
        self.assertEqual(self.called(), [])


class WrongInputTest(CliTest):
    def assert_line(self, done, *parts):
        lines = [l for l in done.stderr.splitlines() if l.startswith("nexus: ")]
        self.assertTrue(lines, done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_each_kind_gives_one_clear_line_and_its_code(self):
        broken = self.dir / "broken.jsonl"
        broken.write_text('{"name": "a"\n')
        empty = self.dir / "empty.jsonl"
        empty.write_text("")
        model = self.dir / "model.gguf"
        # Version 3, then counts that the file is too short for.
        model.write_bytes(b"GGUF\x03\0\0\0" + b"\x05\0\0\0\0\0\0\0" * 2)
        ask = ["ask", "x", "--tools", self.registry]
        cases = [
            (["route", "x"], 2, "--mcp"),
            (["route", "x", "--tools", self.dir / "no.jsonl"], 3, "no.jsonl"),
            (["ask", "x", "--tools", self.registry, "--execute"], 2, "--mcp"),
            (ask + ["--model", "no-such-model"], 3, "no-such-model"),
            (ask + ["--model", model], 4, "model.gguf"),
            (ask + ["--model", SMALL, "--tool", "no_tool"], 3, "no_tool"),
            (["compile", *self.small(), "--only", "nothing"], 3, "--only"),
            (["tools", "--mcp", self.dir / "no.json"], 3, "no.json"),
            (["tools", "--tools", empty], 2, "empty.jsonl"),
            (["route", "x", "--tools", self.registry, "--server", "no"], 3, "no"),
            (["route", "x", "--tools", self.registry, "--tau", "nan"], 2, "nan"),
            (["frobnicate"], 2, "frobnicate"),
        ]
        for args, code, part in cases:
            with self.subTest(args=args):
                self.assert_line(self.run_nexus(*args, code=code), part)
        done = self.run_nexus("tools", "--tools", broken, code=2)
        self.assert_line(done, "broken.jsonl")

    def test_flags_beat_the_environment_and_that_beats_the_config_file(self):
        config = self.dir / "nexus.toml"
        config.write_text('store = "/from/file"\n')

        def store(*args, **env):
            done = subprocess.run(
                [BIN, "--config", config, "inspect", "--json", *map(str, args)],
                capture_output=True, text=True, env=dict(os.environ, **env),
            )
            return json.loads(done.stdout)["store"] if done.stdout else done.stderr

        env_store, flag_store = str(self.dir / "env"), str(self.dir / "flag")
        self.assertEqual(store(NEXUS_STORE=env_store), env_store)
        self.assertEqual(
            store("--store", flag_store, NEXUS_STORE=env_store), flag_store
        )

    def test_a_result_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [BIN, "tools", "--tools", self.registry, "--json"],
                stdout=full, stderr=subprocess.PIPE, text=True,
            )
        self.assertEqual(done.returncode, 5, done.stderr)

    def test_a_context_too_small_is_said_before_work_begins(self):
        done = self.run_nexus(
            "ask", "Book it", *self.small(), "--tool", "book_berth", "--ctx", 64,
            code=5,
        )
        self.assert_line(done, "--ctx")

    def test_a_reranker_out_of_place_is_said_before_work_begins(self):
        encoder = self.dir / "encoder.gguf"
        encoder.write_text("")
        elsewhere = self.dir / "elsewhere" / "pairs.gguf"
        elsewhere.parent.mkdir()
        beside = self.dir / "pairs.gguf"
        # No queries: were it not for the re-ranker, their lack would be said.
        command = ("calibrate-router", "--encoder", encoder, "--registry",
                   self.registry, "--queries", self.dir / "none.jsonl", "--reranker")
        done = self.run_nexus(*command, elsewhere, code=3)
        self.assertIn(str(elsewhere), done.stderr)
        elsewhere.write_text("")
        done = self.run_nexus(*command, elsewhere, code=2)
        self.assertIn(f"beside the encoder, as {beside}", done.stderr)
        beside.symlink_to(elsewhere)
        for fine in ((beside,), (elsewhere,), (elsewhere, "--out", self.dir / "x")):
            done = self.run_nexus(*command, *fine, code=3)
            self.assertIn("none.jsonl", done.stderr)

    def test_help_teaches(self):
        for command in ("", "ask", "bench ttft", "compile", "doctor", "route"):
            done = self.run_nexus(*command.split(), "--help")
            self.assertGreater(len(done.stdout), 400, command)

    def test_a_config_file_sets_flags_and_a_broken_one_says_where(self):
        config = self.dir / "nexus.toml"
        config.write_text(f'[tools]\ntools = "{self.registry}"\nmodel = "{SMALL}"\n')
        listed = json.loads(
            subprocess.run(
                [BIN, "--config", config, "tools", "--json"],
                capture_output=True, text=True, check=True,
            ).stdout
        )
        self.assertEqual(listed["count"], 2)
        config.write_text("[tools\n")
        done = subprocess.run(
            [BIN, "--config", config, "tools"], capture_output=True, text=True
        )
        self.assertEqual(done.returncode, 2)
        self.assertIn("line", done.stderr + done.stdout)


class RealServersTest(CliTest):
    def setUp(self):
        super().setUp()
        self.assertTrue(MCP.exists(), "run scripts/fetch_mcp_servers first")

    def test_the_demo_question_is_answered_by_a_real_tool_result(self):
        common = ["--mcp", MCP, "--store", self.store, "--model", DEFAULT]
        listed = self.json("tools", "--mcp", MCP)
        self.assertEqual(listed["count"], 36)
        compiled = self.json("compile", *common, "--only", "get-sum", "--contexts", 2)
        self.assertEqual(compiled["compiled"], 1)
        asked = self.json(
            "ask", "What is the sum of 17.5 and 24.25?", *common, "--execute"
        )
        self.assertEqual(asked["tool"], "everything/get-sum", asked["route"])
        self.assertEqual(asked["tier"]["tier"], "splice")
        self.assertTrue(asked["call"]["valid"])
        self.assertIn("41.75", asked["result"]["text"])

    def test_doctor_says_what_is_on_and_off(self):
        report = self.json(
            "doctor", "--mcp", MCP, "--store", self.store, "--model", DEFAULT
        )
        self.assertTrue(report["ok"], report)
        parts = {f["part"]: f for f in report["findings"]}
        self.assertEqual(parts["splice"]["state"], "on")
        for finding in report["findings"]:
            self.assertTrue(finding["text"], finding)

    def test_a_dead_server_hides_nothing_of_the_others(self):
        config = json.loads(MCP.read_text())
        config["mcpServers"]["gone"] = {"command": "no-such-program-here"}
        path = self.dir / "servers.json"
        path.write_text(json.dumps(config))
        done = self.run_nexus("tools", "--mcp", path, "--json")
        self.assertEqual(json.loads(done.stdout)["count"], 36)
        self.assertIn("gone", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

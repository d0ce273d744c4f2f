"""nexus eval args and eval e2e as a user runs them, with the smallest model.

Run by ctest with NEXUS_BIN set to the program; scripts/test brings the weights.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BIN = os.environ["NEXUS_BIN"]
for _name in ("MODEL", "STORE", "MCP", "TOOLS", "ENCODER", "CTX", "THREADS"):
    os.environ.pop("NEXUS_" + _name, None)
os.environ["NEXUS_CONFIG"] = os.devnull
DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
REGISTRY = DATA / "registry" / "everyday.jsonl"
QUERIES = DATA / "queries" / "everyday_calls.jsonl"


class EvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="nexus-eval-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)

    def nexus(self, command, *args, queries=QUERIES, ctx=2048, code=0):
        done = subprocess.run(
            [BIN, "eval", command, "--registry", REGISTRY, "--queries", queries,
             "--model", "smollm2-135m", "--store", self.dir / "store",
             "--ctx", str(ctx), "--max-tokens", "96", "--threads", "1",
             "--flash-attention", "off", *map(str, args)],
            capture_output=True, text=True, timeout=500)
        self.assertEqual(
            done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args, **more):
        value = json.loads(self.nexus(*args, "--json", **more).stdout)
        self.assertEqual(value["schema_version"], 1)
        return value

    def query_file(self, *rows):
        path = self.dir / "queries.jsonl"
        path.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n"
                                for r in rows))
        return path

    # In the order of their names: later ones read the trials of the first.
    def test_1_all_modes_side_by_side_give_valid_json(self):
        trials = self.dir / "trials.jsonl"
        first = self.json("args", "--mode", "all", "--trials", trials)
        self.assertEqual(first["n"], 6)
        self.assertEqual(set(first["modes"]), {"ir", "schema", "schema-text"})
        for mode in first["modes"].values():
            self.assertEqual((mode["n"], mode["json_valid"]), (6, 1))
            self.assertEqual(mode["refused"], 0)
            self.assertGreater(mode["ttft_ms_p50"], 0)
            self.assertTrue(0 <= mode["exact"] <= 1)
        self.assertLess(first["modes"]["ir"]["prompt_tokens_mean"],
                        first["modes"]["schema"]["prompt_tokens_mean"])
        self.assertEqual(len(first["pairs"]), 3)
        for pair in first["pairs"]:
            low, high = pair["ci95"]
            self.assertTrue(low <= pair["difference"] <= high)
        # No block is in the store: both forms of the schema are the same text.
        self.assertEqual(first["modes"]["schema"]["exact"],
                         first["modes"]["schema-text"]["exact"])

        # Each mode alone has the fixed fields, and nothing is generated again.
        lines = trials.read_text()
        for name, mode in first["modes"].items():
            alone = self.json("args", "--mode", name, "--trials", trials)
            for field in ("n", "json_valid", "exact", "prompt_tokens_mean",
                          "ttft_ms_p50", "invented_optional"):
                self.assertEqual(alone[field], mode[field], field)
        self.assertEqual(trials.read_text(), lines)

        text = self.nexus("args", "--trials", trials, "--failures", 2).stdout
        self.assertIn("schema-text", text)
        self.assertIn("McNemar", text)
        if first["modes"]["ir"]["exact"] < 1:
            self.assertIn("expected", text)
        self.assertIn("| ir ", self.nexus("args", "--trials", trials,
                                          "--markdown").stdout)

    def test_2_trials_of_another_context_are_refused(self):
        refused = self.nexus("args", "--mode", "ir", "--limit", 1, "--trials",
                             self.dir / "trials.jsonl", ctx=1024, code=4)
        self.assertIn("context_tokens", refused.stderr)

    def test_3_the_router_in_front_against_all_schemas(self):
        found = self.json("e2e", "--mode", "ir", "--words-only", "--pool",
                          "random", "--n", 3, "--baseline", 2, "--trials",
                          self.dir / "trials.jsonl")
        self.assertEqual(found["n"], 6)
        routed = found["routed"]["ir"]
        self.assertGreaterEqual(routed["tool"]["value"], routed["both"]["value"])
        self.assertGreater(found["all_schemas"]["list_tokens_mean"],
                           routed["prompt_tokens_mean"])
        self.assertEqual(found["all_schemas"]["both"]["n"], 2)
        self.assertGreater(found["all_schemas"]["overflow_tools"], 5)
        self.assertEqual(found["pairs"][0]["n"], 2)

    def test_4_bad_query_files_say_what_is_wrong(self):
        for rows, words in (
            ([{"query": "a", "gold": ["read_file"]}], "have no \"calls\""),
            ([{"query": "a", "gold": ["x"], "calls":
               [{"tool": "nowhere", "arguments": {}}]}], "no tool 'nowhere'"),
            ([{"query": "a", "gold": ["x"], "calls": [1]}], "calls[0]"),
            ([{"query": "a", "gold": ["read_file"], "calls": [{
               "tool": "read_file", "arguments": {"path": "x"}}]}],
             "list of accepted values"),
            (["{"], "queries.jsonl:1"),
            ([], "no queries are left"),
        ):
            for command in ("args", "e2e"):
                with self.subTest(words=words, command=command):
                    failed = self.nexus(command, queries=self.query_file(*rows),
                                        code=2)
                    self.assertIn(words, failed.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)

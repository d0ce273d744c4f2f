"""nexus eval route, bench scan and calibrate-router as a user runs them: no model,
the committed encoders and the committed set.

Run by ctest with NEXUS_BIN set to the program.
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
ROOT = pathlib.Path(__file__).resolve().parents[2]
SET = ROOT / "tests" / "data" / "routing"
TOOLS, QUERIES = SET / "tools.jsonl", SET / "queries.jsonl"
ENCODER = "nexus-route-minilm-Q8_0.gguf"


class RouteEvalTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = pathlib.Path(tempfile.mkdtemp(prefix="nexus-route-eval-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        # A copy, so that no profile is written beside the committed one.
        cls.encoder = cls.dir / ENCODER
        shutil.copy(ROOT / "models" / ENCODER, cls.encoder)
        shutil.copy(ROOT / "models" / "all-MiniLM-L6-v2-Q8_0.gguf", cls.dir)
        cls.cache = ["--cache", cls.dir / "embeddings"]
        cls.set = ["--registry", TOOLS, "--queries", QUERIES]

    def nexus(self, *args, code=0):
        done = subprocess.run([BIN, *map(str, args)], capture_output=True, text=True,
                              timeout=500)
        self.assertEqual(
            done.returncode, code, f"{args}\n{done.stdout}\n{done.stderr}")
        return done

    def json(self, *args, code=0):
        value = json.loads(self.nexus(*args, "--json", code=code).stdout)
        self.assertEqual(value["schema_version"], 1)
        return value

    def check_point(self, point):
        for share in ("top1", "recall_at_5", "auto_share", "auto_precision",
                      "reranked_share", "abstain_share"):
            self.assertTrue(0 <= point[share] <= 1, share)
        for share in ("top1", "recall_at_5", "auto_share", "auto_precision"):
            low, high = point["ci95"][share]
            self.assertTrue(low <= point[share] <= high, share)
        self.assertGreater(point["oos"]["n"], 16)  # near misses among them
        self.assertTrue(0 <= point["oos"]["false_route"] <= 1)
        for part in ("embed", "scan", "gate", "rerank"):
            self.assertEqual(set(point["latency_us"][part]), {"p50", "p95"})
        self.assertGreater(point["latency_us"]["embed"]["p50"], 0)
        self.assertAlmostEqual(point["margin_rule"]["tau"], 0.0136)
        for share in ("auto_share", "auto_precision", "false_route"):
            self.assertTrue(0 <= point["margin_rule"][share] <= 1, share)

    def test_a_sweep_has_the_fixed_fields_a_report_and_misses(self):
        report = self.dir / "report.md"
        found = self.json(
            "eval", "route", *self.set, "--encoder", self.encoder, *self.cache,
            "--pool", "neighbour", "--sweep", "10,25", "--seeds", 2, "--near-miss",
            "--latency-queries", 5, "--report", report, "--misses", 3)
        self.assertEqual((found["n"], found["tools"]), (65, 25))
        self.check_point(found)
        self.assertEqual([p["tools"] for p in found["sweep"]], [10, 25])
        for point in found["sweep"]:
            self.check_point(point)
        self.assertEqual(found["sweep"][1]["top1"], found["top1"])
        # The gate in force is the margin rule: its own baseline.
        self.assertEqual(found["margin_rule"]["auto_share"], found["auto_share"])
        self.assertEqual(found["baseline_encoder"], "all-MiniLM-L6-v2-Q8_0.gguf")
        top1 = {r["name"]: r["top1"] for r in found["rankings"]}
        self.assertGreater(found["top1"], top1["dense-int8"])
        self.assertEqual(len(found["misses"]), 3)
        for miss in found["misses"]:
            self.assertTrue(miss["query"] and miss["kind"] and miss["rule"])
        text = report.read_text()
        for part in ("## Ranking", "## Gate", "margin rule", "report.svg", "| 25 "):
            self.assertIn(part, text)
        self.assertIn("<svg", (self.dir / "report.svg").read_text())

    def test_the_scan_is_measured_against_the_others(self):
        found = self.json("bench", "scan", "--tools", 250, "--dims", 384)
        for case in found["cases"]:
            self.assertEqual((case["tools"], case["dim"]), (250, 384))
            for field in ("nexus_us", "plain_us", "bytes"):
                self.assertGreater(case[field], 0, field)
            for field in ("faiss_flat_us", "faiss_sq8_us", "usearch_us",
                          "usearch_hnsw_us", "recall_at_10_usearch"):
                self.assertIn(field, case)
            self.assertGreaterEqual(case["recall_at_10"], 0.99)

    def calibrate(self, *more, code=0):
        return self.json("calibrate-router", *self.set, "--encoder", self.encoder,
                         *self.cache, "--pools", "10,25", *more, code=code)

    def test_a_profile_is_written_and_used(self):
        beside = self.encoder.with_suffix(".router.json")
        # Far out of reach: this would route nothing, so it isn't put in force.
        refused = self.calibrate("--precision", 100, "--false-routing", 0, code=1)
        self.assertIsNone(refused["profile"])
        self.assertFalse(beside.exists())
        self.assertEqual([p["precision"] for p in refused["reach"]],
                         [1, 0.98, 0.95, 0.9, 0.85, 0.8])
        elsewhere = self.dir / "asked-for.json"
        self.calibrate("--precision", 100, "--false-routing", 0, "--out", elsewhere)
        self.assertTrue(elsewhere.exists())

        made = self.calibrate("--precision", 70, "--false-routing", 60)
        self.assertEqual(pathlib.Path(made["profile"]).name, beside.name)
        self.assertTrue(beside.exists())
        self.assertEqual(made["false_route_allowed"], 0.6)
        self.assertLess(made["route_at"], 1)
        self.assertGreater(made["first_look"]["auto_share"], 0)
        self.assertGreaterEqual(made["first_look"]["auto_precision"], 0.7)
        self.assertAlmostEqual(made["margin_rule"]["paper"]["tau"], 0.0136)
        self.assertIn("auto_share", made["margin_rule"]["learnt"])
        self.addCleanup(beside.unlink)
        routed = self.json("route", "Find books by Ursula Le Guin", "--tools", TOOLS,
                           "--encoder", self.encoder)
        self.assertTrue(routed["rule"].startswith("head"), routed["rule"])


if __name__ == "__main__":
    unittest.main(verbosity=2)

"""PYTHON -m unittest discover -s tools/train -p '*_test.py' (needs numpy only)."""

import collections
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np

from data_sets import DataSet, json_schema, listed_parameters
from examples import Miner, Mixer, Pool, add_invented, invented_query
from prepare import split_queries, split_tools
from splits import (Groups, Vectors, canonical, leaks, near_pairs, side_of,
                    sketches)


class BagEncoder:
    """A vector that counts words: near means many words in common."""

    def embed(self, texts):
        rows = np.zeros((len(texts), 4096), np.float32)
        for row, text in zip(rows, texts):
            for word in text.lower().replace("\n", " ").split():
                row[sum(map(ord, word)) * 31 % 4096] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


def small_set(name="demo", grouped=False, count=40):
    out = DataSet(name, grouped)
    for i in range(count):
        out.add_tool(f"tool{i}", f"Does the thing number w{i} with v{i} and u{i}",
                     server=f"server{i % 4}" if grouped else "")
    return out


class DataSetTest(unittest.TestCase):
    def test_a_name_of_two_servers_is_any_of_both(self):
        out = DataSet("demo", grouped=True)
        out.add_tool("search", "a", server="one")
        out.add_tool("search", "b", server="two")
        out.add_query("find it", ["search"])
        self.assertEqual(out.queries[0]["gold"], ["one/search", "two/search"])
        self.assertTrue(out.queries[0]["gold_any"])
        self.assertEqual(out.queries[0]["kind"], "single")

    def test_unknown_gold_is_dropped_and_noted(self):
        out = small_set()
        out.add_query("both", ["tool1", "nowhere"])
        out.add_query("none", ["nowhere"])
        self.assertEqual([q["gold"] for q in out.queries], [["demo/tool1"]])
        self.assertEqual(len(out.notes), 3)

    def test_several_needed_tools_are_all_needed(self):
        out = small_set()
        out.add_query("both", ["tool1", "tool2"])
        self.assertEqual(out.queries[0]["kind"], "multi")
        self.assertNotIn("gold_any", out.queries[0])

    def test_no_gold_is_out_of_scope(self):
        out = small_set()
        out.add_query("hello", [])
        self.assertEqual(out.queries[0]["kind"], "oos")

    def test_out_of_scope_of_no_tools_is_dropped_and_noted(self):
        out = small_set()
        out.add_query("hello", [], candidates=[], within="candidates")
        out.add_query("hello", [], candidates=["demo/tool1"], within="candidates")
        self.assertEqual([q["candidates"] for q in out.queries], [["demo/tool1"]])
        self.assertEqual(len(out.notes), 1)

    def test_dialects_become_json_schema(self):
        self.assertEqual(json_schema(
            {"type": "dict", "properties": {"type": {"type": "float"}}}),
            {"type": "object", "properties": {"type": {"type": "number"}}})
        self.assertEqual(listed_parameters(
            [{"name": "a", "type": "STRING", "required": True}]),
            {"type": "object", "properties": {"a": {"type": "string"}},
             "required": ["a"]})


class SplitsTest(unittest.TestCase):
    def test_sides_have_their_shares(self):
        counts = collections.Counter(side_of(f"text {i}") for i in range(20000))
        self.assertAlmostEqual(counts["train"] / 20000, 0.60, delta=0.015)
        self.assertAlmostEqual(counts["calibration"] / 20000, 0.15, delta=0.015)
        self.assertAlmostEqual(counts["test"] / 20000, 0.25, delta=0.015)

    def test_canonical_text_has_no_server_and_no_case(self):
        a = {"server": "github", "name": "github_createIssue",
             "description": "Creates an Issue."}
        b = {"server": "", "name": "create_issue",
             "description": "creates an issue"}
        self.assertEqual(canonical(a), canonical(b))

    def test_groups_join_chains(self):
        groups = Groups()
        groups.join("a", "b")
        groups.join("c", "d")
        groups.join("b", "c")
        self.assertEqual(groups.find("d"), groups.find("a"))
        self.assertNotEqual(groups.find("e"), groups.find("a"))

    def test_sketches_keep_cosines_roughly(self):
        texts = [f"word{i} word{i + 1} word{i + 2} word{i + 3}"
                 for i in range(0, 400, 4)]
        sketch = sketches(texts + [texts[0], "word0 word1 word2 other"])
        pairs = set(near_pairs(sketch, sketch))
        self.assertIn((0, 100), pairs)
        self.assertIn((0, 101), pairs)
        self.assertLess(len([p for p in pairs if p[0] < p[1]]), 20)

    def test_leaks_are_found_by_words_and_by_cosine(self):
        guarded = ["please show me all of the open pull requests of octo now",
                   "weather in Paris"]
        kept = ["well show me all of the open pull requests of others",
                "Weather in Paris?", "paris in weather", "unrelated words here"]
        found = leaks(kept, guarded, Vectors(BagEncoder()))
        self.assertEqual(found, {0: "8-gram", 1: "same words", 2: "cosine"})

    def test_whole_servers_and_twins_stay_on_one_side(self):
        data_set = small_set(grouped=True)
        other = DataSet("other", grouped=False)
        other.add_tool("copy", "x")
        other.tools[0].update(name="tool0",
                              description=data_set.tools[0]["description"])
        report = {}
        sides = split_tools([data_set, other], Vectors(BagEncoder()), report)
        for server in range(4):
            found = {sides[f"server{server}/tool{i}"][0]
                     for i in range(server, 40, 4)}
            self.assertEqual(len(found), 1)
        self.assertEqual(sides["other/tool0"], sides["server0/tool0"])

    def test_a_query_across_sides_is_mixed(self):
        data_set = small_set(count=200)
        sides = split_tools([data_set], Vectors(BagEncoder()), {})
        train = [k for k, v in sides.items() if v[0] == "train"]
        test = [k for k, v in sides.items() if v[0] == "test"]
        data_set.add_query("first alpha", [train[0], test[0]])
        data_set.add_query("second beta", [test[0]])
        data_set.add_query("third gamma", [train[1]])
        split_queries([data_set], sides, Vectors(BagEncoder()), {})
        self.assertEqual([q["split"] for q in data_set.queries],
                         ["mixed", "test", "train"])


class ExamplesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name)
        tools = [("files", "read_file", "Read a file", 0),
                 ("files", "write_file", "Write a file", 1),
                 ("rival", "read_file", "Read a file", 0),
                 ("files", "list_folders", "List all folders", 2)]
        with open(path / "demo.tools.jsonl", "w", encoding="utf-8") as out:
            for server, name, text, _ in tools:
                out.write(json.dumps({"server": server, "name": name,
                                      "description": text}) + "\n")
        with open(path / "tools.splits.jsonl", "w", encoding="utf-8") as out:
            for server, name, _, twin in tools:
                out.write(json.dumps(
                    {"set": "demo", "id": f"{server}/{name}", "split": "train",
                     "twin": str(twin)}) + "\n")
        self.pool = Pool(path, "train")

    def test_a_twin_of_the_gold_tool_is_no_negative(self):
        miner = Miner(self.pool, BagEncoder().embed(self.pool.texts))
        query = {"id": "q", "set": "demo", "query": "read a file",
                 "gold": ["files/read_file"]}
        found = miner.negatives(query, BagEncoder().embed(["read a file"])[0])
        rows = {r for part in found.values() for r in part}
        self.assertEqual({self.pool.ids[r] for r in rows},
                         {"files/write_file", "files/list_folders"})

    def test_draws_depend_on_seed_and_step_only(self):
        rows = [{"id": i, "set": "ab"[i % 2]} for i in range(100)]
        first = Mixer(rows, 1)
        drawn = [first.draw(step, 8, 4)[0] for step in range(5)]
        self.assertEqual(Mixer(rows, 1).draw(3, 8, 4)[0], drawn[3])
        self.assertNotEqual(Mixer(rows, 2).draw(3, 8, 4)[0], drawn[3])

    def test_invented_queries_begin_with_the_verb(self):
        text = invented_query("Retrieves the list of open orders. More.", "k")
        self.assertIn("retrieve", text.lower())
        self.assertNotIn("More", text)
        self.assertIsNone(invented_query("The list of orders", "k"))

    def test_tools_with_queries_get_no_invented_ones(self):
        rows = add_invented(self.pool, [{"gold": ["files/read_file"]}])
        self.assertNotIn(["files/read_file"], [r["gold"] for r in rows])


if __name__ == "__main__":
    unittest.main()

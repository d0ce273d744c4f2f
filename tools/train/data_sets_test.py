"""How labelled arguments come out of the sets, on made-up files of their shape."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from data_sets import bfcl, toolalpaca


class LabelsTest(unittest.TestCase):
    def folder(self, name, **files):
        root = tempfile.TemporaryDirectory()
        self.addCleanup(root.cleanup)
        folder = pathlib.Path(root.name) / name
        folder.mkdir()
        for file, rows in files.items():
            (folder / f"{file}.jsonl").write_text(
                "".join(json.dumps(row) + "\n" for row in rows))
        return pathlib.Path(root.name)

    def test_placeholders_leave_a_toolalpaca_query_without_calls(self):
        tools = [{"api": "A", "name": n, "description": f"{n}\nParameters: {{}}"}
                 for n in ("find", "show")]

        def query(*calls):
            return {"api": "A", "set": "s", "query": str(calls), "gold": [
                {"Action": name, "Action_Input": text} for name, text in calls]}

        found = toolalpaca(self.folder("toolalpaca_eval", tools=tools, queries=[
            query(("find", '{"x": "1"}')),
            query(("find", '{"x": "1"}'), ("show", '{"id": ${id from find}}')),
            query(("show", "not JSON"))]))
        self.assertEqual(len(found.queries), 3)
        self.assertEqual(found.queries[0]["calls"], [
            {"tool": "A/find", "arguments": {"x": ["1"]}}])
        self.assertEqual(found.queries[0]["object_labels"], "values")
        self.assertNotIn("calls", found.queries[1])
        self.assertNotIn("calls", found.queries[2])
        self.assertEqual(sum("placeholder" in n for n in found.notes), 1)

    def test_bfcl_says_which_schema_of_a_name_was_labelled(self):
        tools = [{"tid": i, "name": "f", "description": str(i),
                  "parameters": {"type": "dict", "properties": {}}}
                 for i in range(3)]

        def query(tid, accepted):
            return {"id": f"q{tid}", "cat": "simple", "cand": [tid], "gold": [
                {"f": {"x": accepted}}],
                "messages": [{"role": "user", "content": f"do {tid}"}]}

        found = bfcl(self.folder("bfcl_v4_pooled", tools=tools, queries=[
            query(2, [1, ""]), query(1, [])]))
        self.assertEqual(found.queries[0]["calls"][0]["schema"], 2)
        self.assertNotIn("object_labels", found.queries[0])
        self.assertNotIn("calls", found.queries[1])


if __name__ == "__main__":
    unittest.main()

"""The parts of the serving benchmark that need no server."""

import json
import math
import pathlib
import tempfile
import unittest

import client
import load
import load_report
import report
import traces

TOOLS = [{"server": server, "name": name, "description": name,
          "inputSchema": {"type": "object", "properties": {}}}
         for server, names in {
             "everything": ["echo", "get-sum", "get-env", "get-structured-content"],
             "filesystem": [
                 "read_text_file", "create_directory", "move_file", "list_directory",
                 "write_file", "get_file_info", "directory_tree", "read_media_file",
                 "read_multiple_files", "list_directory_with_sizes", "search_files",
                 "list_allowed_directories"],
             "memory": ["search_nodes", "delete_entities", "open_nodes", "read_graph"],
         }.items() for name in names]


class LoadTest(unittest.TestCase):
    def test_sessions_share_a_list_and_differ_from_their_first_words_on(self):
        options = load.parse(["--nexus", "", "--llama-server", "", "--mcp", "", "--out",
                              ".", "--sessions", "9", "--turns", "4", "--tasks", "3"])
        talks = load.conversations(TOOLS, options)
        self.assertEqual([len(steps) for steps in talks], [4] * 9)
        self.assertEqual(len({json.dumps(step["body"]["tools"])
                              for steps in talks for step in steps}), 1)
        self.assertEqual(len({step["body"]["messages"][1]["content"]
                              for steps in talks for step in steps}), 9)
        for steps in talks:
            for step in steps:
                if step["expect"]:
                    self.assertIn(step["expect"]["tool"], [
                        t["function"]["name"] for t in step["body"]["tools"]])

    def test_the_wait_for_a_slot_is_part_of_the_time(self):
        answer = {"first_s": 9.5, "total_s": 10, "report": None, "timings": {
            "prompt_ms": 500, "predicted_ms": 2000, "predicted_per_token_ms": 100}}
        self.assertAlmostEqual(load.ttft("llama-server", answer), 8.1)
        self.assertAlmostEqual(client.ttft("llama-server", answer), 0.6)

    def test_the_summary_counts_errors_apart(self):
        row = {"ttft_s": 2, "total_s": 3, "tokens": 10, "prompt": 100}
        out = load.summary({"seconds": 4, "peak_mib": 1, "requests": [
            row, {**row, "ttft_s": 1, "tool": True, "exact": False},
            {"error": "status 429"}]})
        self.assertEqual((out["requests"], out["errors"], out["tokens_s"]), (3, 1, 5))
        self.assertEqual((out["ttft_p95_s"], out["right_tool"], out["judged"]),
                         (2, 1, 1))


class LoadReportTest(unittest.TestCase):
    def row(self, arm, round_=0, **more):
        return {"round": round_, "arm": arm, "sessions": 32, "turns": 2, "tools": 6,
                "requests": 64, "errors": 0, "seconds": 100, "peak_mib": 1500,
                "ttft_p50_s": 30, "ttft_p95_s": 80, "answers_s": 0.5, "tokens_s": 12,
                "prompt_tokens": 953, "right_tool": 8, "exact": 4, "judged": 32, **more}

    def cells(self, rows):
        lines = load_report.table(rows).splitlines()
        table = [[cell.strip() for cell in line.strip("|").split("|")]
                 for line in lines]
        self.assertEqual({len(row) for row in table}, {len(table[0])})
        return {row[0]: dict(zip(table[0], row)) for row in table[2:]}

    def test_rounds_are_joined_and_compared_with_the_base(self):
        cells = self.cells([
            self.row("nexus route", 0, ttft_p95_s=40), self.row("llama", 0),
            self.row("nexus route", 1, ttft_p95_s=60, errors=1, exact=5),
            self.row("llama", 1, ttft_p95_s=120)])
        ours = cells["nexus route"]
        self.assertEqual((ours["rounds"], ours["requests"]), ("2", "128 (1 failed)"))
        self.assertEqual(ours["p95"], "50.0 s (0.50x)")
        self.assertEqual(ours["answers a second"], "0.500 (1.00x)")
        self.assertEqual(ours["exact arguments"], "9 of 64")
        self.assertEqual(cells["llama"]["p95"], "100.0 s")

    def test_an_arm_without_an_answer_or_a_base_is_a_row_too(self):
        # As load.summary leaves it.
        failed = load.summary({"seconds": 1, "peak_mib": 7,
                               "requests": [{"error": "refused"}] * 3})
        cells = self.cells([{"arm": "nexus pin", **failed}, self.row("nexus route")])
        self.assertEqual(cells["nexus pin"]["requests"], "3 (3 failed)")
        self.assertEqual(cells["nexus pin"]["p95"], "–")
        self.assertEqual(cells["nexus route"]["p95"], "80.0 s")

    def test_the_file_says_what_was_run(self):
        with tempfile.TemporaryDirectory() as folder:
            load_report.write([self.row("llama")], folder)
            text = (pathlib.Path(folder) / "load.md").read_text(encoding="utf-8")
        self.assertIn("32 sessions of 2 turns at once, 6 tools", text)
        self.assertIn("| llama | 1 | 64 | 30.0 s |", text)


class TracesTest(unittest.TestCase):
    def test_every_turn_that_waits_for_a_call_is_offered_its_tool(self):
        for name, build in traces.TRACES.items():
            for step in build(TOOLS, 20):
                if step["expect"]:
                    self.assertIn(step["expect"]["tool"], [
                        t["function"]["name"] for t in step["body"]["tools"]], name)

    def test_no_list_offers_a_tool_twice(self):
        for build in traces.TRACES.values():
            for step in build(TOOLS, 20):
                names = [t["function"]["name"] for t in step["body"]["tools"]]
                self.assertEqual(len(names), len(set(names)))

    def test_a_conversation_grows_by_appending(self):
        tasks = traces.read_script()
        for turn in range(39):
            shorter = traces.messages(tasks, turn)
            self.assertEqual(traces.messages(tasks, turn + 1)[:len(shorter)], shorter)

    def test_a_turn_ends_with_what_the_agent_waits_on(self):
        tasks = traces.read_script()
        for turn in range(40):
            role = traces.messages(tasks, turn)[-1]["role"]
            self.assertEqual(role, "user" if turn % 2 == 0 else "tool")

    def test_the_changing_list_changes_and_is_the_same_in_each_run(self):
        first, again = traces.changing(TOOLS, 20), traces.changing(TOOLS, 20)
        self.assertEqual(first, again)
        lists = {json.dumps(s["body"]["tools"]) for s in first}
        self.assertGreater(len(lists), 5)

    def test_agents_have_lists_of_their_own_that_stay(self):
        lists = {}
        for step in traces.agents(TOOLS, 6):
            lists.setdefault(step["agent"], set()).add(
                json.dumps(step["body"]["tools"]))
        self.assertEqual({len(v) for v in lists.values()}, {1})
        self.assertGreater(len(set.union(*lists.values())), 4)

    def test_the_judge(self):
        expect = {"tool": "a", "also": ["b"], "arguments": {"x": [1]},
                  "optional": ["y"]}

        def judged(*calls):
            return traces.judge({"calls": [
                {"name": n, "arguments": a} for n, a in calls]}, expect)

        self.assertEqual(judged(("a", '{"x": 1}')), (True, True))
        self.assertEqual(judged(("b", '{"x": 1, "y": 2}')), (True, True))
        self.assertEqual(judged(("a", '{"x": 1, "z": 2}')), (True, False))
        self.assertEqual(judged(("a", '{}')), (True, False))
        self.assertEqual(judged(("a", 'no')), (True, False))
        self.assertEqual(judged(("a", '[1]')), (True, False))
        self.assertEqual(judged(("c", '{"x": 1}')), (False, False))
        self.assertEqual(judged(), (False, False))


class ClientTest(unittest.TestCase):
    def answer(self, *chunks):
        out = {"first_s": None, "text": "", "calls": [], "usage": None,
               "report": None, "timings": None, "finish": None, "total_s": 9.0}
        for at, chunk in enumerate(chunks):
            client.take(chunk, out, float(at + 1))
        return out

    def test_the_first_token_is_not_the_role(self):
        answer = self.answer(
            {"choices": [{"delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"delta": {"tool_calls": [
                {"index": 0, "function": {"name": "f", "arguments": ""}}]}}]},
            {"choices": [{"delta": {"tool_calls": [
                {"index": 0, "function": {"arguments": "{}"}}]},
                "finish_reason": "tool_calls"}]})
        self.assertEqual(answer["first_s"], 2.0)
        self.assertEqual(answer["calls"], [{"name": "f", "arguments": "{}"}])
        self.assertEqual(answer["finish"], "tool_calls")

    def test_each_server_has_the_figure_that_is_worse_for_nexus(self):
        answer = self.answer({"choices": [{"delta": {"content": "a"}}]})
        answer["report"] = {"ms": {"ttft": 1500.0}}
        self.assertEqual(client.ttft("nexus", answer), 1.5)
        answer["report"] = {"ms": {"ttft": 500.0}}
        self.assertEqual(client.ttft("nexus", answer), 1.0)
        answer["timings"] = {"prompt_ms": 300.0, "predicted_per_token_ms": 50.0}
        self.assertEqual(client.ttft("llama-server", answer), 0.35)

    def test_an_error_in_the_stream_is_one(self):
        with self.assertRaises(client.Failed):
            self.answer({"error": {"message": "x"}})


class ReportTest(unittest.TestCase):
    def row(self, arm, turn, ttft, **more):
        return {"trace": "static", "arm": arm, "kind": "turn", "agent": 0,
                "turn": turn, "ttft_s": ttft, "usage": {"prompt_tokens": 100 + turn},
                "idle_cpu_s": 0.0, **more}

    def test_ratios_are_paired_and_the_first_turn_stands_apart(self):
        rows = []
        for turn in range(4):
            rows.append(self.row("llama", turn, 10.0 if turn == 0 else 2.0))
            rows.append(self.row("nexus route", turn, 1.0, tool=True, exact=False))
        entry = [e for e in report.summary(rows) if e["arm"] == "nexus route"][0]
        self.assertEqual(entry["ratio"][0], 0.5)
        self.assertEqual(entry["first_ratio"], 0.1)
        self.assertEqual((entry["tool"], entry["exact"], entry["judged"]), (4, 0, 4))
        self.assertIn("0.50x", report.table(report.summary(rows)))

    def test_a_failed_turn_is_counted_and_not_timed(self):
        rows = [self.row("llama", 0, 1.0), self.row("llama", 1, 1.0),
                self.row("nexus route", 0, 1.0),
                {"trace": "static", "arm": "nexus route", "kind": "turn", "agent": 0,
                 "turn": 1, "error": "status 500"}]
        entry = [e for e in report.summary(rows) if e["arm"] == "nexus route"][0]
        self.assertEqual(entry["errors"], 1)
        self.assertTrue(math.isnan(entry["warm_mean_s"]))
        self.assertIn("1 failed", report.table(report.summary(rows)))


if __name__ == "__main__":
    unittest.main()

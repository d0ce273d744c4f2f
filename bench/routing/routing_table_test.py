"""The tables of bench/routing/table.py, on figures made up by hand."""

import unittest

import table


def point(n, tools, nexus, share=0.5, precision=0.8, several=0, routed_one=0.0):
    return {"n": n, "tools": tools, "top1": nexus, "recall_at_5": 1.0, "auto_share": share,
            "auto_precision": precision,
            "rankings": [{"name": name, "top1": nexus if name == "nexus" else 0.25}
                         for name in table.BASELINES],
            "several_needed": {"n": several, "routed_one": routed_one},
            "oos": {"near_miss": {"value": 0.1},
                    "signals": [{"name": "lead", "auroc": 0.75}]}}


def found(*sweep):
    return {"n": sweep[0]["n"], "registry_tools": 300, "pool": "neighbour",
            "sweep": list(sweep)}


class TableTest(unittest.TestCase):
    def test_queries_weigh_in_micro_and_sets_in_macro(self):
        sets = {"large": found(point(90, 10, 1.0)), "small": found(point(30, 10, 0.5)),
                "tiny": found(point(2, 10, 0.0))}
        cells = [c.strip() for c in table.by_size(sets).splitlines()[-1].split("|")]
        self.assertEqual(cells[1:3], ["10", "122"])
        self.assertEqual(cells[6], "**86.1**")  # (90 + 15 + 0) / 122
        self.assertEqual(cells[7], "75.0")  # tiny is too small to count as a set

    def test_a_small_registry_counts_with_the_larger_pools(self):
        sets = {"a": found(point(40, 10, 1.0), point(40, 250, 0.8)),
                "b": found(point(40, 10, 0.6))}
        rows = table.by_size(sets).splitlines()[2:]
        self.assertEqual(len(rows), 2)
        self.assertTrue(rows[1].startswith("| 250 | 80 |"), rows[1])
        self.assertIn("**70.0**", rows[1])

    def test_precision_of_one_tool_leaves_out_queries_that_need_several(self):
        # 50 routed, 20 of them for queries that need several: 24 of 30 are right.
        self.assertAlmostEqual(table.one_tool_precision(
            point(100, 10, 1.0, share=0.5, precision=0.48, several=25,
                  routed_one=0.8)), 0.8)
        self.assertEqual(table.one_tool_precision(
            point(10, 10, 1.0, share=0.5, precision=0, several=10, routed_one=0.5)), 0)

    def test_every_row_has_the_cells_of_its_header(self):
        sets = {"a": found(point(40, 10, 1.0), point(40, 250, 0.8))}
        for text in (table.by_size(sets), table.by_set(sets)):
            counts = {line.count("|") for line in text.splitlines()}
            self.assertEqual(len(counts), 1, text)


if __name__ == "__main__":
    unittest.main()

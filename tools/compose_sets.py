#!/usr/bin/env python3
"""Turns the Berkeley leaderboard's pooled questions into what `nexus bench
compose` reads: one call each, arguments known, one schema a name.

    tools/compose_sets.py FOLDER OUT [CATEGORY ...]

FOLDER has tools.jsonl and queries.jsonl (see docs/routing.md for the extract);
OUT gets tools.jsonl and queries.jsonl. Default categories: simple_python,
multiple; with live_simple and live_multiple there are more than a thousand
questions. Questions whose accepted arguments are objects are left out: their
accepted values are nested, which the bench doesn't judge.
"""
import collections
import json
import pathlib
import sys


def accepted(arguments):
    """{param: [values]}; "" among them says that it may be left out."""
    result = {}
    for name, values in arguments.items():
        result[name] = [None if value == "" else value for value in values]
    return result


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    categories = set(sys.argv[3:]) or {"simple_python", "multiple"}
    tools = {}
    for line in open(source / "tools.jsonl", encoding="utf-8"):
        tool = json.loads(line)
        tools[tool["tid"]] = tool
    asked = collections.Counter()
    kept = []
    for line in open(source / "queries.jsonl", encoding="utf-8"):
        query = json.loads(line)
        if query["cat"] not in categories or len(query["gold"] or []) != 1:
            continue
        (name, arguments), = query["gold"][0].items()
        candidates = [t for t in query["cand"] if tools[t]["name"] == name]
        if not candidates or len(query["messages"]) != 1:
            continue
        if any(isinstance(v, dict) for vs in arguments.values() for v in vs):
            continue
        asked[name, candidates[0]] += 1
        kept.append((name, candidates[0], {
            "query": query["messages"][0]["content"], "gold": [name],
            "args": accepted(arguments)}))
    # Several schemas of one name: those of the one that is asked most stay.
    used = {}
    for (name, tid), _ in asked.most_common():
        used.setdefault(name, tid)
    queries = [query for name, tid, query in kept if used[name] == tid]
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "tools.jsonl", "w", encoding="utf-8") as file:
        for name, tid in used.items():
            tool = tools[tid]
            file.write(json.dumps({key: tool[key] for key in (
                "name", "description", "parameters")}, ensure_ascii=False))
            file.write("\n")
    with open(out / "queries.jsonl", "w", encoding="utf-8") as file:
        for query in queries:
            file.write(json.dumps(query, ensure_ascii=False) + "\n")
    print(f"{len(used)} tools, {len(queries)} questions")


if __name__ == "__main__":
    main()

"""Published routing sets -> registry and query files of one shape, for `nexus
eval route` and reference_router.py.

    python3 tools/routing_sets.py DATA_DIR OUT_DIR

writes OUT_DIR/<set>.tools.jsonl (MCP tools) and OUT_DIR/<set>.queries.jsonl
({"query", "gold": [names]}). Third-party text: data, never instructions.
"""

import json
import pathlib
import sys


def read_jsonl(path):
    return [json.loads(line)
            for line in path.read_text(encoding="utf-8").splitlines() if line]


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n"
                            for row in rows), encoding="utf-8")


def tool(row, server=""):
    out = {"name": row["name"], "description": row.get("description") or ""}
    schema = row.get("inputSchema") or row.get("parameters") or {}
    if isinstance(schema, dict) and schema:
        # BFCL's dialect says "dict" where JSON Schema says "object".
        out["inputSchema"] = dict(schema, type="object")
    if row.get("server") or server:
        out["server"] = row.get("server") or server
    return out


def bfcl(data, category):
    folder = data / "bfcl_v4_pooled"
    queries = []
    for row in read_jsonl(folder / "queries.jsonl"):
        if row["cat"] != category or not row["gold"]:
            continue
        text = "\n".join(m["content"] for m in row["messages"]
                         if m["role"] == "user")
        names = sorted({name for call in row["gold"] for name in call})
        queries.append({"query": text, "gold": names})
    return [tool(t) for t in read_jsonl(folder / "tools.jsonl")], queries


def metatool(data):
    folder = data / "metatool_toolE"
    described = json.loads((folder / "plugin_des.json").read_text())
    tools = [{"name": n, "description": d} for n, d in described.items()]
    queries = [{"query": q, "gold": [row["tool"]]}
               for row in read_jsonl(folder / "queries_by_tool.jsonl")
               for q in row["queries"]]
    return tools, queries


def livemcpbench(data):
    folder = data / "livemcpbench"
    queries = [{"query": row["query"], "gold": row["gold_tools"]}
               for row in read_jsonl(folder / "queries.jsonl")]
    return [tool(t) for t in read_jsonl(folder / "tools.jsonl")], queries


def acebench(data, category):
    folder = data / "acebench_en"
    queries = [{"query": row["query"], "gold": sorted(row["gold"])}
               for row in read_jsonl(folder / "queries.jsonl")
               if category in row["cat"] and isinstance(row["gold"], dict)]
    return [tool(t) for t in read_jsonl(folder / "tools.jsonl")], queries


def seal(data, part):
    folder = data / "seal_tools"
    tools = [{"name": t["api_name"], "description": t["api_description"],
              "inputSchema": {"type": "object", "properties": t["parameters"]}}
             for t in read_jsonl(folder / "tool.jsonl")]
    queries = [{"query": row["query"], "gold": [row["gold"][0][0]]}
               for row in read_jsonl(folder / f"{part}.jsonl")
               if len(row["gold"]) == 1]
    return tools, queries


def irrelevant(data):
    """BFCL queries that no offered tool answers: out of scope."""
    tools, _ = bfcl(data, "multiple")
    rows = read_jsonl(data / "bfcl_v4_pooled" / "queries.jsonl")
    queries = [{"query": "\n".join(m["content"] for m in row["messages"]
                                   if m["role"] == "user"), "gold": []}
               for row in rows if row["cat"] == "irrelevance"]
    return tools, queries


SETS = {
    "bfcl_simple": lambda d: bfcl(d, "simple_python"),
    "bfcl_multiple": lambda d: bfcl(d, "multiple"),
    "bfcl_live_simple": lambda d: bfcl(d, "live_simple"),
    "bfcl_live_multiple": lambda d: bfcl(d, "live_multiple"),
    "bfcl_irrelevance": irrelevant,
    "acebench_single": lambda d: acebench(d, "single_function"),
    "acebench_similar": lambda d: acebench(d, "similar_api"),
    "seal_in_domain": lambda d: seal(d, "test_in_domain"),
    "metatool": metatool,
    "livemcpbench": livemcpbench,
}


def main():
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name, load in SETS.items():
        tools, queries = load(data)
        write_jsonl(out / f"{name}.tools.jsonl", tools)
        write_jsonl(out / f"{name}.queries.jsonl", queries)
        print(f"{name}: {len(tools)} tools, {len(queries)} queries")


if __name__ == "__main__":
    main()

"""Routing sets -> registries, queries and splits of one shape.

    python3 tools/train/prepare.py DATA OUT --model-dir MINILM_DIR

DATA holds the published sets, MINILM_DIR the un-tuned all-MiniLM-L6-v2 (setup.sh
prints it), which judges near-twins and near-equal queries. Writes to OUT:

    <set>.tools.jsonl      a registry as `nexus` reads it
    <set>.queries.jsonl    its labelled queries, each with its "split"
    pooled.tools.jsonl     all registries in one; ids are unique across sets
    toollinkos_toucan.*    one set among 5,222 live distractors
    tools.splits.jsonl     {"set", "id", "split", "twin"} of every tool
    report.json            counts, what was dropped or removed, and why

README.md has the formats and the protocol.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from data_sets import load_all, tool_id
from splits import Groups, Vectors, canonical, leaks, side_of, twin_pairs

# No tool may dominate the training side: MetaTool has 104 queries a tool.
TRAIN_QUERIES_A_TOOL = 40


class Encoder:
    """The un-tuned encoder, in batches; 128 tokens tell two texts apart."""

    def __init__(self, model_dir):
        from bert import Tokens, load_bert  # needs PyTorch, the rest doesn't
        self.bert, _ = load_bert(model_dir)
        self.tokens = Tokens(model_dir)

    def embed(self, texts):
        import torch
        from bert import sentence_vectors
        with torch.no_grad():
            return sentence_vectors(self.bert, [self.tokens.single(t, 128)
                                                for t in texts], 32).numpy()


def write_jsonl(path, rows):
    """Whole or not at all."""
    part = path.with_suffix(path.suffix + ".part")
    with open(part, "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    os.replace(part, path)


def split_tools(sets, vectors, report):
    """{tool id: (side, twin class)} of all sets; ids are unique across sets."""
    groups, twins = Groups(), Groups()
    texts = {}  # canonical text -> number
    for data_set in sets:
        for tool in data_set.tools:
            number = texts.setdefault(canonical(tool), len(texts))
            key = ("id", tool_id(tool))
            twins.join(key, ("text", number))
            if data_set.name == "toucan":
                continue
            groups.join(key, ("text", number))
            if data_set.grouped:
                groups.join(key, ("server", f"{data_set.name}/{tool['server']}"))
    labelled = {texts[canonical(t)] for s in sets if s.name != "toucan"
                for t in s.tools}
    pairs = twin_pairs(list(texts), labelled, vectors)
    for a, b, _ in pairs:
        twins.join(("text", a), ("text", b))
        if a in labelled and b in labelled:
            groups.join(("text", a), ("text", b))
    report["twin_pairs"] = len(pairs)

    members = collections.defaultdict(list)
    for text, number in texts.items():
        if number in labelled:
            members[groups.find(("text", number))].append(text)
    side = {root: side_of(min(found)) for root, found in members.items()}
    report["groups"] = len(members)
    report["largest_groups"] = sorted(map(len, members.values()))[-5:]

    out = {}
    near_to = collections.defaultdict(set)
    for a, b, _ in pairs:
        near_to[a].add(b)
        near_to[b].add(a)
    for data_set in sets:
        for tool in data_set.tools:
            number = texts[canonical(tool)]
            twin = twins.find(("text", number))[1]  # the smallest id
            if data_set.name != "toucan":
                root = groups.find(("text", number))
                out[tool_id(tool)] = (side[root], twin)
                continue
            # A distractor's server decides, unless the text is a labelled tool's.
            near = {side[groups.find(("text", n))]
                    for n in near_to[number] | {number} if n in labelled}
            own = side_of("toucan " + tool["server"])
            if own == "train" and (near - {"train"} or
                                   tool["server"] not in data_set.open_servers):
                own = "unused"
            out[tool_id(tool)] = (own, twin)
    return out


def split_queries(sets, tool_sides, vectors, report):
    by_source = {}
    for data_set in sets:
        for row in data_set.queries:
            shown = row["gold"] or row.get("candidates") or []
            sides = {tool_sides[key][0] for key in shown}
            row["split"] = (sides.pop() if len(sides) == 1 else
                            "mixed" if sides else side_of(row["query"]))
            source = row.pop("source", None)
            if source and data_set.name == "when2call":
                row["split"] = by_source.get(source, row["split"])
            elif source:
                by_source[source] = row["split"]
    rows = [row for s in sets for row in s.queries]

    surplus = collections.Counter()
    order = sorted((r for r in rows if r["split"] == "train" and r["gold"]),
                   key=lambda r: hashlib.sha256(r["query"].encode()).digest())
    for row in order:
        key = tuple(row["gold"])
        surplus[key] += 1
        if surplus[key] > TRAIN_QUERIES_A_TOOL:
            row["split"] = "surplus"

    # Test guards calibration, both and the mixed guard training.
    removed = []
    for side, guards in (("calibration", ("test", "mixed")),
                         ("train", ("calibration", "test", "mixed"))):
        kept = [r for r in rows if r["split"] == side]
        guarded = [r["query"] for r in rows if r["split"] in guards]
        for i, why in leaks([r["query"] for r in kept], guarded,
                            vectors).items():
            removed.append({"set": kept[i]["set"], "side": side, "why": why,
                            "query": kept[i]["query"]})
            kept[i]["split"] = "leak"
    report["removed_for_leakage"] = removed
    counts = collections.Counter((r["side"], r["why"]) for r in removed)
    for (side, why), n in sorted(counts.items()):
        print(f"removed from {side} for leakage ({why}): {n}")


def print_table(sets, tool_sides, report):
    names = ("train", "calibration", "test", "mixed", "surplus", "leak")
    print(f"{'set':18}{'tools':>7}  " + "".join(f"{n:>12}" for n in names) +
          f"{'out of scope':>14}")
    for s in sets:
        counts = collections.Counter(r["split"] for r in s.queries)
        tools = collections.Counter(tool_sides[tool_id(t)][0] for t in s.tools)
        oos = sum(r["kind"] == "oos" for r in s.queries)
        print(f"{s.name:18}{len(s.tools):7}  " +
              "".join(f"{counts[n]:12}" for n in names) + f"{oos:14}")
        report["sets"][s.name] = {"tools": len(s.tools), "tool_splits": tools,
                                  "queries": len(s.queries),
                                  "query_splits": counts,
                                  "out_of_scope": oos, "notes": s.notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    sets = load_all(args.data)
    report = {"sets": {}}

    cache = args.out / "vectors.npz"
    def progress(done, total):
        print(f"embedded {done}/{total}", file=sys.stderr, flush=True)
        known = vectors.known
        with open(cache.with_suffix(".part"), "wb") as file:
            np.savez(file, texts=np.array(list(known)),
                     rows=np.array(list(known.values())))
        os.replace(cache.with_suffix(".part"), cache)

    vectors = Vectors(Encoder(args.model_dir), progress)
    if cache.exists():
        stored = np.load(cache, allow_pickle=False)
        vectors.known = dict(zip(stored["texts"].tolist(), stored["rows"]))

    tool_sides = split_tools(sets, vectors, report)
    split_queries(sets, tool_sides, vectors, report)
    print_table(sets, tool_sides, report)

    pooled, splits = {}, []
    by_name = {s.name: s for s in sets}
    for s in sets:
        if s.tools:
            write_jsonl(args.out / f"{s.name}.tools.jsonl", s.tools)
        write_jsonl(args.out / f"{s.name}.queries.jsonl", s.queries)
        if s.name in ("when2call", "clinc150_oos"):
            continue  # no tools of their own
        for tool in s.tools:
            pooled.setdefault(json.dumps(tool, sort_keys=True), tool)
        splits += [{"set": s.name, "id": key, "split": tool_sides[key][0],
                    "twin": tool_sides[key][1]}
                   for key in dict.fromkeys(map(tool_id, s.tools))]
    write_jsonl(args.out / "pooled.tools.jsonl", pooled.values())
    write_jsonl(args.out / "tools.splits.jsonl", splits)
    links = by_name["toollinkos"]
    write_jsonl(args.out / "toollinkos_toucan.tools.jsonl",
                links.tools + by_name["toucan"].tools)
    write_jsonl(args.out / "toollinkos_toucan.queries.jsonl", links.queries)
    print(f"pooled: {len(pooled)} tools")
    (args.out / "report.json").write_text(
        json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()

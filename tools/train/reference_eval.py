"""The few-line reference router over all prepared sets, as a check of the C++ one.

    PYTHON tools/train/reference_eval.py OUT [--sets a,b] [--split test]
        [--model-dir MINILM [--run RUN]] [--limit N]

Prints top-1, hit@5 and hit@20 of BM25 (k1 0.9, b 0.4, camelCase and underscores
split) a part of a set; with --model-dir also of the encoder in float32 and of their
reciprocal rank fusion. A query with several gold tools counts as hit by any one.
"""

import argparse
import collections
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np

from reference_router import Bm25, fuse, order, search_text


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def encoder(args):
    import torch
    from bert import Tokens, load_bert
    from mining import QUERY_TOKENS, TOOL_TOKENS, embed_kept
    torch.set_num_threads(2)
    bert, _ = load_bert(args.model_dir)
    name = "base"
    if args.run:
        bert.load_state_dict(torch.load(args.run / "best.pt")["weights"])
        name = args.run.name
    tokens = Tokens(args.model_dir)

    def embed(texts, what):
        limit = QUERY_TOKENS if what.endswith("queries") else TOOL_TOKENS
        return embed_kept(args.out / f"eval.{name}.{what}.npz", bert, tokens,
                          texts, limit)

    return embed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--sets", default="")
    parser.add_argument("--split", default="")
    parser.add_argument("--model-dir", type=pathlib.Path)
    parser.add_argument("--run", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()
    embed = encoder(args) if args.model_dir else None
    wanted = args.sets.split(",") if args.sets else None
    print(f"{'set / part':44}{'n':>6}  router top-1 hit@5 hit@20")
    for path in sorted(args.out.glob("*.queries.jsonl")):
        name = path.name.removesuffix(".queries.jsonl")
        registry = args.out / f"{name}.tools.jsonl"
        if (wanted and name not in wanted) or not registry.exists():
            continue
        queries = [q for q in read_jsonl(path) if q["gold"] and
                   (not args.split or q["split"] == args.split)]
        if args.limit:
            queries = queries[::max(1, len(queries) // args.limit)]
        if not queries:
            continue
        tools = read_jsonl(registry)
        ids = [f"{t['server']}/{t['name']}" for t in tools]
        texts = [search_text(t) for t in tools]
        bm25 = Bm25(texts)
        if embed:
            rows = embed(texts, f"{name}.tools")
            asked = embed([q["query"] for q in queries], f"{name}.queries")
        hits = collections.defaultdict(list)
        for i, query in enumerate(queries):
            rankings = {"bm25": order(bm25.score(query["query"]))}
            if embed:
                rankings["dense"] = order(rows @ asked[i])
                rankings["fused"] = fuse(rankings["dense"], rankings["bm25"])
            for router, ranking in rankings.items():
                found = [ids[r] in query["gold"] for r in ranking[:20]]
                hits[f"{query['part']} {query['kind']}", router].append(
                    [found[0], any(found[:5]), any(found)])
        for (part, router), found in sorted(hits.items()):
            figures = 100 * np.mean(found, 0)
            print(f"{name + ' / ' + part:44}{len(found):6}  {router:6}"
                  f"{figures[0]:6.1f}{figures[1]:6.1f}{figures[2]:7.1f}",
                  flush=True)


if __name__ == "__main__":
    main()

"""Tunes all-MiniLM-L6-v2 so that a query lies near its tool.

    setsid PYTHON tools/train/train_biencoder.py --data OUT --model-dir MINILM \
        --run RUN [--steps 900]

InfoNCE over the tools of a batch: each query's gold tool against the gold tools of
the other queries and one mined negative for each. Stopped at any time, the same
command goes on from RUN/last.pt.
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from torch.nn import functional as F

from bert import Tokens, load_bert, sentence_vectors
from examples import Mixer, Pool, add_invented, queries
from mining import (QUERY_TOKENS, TOOL_TOKENS, draw_negative, is_right, mine)
from reference_router import Bm25, order
from training import Run, begin, run_parser

EVAL_QUERIES_A_SET = 40
EVAL_NEIGHBOURS = 6


class Calibration:
    """Recall among calibration tools: the gold tools of the sampled queries and
    their neighbours by BM25."""

    def __init__(self, folder, tokens, queries_a_set=EVAL_QUERIES_A_SET):
        self.pool = Pool(folder, "calibration", with_distractors=False)
        by_set = collections.defaultdict(list)
        for row in queries(folder, "calibration", kinds=("single", "ask")):
            by_set[row["set"]].append(row)
        self.rows = [row for found in by_set.values() for row in
                     found[::-(-len(found) // queries_a_set)]]
        bm25 = Bm25(self.pool.texts)
        kept = set()
        for row in self.rows:
            for at in np.flatnonzero(is_right(self.pool, row)):
                kept.add(int(at))
                near = order(bm25.score(self.pool.texts[at]))
                kept.update(map(int, near[:EVAL_NEIGHBOURS + 1]))
        self.kept = sorted(kept)
        self.tools = [tokens.single(self.pool.texts[r], TOOL_TOKENS)
                      for r in self.kept]
        self.texts = [tokens.single(r["query"], QUERY_TOKENS) for r in self.rows]
        self.right = np.stack([is_right(self.pool, r)[self.kept]
                               for r in self.rows])

    def __call__(self, bert):
        with torch.no_grad():
            scores = (sentence_vectors(bert, self.texts, 32) @
                      sentence_vectors(bert, self.tools, 32).T).numpy()
        ranked = np.take_along_axis(self.right, np.argsort(-scores, 1), 1)
        hits = {}
        for row, found in zip(self.rows, ranked):
            hits.setdefault(row["set"], []).append((found[0], found[:5].any()))
        means = {name: np.mean(h, 0) for name, h in hits.items()}
        large = [m for n, m in means.items() if len(hits[n]) >= 10]
        macro = np.mean(large or list(means.values()), 0)
        return float(macro[0]), {
            "recall1": round(float(ranked[:, 0].mean()), 4),
            "recall5": round(float(ranked[:, :5].any(1).mean()), 4),
            "macro5": round(float(macro[1]), 4), "tools": len(self.kept),
            "queries": len(self.rows),
            "sets": {n: [round(float(x), 3) for x in m]
                     for n, m in means.items()}}


def make_step(bert, tokens, pool, mined, mixer, options):
    def step(number):
        rows, generator = mixer.draw(number, options["batch"], options["block"])
        at, docs, targets = {}, [], []  # row of pool -> column

        def column(row):
            if row not in at:
                at[row] = len(docs)
                docs.append(row)
            return at[row]

        for query in rows:
            key = generator.choice([k for k in query["gold"] if k in pool.rows])
            targets.append(column(generator.choice(pool.rows[key])))
        for query in rows:
            for _ in range(options["hard"]):
                row = draw_negative(mined[query["id"]], generator)
                if row is not None:
                    column(row)
        # Second right answers and twins are neither pulled nor pushed.
        spared = torch.zeros(len(rows), len(docs), dtype=torch.bool)
        for i, (query, target) in enumerate(zip(rows, targets)):
            ids = set(query["gold"]) | set(query.get("related", []))
            twins = {pool.twin[r] for k in query["gold"]
                     for r in pool.rows.get(k, [])}
            for j, row in enumerate(docs):
                spared[i, j] = j != target and (pool.ids[row] in ids or
                                                pool.twin[row] in twins)
        left = [tokens.single(q["query"], QUERY_TOKENS) for q in rows]
        right = [tokens.single(pool.texts[r], TOOL_TOKENS) for r in docs]
        scores = sentence_vectors(bert, left) @ sentence_vectors(bert, right).T
        scores = (scores / options["temperature"]).masked_fill(spared, -1e4)
        target = torch.tensor(targets)
        loss = F.cross_entropy(scores, target)
        return loss, {
            "first": round(float((scores.argmax(1) == target).float().mean()), 3),
            "tokens": sum(map(len, left)) + sum(map(len, right))}

    return step


def main():
    parser = run_parser(__doc__, steps=900, learning_rate=4e-5,
                        freeze_layers=2, eval_every=150)
    parser.add_argument("--batch", type=int, default=48)
    parser.add_argument("--block", type=int, default=16)
    parser.add_argument("--hard", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.05)
    args = parser.parse_args()
    begin(args)

    bert, _ = load_bert(args.model_dir)
    tokens = Tokens(args.model_dir)
    pool = Pool(args.data, "train", with_distractors=not args.limit_queries)
    rows = queries(args.data, "train")
    rows = [r for r in rows if any(k in pool.rows for k in r["gold"])]
    rows += add_invented(pool, rows)
    name = "base"
    if args.limit_queries:
        name = f"try{args.limit_queries}"
        rows, pool = _small(rows, pool, args.limit_queries)
    print(f"{len(rows)} queries, {len(pool.ids)} tools", flush=True)
    lists = mine(args.data, name, pool, rows, bert, tokens)
    mined = {row["id"]: found for row, found in zip(rows, lists)}

    bert.freeze(args.freeze_layers)
    for parameter in bert.pooler.parameters():
        parameter.requires_grad_(False)  # not part of a mean
    options = {k: getattr(args, k) for k in
               ("steps", "batch", "block", "hard", "lr", "temperature",
                "freeze_layers", "seed", "limit_queries", "bf16")}
    run = Run(args.run, bert, options)
    calibration = Calibration(args.data, tokens,
                              3 if args.limit_queries else EVAL_QUERIES_A_SET)
    run.loop(make_step(bert, tokens, pool, mined, Mixer(rows, args.seed), options),
             lambda: calibration(bert), args.eval_every)


def _small(rows, pool, limit):
    seen = collections.Counter()
    kept = []
    for row in rows:
        seen[row["set"]] += 1
        if seen[row["set"]] <= limit:
            kept.append(row)
    gold = [r for row in kept for k in row["gold"] for r in pool.rows.get(k, [])]
    pool.keep(sorted(set(gold) | set(range(0, len(pool.ids), 40))))
    return kept, pool


if __name__ == "__main__":
    main()

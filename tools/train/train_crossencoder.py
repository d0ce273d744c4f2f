"""Trains a re-ranker that reads query and tool together.

    setsid PYTHON tools/train/train_crossencoder.py --data OUT --model-dir MINILM \
        --encoder BIENCODER_RUN_OR_GGUF --run RUN [--steps 800]

A list is the gold tool and the tools that the tuned bi-encoder takes for it, and an
empty seat whose logit is 0. Softmax over the list: the gold tool should win, and
where none is right (out of scope, or the gold tool withheld) the empty seat should.
So a logit above 0 means "this tool rather than none", which a gate can use.
"""

import collections
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from torch.nn import functional as F

from bert import CrossEncoder, Tokens, in_buckets, load_bert, load_tuned
from examples import Mixer, Pool, queries
from mining import QUERY_TOKENS, draw_negative, mine
from training import Run, begin, run_parser

PAIR_TOKENS = 144
KINDS = ("single", "multi", "ask", "oos")


def rows_with_lists(folder, side, bert, tokens, name, keep=None):
    """(pool, queries that have a list, {id: lists})."""
    pool = Pool(folder, side)
    rows = queries(folder, side, KINDS)
    if keep:
        seen = collections.Counter()
        rows = [r for r in rows
                if seen.update([r["set"]]) or seen[r["set"]] <= keep]
        pool.keep(sorted({r for q in rows for k in
                          q["gold"] + q.get("candidates", [])
                          for r in pool.rows.get(k, [])} |
                         set(range(0, len(pool.ids), 40))))
    lists = mine(folder, name, pool, rows, bert, tokens)
    out = {}
    for row, found in zip(rows, lists):
        if row.get("within") == "candidates":
            # Out of scope of what was offered; elsewhere in the pool a tool may
            # well answer it.
            offered = [r for k in row["candidates"] for r in pool.rows.get(k, [])]
            found = {"near": offered, "sibling": [], "rival": []}
        if any(found.values()):
            out[row["id"]] = found
    rows = [r for r in rows if r["id"] in out and
            (not r["gold"] or any(k in pool.rows for k in r["gold"]))]
    return pool, rows, out


def make_step(model, tokens, pool, lists, mixer, options):
    def step(number):
        rows, generator = mixer.draw(number, options["batch"], 4)
        pairs, seats, empty = [], [], 0
        for query in rows:
            gold = [k for k in query["gold"] if k in pool.rows]
            withheld = not gold or generator.random() < options["withhold"]
            docs = [] if withheld else [
                generator.choice(pool.rows[generator.choice(gold)])]
            tries = 0
            while len(docs) < options["list"] and tries < 4 * options["list"]:
                row = draw_negative(lists[query["id"]], generator,
                                    (("near", 0.7), ("sibling", 0.2),
                                     ("rival", 0.1)))
                tries += 1
                if row is not None and row not in docs:
                    docs.append(row)
            empty += withheld
            seats.append((len(pairs), len(docs), withheld))
            pairs += [tokens.pair(query["query"], pool.texts[r], QUERY_TOKENS,
                                  PAIR_TOKENS) for r in docs]
        logits = in_buckets(model, pairs)
        losses, first = [], 0
        for start, count, withheld in seats:
            seat = torch.cat([torch.zeros(1), logits[start:start + count]])
            target = torch.tensor([0 if withheld else 1])
            losses.append(F.cross_entropy(seat[None], target))
            first += int(seat.argmax()) == int(target)
        return torch.stack(losses).mean(), {
            "first": round(first / len(rows), 3), "empty": empty,
            "tokens": sum(map(len, pairs))}

    return step


def auroc(positive, negative):
    scores = np.concatenate([positive, negative])
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    n, m = len(positive), len(negative)
    return float((ranks[:n].sum() - n * (n + 1) / 2) / max(1, n * m))


class Calibration:
    """Top-1 of the gold tool among its nine nearest, and how well the best logit
    tells those lists from the same lists without the gold tool (near-miss) and
    from queries that are out of scope."""

    def __init__(self, folder, bert, tokens, name, per_set, keep=None):
        self.pool, rows, self.lists = rows_with_lists(
            folder, "calibration", bert, tokens, name, keep)
        by_set = collections.defaultdict(list)
        for row in rows:
            by_set[row["set"], bool(row["gold"])].append(row)
        self.rows = [r for found in by_set.values()
                     for r in found[::-(-len(found) // per_set)]]
        self.tokens = tokens

    def __call__(self, model):
        pairs, spans = [], []
        for row in self.rows:
            found = self.lists[row["id"]]
            gold = [r for k in row["gold"] for r in self.pool.rows.get(k, [])][:1]
            docs = gold + list(dict.fromkeys(
                found["near"][:7] + found["sibling"] + found["rival"]))[:9]
            spans.append((len(pairs), len(docs), bool(gold)))
            pairs += [self.tokens.pair(row["query"], self.pool.texts[r],
                                       QUERY_TOKENS, PAIR_TOKENS) for r in docs]
        with torch.no_grad():
            logits = in_buckets(model, pairs, 32).numpy()
        inside, missed, outside, first = [], [], [], []
        for start, count, has_gold in spans:
            scores = logits[start:start + count]
            if not has_gold:
                outside.append(scores.max())
            elif count > 1:
                inside.append(scores.max())
                missed.append(scores[1:].max())
                first.append(scores[0] > scores[1:].max())
        top1 = float(np.mean(first))
        near_miss = auroc(np.array(inside), np.array(missed))
        return (top1 + near_miss) / 2, {
            "top1": round(top1, 4), "auroc_near_miss": round(near_miss, 4),
            "auroc_oos": round(auroc(np.array(inside), np.array(outside)), 4),
            "queries": len(spans)}


def main():
    parser = run_parser(__doc__, steps=800, learning_rate=5e-5,
                        freeze_layers=1, eval_every=200)
    parser.add_argument("--encoder", type=pathlib.Path, required=True,
                        help="run of train_biencoder.py, or the GGUF exported "
                        "from one: it mines, and training starts from it")
    parser.add_argument("--batch", type=int, default=8, help="lists a step")
    parser.add_argument("--list", type=int, default=6, help="tools a list")
    parser.add_argument("--withhold", type=float, default=0.15)
    args = parser.parse_args()
    begin(args)

    bert, config = load_bert(args.model_dir)
    encoder = load_tuned(bert, args.encoder)
    tokens = Tokens(args.model_dir)
    small = args.limit_queries or None
    name = "tuned" + (f".try{small}" if small else "")
    pool, rows, lists = rows_with_lists(args.data, "train", bert, tokens, name,
                                        small)
    calibration = Calibration(args.data, bert, tokens, name + ".calibration",
                              3 if small else 25, small)
    print(f"{len(rows)} lists, {len(pool.ids)} tools", flush=True)

    torch.manual_seed(args.seed)
    model = CrossEncoder(bert, config["hidden_size"])
    torch.nn.init.normal_(model.classifier.weight, std=0.02)
    torch.nn.init.zeros_(model.classifier.bias)
    bert.freeze(args.freeze_layers)
    options = {k: getattr(args, k) for k in
               ("steps", "batch", "list", "withhold", "lr", "freeze_layers",
                "seed", "limit_queries", "bf16")}
    options["encoder"] = encoder
    run = Run(args.run, model, options)
    run.loop(make_step(model, tokens, pool, lists, Mixer(rows, args.seed),
                       options), lambda: calibration(model), args.eval_every)


if __name__ == "__main__":
    main()

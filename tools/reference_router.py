"""A few-line reference router: checks the C++ one, by hand.

    python3 tools/reference_router.py --registry TOOLS.jsonl --queries Q.jsonl \
        [--model-dir MINILM_DIR] [--limit N]

BM25 (k1 0.9, b 0.4), with --model-dir also all-MiniLM-L6-v2 in float32 and their
reciprocal rank fusion. Prints top-1, hit@5 and hit@20 by name.
"""

import argparse
import collections
import json
import math
import re

import numpy as np

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


def words(text):
    return [w.lower() for w in WORD.findall(text)]


def search_text(tool):
    schema = tool.get("inputSchema") or tool.get("parameters") or {}
    parts = [tool["name"], tool.get("description") or ""]
    for name, prop in (schema.get("properties") or {}).items():
        parts.append(name)
        if isinstance(prop, dict):
            parts.append(str(prop.get("description") or ""))
    return " ".join(p for p in parts if p)


class Bm25:
    def __init__(self, texts, k1=0.9, b=0.4):
        docs = [collections.Counter(words(t)) for t in texts]
        lengths = np.array([sum(d.values()) for d in docs], dtype=np.float64)
        norm = k1 * (1 - b + b * lengths / max(lengths.mean(), 1e-9))
        postings = collections.defaultdict(list)
        for i, doc in enumerate(docs):
            for word, count in doc.items():
                postings[word].append((i, count))
        self.size = len(docs)
        self.weights = {}
        for word, entries in postings.items():
            n = len(entries)
            idf = math.log(1 + (len(docs) - n + 0.5) / (n + 0.5))
            at = np.array([i for i, _ in entries])
            tf = np.array([c for _, c in entries], dtype=np.float64)
            self.weights[word] = (at, idf * tf * (k1 + 1) / (tf + norm[at]))

    def score(self, query):
        scores = np.zeros(self.size)
        for word, count in collections.Counter(words(query)).items():
            if word in self.weights:
                at, weight = self.weights[word]
                scores[at] += min(count, 8) * weight
        return scores


def order(scores):
    return np.lexsort((np.arange(len(scores)), -scores))


def fuse(*rankings, depth=100):
    total = np.zeros(len(rankings[0]))
    for ranking in rankings:
        total[ranking[:depth]] += 1 / (60 + np.arange(1, min(depth, len(ranking)) + 1))
    return order(total)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registry", required=True)
    parser.add_argument("--queries", required=True)
    parser.add_argument("--model-dir")
    parser.add_argument("--limit", type=int, default=0)
    args = parser.parse_args()
    tools = [json.loads(line) for line in open(args.registry, encoding="utf-8")]
    queries = [json.loads(line) for line in open(args.queries, encoding="utf-8")]
    if args.limit:
        queries = queries[:args.limit]
    texts = [search_text(t) for t in tools]
    names = [t["name"] for t in tools]
    bm25 = Bm25(texts)
    rankings = {"bm25": [order(bm25.score(q["query"])) for q in queries]}
    if args.model_dir:
        from numpy_minilm import MiniLm
        encoder = MiniLm(args.model_dir)
        rows = encoder.embed(texts)
        dense = [order(rows @ v)
                 for v in encoder.embed([q["query"] for q in queries])]
        rankings["dense"] = dense
        rankings["fused"] = [fuse(d, b)
                             for d, b in zip(dense, rankings["bm25"])]
    for kind, found in rankings.items():
        hits = [[names[i] in q["gold"] for i in ranking[:20]]
                for ranking, q in zip(found, queries)]
        print(f"{kind:6}", " ".join(
            f"hit@{k} {100 * np.mean([any(h[:k]) for h in hits]):5.1f}"
            for k in (1, 5, 20)), f"n {len(queries)}")


if __name__ == "__main__":
    main()

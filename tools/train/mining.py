"""Mined lists of negatives, and the vectors that mining needs, kept on disk.

Embedding a pool takes minutes, so vectors are saved as they come: a program that is
stopped goes on where it was.
"""

import hashlib
import json
import os

import numpy as np
import torch

from bert import Precision, sentence_vectors
from examples import Miner

QUERY_TOKENS = 48
TOOL_TOKENS = 128


def digest(*parts):
    state = hashlib.sha256()
    for part in parts:
        state.update(part if isinstance(part, bytes) else str(part).encode())
        state.update(b"\0")
    return state.hexdigest()[:16]


def weights_digest(model):
    return digest(*(p.detach().numpy().tobytes() for p in model.parameters()))


def embed_kept(path, bert, tokens, texts, limit):
    """[text, width] float32, from `path` as far as it goes."""
    key = np.array(digest(weights_digest(bert), limit, Precision.bf16, *texts))
    rows = np.zeros((0, 0), np.float32)
    if path.exists():
        stored = np.load(path)
        if str(stored["key"]) == str(key):
            rows = stored["rows"]
    while len(rows) < len(texts):
        part = texts[len(rows):len(rows) + 512]
        with torch.no_grad():
            new = sentence_vectors(
                bert, [tokens.single(t, limit) for t in part], 32).numpy()
        rows = new if not len(rows) else np.concatenate([rows, new])
        with open(str(path) + ".part", "wb") as file:
            np.savez(file, key=key, rows=rows)
        os.replace(str(path) + ".part", path)
        print(f"{path.name}: {len(rows)} of {len(texts)}", flush=True)
    return rows


def mine(folder, name, pool, rows, bert, tokens):
    """[{source: rows of pool}] for each of `rows`, cached in `folder` under
    `name`."""
    tool_vectors = embed_kept(folder / f"{name}.tools.npz", bert, tokens,
                              pool.texts, TOOL_TOKENS)
    query_vectors = embed_kept(folder / f"{name}.queries.npz", bert, tokens,
                               [r["query"] for r in rows], QUERY_TOKENS)
    path = folder / f"{name}.mined.json"
    key = digest(tool_vectors.tobytes(), query_vectors.tobytes(), *pool.twin,
                 *(json.dumps(r, sort_keys=True) for r in rows))
    if path.exists():
        stored = json.loads(path.read_text())
        if stored["key"] == key:
            return stored["lists"]
    miner = Miner(pool, tool_vectors)
    lists = [miner.negatives(row, vector)
             for row, vector in zip(rows, query_vectors)]
    path.write_text(json.dumps({"key": key, "lists": lists}))
    return lists


def is_right(pool, query):
    """bool [row of pool]: the gold tool itself or a twin of it."""
    gold = [r for key in query["gold"] for r in pool.rows.get(key, [])]
    twins = {pool.twin[r] for r in gold}
    ids = set(query["gold"])
    return np.array([pool.ids[r] in ids or pool.twin[r] in twins
                     for r in range(len(pool.ids))])


def draw_negative(lists, generator, shares=(("near", 0.6), ("sibling", 0.2),
                                            ("rival", 0.2))):
    """A row of the pool, the front of a list more often than its end; None where
    all lists are empty."""
    filled = [(name, share) for name, share in shares if lists[name]]
    if not filled:
        return None
    names, weights = zip(*filled)
    found = lists[generator.choices(names, weights)[0]]
    return found[int(len(found) * generator.random() ** 1.5)]

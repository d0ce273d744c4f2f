"""Which side of the split a tool and a query are on, and what leaks across.

Sides are decided for groups of tools that must stay together: equal canonical
text, near-twins (cosine >= 0.95 of an encoder), schemas of one name, and whole
servers where a set has real ones. A group's side is a hash of its smallest
canonical text, so it doesn't change with the order of the files.
"""

import collections
import hashlib
import math

import numpy as np

from reference_router import words

SIDES = (("train", 0.60), ("calibration", 0.75), ("test", 1.0))
TWIN_COSINE = 0.95
LEAK_COSINE = 0.9
LEAK_WORDS = 8
# Pairs below this cosine of TF-IDF vectors are never near in the encoder's eyes:
# they aren't compared. Sketches of 512 numbers are off by 0.04.
CANDIDATE_COSINE = 0.65
SKETCH = 512


def canonical(tool):
    """Lower-case words of name and description, without the server's prefix."""
    name, server = words(tool["name"]), words(tool["server"])
    if server and len(name) > len(server) and name[:len(server)] == server:
        name = name[len(server):]
    return " ".join(name) + "\n" + " ".join(words(tool["description"]))


def side_of(text):
    digest = hashlib.sha256(text.encode()).digest()
    share = int.from_bytes(digest[:8], "big") / 2 ** 64
    return next(side for side, end in SIDES if share < end)


class Groups:
    """Union-find over anything hashable."""

    def __init__(self):
        self.parent = {}

    def find(self, item):
        self.parent.setdefault(item, item)
        while self.parent[item] != item:
            self.parent[item] = self.parent[self.parent[item]]
            item = self.parent[item]
        return item

    def join(self, a, b):
        a, b = self.find(a), self.find(b)
        if a != b:
            self.parent[max(a, b)] = min(a, b)


def sketches(texts):
    """Unit vectors [text, SKETCH]: TF-IDF by signed hashing of words."""
    bags = [collections.Counter(text.split()) for text in texts]
    holders = collections.Counter(word for bag in bags for word in bag)
    places = {}
    for word in holders:
        digest = hashlib.blake2b(word.encode(), digest_size=24).digest()
        numbers = np.frombuffer(digest, dtype=np.uint16)
        places[word] = (numbers[:8] % SKETCH, 1.0 - 2.0 * (numbers[:8] >> 15),
                        math.log(1 + len(texts) / holders[word]))
    out = np.zeros((len(texts), SKETCH), dtype=np.float32)
    for row, bag in zip(out, bags):
        for word, count in bag.items():
            at, sign, idf = places[word]
            np.add.at(row, at, sign * idf * min(count, 3))
    norm = np.linalg.norm(out, axis=1, keepdims=True)
    return out / np.maximum(norm, 1e-9)


def near_pairs(left, right, threshold=CANDIDATE_COSINE, block=2048):
    """(i, j) with left[i]·right[j] >= threshold, in blocks of rows."""
    for start in range(0, len(left), block):
        rows, columns = np.nonzero(left[start:start + block] @ right.T >= threshold)
        yield from zip((rows + start).tolist(), columns.tolist())


class Vectors:
    """Encoder vectors by text, each text embedded once."""

    def __init__(self, encoder, progress=lambda done, total: None):
        self.encoder, self.progress, self.known = encoder, progress, {}

    def add(self, texts):
        new = [t for t in dict.fromkeys(texts) if t not in self.known]
        for start in range(0, len(new), 256):
            part = new[start:start + 256]
            self.known.update(zip(part, self.encoder.embed(part)))
            self.progress(min(start + 256, len(new)), len(new))

    def cosine(self, a, b):
        return float(self.known[a] @ self.known[b])


def twin_pairs(texts, labelled, vectors):
    """Pairs (i, j, cosine) of different texts at TWIN_COSINE or nearer, one of each
    among the numbers `labelled`: how distractors resemble each other is nobody's
    question."""
    sketch = sketches(texts)
    own = sorted(labelled)
    pairs = {(min(own[i], j), max(own[i], j))
             for i, j in near_pairs(sketch[own], sketch) if own[i] != j}
    pairs = sorted(pairs)
    vectors.add([texts[i] for pair in pairs for i in pair])
    found = [(i, j, vectors.cosine(texts[i], texts[j])) for i, j in pairs]
    return [p for p in found if p[2] >= TWIN_COSINE]


def word_ngrams(text, size=LEAK_WORDS):
    split = words(text)
    return {tuple(split[i:i + size]) for i in range(len(split) - size + 1)}


def leaks(kept, guarded, vectors):
    """{index in kept: reason} of the queries that are too near a guarded one."""
    out = {}
    grams = set().union(*(word_ngrams(text) for text in guarded), set())
    same = {" ".join(words(text)) for text in guarded}
    for i, text in enumerate(kept):
        if " ".join(words(text)) in same:
            out[i] = "same words"
        elif not word_ngrams(text).isdisjoint(grams):
            out[i] = f"{LEAK_WORDS}-gram"
    sketch = sketches([" ".join(words(t)) for t in kept + guarded])
    pairs = [(i, j) for i, j in near_pairs(sketch[:len(kept)],
                                           sketch[len(kept):]) if i not in out]
    vectors.add([t for i, j in pairs for t in (kept[i], guarded[j])])
    for i, j in pairs:
        if i not in out and vectors.cosine(kept[i], guarded[j]) >= LEAK_COSINE:
            out[i] = "cosine"
    return out

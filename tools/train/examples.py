"""Training examples: queries of train tools, and for each the tools that are most
easily taken for the right one.

Negatives come from the train side only and are never the gold tool, a twin of it,
a second right answer or a dependency. Four sources, in the order in which a step
draws from them:

    near     nearest by BM25 and by the un-tuned encoder in the query's own set
    sibling  other tools of the gold tool's server, or with its name's first or
             last word: other verb on the same object, other object, read or write
    rival    nearest in other registries and among live distractors; those that
             the un-tuned encoder likes nearly as well as the gold tool are left
             out, since another server's tool may well answer the query
    random   in-batch: the gold tools of the other queries
"""

import collections
import hashlib
import json
import random

from reference_router import Bm25, order, search_text, words

NEAR, SIBLINGS, RIVALS = 16, 8, 6
RIVAL_MARGIN = 0.95
HOMELESS_COSINE = 0.5


def read_jsonl(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Pool:
    """Tools of one side of the split, of all sets."""

    def __init__(self, folder, side, with_distractors=True):
        self.set, self.server, self.name = [], [], []
        self.texts, self.described, self.twin, self.ids = [], [], [], []
        self.rows = collections.defaultdict(list)  # tool id -> rows
        wanted = {(r["set"], r["id"]): r["twin"]
                  for r in read_jsonl(folder / "tools.splits.jsonl")
                  if r["split"] == side}
        for path in sorted(folder.glob("*.tools.jsonl")):
            name = path.name.removesuffix(".tools.jsonl")
            if name == "toucan" and not with_distractors:
                continue
            for tool in read_jsonl(path):
                key = f"{tool['server']}/{tool['name']}"
                if (name, key) not in wanted:
                    continue
                self.rows[key].append(len(self.ids))
                self.ids.append(key)
                self.set.append(name)
                self.server.append(tool["server"])
                self.name.append(words(tool["name"]) or [tool["name"]])
                self.texts.append(search_text(tool))
                self.described.append(tool.get("description") or "")
                self.twin.append(wanted[name, key])


    def keep(self, rows):
        for name in ("set", "server", "name", "texts", "described", "twin",
                     "ids"):
            values = getattr(self, name)
            setattr(self, name, [values[r] for r in rows])
        self.rows = collections.defaultdict(list)
        for row, key in enumerate(self.ids):
            self.rows[key].append(row)


def queries(folder, side, kinds=("single", "multi", "ask")):
    rows = [row for path in sorted(folder.glob("*.queries.jsonl"))
            if path.name != "toollinkos_toucan.queries.jsonl"
            for row in read_jsonl(path)]
    return [row for row in rows if row["split"] == side and row["kind"] in kinds]


VERBS = set("""add analyze book build buy calculate cancel check compare compute
convert create delete detect determine download edit estimate evaluate execute
explore extract fetch fill filter find generate get identify insert list look manage
measure merge modify monitor move obtain open optimize order perform plan play
predict process provide pull push query read recommend record register remove rename
reserve resolve retrieve return run schedule search select send set share show solve
sort start stop submit subscribe suggest track transfer translate update upload
validate verify view write""".split())
REQUESTS = ("{}", "Can you {}?", "I need to {}.", "please {}", "I want to {}",
            "Help me {}", "{} for me")


def invented_query(description, seed):
    """A request in the words of a description, some of them left out; None where
    the description doesn't begin with a verb."""
    generator = random.Random(seed)
    text = description.strip().split("\n")[0].split(". ")[0].rstrip(".")
    first, _, rest = text.partition(" ")
    verb = first.lower()
    verb = next((v for v in (verb, verb[:-1], verb[:-2]) if v in VERBS), None)
    if verb is None or not 2 <= len(rest.split()) <= 25:
        return None
    kept = [w for w in rest.split() if generator.random() > 0.2]
    body = " ".join([verb, *(kept or rest.split())])
    return generator.choice(REQUESTS).format(body)


def add_invented(pool, rows, untrained=("toucan",)):
    """Queries for the tools of `pool` that no row has as gold."""
    known = {key for row in rows for key in row["gold"]}
    out = []
    for row, key in enumerate(pool.ids):
        if key in known or pool.set[row] in untrained:
            continue
        text = invented_query(pool.described[row], key)
        if text:
            known.add(key)
            out.append({"id": f"invented-{len(out)}", "set": "invented",
                        "home": pool.set[row], "query": text, "gold": [key],
                        "kind": "single"})
    return out


class Miner:
    """Ranks a pool for a query. `vectors`: un-tuned, [row, width] of the pool."""

    def __init__(self, pool, vectors):
        self.pool, self.vectors = pool, vectors
        self.bm25 = Bm25(pool.texts)
        self.sets = set(pool.set)
        self.by_server = collections.defaultdict(list)
        self.by_word = collections.defaultdict(list)
        for row, (server, name) in enumerate(zip(pool.server, pool.name)):
            self.by_server[pool.set[row], server].append(row)
            for word in {name[0], name[-1]}:
                self.by_word[pool.set[row], word].append(row)

    def negatives(self, query, vector):
        """{source: rows}, the most confusable first."""
        pool = self.pool
        gold = {row for key in query["gold"] for row in pool.rows.get(key, [])}
        spared = set(query["gold"]) | set(query.get("related", []))
        twins = {pool.twin[row] for row in gold}

        def allowed(row):
            return pool.ids[row] not in spared and pool.twin[row] not in twins

        home = query.get("home") or query["set"]
        home = "bfcl_v4_pooled" if home == "when2call" else home
        dense = self.vectors @ vector
        near, rival = [], []
        # A query without a registry of its own goes with all tools; those that
        # seem to answer it are no negatives.
        homeless = home not in self.sets
        best = max((dense[row] for row in gold), default=0.0)
        lexical = order(self.bm25.score(query["query"]))[:400]
        for row in _interleave(order(dense)[:400], lexical):
            if not allowed(row):
                continue
            if homeless and dense[row] < HOMELESS_COSINE or pool.set[row] == home:
                near.append(row)
            elif dense[row] < RIVAL_MARGIN * best:
                rival.append(row)
        sibling = []
        for row in gold:
            group = self.by_server[pool.set[row], pool.server[row]]
            # Where a set has no servers, its one group is the whole set.
            found = group if len(group) <= 200 else []
            for word in {pool.name[row][0], pool.name[row][-1]}:
                found = found + self.by_word[pool.set[row], word][:200]
            sibling += [r for r in found if allowed(r)]
        sibling = sorted(set(sibling) - set(near[:NEAR]),
                         key=lambda r: -dense[r])
        return {"near": near[:NEAR], "sibling": sibling[:SIBLINGS],
                "rival": rival[:RIVALS]}


def _interleave(a, b):
    seen = set()
    for pair in zip(a, b):
        for row in map(int, pair):
            if row not in seen:
                seen.add(row)
                yield row


def step_random(seed, step):
    """Depends on nothing but its arguments, so a resumed run draws the same."""
    digest = hashlib.sha256(f"{seed} {step}".encode()).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


class Mixer:
    """Draws queries so that no set dominates: a set's share grows with the square
    root of its size. A batch is made of blocks of one set each, which makes the
    in-batch negatives tools of one registry."""

    def __init__(self, rows, seed):
        self.by_set = collections.defaultdict(list)
        for row in rows:
            self.by_set[row["set"]].append(row)
        self.names = sorted(self.by_set)
        self.shares = [len(self.by_set[n]) ** 0.5 *
                       (0.5 if n == "invented" else 1.0) for n in self.names]
        self.seed = seed

    def draw(self, step, count, block):
        generator = step_random(self.seed, step)
        picked = []
        while len(picked) < count:
            name = generator.choices(self.names, self.shares)[0]
            rows = self.by_set[name]
            size = min(block, len(rows), count - len(picked))
            picked += generator.sample(rows, size)
        return picked, generator

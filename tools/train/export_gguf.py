"""A training run -> GGUF at Q8_0 as the engine loads it, and what it must compute.

    PYTHON tools/train/export_gguf.py --model-dir MINILM --run RUN --out FILE.gguf \
        --reference FILE.jsonl [--blend 1.0]

Bi-encoder: architecture "bert", mean pooling. Cross-encoder: rank pooling, its head
in cls.* and cls.output.*. --blend B < 1 mixes B parts of the tuned weights with the
original ones, which may cost little on tools like those of the training sets and
keep more on others; choose it on the calibration side.

The reference file holds texts, or pairs, with what the float32 weights give: a line
is {"text", "vector"} or {"query", "text", "score"}. The rounded weights are held to
it here, the C++ side in its tests.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import gguf
import numpy as np
import torch

from bert import (CrossEncoder, Tokens, in_buckets, load_bert,
                  sentence_vectors)
from convert_encoder import REFERENCE_TEXTS, write_gguf

TOKENS = 512
# Scores of a re-ranker are logits; this much is the rounding of the weights.
SCORE_TOLERANCE = 0.15

REFERENCE_QUERIES = [
    "Will it rain in Paris tomorrow?",
    "merge the pull request that fixes issue 42",
    "¿Qué tiempo hace en Madrid?",
]


def load_run(model_dir, run, blend):
    """(model with the run's best weights, is it a cross-encoder, its step)."""
    bert, config = load_bert(model_dir)
    state = torch.load(pathlib.Path(run) / "best.pt")
    rank = any(name.startswith("classifier.") for name in state["weights"])
    model = CrossEncoder(bert, config["hidden_size"]) if rank else bert
    if rank and blend != 1.0:
        raise SystemExit("--blend: a re-ranker's head has no original to mix with")
    own = model.state_dict()
    model.load_state_dict({name: torch.lerp(own[name], tuned, blend)
                           for name, tuned in state["weights"].items()})
    return model.eval(), rank, state["step"]


def plain_names(model):
    return {name.removeprefix("bert."): value.numpy()
            for name, value in model.state_dict().items()}


def reference(model, rank, tokens):
    with torch.no_grad():
        if not rank:
            vectors = sentence_vectors(
                model, [tokens.single(t, TOKENS) for t in REFERENCE_TEXTS]).numpy()
            return [{"text": text, "vector": [round(float(x), 6) for x in vector]}
                    for text, vector in zip(REFERENCE_TEXTS, vectors)]
        pairs = [(q, t) for q in REFERENCE_QUERIES for t in REFERENCE_TEXTS]
        scores = in_buckets(model, [tokens.pair(q, t, TOKENS, TOKENS)
                                    for q, t in pairs])
        return [{"query": q, "text": t, "score": round(float(s), 5)}
                for (q, t), s in zip(pairs, scores)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--run", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--reference", type=pathlib.Path, required=True)
    parser.add_argument("--name", default="")
    parser.add_argument("--blend", type=float, default=1.0)
    args = parser.parse_args()

    model, rank, step = load_run(args.model_dir, args.run, args.blend)
    tokens = Tokens(args.model_dir)
    exact = reference(model, rank, tokens)
    used = write_gguf(gguf, args.model_dir, plain_names(model), args.out,
                      args.name or args.out.stem, rank)
    rounded = {name: torch.from_numpy(np.array(value))
               for name, value in used.items()}
    inner = model.bert if rank else model
    inner.load_state_dict({n: v for n, v in rounded.items()
                           if not n.startswith("classifier.")}, strict=False)
    if rank:
        model.classifier.load_state_dict(
            {n.removeprefix("classifier."): v for n, v in rounded.items()
             if n.startswith("classifier.")})
    again = reference(model, rank, tokens)
    if rank:
        off = max(abs(a["score"] - b["score"]) for a, b in zip(exact, again))
        print(f"largest difference of Q8_0 scores to float32: {off:.4f}")
        good = off < SCORE_TOLERANCE
    else:
        near = [float(np.dot(a["vector"], b["vector"]))
                for a, b in zip(exact, again)]
        print("cosine of Q8_0 weights to float32:",
              " ".join(f"{c:.6f}" for c in near))
        good = min(near) > 0.999
    if not good:
        raise SystemExit("the rounded model is too far from the trained one")
    args.reference.write_text("".join(
        json.dumps(row, ensure_ascii=False) + "\n" for row in exact),
        encoding="utf-8")
    print(f"{args.out}: step {step}, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()

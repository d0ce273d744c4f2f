"""all-MiniLM-L6-v2 in plain numpy, float32: the reference for the GGUF encoder.

Sentence embedding = mean over tokens of the last hidden state, L2-normalised, as
the model's own 1_Pooling and 2_Normalize modules say. Texts are cut at 512 tokens
(the size of the position table), as llama.cpp does.
"""

import json
import math
import pathlib

import numpy as np

MAX_TOKENS = 512


def load_safetensors(path):
    """{name: float32 array} of a .safetensors file: 8-byte header length, JSON
    header, then raw little-endian data."""
    raw = pathlib.Path(path).read_bytes()
    header_size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + header_size])
    tensors = {}
    for name, info in header.items():
        if name == "__metadata__":
            continue
        if info["dtype"] != "F32":
            continue  # embeddings.position_ids, an integer range
        begin, end = (8 + header_size + at for at in info["data_offsets"])
        tensors[name] = np.frombuffer(
            raw[begin:end], dtype="<f4").reshape(info["shape"])
    return tensors


def _gelu(x):
    # The exact (erf) form. Abramowitz and Stegun 7.1.26, |error| <= 1.5e-7: numpy
    # has no erf.
    z = np.abs(x) * np.float32(1 / math.sqrt(2))
    t = 1 / (1 + np.float32(0.3275911) * z)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (
        1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - poly * np.exp(-z * z))
    return (0.5 * x * (1 + erf)).astype(np.float32)


def _layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-12) * weight + bias


class MiniLm:
    def __init__(self, model_dir, tensors=None):
        from tokenizers import Tokenizer
        model_dir = pathlib.Path(model_dir)
        self.tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MAX_TOKENS)
        self.t = tensors or load_safetensors(model_dir / "model.safetensors")
        config = json.loads((model_dir / "config.json").read_text())
        self.layers = config["num_hidden_layers"]
        self.heads = config["num_attention_heads"]

    def _linear(self, x, name):
        return x @ self.t[name + ".weight"].T + self.t[name + ".bias"]

    def _embed_ids(self, ids):
        t = self.t
        x = (t["embeddings.word_embeddings.weight"][ids] +
             t["embeddings.position_embeddings.weight"][:len(ids)] +
             t["embeddings.token_type_embeddings.weight"][0])
        x = _layer_norm(x, t["embeddings.LayerNorm.weight"],
                        t["embeddings.LayerNorm.bias"])
        n, width = x.shape
        head_dim = width // self.heads
        for i in range(self.layers):
            p = f"encoder.layer.{i}."
            q, k, v = (self._linear(x, f"{p}attention.self.{part}")
                       .reshape(n, self.heads, head_dim).transpose(1, 0, 2)
                       for part in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(head_dim)
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            scores /= scores.sum(-1, keepdims=True)
            mixed = (scores @ v).transpose(1, 0, 2).reshape(n, width)
            x = _layer_norm(
                x + self._linear(mixed, f"{p}attention.output.dense"),
                t[f"{p}attention.output.LayerNorm.weight"],
                t[f"{p}attention.output.LayerNorm.bias"])
            hidden = _gelu(self._linear(x, f"{p}intermediate.dense"))
            x = _layer_norm(
                x + self._linear(hidden, f"{p}output.dense"),
                t[f"{p}output.LayerNorm.weight"],
                t[f"{p}output.LayerNorm.bias"])
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)

    def embed(self, texts):
        return np.stack([
            self._embed_ids(self.tokenizer.encode(text).ids) for text in texts
        ]).astype(np.float32)

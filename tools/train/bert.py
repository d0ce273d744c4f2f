"""all-MiniLM-L6-v2's BERT in plain PyTorch, and batches for it.

Parameters carry the names of the published safetensors file, so weights go in
and out without a table of names. Token types are always 0, also of a pair's second
text: the engine that runs the exported file knows no other.
"""

import json
import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

from numpy_minilm import load_safetensors


class Layer(nn.Module):
    def __init__(self, width, inner, heads, eps):
        super().__init__()
        self.heads = heads

        def linear(a, b):
            return nn.Linear(a, b)

        def output(a, b):
            return nn.ModuleDict({"dense": linear(a, b),
                                  "LayerNorm": nn.LayerNorm(b, eps=eps)})

        self.attention = nn.ModuleDict({
            "self": nn.ModuleDict({n: linear(width, width)
                                   for n in ("query", "key", "value")}),
            "output": output(width, width)})
        self.intermediate = nn.ModuleDict({"dense": linear(width, inner)})
        self.output = output(inner, width)

    def forward(self, x, bias):
        batch, length, width = x.shape
        parts = self.attention["self"]
        q, k, v = (parts[n](x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for n in ("query", "key", "value"))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads) + bias
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)
        out = self.attention["output"]
        x = out["LayerNorm"](x + out["dense"](mixed))
        hidden = F.gelu(self.intermediate["dense"](x))
        return self.output["LayerNorm"](x + self.output["dense"](hidden))


class Bert(nn.Module):
    """Token ids [batch, length], mask of the same shape -> hidden states."""

    def __init__(self, config):
        super().__init__()
        width, eps = config["hidden_size"], config["layer_norm_eps"]
        self.embeddings = nn.ModuleDict({
            "word_embeddings": nn.Embedding(config["vocab_size"], width),
            "position_embeddings": nn.Embedding(
                config["max_position_embeddings"], width),
            "token_type_embeddings": nn.Embedding(config["type_vocab_size"],
                                                  width),
            "LayerNorm": nn.LayerNorm(width, eps=eps)})
        self.encoder = nn.ModuleDict({"layer": nn.ModuleList(
            Layer(width, config["intermediate_size"],
                  config["num_attention_heads"], eps)
            for _ in range(config["num_hidden_layers"]))})
        self.pooler = nn.ModuleDict({"dense": nn.Linear(width, width)})

    def freeze(self, layers):
        """Embeddings and the first `layers` layers keep their weights. Words that
        training never sees stay where they were beside those that it does."""
        frozen = [self.embeddings, *self.encoder["layer"][:layers]]
        for module in frozen:
            for parameter in module.parameters():
                parameter.requires_grad_(False)

    def forward(self, ids, mask):
        e = self.embeddings
        x = e["LayerNorm"](
            e["word_embeddings"](ids) +
            e["position_embeddings"].weight[:ids.shape[1]] +
            e["token_type_embeddings"].weight[0])
        bias = (1.0 - mask[:, None, None, :]) * -1e9
        for layer in self.encoder["layer"]:
            x = layer(x, bias)
        return x


class CrossEncoder(nn.Module):
    """One logit a pair: what the engine's rank pooling computes, the first token's
    state through `pooler`, tanh and `classifier`."""

    def __init__(self, bert, width):
        super().__init__()
        self.bert = bert
        self.classifier = nn.Linear(width, 1)

    def forward(self, ids, mask):
        first = self.bert(ids, mask)[:, 0]
        return self.classifier(torch.tanh(self.bert.pooler["dense"](first)))[:, 0]


def load_bert(model_dir):
    model_dir = pathlib.Path(model_dir)
    config = json.loads((model_dir / "config.json").read_text())
    bert = Bert(config)
    weights = {name: torch.from_numpy(data.copy()) for name, data in
               load_safetensors(model_dir / "model.safetensors").items()}
    bert.load_state_dict(weights)
    return bert, config


def load_tuned(bert, source):
    """Weights of a training run's best.pt, or of a GGUF that export_gguf.py
    wrote (rounded, without pooler), into `bert`. Returns what names them."""
    source = pathlib.Path(source)
    if source.is_dir():
        state = torch.load(source / "best.pt")
        bert.load_state_dict(state["weights"], strict=False)
        return state["step"]
    import gguf
    from convert_encoder import gguf_name
    found = {t.name: t for t in gguf.GGUFReader(source).tensors}
    own = bert.state_dict()
    for name, value in own.items():
        target = gguf_name(name)
        if target is None:
            continue
        data = gguf.quants.dequantize(found[target].data,
                                      found[target].tensor_type)
        own[name] = torch.from_numpy(data.reshape(value.shape).copy())
    bert.load_state_dict(own)
    return source.name


class Tokens:
    """Texts -> padded batches. Whole texts are tokenized once and kept."""

    def __init__(self, model_dir):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(
            str(pathlib.Path(model_dir) / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.first = self.tokenizer.token_to_id("[CLS]")
        self.last = self.tokenizer.token_to_id("[SEP]")
        self.known = {}

    def body(self, text):
        if text not in self.known:
            # Far more than any limit below; keeps 10 KB descriptions cheap.
            encoded = self.tokenizer.encode(text[:4000], add_special_tokens=False)
            self.known[text] = encoded.ids[:512]
        return self.known[text]

    def single(self, text, limit):
        return [self.first, *self.body(text)[:limit - 2], self.last]

    def pair(self, query, tool, query_limit, limit):
        head = [self.first, *self.body(query)[:query_limit], self.last]
        return [*head, *self.body(tool)[:limit - len(head) - 1], self.last]


def padded(rows):
    """Lists of ids -> (ids, mask), both [row, longest]."""
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest)
    for i, row in enumerate(rows):
        ids[i, :len(row)] = torch.tensor(row)
        mask[i, :len(row)] = 1.0
    return ids, mask


class Precision:
    """Products in bfloat16, weights and sums in float32: 2.5 times faster on a
    processor with AVX512-BF16, slower on others."""
    bf16 = False


def in_buckets(model, rows, size=16):
    """model(ids, mask) of all rows, in their order, computed by length: padding
    would otherwise be half of the work."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    parts = []
    for start in range(0, len(rows), size):
        at = order[start:start + size]
        with torch.autocast("cpu", torch.bfloat16, enabled=Precision.bf16):
            parts.append(model(*padded([rows[i] for i in at])).float())
    out = torch.cat(parts)
    back = torch.empty(len(rows), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(rows))
    return out[back]


def sentence_vectors(bert, rows, size=16):
    """Mean of the hidden states, unit length."""

    def pooled(ids, mask):
        hidden = bert(ids, mask) * mask[:, :, None]
        return F.normalize(hidden.sum(1) / mask.sum(1, keepdim=True), dim=1)

    return in_buckets(pooled, rows, size)

"""all-MiniLM-L6-v2 (safetensors) -> GGUF at Q8_0, and its fp32 reference vectors.

Run by convert_encoder.sh, which fetches what this needs. The engine's own
convert_hf_to_gguf.py wants torch and transformers (gigabytes) for what is a
renaming of 101 tensors; gguf-py and numpy do, and the result is the same for
the engine: architecture "bert", WordPiece tokenizer, mean pooling.
"""

import argparse
import hashlib
import json
import pathlib
import sys

import numpy as np

from numpy_minilm import MiniLm, load_safetensors

WEIGHTS_SHA256 = (
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")

# What the C++ encoder is held to: plain English, a question, a tool's text, other
# scripts and accents, and a text longer than one vector of anything.
REFERENCE_TEXTS = [
    "What is the weather like in Paris tomorrow?",
    "get_current_weather Get the current weather in a given location "
    "location The city and state, e.g. San Francisco, CA unit celsius fahrenheit",
    "Créer un nouveau fichier dans le dépôt",
    "使用必应搜索指定的关键词",
    "List all open pull requests, oldest first; then merge the one that fixes "
    "issue #42 and delete its branch. " * 8,
]

LAYER_NAMES = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
EMBEDDING_NAMES = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}


# The head of a re-ranker, in the engine's names.
HEAD_NAMES = {
    "pooler.dense.weight": "cls.weight",
    "pooler.dense.bias": "cls.bias",
    "classifier.weight": "cls.output.weight",
    "classifier.bias": "cls.output.bias",
}


def gguf_name(name, rank=False):
    """The engine's name of a tensor, or None for what embedding doesn't use."""
    if name in EMBEDDING_NAMES:
        return EMBEDDING_NAMES[name]
    if name in HEAD_NAMES:
        return HEAD_NAMES[name] if rank else None
    _, _, layer, rest = name.split(".", 3)
    module, kind = rest.rsplit(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[module]}.{kind}"


def write_gguf(gguf, model_dir, tensors, out, name="all-MiniLM-L6-v2",
               rank=False):
    """Returns the weights as the file holds them, rounded. `rank`: a re-ranker,
    whose pooling gives one number."""
    config = json.loads((model_dir / "config.json").read_text())
    vocab = (model_dir / "vocab.txt").read_text(encoding="utf-8").splitlines()
    if len(vocab) != config["vocab_size"]:
        sys.exit(f"{model_dir}/vocab.txt: {len(vocab)} entries, config.json says "
                 f"{config['vocab_size']}")

    writer = gguf.GGUFWriter(out, "bert")
    writer.add_name(name)
    writer.add_license("apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.RANK if rank
                            else gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])

    # The engine's WordPiece keeps a leading U+2581 on word starts where the original
    # marks continuations with "##".
    special = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    tokens, types = [], []
    for token in vocab:
        if token in special:
            tokens.append(token)
            types.append(gguf.TokenType.CONTROL)
            continue
        tokens.append(token[2:] if token.startswith("##") else "\u2581" + token)
        types.append(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("jina-v2-en")  # the name convert_hf_to_gguf gives
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_unk_token_id(vocab.index("[UNK]"))
    writer.add_sep_token_id(vocab.index("[SEP]"))
    writer.add_pad_token_id(vocab.index("[PAD]"))
    writer.add_bos_token_id(vocab.index("[CLS]"))
    writer.add_mask_token_id(vocab.index("[MASK]"))

    used = {}
    for name, data in tensors.items():
        target = gguf_name(name, rank)
        if target is None:
            continue
        # Biases, norms and the two small tables that are added before the first norm
        # stay exact: 0.9 MB in all.
        exact = data.ndim == 1 or target in (
            "position_embd.weight", "token_types.weight", "cls.output.weight")
        kind = (gguf.GGMLQuantizationType.F32
                if exact else gguf.GGMLQuantizationType.Q8_0)
        packed = gguf.quants.quantize(np.ascontiguousarray(data), kind)
        writer.add_tensor(target, packed, raw_dtype=kind)
        used[name] = gguf.quants.dequantize(packed, kind).reshape(data.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return used


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--gguf-py", type=pathlib.Path, required=True,
                        help="gguf-py folder of the engine's source tree")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--reference", type=pathlib.Path, required=True,
                        help="where the reference vectors go (JSON)")
    args = parser.parse_args()
    sys.path.insert(0, str(args.gguf_py))
    import gguf

    weights = args.model_dir / "model.safetensors"
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    if digest != WEIGHTS_SHA256:
        sys.exit(f"{weights}: SHA-256 {digest}, expected {WEIGHTS_SHA256}")

    tensors = load_safetensors(weights)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    quantised = write_gguf(gguf, args.model_dir, tensors, args.out)

    exact = MiniLm(args.model_dir, tensors).embed(REFERENCE_TEXTS)
    rounded = MiniLm(args.model_dir, quantised).embed(REFERENCE_TEXTS)
    cosines = (exact * rounded).sum(1)
    print("cosine of Q8_0 weights against fp32:",
          " ".join(f"{c:.6f}" for c in cosines))
    if cosines.min() < 0.999:
        sys.exit("the quantised encoder is too far from the original")

    args.reference.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"text": text,
                         "vector": [round(float(x), 6) for x in vector]},
                        ensure_ascii=False)
             for text, vector in zip(REFERENCE_TEXTS, exact)]
    args.reference.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{args.out}: {args.out.stat().st_size} bytes, SHA-256 "
          f"{hashlib.sha256(args.out.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()

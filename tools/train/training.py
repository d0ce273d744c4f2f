"""What both training programs share: where a run is kept, how it resumes, logs,
and learning rates.

A run's folder holds last.pt (weights that change, optimiser, step), best.pt (the
weights with the best calibration figure) and log.jsonl. A run is a function of its
arguments: each step draws from a generator seeded with its number, and nothing else
is random, so a run that was stopped goes on as if it hadn't been.
"""

import argparse
import json
import os
import pathlib
import signal
import time

import torch

from bert import Precision

SAVE_SECONDS = 180
# A re-ranker's head starts from noise and must catch up with layers that don't.
HEAD = ("classifier.", "bert.pooler.")
HEAD_RATE = 20.0


class Run:
    def __init__(self, folder, model, options):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model, self.options = model, options
        self.trained = {n: p for n, p in model.named_parameters()
                        if p.requires_grad}
        groups = []
        for is_head in (False, True):
            for decayed in (True, False):
                found = [p for n, p in self.trained.items()
                         if n.startswith(HEAD) == is_head and
                         (p.ndim > 1) == decayed]
                if found:
                    groups.append({"params": found,
                                   "weight_decay": 0.01 if decayed else 0.0,
                                   "scale": HEAD_RATE if is_head else 1.0})
        self.optimizer = torch.optim.AdamW(groups, lr=options["lr"],
                                           betas=(0.9, 0.98), eps=1e-6)
        self.step, self.best = 0, -1.0
        self.saved_at = time.monotonic()
        self.stopping = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, number, frame):
        self.stopping = True  # after this step

    def resume(self):
        """Takes up last.pt, if there is one of the same options."""
        path = self.folder / "last.pt"
        if not path.exists():
            return
        state = torch.load(path)
        if state["options"] != self.options:
            changed = sorted(k for k in self.options
                             if state["options"].get(k) != self.options[k])
            raise SystemExit(f"{path}: made with other options "
                             f"({', '.join(changed)}); give another --run")
        self.model.load_state_dict(state["weights"], strict=False)
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.best = state["step"], state["best"]

    def _write(self, name, value):
        part = self.folder / (name + ".part")
        with open(part, "wb") as file:
            torch.save(value, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.folder / name)

    def weights(self):
        return {n: p.detach() for n, p in self.trained.items()}

    def all_weights(self):
        """Frozen layers may be another run's: best.pt must stand alone."""
        return {n: p.detach() for n, p in self.model.named_parameters()}

    def save(self):
        self._write("last.pt", {
            "weights": self.weights(), "optimizer": self.optimizer.state_dict(),
            "step": self.step, "best": self.best, "options": self.options})
        self.saved_at = time.monotonic()

    def judge(self, figure):
        """Keeps the weights if `figure` is the best so far."""
        if figure > self.best:
            self.best = figure
            self._write("best.pt", {"weights": self.all_weights(), "step": self.step,
                                    "figure": figure, "options": self.options})

    def log(self, **values):
        values = {"step": self.step, "time": round(time.time()), **values}
        line = json.dumps(values)
        print(line, flush=True)
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(line + "\n")

    def rate(self):
        """Share of the full learning rate: up over 6 % of the steps, then down."""
        total = self.options["steps"]
        rise = max(1, round(0.06 * total))
        return min((self.step + 1) / rise,
                   max(0.02, (total - self.step) / max(1, total - rise)))

    def update(self, loss):
        for group in self.optimizer.param_groups:
            group["lr"] = self.options["lr"] * self.rate() * group["scale"]
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained.values(), 1.0)
        self.optimizer.step()
        self.step += 1

    def loop(self, one_step, evaluate, every):
        """one_step(step) -> (loss, figures to log); evaluate() -> (figure, more)."""
        self.resume()
        if self.step == 0:
            figure, more = evaluate()
            self.judge(figure)
            self.log(eval=figure, **more)
        began, spent, first = time.monotonic(), time.process_time(), self.step
        smooth = None
        while self.step < self.options["steps"] and not self.stopping:
            loss, figures = one_step(self.step)
            self.update(loss)
            value = float(loss)
            smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
            if self.step % 10 == 0 or self.step == self.options["steps"]:
                done = self.step - first
                self.log(loss=round(value, 4), smooth=round(smooth, 4),
                         s_step=round((time.monotonic() - began) / done, 2),
                         cpu_step=round((time.process_time() - spent) / done, 2),
                         **figures)
            if self.step % every == 0 or self.step == self.options["steps"]:
                figure, more = evaluate()
                self.judge(figure)
                self.save()
                self.log(eval=figure, **more)
            elif time.monotonic() - self.saved_at > SAVE_SECONDS:
                self.save()
        self.save()


def run_parser(description, steps, learning_rate, freeze_layers, eval_every):
    """What every training run takes; the numbers are its own defaults."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--run", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--lr", type=float, default=learning_rate)
    parser.add_argument("--freeze-layers", type=int, default=freeze_layers)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eval-every", type=int, default=eval_every)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true",
                        help="products in bfloat16: for processors with "
                        "AVX512-BF16")
    parser.add_argument("--limit-queries", type=int, default=0,
                        help="only the first N of each set: to try the pipeline")
    return parser


def begin(args):
    """Before anything is computed."""
    no_starving_others()
    torch.set_num_threads(args.threads)
    Precision.bf16 = args.bf16


def no_starving_others():
    """The lowest priority there is, for a run that takes hours in the
    background. Groups are per session: start the program with setsid."""
    os.nice(19)
    try:
        if os.getsid(0) == os.getpid():
            pathlib.Path("/proc/self/autogroup").write_text("19")
    except OSError:
        pass  # a kernel without autogroups

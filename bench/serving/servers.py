"""Starts, watches and ends the servers that are compared."""

import http.client
import os
import pathlib
import socket
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """One server process on a free port of 127.0.0.1; its output goes to `log`."""

    def __init__(self, command, log):
        self.port = free_port()
        self.command = [*command, "--host", "127.0.0.1", "--port", str(self.port)]
        self.log = pathlib.Path(log)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=out,
                                            stdin=subprocess.DEVNULL)
        self.started = time.monotonic()

    def await_ready(self, seconds=300, poll=0.1):
        """Seconds from the start until /health says 200, to about `poll`."""
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", "/health")
                if connection.getresponse().status == 200:
                    return time.monotonic() - self.started
            except (OSError, http.client.HTTPException):
                pass
            finally:
                connection.close()
            waited = time.monotonic() - self.started
            if self.process.poll() is not None or waited > seconds:
                self.stop()
                tail = self.log.read_text(errors="replace")[-2000:]
                raise SystemExit(f"{' '.join(self.command)}: no answer\n{tail}")
            time.sleep(poll)

    def cpu_s(self):
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text[text.rindex(")") + 2:].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def peak_mib(self):
        return self.memory_mib("VmHWM:")

    def rss_mib(self):
        return self.memory_mib("VmRSS:")

    def memory_mib(self, field):
        for line in pathlib.Path(
                f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
        return 0.0

    def await_quiet(self, limit):
        """Gives a server its idle time, at most `limit` seconds of it, so that its
        idle work doesn't slow another's turn. Returns the CPU seconds it used."""
        before = last = self.cpu_s()
        began, calm = time.monotonic(), 0
        while calm < 3 and time.monotonic() - began < limit:
            time.sleep(0.1)
            now = self.cpu_s()
            calm = calm + 1 if now - last <= 1.5 / TICK else 0
            last = now
        return last - before

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def arms(options):
    """{name: (kind, command)}. llama-server's settings in `llama` are the best that
    were found by trying (bench/RESULTS.md): a slot for each agent, prompt cache in
    memory, --cache-reuse, and no flash attention, which on these processors costs
    its warm turns eight times as much."""
    nexus = [options.nexus, "serve", "--model", options.model, "--ctx",
             str(options.ctx), "--threads", str(options.threads), "--sessions",
             "8", "--log-format", "json"]
    llama = [options.llama_server, "-m", options.weights, "--jinja", "-t",
             str(options.threads), "--no-webui"]
    slots = ["-np", "8", "-c", str(8 * options.ctx), "--cache-reuse", "256",
             "--cache-ram", "8192"]
    return {
        "nexus route": ("nexus", [*nexus, "--tools-mode", "route"]),
        "nexus parallel": ("nexus", [*nexus, "--tools-mode", "route", "--parallel",
                                     "8"]),
        "nexus prefill": ("nexus", [*nexus, "--tools-mode", "route", "--tier",
                                    "prefill", "--no-idle"]),
        "nexus pin": ("nexus", [*nexus, "--tools-mode", "pin"]),
        "nexus hybrid": ("nexus", [*nexus, "--tools-mode", "hybrid"]),
        "llama": ("llama-server", [*llama, *slots, "-fa", "off"]),
        "llama fa on": ("llama-server", [*llama, *slots, "-fa", "on"]),
        "llama default": ("llama-server", llama),
    }

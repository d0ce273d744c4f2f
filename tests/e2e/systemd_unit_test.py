"""The unit under systemd itself: a user without privileges, restart after a crash, an
orderly end.

Run by ctest with NEXUS_BUILD set to the build folder and the weights of SmolLM2 in the
cache. Skipped where there is no systemd, no root, or the kernel refuses the namespaces
(boot_unit.sh).
"""

import http.client
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from serve_e2e_test import BIN, TOOLS, WEATHER, free_port

SYSTEMD = pathlib.Path("/lib/systemd/systemd")
if os.geteuid() != 0 or not SYSTEMD.exists() or not shutil.which("unshare"):
    print("skipped: it takes root and systemd")
    sys.exit(77)
MODELS = pathlib.Path(subprocess.run(
    [BIN, "pull", "smollm2-135m"], check=True, capture_output=True,
    text=True).stdout.strip()).parent


class Machine:
    """A systemd that runs nexus.service and nothing else."""

    def __init__(self, folder, port):
        config = pathlib.Path(folder) / "config.toml"
        config.write_text(f'model = "smollm2-135m"\n[serve]\nport = {port}\nthreads = 1\n')
        self.log = open(pathlib.Path(folder) / "log", "w+")
        self.unshare = subprocess.Popen(
            ["unshare", "-m", "-p", "-f", "-u", "-i", "--kill-child",
             pathlib.Path(__file__).with_name("boot_unit.sh"), os.environ["NEXUS_BUILD"],
             config, MODELS], stdout=self.log, stderr=self.log)

    def ended(self):
        return self.unshare.poll() is not None

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def run(self, *command):
        pid = self.unshare.pid
        init = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        return subprocess.run(
            ["nsenter", "-t", init, "-m", "-p", "-u", "-i", "-r", "-w", *command],
            capture_output=True, text=True, timeout=60).stdout.strip()

    def show(self, name):
        return self.run("systemctl", "show", "--property", name, "--value", "nexus")

    def stop(self):
        self.unshare.kill()
        self.unshare.wait()
        self.log.close()


class SystemdUnitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="nexus-unit-")
        cls.port = free_port()
        cls.machine = Machine(cls.folder.name, cls.port)
        try:
            cls.await_health()
        except BaseException:
            cls.tearDownClass()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.machine.stop()
        cls.folder.cleanup()

    @classmethod
    def request(cls, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", cls.port, timeout=120)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    @classmethod
    def await_health(cls, seconds=180):
        deadline = time.monotonic() + seconds
        while True:
            if cls.machine.ended() and "mounted" not in cls.machine.output():
                # Before anything of ours could run.
                print("skipped: the kernel refuses namespaces or mounts here:\n" +
                      cls.machine.output())
                os._exit(77)
            try:
                if cls.request("GET", "/health")["status"] == "ok":
                    return
            except (OSError, http.client.HTTPException):
                pass
            if cls.machine.ended() or time.monotonic() > deadline:
                raise AssertionError("no service:\n" + cls.machine.output() + (
                    "" if cls.machine.ended() else
                    cls.machine.run("journalctl", "-u", "nexus")))
            time.sleep(0.2)

    def test_1_it_serves_as_a_user_without_privileges(self):
        answer = self.request("POST", "/v1/chat/completions", json.dumps({
            "model": "smollm2-135m", "messages": WEATHER, "tools": TOOLS,
            "max_tokens": 64}))
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        self.assertEqual(call["name"], "get_weather")
        status = self.machine.run(
            "cat", f"/proc/{self.machine.show('MainPID')}/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        self.assertNotIn("0", fields["Uid"].split())
        self.assertEqual(int(fields["CapEff"], 16), 0)
        self.assertEqual(fields["NoNewPrivs"], "1")
        # What it keeps is its own, and nobody else's to read.
        self.assertEqual(self.machine.run(
            "stat", "-L", "-c", "%a", "/var/cache/private/nexus"), "700")

    def test_2_a_crash_starts_it_again(self):
        before = self.machine.show("MainPID")
        self.machine.run("kill", "-KILL", before)
        deadline = time.monotonic() + 60
        while self.machine.show("NRestarts") != "1" or self.machine.show(
                "ActiveState") != "active":
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.5)
        self.await_health()
        self.assertNotEqual(self.machine.show("MainPID"), before)

    def test_3_stopping_it_is_no_failure(self):
        self.machine.run("systemctl", "stop", "nexus")
        self.assertEqual(self.machine.show("ActiveState"), "inactive")
        self.assertEqual(self.machine.show("Result"), "success")
        self.assertEqual(self.machine.show("ExecMainStatus"), "0")


if __name__ == "__main__":
    unittest.main(verbosity=2)

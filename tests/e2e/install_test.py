"""What `cmake --install` and CPack make of a build: everything in its place, and the
program there finds it.

Run by ctest with NEXUS_BUILD set to the build folder. Needs the weights of
SmolLM2 (scripts/test brings them). What checks pages, scripts and units (mandoc, zsh,
fish, systemd-analyze) is used where it is installed: scripts/setup --dev.
"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["NEXUS_BUILD"])
for _name in list(os.environ):
    if _name.startswith("NEXUS_") and _name not in ("NEXUS_CACHE_DIR", "NEXUS_MODELS_DIR"):
        del os.environ[_name]
os.environ["XDG_CONFIG_HOME"] = os.devnull
SMALL = "smollm2-135m"
TOOLS = [
    {"name": "book_berth", "description": "Books a berth for a vessel at the quay.",
     "inputSchema": {"type": "object", "properties": {"vessel": {"type": "string"}}}},
    {"name": "tide_table", "description": "Times of high and low water on a date.",
     "inputSchema": {"type": "object", "properties": {"date": {"type": "string"}}}},
]


def run(*command, code=0, **kwargs):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True,
                          timeout=300, **kwargs)
    assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def refuse_writable_code():
    """What MemoryDenyWriteExecute= does; inherited by what is run next."""
    pr_set_mdwe, refuse_exec_gain = 65, 1
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_mdwe, refuse_exec_gain, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_MDWE)")


class Installed:
    """A prefix, and a registry to route over."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.bin = prefix / "bin" / "nexus"
        self.share = prefix / "share"

    def doctor(self, store):
        done = run(self.bin, "doctor", "--json", "-m", SMALL, "--store", store,
                   "--threads", "1")
        return {f["part"]: f for f in json.loads(done.stdout)["findings"]}


def setUpModule():
    global TEMP, HERE, PROGRAM
    TEMP = tempfile.TemporaryDirectory(prefix="nexus-install-")
    HERE = pathlib.Path(TEMP.name)
    run("cmake", "--install", BUILD, "--prefix", HERE / "prefix")
    PROGRAM = Installed(HERE / "prefix")


def tearDownModule():
    TEMP.cleanup()


def commands():
    """Names of the commands, as the help lists them."""
    text = run(PROGRAM.bin, "--help").stdout
    return re.findall(r"^  (\S+) ", text.split("Subcommands:")[1].split("First")[0], re.M)


def flags(*command):
    text = run(PROGRAM.bin, *command, "--help").stdout
    return set(re.findall(r"(?:^  |,)(--[a-z][a-z0-9-]*)", text, re.M))


class InstallTest(unittest.TestCase):
    def test_the_installed_program_uses_what_is_installed(self):
        found = PROGRAM.doctor(HERE / "store")
        self.assertEqual(found["encoder"]["state"], "on", found)
        self.assertTrue(found["encoder"]["text"].startswith(str(PROGRAM.share)), found)
        self.assertEqual(found["splice"]["state"], "on", found)

    def test_it_routes_without_a_word_of_complaint(self):
        registry = HERE / "tools.jsonl"
        registry.write_text("\n".join(map(json.dumps, TOOLS)) + "\n")
        done = run(PROGRAM.bin, "route", "when is high tide?", "--tools", registry,
                   "--json", "--log-level", "warn", "--threads", "1", cwd="/")
        self.assertEqual(json.loads(done.stdout)["tool"], "tide_table")
        self.assertEqual(done.stderr, "")

    def test_it_works_where_memory_is_never_both_written_and_run(self):
        try:
            run("true", preexec_fn=refuse_writable_code)
        except subprocess.SubprocessError:
            self.skipTest("this kernel has no PR_SET_MDWE")
        done = run(PROGRAM.bin, "doctor", "--json", "-m", SMALL, "--store",
                   HERE / "store", "--threads", "1", preexec_fn=refuse_writable_code)
        self.assertTrue(json.loads(done.stdout)["ok"])

    def test_models_profiles_licences_and_docs_are_there(self):
        for path in ("nexus/models/nexus-route-minilm-Q8_0.gguf",
                     "nexus/profiles/qwen2.5-coder-0.5b-instruct-q4_k_m.json",
                     "doc/nexus/README.md", "doc/nexus/LICENSE", "doc/nexus/copyright",
                     "doc/nexus/models.md", "doc/nexus/docs/install.md",
                     "doc/nexus/examples/config.toml"):
            self.assertTrue((PROGRAM.share / path).is_file(), path)
        # Only the encoder that is used: the package is large enough.
        self.assertEqual(list(PROGRAM.share.rglob("all-MiniLM*")), [])

    def test_nothing_installed_names_the_machine_that_built_it(self):
        for path in PROGRAM.prefix.rglob("*"):
            if path.is_file() and path.suffix not in (".gguf",) and path != PROGRAM.bin:
                self.assertNotIn(str(BUILD), path.read_text(), path)


class PagesTest(unittest.TestCase):
    def test_each_command_has_a_page_with_all_its_flags_and_none_is_stale(self):
        pages = PROGRAM.share / "man" / "man1"
        names = commands()
        self.assertIn("serve", names)
        self.assertEqual(
            sorted(p.name for p in pages.iterdir()),
            sorted(["nexus.1"] + [f"nexus-{name}.1" for name in names]))
        for name in names:
            page = (pages / f"nexus-{name}.1").read_text()
            self.assertEqual(page, run(PROGRAM.bin, "man", name).stdout)
            for flag in flags(name):
                self.assertIn(flag.replace("-", "\\-"), page)
        self.assertEqual((pages / "nexus.1").read_text(), run(PROGRAM.bin, "man").stdout)

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_mandoc_finds_nothing_wrong(self):
        for page in (PROGRAM.share / "man" / "man1").iterdir():
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", page],
                                  capture_output=True, text=True, timeout=60)
            # Dates would make each build another.
            found = [line for line in done.stdout.splitlines()
                     if "missing date" not in line]
            self.assertEqual(found, [])

    def test_the_example_config_is_taken_as_it_is(self):
        run(PROGRAM.bin, "--config", PROGRAM.share / "doc/nexus/examples/config.toml",
            "pull", "--list")


class CompletionTest(unittest.TestCase):
    SCRIPT = "bash-completion/completions/nexus"

    def bash(self, *words):
        """What bash offers for the last of the words."""
        script = "\n".join([
            f"source '{PROGRAM.share / self.SCRIPT}'",
            "COMP_WORDS=(nexus " + " ".join(f"'{word}'" for word in words) + ")",
            f"COMP_CWORD={len(words)}",
            # As readline calls what `complete -F` names.
            "$(complete -p nexus | sed 's/.*-F \\([^ ]*\\).*/\\1/') nexus",
            "printf '%s\\n' \"${COMPREPLY[@]}\""])
        done = run("bash", "--norc", "--noprofile", "-c", script)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.splitlines() if line]

    def test_bash_offers_every_command_and_every_flag(self):
        self.assertEqual(sorted(self.bash("")), sorted(commands()))
        for command in (["serve"], ["ask"], ["bench", "ttft"]):
            offered = {w for w in self.bash(*command, "--") if w.startswith("--")}
            self.assertEqual(offered, flags(*command) | flags(), command)

    def test_bash_offers_values(self):
        self.assertEqual(self.bash("ask", "--tier", "sp"), ["splice"])
        self.assertIn(SMALL, self.bash("serve", "-m", ""))
        self.assertEqual(self.bash("--log-format", "j"), ["json"])

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_offers_commands_flags_and_values(self):
        script = PROGRAM.share / "fish/vendor_completions.d/nexus.fish"

        def fish(line):
            done = run("fish", "--no-config", "-c",
                       f"source '{script}'; complete -C '{line}'")
            self.assertEqual(done.stderr, "")
            return [offer.split("\t")[0] for offer in done.stdout.splitlines()]

        self.assertEqual(sorted(fish("nexus ")), sorted(commands()))
        self.assertEqual(fish("nexus ask --tier sp"), ["splice"])
        self.assertIn("--sessions", fish("nexus serve --se"))
        self.assertNotIn("--sessions", fish("nexus ask --se"))

    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_offers_commands_flags_and_values(self):
        # zsh completes only where somebody types: a terminal of its own, in which
        # Tab is followed by a key that shows the line as it is then.
        (HERE / "init.zsh").write_text(f"""
PS1=
fpath=('{PROGRAM.share}/zsh/vendor-completions' $fpath)
autoload -U compinit
compinit -u -D
show() {{ print -r -- "[[$BUFFER]]" }}
zle -N show
bindkey '^Y' show
echo rea''dy
""")
        (HERE / "type.zsh").write_text(r"""
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "source $1"
zpty -r z text '*ready*'
zpty -w -n z "$2"$'\t\x19'
zpty -r z text '*\]\]*'
print -r -- "$text"
zpty -d z
""")

        def zsh(line):
            done = run("zsh", "-f", HERE / "type.zsh", HERE / "init.zsh", line)
            return re.findall(r"\[\[(.*)\]\]", done.stdout)[-1]

        self.assertEqual(zsh("nexus calibrate-r"), "nexus calibrate-router ")
        self.assertEqual(zsh("nexus serve --hybrid"), "nexus serve --hybrid-tools=")
        self.assertEqual(zsh("nexus serve --log-fo"), "nexus serve --log-format=")
        self.assertEqual(zsh("nexus ask --tier sp"), "nexus ask --tier splice ")
        self.assertEqual(zsh("nexus bench ttf"), "nexus bench ttft ")


class UnitTest(unittest.TestCase):
    def setUp(self):
        self.unit = PROGRAM.prefix / "lib/systemd/system/nexus.service"

    def test_its_command_line_is_one_that_the_program_takes(self):
        line = re.search(r"^ExecStart=(.*)$", self.unit.read_text(), re.M)[1].split()
        self.assertEqual(line[0], str(PROGRAM.bin))
        run(*line, "--help")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_understands_it_and_calls_it_well_hardened(self):
        copy = HERE / "units" / "nexus.service"
        copy.parent.mkdir(exist_ok=True)
        copy.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={PROGRAM.bin}",
                               self.unit.read_text(), flags=re.M))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", copy],
                              capture_output=True, text=True, timeout=60)
        ours = [line for line in (done.stdout + done.stderr).splitlines()
                if "nexus.service" in line]
        self.assertEqual(ours, [])
        done = subprocess.run(["systemd-analyze", "security", "--offline=yes", copy],
                              capture_output=True, text=True, timeout=60)
        exposure = re.search(r"Overall exposure level for nexus.service: ([0-9.]+)",
                             done.stdout)
        self.assertIsNotNone(exposure, done.stdout + done.stderr)
        self.assertLess(float(exposure[1]), 2.5)


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "no dpkg-dev")
class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.out = HERE / "deb"
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.out)
        (cls.deb,) = cls.out.glob("nexus_*.deb")
        cls.root = HERE / "root"
        run("dpkg-deb", "-x", cls.deb, cls.root)

    def test_it_says_what_it_needs(self):
        fields = dict(line.split(": ", 1) for line in
                      run("dpkg-deb", "-f", self.deb).stdout.splitlines()
                      if ": " in line and not line.startswith(" "))
        for library in ("libc6", "libstdc++6", "libsqlite3-0", "libssl3", "libgomp1"):
            self.assertIn(library, fields["Depends"])
        self.assertIn("python3-pip", fields["Recommends"])

    def test_the_program_in_it_works_where_it_was_unpacked(self):
        found = Installed(self.root / "usr").doctor(HERE / "store")
        self.assertTrue(found["encoder"]["text"].startswith(str(self.root)), found)

    def test_its_unit_names_the_program_where_dpkg_puts_it(self):
        unit = (self.root / "usr/lib/systemd/system/nexus.service").read_text()
        self.assertIn("\nExecStart=/usr/bin/nexus serve ", unit)
        self.assertNotIn(str(HERE), unit)

    def test_it_has_nothing_outside_usr_and_all_of_it_may_be_read(self):
        self.assertEqual([p.name for p in self.root.iterdir()], ["usr"])
        for path in self.root.rglob("*"):
            self.assertEqual(path.stat().st_mode & 0o044, 0o044, path)

    @unittest.skipUnless(os.geteuid() == 0, "dpkg installs for root only")
    def test_dpkg_installs_and_purges_it(self):
        root = HERE / "dpkg-root"
        (root / "var/lib/dpkg/info").mkdir(parents=True)
        (root / "var/lib/dpkg/updates").mkdir()
        (root / "var/lib/dpkg/status").touch()
        dpkg = ("dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless",
                "--log=/dev/null")
        run(*dpkg, "-i", self.deb)
        self.assertIn("nexus ", run(root / "usr/bin/nexus", "--version").stdout)
        (root / "var/cache/private/nexus").mkdir(parents=True)
        run(*dpkg, "-P", "nexus")
        self.assertFalse((root / "usr/bin/nexus").exists())
        self.assertFalse((root / "var/cache/private/nexus").exists())


if __name__ == "__main__":
    unittest.main()

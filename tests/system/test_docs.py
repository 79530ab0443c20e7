# SPDX-License-Identifier: MIT
"""The README and the manual say what the programs do: commands, options, columns, and the tour, which is walked again."""
import os
import re
import sqlite3

import pytest

from harness import FSTAPE, FSTAPEFS, TOP, git, run

README = (TOP / "README.md").read_text()
MANUALS = {name: (TOP / "docs" / name).read_text() for name in ("fstape.1", "fstapefs.8")}
without_mounts = pytest.mark.without_mounts


def help_of(command):
    return run(FSTAPE, "help", command).stdout


def commands():
    """{name: summary} as `fstape help` lists them; a summary may go on in the next line."""
    listed = run(FSTAPE, "help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    found = re.findall(r"^  (\w+) +(.*(?:\n {12}.*)*)", listed, re.M)
    return {name: " ".join(summary.split()) for name, summary in found}


def help_options(command):
    """{option: argument}, as `fstape help COMMAND` lists them."""
    listed = re.findall(r"^  (?:(-\w), |    )(--[\w-]+)(?: (\S+))?", help_of(command).split("\nOptions:\n")[1], re.M)
    return {option: argument for short, name, argument in listed for option in (short, name) if option}


def manual_options(text):
    """{option: argument}, as the list items of a part of the manual have them."""
    found = {}
    for item in re.findall(r"^\.It (Fl .*)$", text.replace("\\-", "-"), re.M):
        for options, argument in re.findall(r"((?:Fl \S+(?: , )?)+)((?:(?!Fl).)*)", item):
            argument = re.sub(r"\b(Ar|Cm|Ns)\b|[ ]|,$", "", argument.strip())
            found.update({f"-{option}": argument for option in re.findall(r"Fl (\S+)", options)})
    return found


def section(title):
    return README.split(f"\n## {title}\n")[1].split("\n## ")[0]


def first_cells(text):
    """The `names` in the first column of the tables of a text."""
    return [name for line in text.splitlines() if line.startswith("| `")
            for name in re.findall(r"`([^`]*)`", line.split(" | ")[0])]


def columns(table):
    db = sqlite3.connect(":memory:")
    for name in ("schema.sql", "views.sql"):
        db.executescript((TOP / "schema" / name).read_text())
    return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]


def tour():
    """(command, output) pairs of the README's tour."""
    steps = []
    for block in re.findall(r"```console\n(.*?)```", README, re.S):
        for step in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = step.partition("\n")
            while command.count('"') % 2:
                more, _, output = output.partition("\n")
                command += "\n" + more
            steps.append((command, output))
    return steps


def header(output):
    """The words of a table's first line: no line of a recording's own, no frame."""
    lines = [line for line in output.splitlines() if not line.startswith(("fstape:", "run ", "┌"))]
    return re.findall(r"[^│\s]+", lines[0]) if lines else []


@without_mounts
def test_commands_of_the_readme_are_those_of_help():
    rows = re.findall(r"^\| `fstape (\w+) (.*?)` \| (.*) \|$", section("Commands"), re.M)
    assert {name: summary for name, _, summary in rows} == commands()
    assert [name for name, _, _ in rows] == list(commands())
    for name, arguments, _ in rows:
        assert f"fstape {name} [OPTION...] {arguments}" in help_of(name).replace(" [ARGUMENT...]]", "...]")


@without_mounts
def test_columns_of_the_readme_are_those_of_the_database():
    ops, run_table = section("Columns").split("The table `run`")
    assert first_cells(ops) == columns("ops")
    assert set(first_cells(run_table)) <= set(columns("run"))


@without_mounts
def test_options_of_the_manual_are_those_of_help():
    """Each command has its options in its own section, with the arguments that its help names; and no others."""
    parts = dict(part.split("\n", 1) for part in re.split(r"^\.S[hs] ", MANUALS["fstape.1"], flags=re.M)[1:])
    common = manual_options(parts["Common options"])
    for name in commands():
        own, shown = manual_options(parts[name]), help_options(name)
        assert {**{option: common[option] for option in common if option in shown}, **own} == shown, name


@without_mounts
def test_mount_options_of_the_manual_are_those_of_help():
    ours = run(FSTAPEFS, "-h").stdout.split("mount options:")[1].split("Options of every FUSE mount")[0]
    items = re.findall(r"^\.It (Cm .*)$", MANUALS["fstapefs.8"], re.M)
    assert sorted(re.findall(r"^    ([a-z_]+)(?:=| {3})", ours, re.M)) == \
        sorted(option for item in items for option in re.findall(r"Cm ([a-z_]+)(?:=|$)", item))


@without_mounts
@pytest.mark.parametrize("program", ["quickstart", "tests/run"])
def test_help_of_scripts_fits_a_terminal(program):
    said = run(TOP / program, "--help").stdout
    assert said and max(map(len, said.splitlines())) <= 80


@without_mounts
def test_a_test_that_there_is_not_does_not_pass():
    done = run(TOP / "tests/run", "--unit", "spol", check=False)
    assert done.returncode == 2 and done.stderr == "tests/run: no unit test 'spol'\n"


@without_mounts
def test_options_of_the_readme_exist():
    for command, _ in tour():
        words = command.split(" | ")[0].split()
        if words[0] == "fstape":
            known = help_of(words[1])
            for option in re.findall(r" (--?[a-z][a-z-]*)", command.split(" git ")[0]):
                assert re.search(rf"(^|[ ,]){option}[ ,\n]", known), f"{option} in {command}"


def test_tour(box):
    """The commands work as written, and their tables have the columns that the README shows."""
    origin = box.top / "origin"
    origin.mkdir()
    (origin / "common-main.c").write_text("int main;\n")
    git("init", "-q", cwd=origin)
    git("add", ".", cwd=origin)
    git("commit", "-q", "-m", "one", cwd=origin)
    env = dict(os.environ, PATH=f"{FSTAPE.parent}:{os.environ['PATH']}", HOME=str(box.top), GIT_CONFIG_COUNT="1",
               GIT_CONFIG_KEY_0=f"url.file://{origin}.insteadOf", GIT_CONFIG_VALUE_0="file:///srv/git", LC_ALL="C.UTF-8")
    steps = [(command, output) for command, output in tour() if "b.db" not in command]
    assert len(steps) > 5
    for command, output in steps:
        done = run("bash", "-o", "pipefail", "-c", command, cwd=box.store, env=env)
        assert header(done.stderr + done.stdout) == header(output), command


def rows(output):
    """{first word: the other words} of the lines of a table."""
    return {words[0]: words[1:] for words in (re.findall(r"[^│\s]+", line) for line in output.splitlines()) if words}


def seconds(text):
    number, unit = text.split()
    return float(number) * {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}[unit]


@without_mounts
def test_the_tour_is_of_one_recording():
    """What several commands show of the same run is the same."""
    shown = dict(tour())
    recorded = next(output for command, output in shown.items() if command.startswith("fstape record t.db"))
    listed = rows(shown["fstape runs t.db"])
    stats = next(output for command, output in shown.items() if command.startswith("fstape stats"))
    requests, total = re.search(r"(\d+) requests, 0 dropped; .*, (.*?) of it in the filesystem", recorded).groups()
    assert f"{requests} requests, " in stats and f" errors, {total}\n" in stats
    assert requests in listed["1"] and re.search(r"real (\S+ \S+),", recorded)[1] in " ".join(listed["1"])
    summary, table = rows(recorded), rows(stats)
    both = [op for op in table if op in summary and op not in ("op", "run")]
    assert len(both) > 3
    for op in both:
        assert summary[op][:4] == table[op][:4] and summary[op][-1] == table[op][-1], op  # count, errors, total; share
    of_all = next(output for command, output in shown.items() if "sum(fs_ns)/1e6" in command)
    by_run = next(output for command, output in shown.items() if "GROUP BY run, op" in command)
    lookups = sum(int(count) for count in re.findall(r"│ \d+ +│ lookup +│ (\d+)", by_run))
    assert int(rows(of_all)["lookup"][0]) == int(table["lookup"][0]) + lookups
    # the largest phase is that share of the run's time
    phases = next(output for command, output in shown.items() if command.startswith("fstape git"))
    wall, share = re.search(r"^\S.*? {2,}(\d\S* \S+) +(\d\S*)%", phases, re.M).groups()
    assert seconds(wall) / float(share) * 100 == pytest.approx(seconds(re.search(r"real (\S+ \S+),", recorded)[1]), rel=0.02)

# SPDX-License-Identifier: MIT
"""`fstape report`: the page as a document, hostile names in it, where it is written, and what a browser says of it."""
import base64
import hashlib
import html.parser
import http.server
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import threading

import pytest

from harness import FSTAPE, SLOW, make_repository, run, wait_until

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
# a path of two of these is "<script>alert(1)</script>", or ends a <style>
NAMES = [b"<script>alert(1)<", b"script>", b"<", b"style>", b"title>", b"]]>", b"a\nb", b"\xff\xfe",
         b"\"><img src=x onerror=alert(1)>", b"<!--", b"&lt;", "\u202egnp.exe".encode(), b"'", b"{{x}}", "\u00fcml\u00e4ut".encode()]
LABEL = "</title><script>alert(2)</script>"
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """A page as a list of elements; fails on what is not well formed."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.text = text
        self.elements, self.open, self.contents = [], [], {}
        self.tables = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert len(attrs) == len(dict(attrs)), f"attribute twice: {tag} {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert "svg" in self.open, tag
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> does not fit"

    def handle_data(self, data):
        self.contents.setdefault(self.open[-1] if self.open else None, []).append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data

    def all(self, tag, **wanted):
        return [attrs for name, attrs in self.elements if name == tag and wanted.items() <= attrs.items()]

    def words(self):
        return " ".join(" ".join(texts) for tag, texts in self.contents.items() if tag not in ("style", "script"))


def check(text):
    """What holds for every page; returns it parsed."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n")
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids)), "an id is there twice"
    for _, attrs in page.elements:
        assert not [name for name in attrs if name.startswith("on") or name in ("src", "style", "srcset", "action")], attrs
        assert attrs.get("href", "#").startswith("#"), attrs
        for number in ("x", "y", "width", "height"):
            assert not re.search("nan|inf|-", attrs.get(number, "").replace("x=\"-6\"", "")) or attrs[number] == "-6", attrs
    for chart in page.all("svg", role="img"):
        assert all(name in ids for name in chart["aria-labelledby"].split()), chart
    assert page.all("html") == [{"lang": "en"}]
    assert not re.search(r"https?://(?!www\.w3\.org)", text.replace("https://www.unicode.org", "")), "points elsewhere"
    policy = page.all("meta", **{"http-equiv": "Content-Security-Policy"})[0]["content"]
    assert "default-src 'none'" in policy
    for tag in ("style", "script"):
        assert len(page.all(tag)) == 1
        digest = base64.b64encode(hashlib.sha256("".join(page.contents[tag]).encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy, tag
    return page


def report(db, *options, **kwargs):
    """The page of a database, checked."""
    return check(run(FSTAPE, "report", *options, db, "-o", "-", **kwargs).stdout)


def record(box, script, *options):
    return run(FSTAPE, "record", "-q", *options, box.db, box.src, "--", "sh", "-c", script)


def make_names(top):
    for name in NAMES:
        os.mkdir(os.path.join(os.fsencode(top), name))
        for inner in NAMES:
            os.mkdir(os.path.join(os.fsencode(top), name, inner))
            with open(os.path.join(os.fsencode(top), name, inner, b"file"), "wb") as file:
                file.write(b"x")


@pytest.fixture
def hostile(box):
    """A recording of names that would break a careless page."""
    (box.top / "from").mkdir()
    make_names(box.top / "from")
    record(box, f"cp -r {box.top}/from/. .; ls -R", "--label", LABEL)
    return box


@pytest.fixture(scope="module")
def clone(base, filesystems):
    """A database with a recorded clone and status, by real git."""
    top = filesystems["ext4"] / "page"
    top.mkdir()
    origin = make_repository(top / "origin", files=400)
    (top / "src").mkdir()
    db = base / "page.db"
    run(FSTAPE, "record", "-q", db, top / "src", "--", "git", "clone", "-q", f"file://{origin}", "c")
    run(FSTAPE, "record", "-q", "--label", "status", db, top / "src", "--", "git", "-C", "c", "status")
    yield db
    shutil.rmtree(top)


def test_page_of_a_clone(clone):
    page = report(clone, "--run", "1")
    names = {attrs["id"] for attrs in page.all("figure")}
    assert {"run-1-rate", "run-1-busy", "run-1-heat", "run-1-latency", "run-1-dirs"} <= names
    ops = next(table for table in page.tables if table[0][0] == "operation")
    stats = {row["op"]: row for row in json.loads(run(FSTAPE, "stats", "--run", "1", "--format", "json", clone).stdout)}
    assert {row[0]: (int(row[1]), int(row[2])) for row in ops[1:]} == {
        name: (row["count"], row["errors"]) for name, row in stats.items()}
    assert "git clone" in page.words()
    assert "Incomplete" not in page.words()


def test_git_tells_its_phases(clone):
    page = report(clone, "--run", "1")
    names = [attrs["id"] for attrs in page.all("figure")]
    assert names[:2] == ["run-1-phases", "run-1-phase-ops"] and "run-1-git" in names
    db = sqlite3.connect(clone)
    phases = db.execute("SELECT DISTINCT phase, sum(end_ns - start_ns) FROM git_span JOIN git_phase AS f ON f.id = phase"
                        " WHERE run = 1 GROUP BY f.name ORDER BY 2 DESC").fetchall()
    name = db.execute("SELECT name FROM git_phase WHERE id = ?", (phases[0][0],)).fetchone()[0]
    db.close()
    assert f"{name}, elsewhere: " in page.words()
    assert "What costs most" in page.words() and 1 <= len(page.all("li")) and "SELECT" in page.words()
    assert "git clone" in page.words() and "unpack_trees/unpack_trees" in page.words()


def test_without_git_there_is_none_of_it(box):
    record(box, "touch a")
    names = {attrs["id"] for attrs in report(box.db).all("figure")}
    assert "run-1-git" not in names and "run-1-rate" in names


def test_flushes_of_devices(box):
    record(box, "touch a; sleep 0.3; touch b")
    db = sqlite3.connect(box.db)
    with db:
        db.execute("DELETE FROM host_value")
        db.execute("DELETE FROM host_counter")
        db.executemany("INSERT INTO host_counter VALUES (1, ?, ?, ?, 'counter', 'count')",
                       [(1, "disk:<b>9", "flushes"), (2, "memory", "flushes"), (3, "disk:loop9", "writes")])
        db.executemany("INSERT INTO host_value VALUES (1, ?, ?, ?)", [
            (1, 0, 5), (1, 200000000, 105), (1, 250000000, 3), (2, 0, 0), (2, 200000000, 9), (3, 0, 7), (3, 1 << 62, 7)])
    db.close()
    page = report(box.db)
    names = {attrs["id"] for attrs in page.all("figure")}
    assert "run-1-flushes" in names and "run-1-disk" not in names, "nothing was written"
    assert "<b>9 flushes" in page.words() and "memory" not in page.words()
    # 100 in the 100 ms before they were seen
    rates = [int(rate.replace(",", "")) for rate in re.findall(r": ([0-9,]+)/s\n<b>9 flushes", page.words())]
    assert rates and max(rates) == 1000 and all(rate <= 1000 for rate in rates)


def test_reports_are_tables(clone):
    page = report(clone, "--run", "1")
    slowest = json.loads(run(FSTAPE, "query", "--report", "slowest", "--run", "1", "--format", "json", clone).stdout)
    table = next(table for table in page.tables if table[0][:2] == ["at", "op"])
    assert [row[1] for row in table[1:]] == [row["op"] for row in slowest]
    assert [row[-1] for row in table[1:]] == [row["path"] for row in slowest]


def test_several_runs_are_compared(clone):
    page = report(clone, "--run", "1", "--run", "status")
    names = [attrs["id"] for attrs in page.all("figure")]
    assert names[:2] == ["compare-times", "compare-ops"]
    assert "run-1-rate" in names and "run-2-rate" in names
    assert [link["href"] for link in page.all("a")] == ["#compare", "#run-1", "#run-2"]


def test_a_run_is_shown_once_and_many_are_not_all_shown(box):
    for _ in range(8):
        record(box, "touch a; rm a")
    page = report(box.db, "--run", "2", "--run", "2")
    assert len(page.all("section")) == 1 and not page.all("nav")
    page = report(box.db, *[word for number in range(1, 9) for word in ("--run", number)])
    assert len([section for section in page.all("section") if section["id"].startswith("run-")]) == 6
    assert "Only the first 6 runs" in page.words()


def test_intervals_need_three_runs(box):
    for _ in range(3):
        record(box, "touch a; rm a")
    db = sqlite3.connect(box.db)
    with db:
        db.execute("UPDATE run SET workload = 'w', target = 'ext4', round = id")
        db.execute("INSERT INTO run (state, workload, target, round, real_ns, user_ns, sys_ns)"
                   " VALUES ('native', 'w', 'ext4', 1, 5000000, 1000000, 1000000)")
    db.close()
    page = report(box.db, "--run", "3")  # the other runs of the workload come along
    groups = [attrs for attrs in page.all("g", **{"class": "whisker"})]
    assert len(groups) == 4, "real, user, sys and the filesystem of the group of three"
    assert "not recorded" in page.words() and "95% interval" in page.words()


def test_hostile_names_are_text(hostile):
    page = report(hostile.db)
    words = page.words()
    assert LABEL in words
    for shown in ("<script>alert(1)</script>", "</style>", "</title>", "]]>", "a\\x0ab", "\\xff\\xfe",
                  "\"><img src=x onerror=alert(1)>", "<!--", "&lt;", "\\xe2\\x80\\xaegnp.exe", "{{x}}", "\u00fcml\u00e4ut"):
        assert shown in words, shown
    assert not page.all("img")
    assert "\u202e" not in page.text


def test_a_partial_run_says_so_first(box):
    record(box, "touch a")
    db = sqlite3.connect(box.db)
    with db:
        db.execute("UPDATE run SET dropped = 7, requests = requests + 7, note = '<b>disk full'")
    db.close()
    page = report(box.db)
    warning = page.text.index('role="alert"')
    assert warning < page.text.index("<h2>") and "7 dropped; &lt;b&gt;disk full" in page.text[warning:]


@pytest.mark.parametrize("change, words", [
    ("DELETE FROM op", "No operation reached the filesystem"),
    ("DELETE FROM op WHERE seq > (SELECT min(seq) FROM op)", "1 requests"),
    ("UPDATE run SET state = 'recording', clean_end = NULL, real_ns = NULL, end_ns = NULL", "its recorder has died"),
    ("UPDATE op SET start_ns = 9223372036854775807, dur_ns = 9223372036854775807, fs_ns = 9223372036854775807", "Run 1"),
    ("UPDATE op SET start_ns = -5, dur_ns = -9223372036854775808, fs_ns = -1", "Run 1"),
    ("UPDATE op SET dur_ns = 0, fs_ns = 0, start_ns = 0", "Run 1"),
    ("UPDATE path SET id = id * 4611686018427387904 / 1000, parent = 9223372036854775807", "Run 1"),
    ("UPDATE path SET path = replace(hex(zeroblob(50000)), '00', 'x/')", "Run 1"),
    ("UPDATE op SET op = 99", "No operation reached"),
    ("UPDATE run SET real_ns = -1, user_ns = NULL, command = '[1', fs_type = NULL", "Run 1"),
], ids=["none", "one", "not ended", "huge times", "negative times", "no time", "wild ids", "deep paths", "unknown ops",
        "no facts"])
def test_odd_and_hostile_databases(box, change, words):
    record(box, "mkdir d; touch d/a; ls -R; rm -r d")
    db = sqlite3.connect(box.db)
    with db:
        db.execute("PRAGMA foreign_keys = off")
        db.execute(change)
    db.close()
    text = report(box.db).words()
    assert words in text or words.replace("1 requests", "requests") in text


def test_page_is_written_whole_or_not_at_all(clone, tmp_path):
    target = tmp_path / "page.html"
    target.write_text("before")
    done = run("bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "bash", FSTAPE, "report", clone, "-o", target, check=False)
    assert done.returncode == 1 and "cannot write" in done.stderr and done.stderr.count("\n") == 1
    assert target.read_text() == "before" and os.listdir(tmp_path) == ["page.html"]
    run(FSTAPE, "report", clone, "-o", target)
    check(target.read_text())
    assert os.listdir(tmp_path) == ["page.html"]


def test_where_the_page_goes(clone, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("page.html")
    (tmp_path / "page.html").touch()
    run(FSTAPE, "report", clone, "-o", link)
    assert link.is_symlink() and (tmp_path / "page.html").stat().st_size > 1000
    assert run(FSTAPE, "report", clone, "-o", "/dev/null").stderr == ""
    for where, words in ((clone, "the database itself"), (tmp_path, "directory"), (tmp_path / "no" / "x", "No such file")):
        before = os.stat(clone).st_mtime_ns
        done = run(FSTAPE, "report", clone, "-o", where, check=False)
        assert done.returncode == 1 and words in done.stderr, done
        assert os.stat(clone).st_mtime_ns == before
    done = run(FSTAPE, "report", clone, check=False)
    assert done.returncode == 2 and "-o FILE" in done.stderr
    done = run("sh", "-c", f"{FSTAPE} report {clone} -o - >/dev/full", check=False)
    assert done.returncode == 1 and "cannot write to standard output, /dev/full: No space left on device\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_leaves_nothing(clone, tmp_path, number):
    """A reader that holds the database's lock would be no interruption: so many operations that it takes seconds."""
    db = tmp_path / "big.db"
    shutil.copy(clone, db)
    with sqlite3.connect(db) as connection:
        connection.execute(
            "WITH n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500000) INSERT INTO op (run, seq, start_ns,"
            " dur_ns, fs_ns, op, process, path, result) SELECT 2, 1000000 + n, n * 1000, 900, 800, 1, 1, 1, 0 FROM n")
    connection.close()
    made = subprocess.Popen([FSTAPE, "report", db, "-o", tmp_path / "page.html"], stderr=subprocess.PIPE, text=True)
    wait_until(lambda: [name for name in os.listdir(tmp_path) if ".new-" in name], what="the page is begun")
    made.send_signal(number)
    _, stderr = made.communicate(timeout=20 * SLOW)
    assert made.returncode == 1 and "interrupted" in stderr
    assert os.listdir(tmp_path) == ["big.db"]


# --- in a browser -----------------------------------------------------------------------------------------------

needs_browser = pytest.mark.skipif(not BROWSER, reason="needs chromium")


@pytest.fixture
def server(tmp_path):
    """Serves tmp_path; `asked` are the paths that were asked for."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=tmp_path)

        def log_message(self, *_):
            made.asked.append(self.path)

    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.asked = []
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def browse(tmp_path, server, name):
    """Chromium's words on a page: its DOM afterwards, messages of its console, other addresses that were asked for."""
    netlog = tmp_path / "net.json"
    done = run(BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
               "--disable-background-networking", "--disable-component-update", f"--user-data-dir={tmp_path / 'profile'}",
               f"--log-net-log={netlog}", "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
               f"http://127.0.0.1:{server.server_port}/{name}", env=dict(os.environ, HOME=str(tmp_path)))
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    asked = re.findall(r'"url":"([^"]+)"', netlog.read_text())
    assert f"http://127.0.0.1:{server.server_port}/{name}" in asked, "the log tells of requests"
    # what a browser asks its maker by itself
    own = re.compile(r"(chrome|devtools|https?://[a-z0-9.-]*(google|gvt1|googleapis)\.com/|http://127.0.0.1:)")
    return done.stdout, console, [url for url in asked if not own.match(url)]


@needs_browser
def test_browser_has_nothing_to_complain_about(hostile, server, tmp_path):
    run(FSTAPE, "report", hostile.db, "-o", tmp_path / "page.html")
    dom, console, asked = browse(tmp_path, server, "page.html")
    assert console == [] and asked == []
    assert set(server.asked) <= {"/page.html", "/favicon.ico"}
    assert '<div id="tip" hidden' in dom and '<button type="button" title="sort">count</button>' in dom, "our script ran"
    assert dom.count("<script") == 1


@needs_browser
def test_browser_runs_no_other_script(hostile, server, tmp_path):
    """The policy holds where escaping had failed; and this test would see it."""
    run(FSTAPE, "report", hostile.db, "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text().replace("<header>", '<header><script>document.title = "run"</script>'
                                                        '<img src="http://127.0.0.2/x.png">')
    (tmp_path / "page.html").write_text(text)
    dom, console, _ = browse(tmp_path, server, "page.html")
    assert "<title>run" not in dom and len(console) >= 2


@needs_browser
def test_readable_on_a_phone(clone, server, tmp_path):
    """At 390 pixels nothing but tables, which scroll, is wider; and no letter is smaller than 12 pixels."""
    text = run(FSTAPE, "report", "--run", "1", "--run", "2", clone, "-o", "-").stdout
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f"""<!DOCTYPE html><meta charset="utf-8"><iframe width="390" height="800"></iframe><script>
        const frame = document.querySelector("iframe");
        frame.onload = () => {{
            const inner = frame.contentDocument, sizes = new Set();
            for (const text of inner.querySelectorAll("text, p, td, th, dd, dt, li"))
                sizes.add(parseFloat(frame.contentWindow.getComputedStyle(text).fontSize));
            const wide = inner.documentElement.scrollWidth;
            inner.querySelector("table button").click();
            const sorted = inner.querySelector("th[aria-sort]") !== null;
            document.body.dataset.result = JSON.stringify({{ wide, smallest: Math.min(...sizes), sorted }});
        }};
        frame.srcdoc = {json.dumps(text).replace("</", "<" + chr(92) + "/")};
        </script>""")
    dom, console, _ = browse(tmp_path, server, wrapper.name)
    found = json.loads(re.search(r'data-result="([^"]+)"', dom)[1].replace("&quot;", '"'))
    assert found["wide"] <= 390 and found["smallest"] >= 12 and found["sorted"], found
    assert console == []

"""Headless Chromium for tests of the console: Debian's chromium, chromium-driver and python3-selenium.

What a person sees and does: look(), see(), click(), write(), press(). Each waits until the page is so far. A test
ends with quiet(), which holds that no script failed and that nothing was against the page's policy.
"""

import http.client
import http.server
import json
import pathlib
import re
import shutil
import threading

import pytest

from harness import TOP, eventually

AXE = TOP / "build/clients/axe/node_modules/axe-core/axe.min.js"
SECONDS = 20  # until the page is so far
PHONE, DESK = (390, 844), (1100, 800)
EXPECTED = re.compile(r"the server responded with a status of (401|403|404|409|412|400)|Password forms should have|ERR_EMPTY_RESPONSE")


def is_there():
    try:
        import selenium  # noqa: F401
    except ImportError:
        return False
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


def needed():
    if not is_there():
        print("SKIP: chromium, chromium-driver or python3-selenium is not installed")
        pytest.skip("chromium, chromium-driver or python3-selenium is not installed")


class Browser:
    def __init__(self, folder):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        self.folder = pathlib.Path(folder)
        for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--lang=en-GB", "--hide-scrollbars",
                         f"--user-data-dir={self.folder}/profile"):
            options.add_argument(argument)
        options.add_experimental_option("prefs", {"download.default_directory": str(self.folder), "intl.accept_languages": "en-GB"})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver"), log_path=str(self.folder / "driver.log")), options=options)
        self.driver.set_script_timeout(30)
        self.size(DESK)

    def close(self):
        self.driver.quit()

    # ---- the screen ----

    def size(self, size, dark=False):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def screenshot(self, path):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(path))

    def go(self, url):
        self.driver.get(url)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    # ---- what a person sees ----

    def text(self, css="body"):
        return self.run("const e = document.querySelector(arguments[0]); return e ? e.innerText : ''", css)

    def until(self, question, what):
        try:
            return eventually(question, what, SECONDS)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\nThe page:\n{self.text()}") from None

    def all(self, css):
        """The texts of all of these that are there."""
        return self.run("return Array.from(document.querySelectorAll(arguments[0]), e => e.innerText)", css)

    def see(self, text, css="body"):
        """Waits until the text is there."""
        return self.until(lambda: text in self.text(css), f"{text!r} is in {css}")

    def sees(self, text, css="body"):
        return text in self.text(css)

    def gone(self, text, css="body"):
        self.until(lambda: text not in self.text(css), f"{text!r} is gone from {css}")

    def find(self, css, text=""):
        """The first of these that has the text, once it is there and can be used."""
        def found():
            return self.run("return Array.from(document.querySelectorAll(arguments[0])).find(e => e.textContent.includes(arguments[1])) || null", css, text)
        return self.until(found, f"{css} with {text!r} is there")

    # ---- what a person does ----

    def click(self, css, text=""):
        def clicked():
            from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
            try:
                one = self.find(css, text)
                self.run("arguments[0].scrollIntoView({block: 'nearest'})", one)
                one.click()
                return True
            except (ElementClickInterceptedException, StaleElementReferenceException):  # it was drawn again, or moved
                return False
        self.until(clicked, f"{css} with {text!r} can be clicked")

    def write(self, css, text):
        self.run("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", self.find(css))
        self.find(css).send_keys(text)

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def scroll(self):
        """To the end, a screen at a time, as a reader does."""
        self.driver.execute_async_script("""
            const done = arguments[0];
            const step = () => {
              const before = scrollY;
              scrollBy(0, innerHeight / 3);
              requestAnimationFrame(() => requestAnimationFrame(() => scrollY === before ? done() : step()));
            };
            step();""")

    # ---- what must hold ----

    def violations(self, rules=None):
        """What axe-core has against the page as it is, each with the elements; by these rules only, or by all of WCAG 2.2 A and AA."""
        if not AXE.exists():
            print("SKIP: build/clients/axe is not installed, so pages are not held against WCAG")
            return []
        if not self.run("return 'axe' in window"):
            self.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": AXE.read_text()})
        found = self.driver.execute_async_script("""
            const done = arguments[1];
            axe.run(document, {resultTypes: ["violations"], runOnly: arguments[0] || ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
              .then(result => done(result.violations.map(v => [v.id, v.help, v.nodes.map(n => n.html + n.failureSummary)])), e => done([["axe", String(e), []]]))""", rules)
        return found

    def quiet(self):
        wrong = [line["message"] for line in self.driver.get_log("browser") if not EXPECTED.search(line["message"])]
        assert not wrong, json.dumps(wrong, indent=1)



class Proxy:
    """A proxy that shows a program below a path of its own, as its operator may want it."""

    def __init__(self, port, program_port, path):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def pass_on(self):
                if not self.path.startswith(path + "/"):
                    self.send_error(404)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                program = http.client.HTTPConnection("127.0.0.1", program_port)
                program.request(self.command, self.path[len(path):], body, dict(self.headers))
                reply = program.getresponse()
                content = reply.read()
                self.send_response(reply.status)
                for name, value in reply.getheaders():
                    if name.lower() not in ("date", "connection", "content-length"):
                        self.send_header(name, value)
                if reply.status not in (204, 304):
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)
                program.close()

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = pass_on

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # the program was away
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

"""Headless Chromium, driven through chromedriver by the W3C's WebDriver protocol.

A page is used as a person uses it: fields are filled by key presses, and what is clicked must be visible. find() waits until
an element is there; a `selector` is CSS, or XPath when it begins with "/".
"""
import base64
import json
import time
import urllib.error
import urllib.request

from debian_root import Failed

ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server", "--hide-scrollbars",
             "--window-size=1300,1800", "--lang=en", "--disable-background-networking", "--disable-component-update", "--no-first-run",
             "--disable-features=PasswordLeakDetection,PasswordManagerOnboarding"]
PREFERENCES = {"credentials_enable_service": False, "profile.password_manager_enabled": False, "intl.accept_languages": "en"}
WAIT_SECONDS_MAX = 30
PAGE_SECONDS_MAX = 120
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
ENTER = "\ue007"


class WebDriverError(Exception):
    """What chromedriver refuses; `kind` is the protocol's name of it."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Browser:
    def __init__(self, root, port):
        self.address = f"http://127.0.0.1:{port}"
        self.program = root.start(f"chromedriver --port={port} --log-level=WARNING", "chromedriver")
        self.session = None
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                self.ask("GET", "/status")
                break
            except OSError as error:
                if time.monotonic() > deadline or not self.program.running():
                    raise Failed(f"chromedriver does not answer: {self.program.said()[-300:]}") from error
                time.sleep(0.1)

    def __enter__(self):
        """A session of its own: without the cookies of an earlier one."""
        options = {"args": ARGUMENTS, "prefs": PREFERENCES}
        answer = self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "unhandledPromptBehavior": "accept", "timeouts": {"pageLoad": PAGE_SECONDS_MAX * 1000},
            "goog:chromeOptions": options}}})
        self.session = answer["sessionId"]
        return self

    def __exit__(self, *_):
        session, self.session = self.session, None
        self.ask("DELETE", f"/session/{session}")

    def stop(self):
        self.program.stop()

    # ---- the protocol ----

    def ask(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.address + path, data=data, method=method, headers={"Content-Type": "application/json"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=PAGE_SECONDS_MAX + 10) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            value = json.loads(error.read())["value"]
            raise WebDriverError(value["error"], value["message"].splitlines()[0]) from error

    def here(self, method, path, body=None):
        return self.ask(method, f"/session/{self.session}{path}", body)

    # ---- pages ----

    def open(self, url):
        self.here("POST", "/url", {"url": url})

    def forget(self):
        """The cookies of the page's site."""
        self.here("DELETE", "/cookie")

    def url(self):
        return self.here("GET", "/url")

    def script(self, text, *arguments):
        return self.here("POST", "/execute/sync", {"script": text, "args": list(arguments)})

    def text(self):
        """The page as it is read."""
        return self.script("return document.body ? document.body.innerText : ''")

    def picture(self, path):
        path.write_bytes(base64.b64decode(self.here("GET", "/screenshot")))

    # ---- elements ----

    def all(self, selector):
        using = "xpath" if selector.startswith(("/", "(")) else "css selector"
        return self.here("POST", "/elements", {"using": using, "value": selector})

    def find(self, selector, seconds=WAIT_SECONDS_MAX):
        deadline = time.monotonic() + seconds
        while True:
            found = self.all(selector)
            if found:
                return found[0][ELEMENT]
            if time.monotonic() > deadline:
                raise Failed(f"{self.url()} has no {selector}; it says: {' '.join(self.text().split())[:400]}")
            time.sleep(0.1)

    def patiently(self, what, action):
        """Repeats an action while the element is being drawn, moved or replaced."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return action()
            except WebDriverError as error:
                passing = ("stale element reference", "element not interactable", "element click intercepted")
                if error.kind not in passing or time.monotonic() > deadline:
                    raise Failed(f"{self.url()}: {what}: {error}") from error
                time.sleep(0.2)

    def click(self, selector):
        self.patiently(f"click {selector}", lambda: self.here("POST", f"/element/{self.find(selector)}/click"))

    def fill(self, selector, text):
        """Puts text into a field in the place of what is there."""
        def action():
            element = self.find(selector)
            self.here("POST", f"/element/{element}/clear")
            self.here("POST", f"/element/{element}/value", {"text": text})
        self.patiently(f"fill {selector}", action)

    def type(self, selector, text):
        self.patiently(f"type into {selector}", lambda: self.here("POST", f"/element/{self.find(selector)}/value", {"text": text}))

    def choose(self, selector, label):
        """Chooses an entry of a <select> by its text."""
        element = self.find(selector)
        chosen = self.script("""for (const option of arguments[0].options) if (option.text.trim() === arguments[1]) {
            option.selected = true; arguments[0].dispatchEvent(new Event('change', {bubbles: true})); return true; }
            return false""", {ELEMENT: element}, label)
        if not chosen:
            raise Failed(f"{self.url()}: {selector} has no entry '{label}'")

    def expect(self, *texts, seconds=WAIT_SECONDS_MAX):
        """Waits until the page shows all of the texts."""
        deadline = time.monotonic() + seconds
        while True:
            shown = self.text()
            missing = [text for text in texts if text not in shown]
            if not missing:
                return shown
            if time.monotonic() > deadline:
                raise Failed(f"{self.url()} does not show {missing[0]!r}, but: {' '.join(shown.split())[:400]}")
            time.sleep(0.1)

    def expect_not(self, text):
        if text in self.text():
            raise Failed(f"{self.url()} shows {text!r}")

    def wait_until(self, what, condition, seconds=WAIT_SECONDS_MAX):
        """Waits for a JavaScript expression."""
        deadline = time.monotonic() + seconds
        while not self.script(f"return !!({condition})"):
            if time.monotonic() > deadline:
                raise Failed(f"{self.url()}: {what} did not come about")
            time.sleep(0.1)

"""Looks at a report as people will: on a phone, on a desk, and on paper, in headless Chromium. What would annoy them is a finding: a
chart that was not drawn, a page wider than the screen or the paper, an error of a script, anything fetched from elsewhere.
Leaves phone.png and desktop.png, which show the page from its top to its end, and print.pdf beside it for the eye."""
import pathlib
import subprocess
import sys

from . import LAB, LabError, tools

PHONE = {"width": 360, "height": 740}
PAPER = {"width": 718, "height": 1047}  # A4 less 10 mm margins, in CSS pixels
DESKTOP = {"width": 1280, "height": 900}
PICTURE_PIXELS_MAX = 16_000  # Chromium draws no picture that is higher
READY_MS = 120_000
WIDER = """limit => [...document.body.querySelectorAll("*")].filter(one => !one.closest("svg, script, style, details:not([open])"))
  .filter(one => { const scroll = one.closest(".scroll"); return (!scroll || scroll === one || getComputedStyle(scroll).overflowX === "visible") && one.getBoundingClientRect().right > limit + 1; })
  .map(one => one.tagName.toLowerCase() + " “" + one.textContent.trim().slice(0, 40) + "”").slice(0, 3)"""
UNDRAWN = """() => [...document.querySelectorAll("[data-spec]")].filter(one => { const svg = one.querySelector("svg"); return !svg || svg.getBoundingClientRect().width < 100; })
  .map(one => one.id + " " + one.textContent.slice(0, 80))"""


def look(page_path):
    """Findings about a report.html, each a line; an empty list is good news."""
    page_path = pathlib.Path(page_path).resolve()
    playwright = _playwright()
    chromium, env = tools.program("chromium")
    with playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"], env=env)
        try:
            return _screen(browser, page_path, "phone", PHONE) + _screen(browser, page_path, "desktop", DESKTOP) + _print(browser, page_path)
        finally:
            browser.close()


def _open(browser, path, size, told, media="screen"):
    page = browser.new_page(viewport=size, device_scale_factor=2 if size is PHONE else 1)
    page.emulate_media(media=media)
    page.on("pageerror", lambda error: told.append(f"a script failed: {error}"))
    page.on("request", lambda request: None if request.url.startswith(("file:", "data:", "blob:")) else told.append(f"the page asked for {request.url}"))
    page.goto(path.as_uri())
    page.wait_for_selector("body[data-charts]", timeout=READY_MS, state="attached")
    return page


def _screen(browser, path, name, size):
    told = []
    page = _open(browser, path, size, told)
    told += [f"{name}: not drawn: {one}" for one in page.evaluate(UNDRAWN)]
    told += [f"{name}: wider than the screen: {one}" for one in page.evaluate(WIDER, size["width"])]
    _photograph(page, path.with_name(f"{name}.png"), size)
    page.close()
    return told


def _photograph(page, path, size):
    """The whole page; one that is longer than a picture can be, in pieces (phone.png, phone-2.png, ...)."""
    height, scale = page.evaluate("() => document.documentElement.scrollHeight"), page.evaluate("() => devicePixelRatio")
    piece = PICTURE_PIXELS_MAX // scale
    for stale in path.parent.glob(f"{path.stem}-[0-9]*.png"):
        stale.unlink()
    for number, top in enumerate(range(0, height, int(piece)), 1):
        file = path if number == 1 else path.with_name(f"{path.stem}-{number}.png")
        page.screenshot(path=str(file), full_page=True, clip={"x": 0, "y": top, "width": size["width"], "height": min(piece, height - top)})


def _print(browser, path):
    told = []
    page = _open(browser, path, PAPER, told, "print")
    told += [f"print: not drawn: {one}" for one in page.evaluate(UNDRAWN)]
    told += [f"print: wider than the paper: {one}" for one in page.evaluate(WIDER, PAPER["width"])]
    page.pdf(path=str(path.with_name("print.pdf")), format="A4", print_background=True, margin={side: "10mm" for side in ("top", "right", "bottom", "left")})
    page.close()
    return told


def _playwright():
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(LAB / "requirements-look.txt")]
        if subprocess.run(pip, stdin=subprocess.DEVNULL).returncode != 0:
            raise LabError("pip could not install lab/requirements-look.txt: check the network and try again") from None
        from playwright.sync_api import sync_playwright
    return sync_playwright

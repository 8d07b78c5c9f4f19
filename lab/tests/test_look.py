"""The page in headless Chromium: the canned report is fit for a phone and for paper, and a spoilt one is noticed. Skipped where
`lab look` has not been used yet (it installs what it needs) or Chromium is missing."""
import shutil
import struct

import pytest

from canned import run
from lab import look, report

pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")


def test_the_report_is_fit_for_phone_and_paper(tmp_path):
    page = report.write([run(tmp_path)], tmp_path)
    assert look.look(page) == []
    assert (tmp_path / "print.pdf").stat().st_size > 10_000
    for name, size in (("phone", look.PHONE), ("desktop", look.DESKTOP)):
        width, height = struct.unpack(">II", (tmp_path / f"{name}.png").read_bytes()[16:24])
        assert height / width > 1.5 * size["height"] / size["width"]  # the whole page, not what a screen shows of it


def test_a_page_longer_than_a_picture_is_shown_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(look, "PICTURE_PIXELS_MAX", 2000)
    page = report.write([run(tmp_path)], tmp_path)
    look.look(page)
    heights = [struct.unpack(">I", path.read_bytes()[20:24])[0] for path in tmp_path.glob("desktop*.png")]
    assert len(heights) > 1 and max(heights) == 2000


def test_charts_are_printed_where_no_script_runs(tmp_path):
    page = report.write([run(tmp_path)], tmp_path)
    chromium, env = look.tools.program("chromium")
    with look._playwright()() as driver:
        browser = driver.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"], env=env)
        shown = browser.new_context(java_script_enabled=False).new_page()
        shown.goto(page.as_uri())
        boxes = [place.bounding_box() for place in shown.locator("[data-spec] > svg").all()]
        browser.close()
    assert len(boxes) >= 3 and all(box["width"] > 200 and box["height"] > 60 for box in boxes)


@pytest.mark.parametrize("spoilt, told", [
    (('<h2>Claims</h2>', '<h2 style="width: 900px">Claims</h2>'), "wider than the screen"),
    (('data-spec="', 'data-spec="{&quot;mark&quot;: &quot;nothing&quot;}" data-was="'), "not drawn"),
    (('<h2>Claims</h2>', '<img src="http://127.0.0.1:9/x.png">'), "the page asked for"),
])
def test_a_spoilt_page_is_noticed(tmp_path, spoilt, told):
    page = report.write([run(tmp_path)], tmp_path)
    text = page.read_text()
    assert spoilt[0] in text
    page.write_text(text.replace(*spoilt, 1))
    assert any(told in line for line in look.look(page)), look.look(page)

"""The page in headless Chromium: the canned report is fit for a phone and for paper, and a spoilt one is noticed. Skipped where
`lab look` has not been used yet (it installs what it needs) or Chromium is missing."""
import shutil

import pytest

from canned import run
from lab import look, report

pytest.importorskip("playwright")
pytestmark = pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")


def test_the_report_is_fit_for_phone_and_paper(tmp_path):
    page = report.write([run(tmp_path)], tmp_path)
    assert look.look(page) == []
    assert (tmp_path / "phone.png").stat().st_size > 10_000 and (tmp_path / "print.pdf").stat().st_size > 10_000


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

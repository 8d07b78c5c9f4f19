"""The commands as a person meets them: exit codes and the sentences that tell what to do next. No server is started."""
import pytest
from typer.testing import CliRunner

from canned import TEXT, cell, cells, run
from lab import LabError, cli, experiment, plan, run as runner
from lab.cell import _told
from lab.node import _install


def lab(*words):
    return CliRunner().invoke(cli.app, list(words))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Experiments in a folder of their own: one that is sound, one that is broken."""
    (tmp_path / "sound.toml").write_text(TEXT)
    (tmp_path / "broken.toml").write_text("title = ")
    monkeypatch.setattr(experiment, "FOLDER", tmp_path)
    return tmp_path


def test_one_broken_file_hides_no_other(folder):
    told = lab("list")
    assert told.exit_code == 0 and "Is b twice" in told.output and "broken" in told.output


def test_check_tells_presets_cells_and_time(folder):
    told = lab("check", "sound")
    assert told.exit_code == 0 and "sound, preset smoke: 6 cells (3 repeats), about 36 s" in told.output and "cells: a; b" in told.output


def test_no_cells_are_no_run(folder):
    assert lab("run", "sound", "--cells", "0").exit_code == 2


def test_failed_cells_are_counted(tmp_path):
    made = cells()
    stored = run(tmp_path / "1", made)
    assert runner.outcome(stored) == ""
    stored.cells[0].update(failed="the disk is on fire", samples=[])
    assert runner.outcome(stored) == "1 of 6 cells failed"
    skipped = run(tmp_path / "2", [{**cell(1, "a", 1, 1.0), "samples": [], "skipped": "not built"}])
    assert runner.outcome(skipped).startswith("nothing was measured")


def carried_on(stored, monkeypatch, end):
    resolved = experiment.Resolved(experiment.parse(TEXT, "canned"), "smoke")
    monkeypatch.setattr(runner, "_run_cells", end)
    return runner._carry_on(stored, resolved, plan.cells(resolved), None, None)


def test_an_interrupted_run_says_how_to_go_on(tmp_path, monkeypatch):
    def end(*_):
        raise KeyboardInterrupt
    stored = run(tmp_path, cells()[:4])
    with pytest.raises(KeyboardInterrupt, match=f"4 of 6 cells are kept: lab resume {stored.folder.name}"):
        carried_on(stored, monkeypatch, end)


def test_of_a_complete_run_nothing_is_left(tmp_path, monkeypatch):
    with pytest.raises(LabError, match="nothing is left of .*: all 6 cells have run"):
        carried_on(run(tmp_path), monkeypatch, lambda *_: None)


class Maker:
    """A server to install whose mariadb-install-db complains as the real one does, between many other lines."""

    def __init__(self, folder):
        self.folder = self.prefix = self.data = folder
        (folder / "usr/bin").mkdir(parents=True)
        program = folder / "usr/bin/mariadb-install-db"
        program.write_text("#!/bin/sh\necho Installing...\necho '2026-01-01 [Note] hello'\necho '2026-01-01 [ERROR] InnoDB: Invalid page size=5000.'\necho '[ERROR] Aborting'\nexit 1\n")
        program.chmod(0o755)

    def _user(self):
        return []

    def _environment(self):
        return None


def test_a_failed_installation_quotes_its_first_error(tmp_path):
    with pytest.raises(LabError, match=r"^mariadb-install-db failed: InnoDB: Invalid page size=5000\.$"):
        _install(Maker(tmp_path / "maker"), [], tmp_path / "install.log")
    assert "hello" in (tmp_path / "install.log").read_text()


def test_a_misspelt_variable_is_corrected(monkeypatch):
    engine = type("Engine", (), {"name": "InnoDB", "plugin": ""})
    monkeypatch.setattr("lab.cell.server_variables", lambda plugin: ("innodb_page_size", "innodb_read_io_threads"))
    assert "did you mean innodb_page_size?" in _told("unknown variable 'innodb-page-siez=4096'", engine, None, None)["skipped"]
    assert "runs once it has" in _told("unknown variable 'sluice-moon-phase=1'", engine, None, None)["skipped"]

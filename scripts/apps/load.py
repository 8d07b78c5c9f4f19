"""Runs SQL through the client `mariadb`, and says which statements were refused and what was answered.

The client goes on after an error, so that every statement has its chance. A Run is compared by lines: the same statement stands
on the same line of both engines' texts.
"""
import collections
import re
import subprocess
from dataclasses import dataclass, field

from server import SqlError

# NOW() and the like are the same on both sides, so that the rows are.
MOMENT = 1700000000
COUNT = """
DELIMITER ;
SELECT 'statements sent', SUM(IF(variable_name = 'QUESTIONS', variable_value, -variable_value)) FROM information_schema.session_status
 WHERE variable_name IN ('QUESTIONS', 'COM_SHOW_WARNINGS');
"""
# The client's first statement (--init-command) and the last (COUNT).
OWN_STATEMENTS = 2


@dataclass(frozen=True)
class Refusal:
    file: str
    line: int
    code: int
    message: str
    statement: str


@dataclass
class Run:
    statements: int = 0
    refusals: list = field(default_factory=list)
    answers: collections.Counter = field(default_factory=collections.Counter)  # result rows and warnings


def client(server, database, engine):
    return server.client("--force", "--show-warnings", "--skip-column-names", "--default-character-set=utf8mb4", "--max-allowed-packet=1G",
                         f"--init-command=SET default_storage_engine={engine}, timestamp={MOMENT}", database)


def run(server, database, engine, texts):
    """Runs [(name, text)], each in a connection of its own, as an administrator would."""
    result = Run()
    for name, text in texts:
        done = subprocess.run(client(server, database, engine), capture_output=True, check=False,
                              input=(text + COUNT).encode("utf-8", errors="surrogateescape"))
        out = done.stdout.decode("utf-8", errors="replace").splitlines()
        sent = [line.split("\t")[1] for line in out if line.startswith("statements sent\t")]
        errors = done.stderr.decode("utf-8", errors="replace")
        if len(sent) != 1:
            raise SqlError(f"the client ended early in {name}: {errors.strip()[-300:]}")
        result.statements += int(float(sent[0])) - OWN_STATEMENTS
        result.answers.update(neutral(line, database) for line in out if not line.startswith("statements sent\t"))
        result.refusals += refusals(name, text, errors, database)
    return result


def refusals(name, text, errors, database):
    lines = text.splitlines()
    for match in re.finditer(r"^ERROR (\d+) \(\w+\) at line (\d+): (.*)$", errors, re.MULTILINE):
        code, line, message = int(match.group(1)), int(match.group(2)), match.group(3)
        statement = " ".join(" ".join(lines[line - 1:line + 8]).split(";")[0].split())[:160]
        yield Refusal(name, line, code, neutral(message, database), statement)


def neutral(text, database):
    """Without the names in which the two sides differ: database, engine and temporary tables."""
    text = re.sub(r"\b(Sluice|InnoDB)\b", "ENGINE", text.replace(database, "DATABASE"), flags=re.IGNORECASE)
    return re.sub(r"#sql-[\w-]+", "#sql", text)


def only_in(one, other):
    """The refusals of `one` that `other` does not have at the same place with the same number."""
    return divided(one, other)[0]


def in_both(one, other):
    return divided(one, other)[1]


def divided(one, other):
    known = collections.Counter((refusal.file, refusal.line, refusal.code) for refusal in other.refusals)
    alone, shared = [], []
    for refusal in one.refusals:
        key = (refusal.file, refusal.line, refusal.code)
        (shared if known[key] > 0 else alone).append(refusal)
        known[key] -= 1
    return alone, shared


def explained(what, refusals_):
    """Lines of a report: each reason with its first statement."""
    return [f"{what} {len(refused)}: {reason}\n    {refused[0].file} line {refused[0].line}: {refused[0].statement}"
            for reason, refused in reasons(refusals_).items()]


def reasons(refusals_):
    """{reason: [refusals]}: messages are one reason when only names in quotes differ."""
    result = collections.defaultdict(list)
    for refusal in refusals_:
        text = re.sub(r"'[^']*'|`[^`]*`(?:\.`[^`]*`)*", "…", refusal.message)
        result[f"{refusal.code} {text}"].append(refusal)
    return dict(sorted(result.items(), key=lambda item: -len(item[1])))

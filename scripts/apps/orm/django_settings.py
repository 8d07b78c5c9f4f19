"""Settings and runner of Django's own tests on one engine, for scripts/apps/orm_suites.py, which says by ORM_SOCKET and ORM_DATABASE where
the server is. The runner appends the outcome of each test to the file ORM_OUTCOMES, as a line of JSON.

Django wants the driver mysqlclient, which is compiled; PyMySQL stands in for it.
"""
import json
import os
import unittest

import pymysql
from django.test.runner import DiscoverRunner

pymysql.version_info = (2, 2, 1, "final", 0)
pymysql.install_as_MySQLdb()


def database(name):
    return {"ENGINE": "django.db.backends.mysql", "NAME": name, "USER": "root", "HOST": os.environ["ORM_SOCKET"],
            "TEST": {"NAME": name, "CHARSET": "utf8mb4"}}


DATABASES = {"default": database(os.environ["ORM_DATABASE"]), "other": database(os.environ["ORM_DATABASE"] + "_2")}
SECRET_KEY = "tests"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "django_settings.Runner"


class Outcomes(unittest.TextTestResult):
    def note(self, test, outcome, error=None):
        why = str(error[1])[:300] if error else ""
        with open(os.environ["ORM_OUTCOMES"], "a", encoding="utf-8") as to:
            to.write(json.dumps([test.id(), outcome, why]) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", err)

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.note(test, "failed", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test, "failed as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test, "passed unexpectedly")


class Runner(DiscoverRunner):
    def get_resultclass(self):
        return Outcomes

"""A Django site: migrate, the admin pages in the browser, a later migration, fixtures, counters under row locks, Django's own tests."""
from application import PASSWORD, Application
from debian_root import Failed
from server import free_port

FOLDER = "/srv/site"
SETTINGS = """
from site_of_trial.base_settings import *
ALLOWED_HOSTS = ["127.0.0.1"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS += ["library"]
DATABASES = {{"default": {{"ENGINE": "django.db.backends.mysql", "NAME": "{database}", "USER": "{database}", "PASSWORD": "{password}",
                           "HOST": "127.0.0.1", "PORT": "{port}", "OPTIONS": {{"charset": "utf8mb4"}}}}}}
"""
MODELS = """
from django.db import models

class Author(models.Model):
    name = models.CharField(max_length=100, unique=True)
    def __str__(self):
        return self.name

class Tag(models.Model):
    word = models.SlugField(max_length=50, unique=True)
    def __str__(self):
        return self.word

class Book(models.Model):
    title = models.CharField(max_length=200, db_index=True)
    author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
    tags = models.ManyToManyField(Tag, blank=True)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    published = models.DateTimeField(auto_now_add=True)
    details = models.JSONField(default=dict, blank=True)
    class Meta:
        constraints = [models.UniqueConstraint(fields=["title", "author"], name="one_title"),
                       models.CheckConstraint(check=models.Q(price__gte=0), name="price_not_negative")]
    def __str__(self):
        return self.title

class Counter(models.Model):
    name = models.CharField(max_length=20, primary_key=True)
    value = models.IntegerField(default=0)
"""
LATER = """
    pages = models.PositiveSmallIntegerField(null=True)
    cover = models.BinaryField(default=b"", blank=True)
    def __str__(self):
        return self.title
"""
ADMIN = """
from django.contrib import admin
from library.models import Author, Book, Counter, Tag

class BookAdmin(admin.ModelAdmin):
    list_display = ("title", "author", "price")
    list_filter = ("tags",)
    search_fields = ("title", "author__name")

admin.site.register(Book, BookAdmin)
admin.site.register([Author, Tag, Counter])
"""
TESTS = """
import threading
from django.db import IntegrityError, connection, transaction
from django.test import TestCase, TransactionTestCase
from library.models import Author, Book, Counter, Tag

class Transactions(TestCase):
    def test_savepoints(self):
        author = Author.objects.create(name="A")
        with self.assertRaises(IntegrityError), transaction.atomic():
            Author.objects.create(name="A")
        self.assertEqual(Author.objects.count(), 1)
        with self.assertRaises(IntegrityError), transaction.atomic():
            Book.objects.create(title="T", author=author, price=-1)
        Book.objects.bulk_create([Book(title=f"T{n}", author=author, details={"n": n}) for n in range(500)])
        self.assertEqual(Book.objects.filter(details__n=17).get().title, "T17")
        author.delete()
        self.assertEqual(Book.objects.count(), 0)

class Threads(TransactionTestCase):
    def count(self):
        for _ in range(50):
            with transaction.atomic():
                counter = Counter.objects.select_for_update().get(name="c")
                counter.value += 1
                counter.save()
        connection.close()

    def test_select_for_update(self):
        Counter.objects.create(name="c")
        threads = [threading.Thread(target=self.count) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(Counter.objects.get(name="c").value, 400)
"""
FILL = """
from library.models import *
author = Author.objects.create(name='Filler')
tags = Tag.objects.bulk_create([Tag(word=f'tag-{n}') for n in range(20)])
Book.objects.bulk_create([Book(title=f'Book {n}', author=author, price=n, details={'n': n}) for n in range(600)])
for number, book in enumerate(Book.objects.filter(title__startswith='Book')[:200]):
    book.tags.set(Tag.objects.filter(word__in=[f'tag-{number % 20}', f'tag-{number % 7}']))
"""


class DjangoSite(Application):
    name = "Django"
    packages = ("python3-django", "python3-mysqldb", "python3-tz")
    databases = ("django", "test_django")

    def manage(self, arguments, environment=""):
        return self.root.run(f"cd {FOLDER} && {environment} python3 manage.py {arguments}")

    def install(self):
        with self.step("django-admin startproject, startapp, makemigrations, migrate"):
            self.root.run(f"rm -rf {FOLDER} && mkdir -p {FOLDER} && django-admin startproject site_of_trial {FOLDER}")
            self.root.run(f"mv {FOLDER}/site_of_trial/settings.py {FOLDER}/site_of_trial/base_settings.py")
            self.write(f"{FOLDER}/site_of_trial/settings.py", SETTINGS.format(database=self.database, password=PASSWORD, port=self.server.port))
            # The application's folder is not in INSTALLED_APPS before it exists.
            self.root.run(f"mkdir -p {FOLDER}/library/migrations && touch {FOLDER}/library/__init__.py {FOLDER}/library/migrations/__init__.py")
            for name, text in (("models", MODELS), ("admin", ADMIN), ("tests", TESTS)):
                self.write(f"{FOLDER}/library/{name}.py", text)
            self.manage("makemigrations library")
            self.manage("migrate")
        with self.step("createsuperuser, createcachetable; the server of Django starts"):
            self.manage("createsuperuser --noinput --username admin --email admin@example.com", f"DJANGO_SUPERUSER_PASSWORD={PASSWORD}")
            self.manage("createcachetable")
            port = free_port()
            self.address = f"http://127.0.0.1:{port}"
            self.start(f"python3 {FOLDER}/manage.py runserver --noreload 127.0.0.1:{port}", "django", self.address + "/admin/login/")

    def add(self, kind, **fields):
        browser = self.browser
        browser.open(f"{self.address}/admin/library/{kind}/add/")
        for name, text in fields.items():
            if name == "author":
                browser.choose("#id_author", text)
            else:
                browser.fill(f"#id_{name}", text)
        browser.click("input[name=_save]")
        browser.expect("was added successfully")

    def use(self):
        browser = self.browser
        with self.step("logged in; authors, tags and books are added in the admin pages"):
            browser.open(self.address + "/admin/")
            browser.fill("#id_username", "admin")
            browser.fill("#id_password", PASSWORD)
            browser.click("input[type=submit]")
            self.add("author", name="Ünïcode 🗝")
            self.add("tag", word="engines")
            self.add("book", title="On pages", author="Ünïcode 🗝", price="12.50", details='{"pages": 17}')
            self.add("book", title="To be deleted", author="Ünïcode 🗝", price="1")
        with self.step("a second book of that name is refused, and one with a negative price"):
            browser.open(self.address + "/admin/library/author/add/")
            browser.fill("#id_name", "Ünïcode 🗝")
            browser.click("input[name=_save]")
            browser.expect("already exists")
        with self.step("a book is edited, another deleted"):
            browser.open(self.address + "/admin/library/book/?q=On+pages")
            browser.click("//th/a[text()='On pages']")
            browser.fill("#id_price", "13.75")
            browser.click("input[name=_save]")
            browser.expect("was changed successfully")
            browser.open(self.address + "/admin/library/book/?q=deleted")
            browser.click("//th/a[text()='To be deleted']")
            browser.click("a.deletelink")
            browser.click("input[type=submit][value='Yes, I’m sure']")
            browser.expect("was deleted successfully")
        with self.step("600 books by bulk_create, with tags; listed, searched and filtered"):
            self.write("/tmp/fill.py", FILL)
            self.manage("shell < /tmp/fill.py")
            browser.open(self.address + "/admin/library/book/?q=Book+517")
            browser.expect("Book 517", "Filler")
            browser.open(self.address + "/admin/library/book/?tags__id__exact=3")
            browser.expect("Filler")
        with self.step("a later migration adds columns, is taken back, and is done again"):
            text = MODELS.replace("    def __str__(self):\n        return self.title\n", LATER.lstrip("\n"))
            self.write(f"{FOLDER}/library/models.py", text)
            self.manage("makemigrations library --name later")
            for target in ("", "0001", ""):
                self.manage(f"migrate library {target}")
        with self.step("dumpdata, flush, loaddata give the same again"):
            dump = "dumpdata --natural-foreign --exclude contenttypes --exclude auth.permission --exclude admin --exclude sessions"
            before = self.manage(dump)
            self.manage(f"{dump} -o /tmp/dump.json")
            self.manage("flush --noinput")
            self.manage("loaddata /tmp/dump.json")
            if self.manage(dump) != before:
                raise Failed("dumpdata after flush and loaddata differs")
        with self.step("manage.py test: savepoints, constraints, counters under SELECT ... FOR UPDATE in 8 threads"):
            self.manage("test --noinput --keepdb")
            self.manage("check --database default")
            self.manage("inspectdb")
        return []

    def serves(self):
        browser = self.browser
        browser.open(self.address + "/admin/")
        if browser.all("#id_username"):  # flush took the session
            browser.fill("#id_username", "admin")
            browser.fill("#id_password", PASSWORD)
            browser.click("input[type=submit]")
        browser.open(self.address + "/admin/library/book/?q=On+pages")
        browser.expect("On pages", "13.75")
        self.add("tag", word="after-the-crash")
        self.add("author", name="After the crash")

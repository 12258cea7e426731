"""What the site of the pages needs besides them (mkdocs.yml): pages from outside of docs/, and links that lead to them.

On GitHub a page links to ``../hoodie/exception.py`` or ``../CHANGELOG.md``. The site shows these files as pages, so
that the same links lead somewhere. Docstrings become Markdown.
"""

import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = {"README.md": "index.md", "CHANGELOG.md": "changes.md", "benchmarks/RESULTS.md": "results.md"}
"""Pages outside of docs/ -> their place on the site."""
IN_THE_SITE = {page: path for path, page in OUTSIDE.items()}
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def links(page, text):
    """The links of a page, outside of its code, as matches with the paths that they lead to in the repository."""
    folder = posixpath.dirname(IN_THE_SITE.get(page, f"docs/{page}"))
    blanked = CODE.sub(lambda found: "x" * len(found[0]), text)
    # The text of a link may be code.
    for found in LINK.finditer(blanked):
        if not re.match(r"[a-z]+:", found[2]):
            yield found, posixpath.normpath(posixpath.join(folder, found[2]))


def place(path):
    """Where the site shows a file or folder of the repository."""
    if path in OUTSIDE:
        return OUTSIDE[path]
    if path.startswith("docs/"):
        folder = "/README.md" if (ROOT / path).is_dir() else ""
        return path.removeprefix("docs/") + folder
    return f"source/{path}.md"


def as_page(path):
    """A page that shows a file, or lists a folder."""
    where = ROOT / path
    if where.is_dir():
        shown = "\n".join(f"- {entry.name}" for entry in sorted(where.iterdir()) if entry.name != "__pycache__")
    elif where.suffix in (".zip", ".xz"):
        shown = f"{where.stat().st_size:,} bytes"
    else:
        shown = f"````{where.suffix.removeprefix('.')}\n{where.read_text(encoding='utf-8')}\n````"
    return f"---\ntitle: {path}\nsearch:\n  exclude: true\n---\n\n# `{path}`\n\n{shown}\n"


def on_files(files, config):
    """Add the pages that stand outside of docs/, and the files that pages link to."""
    for path, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    linked = {
        path
        for page in files.documentation_pages()
        for _, path in links(page.src_uri, page.content_string)
        if not path.startswith("docs/") and path not in OUTSIDE and (ROOT / path).exists()
    }
    for path in sorted(linked):
        files.append(File.generated(config, place(path), content=as_page(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Let the links of a page lead to the places on the site."""
    source = page.file.src_uri
    if source.startswith("source/"):
        return markdown
    folder = posixpath.dirname(source) or "."
    parts, end = [], 0
    for found, path in links(source, markdown):
        target = posixpath.relpath(place(path), folder)
        parts += [markdown[end : found.start(2)], target, found[3] or "", ")"]
        end = found.end()
    return "".join([*parts, markdown[end:]])


class DocstringsAsMarkdown(griffe.Extension):
    """Docstrings have examples after their sections, without a heading, and ``::`` before code."""

    def on_object(self, *, obj, **_):
        """Change the docstring of one object."""
        if obj.docstring is not None:
            text = re.sub(r"^\s*::$|(?<=:):$", "", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"\n*^( +>>> .*)", r"\n\nExamples:\n\1", text, count=1, flags=re.MULTILINE)


class SharedArguments(griffe.Extension):
    """Readers show the arguments that they share, as `hoodie.query.table_query.shows_arguments` does at run time."""

    def on_package(self, *, pkg, **_):
        """Change the signatures of all functions with that decorator."""
        shared = pkg["query.table_query.TableQuery.of"].parameters
        for module in (pkg["interface.reads"], pkg["spark.reader"]):
            for function in module.functions.values():
                if any(str(decorator.value) == "shows_arguments" for decorator in function.decorators):
                    self._show(function, shared)

    def _show(self, function, shared):
        own = [each for each in function.parameters if each.kind is not griffe.ParameterKind.var_keyword]
        names = {each.name for each in own}
        asked = [each for each in shared if each.name not in {"cls", *names}]
        given = [each for each in own if each.kind is griffe.ParameterKind.positional_or_keyword]
        taken = [each for each in own if each.kind is griffe.ParameterKind.keyword_only]
        function.parameters = griffe.Parameters(*given, *asked, *taken)

"""What mkdocs.yml needs of the tree: the pages, as the site has them, and their
order.

README.md becomes the first page, and its section More says which pages there
are and in what order. Links to what is no page become plain text, and the marks
of scripts/check-docs.py go.
"""
import pathlib
import re
import shutil

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "build/site-docs"
# Pages that lie elsewhere in the tree.
NAMES = {"README.md": "index.md", "benchmarks/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md",
         "CONTRIBUTING.md": "contributing.md"}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^()\s]+)\)")


def on_config(config):
    sections = read_sections()
    write_pages()
    config.nav = [{"FlashCore": "index.md"}, *({name: pages} for name, pages in sections.items())]
    return config


def read_sections():
    """{section: pages of the site}, from the paragraphs of More."""
    more = (ROOT / "README.md").read_text().partition("\n## More\n")[2]
    sections = {}
    for paragraph in more.strip().split("\n\n"):
        name, colon, text = paragraph.partition(":")
        pages = [site_path(match[3]) for match in LINK.finditer(text)]
        if colon and pages:
            sections[name] = [page for page in pages if page]
    return sections


def site_path(name):
    """Where the site has a file of the tree; None where it does not."""
    if name in NAMES:
        return NAMES[name]
    path = pathlib.PurePosixPath(name)
    is_shown = path.suffix in (".md", ".ipynb", ".png", ".svg") and path.parts[0] == "docs" and "examples" not in path.parts
    return str(path.relative_to("docs")) if is_shown else None


def write_pages():
    shutil.rmtree(OUT, ignore_errors=True)
    for path in [*map(ROOT.joinpath, NAMES), *(path for path in (ROOT / "docs").rglob("*") if path.is_file())]:
        name = path.relative_to(ROOT).as_posix()
        target = site_path(name)
        if target is None:
            continue
        (OUT / target).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            (OUT / target).write_text(rewrite(path.read_text(), name, target))
        else:
            shutil.copyfile(path, OUT / target)


def rewrite(text, name, target):
    """A page as the site has it: `name` in the tree, `target` there."""
    text = re.sub(r"^ *<!-- check: .*? -->\n", "", text, flags=re.M)
    folder = pathlib.PurePosixPath(name).parent

    def link(match):
        bang, label, where = match.groups()
        file, hash_, anchor = where.partition("#")
        if re.match(r"\w+:", where) or not file:
            return match[0]
        found = site_path(normal(folder / file))
        if found is None:
            return label
        up = "../" * (len(pathlib.PurePosixPath(target).parts) - 1)
        return f"{bang}[{label}]({up}{found}{hash_}{anchor})"

    # Fences are left as they are.
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.M | re.S)
    return "".join(part if i % 2 else separate(LINK.sub(link, part)) for i, part in enumerate(parts))


def separate(text):
    """Lists and tables begin after an empty line, which GitHub does not ask for."""
    return re.sub(r"^(?![ |*-]|\d+\. )(.+)\n(?=[*-] |\d+\. |\|)", r"\1\n\n", text, flags=re.M)


def normal(path):
    """Without `..`."""
    parts = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)

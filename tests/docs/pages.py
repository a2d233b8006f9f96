"""What README.md and docs/ have in them: blocks of code, calls of the command, headings."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs/deploy"
EXAMPLES = DEPLOY / "examples"
DEPLOY_PAGES = sorted(DEPLOY.glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *DEPLOY_PAGES]
BLOCK = re.compile(r"(?:^<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks_of(page):
    """(language, text) of each block of code."""
    return [(language, text) for _, language, text in BLOCK.findall(page.read_text())]


def marked_blocks_of(page):
    """(line of the page, what the comment right above says, language, text) of each block of code."""
    text = page.read_text()
    for found in BLOCK.finditer(text):
        yield text[:found.start(3)].count("\n") + 1, found[1], found[2], found[3]


def steps_of(text):
    """[(what is typed, what it prints)] of a block with prompts."""
    steps = []
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        typed = re.match(r"(?:[^\n]*\\\n)*[^\n]*\n", piece)[0]
        steps.append((typed, piece[len(typed):]))
    return steps


def headings_of(page):
    """The anchors that GitHub gives them."""
    texts = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def calls_of_cubfc(path):
    """The words behind `cubfc` of each call in a page or an example."""
    text = path.read_text().replace("\\\n", " ")
    pieces = [text]
    if path.suffix == ".md":
        pieces = re.findall(r"`([^`\n]+)`", re.sub(r"(?ms)^```.*?^```$", "", text))
        for _, block in blocks_of(path):
            typed = [words for words, _ in steps_of(block)]
            pieces += typed or [block]
    for piece in pieces:
        for line in piece.replace("\\\n", " ").splitlines():
            for call in re.findall(r"(?:^|[\s/;`])cubfc ([a-z][\w-]*(?: [^;&|`#]*)?)", line):
                yield call.split(" -- ")[0].split()

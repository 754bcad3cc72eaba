"""A hook of mkdocs: the site has the pages of subjects, which lie in jit/library, and links to and from them lead to where the site has them."""

from __future__ import annotations

import os
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs.subjects import DOCS, relinked, subjects

PLACES = {subject.page: subject.on_site for subject in subjects()}
"""The path on the site of each subject's page."""
PAGES = {place: page for page, place in PLACES.items()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of subjects to the site."""
    for page, place in PLACES.items():
        files.append(File.generated(config, place.relative_to(DOCS).as_posix(), content=page.read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The text of a page, with links between places on the site."""
    place = DOCS / page.file.src_uri

    def target(linked: Path, heading: str) -> str:
        return heading if linked == source else os.path.relpath(PLACES.get(linked, linked), place.parent) + heading

    source = PAGES.get(place, place)
    return relinked(markdown, source, target)

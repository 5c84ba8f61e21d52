"""XML in: bytes, text or a file become a tree, or an error that names file, line and column."""

from pathlib import Path
from typing import TypeAlias

from lxml import etree

from xbot2_fast.mjcf.errors import ModelError

Element: TypeAlias = etree._Element


def parse_xml(source: bytes | str | Path, what: str) -> Element:
    """Root element of an XML document, without comments and processing instructions.

    Args:
        source: the document as bytes (any declared encoding, with or without a byte order mark), as text (a declared
            encoding is ignored, the text is already decoded), or the path of a file.
        what: how an error calls the document; for a path the error adds its file name.
    Raises:
        ModelError: unreadable file, malformed XML (line and column), or a document that declares entities.
    """
    if isinstance(source, Path):
        what = f"{what} {source}"
        try:
            source = source.read_bytes()
        except OSError as error:
            raise ModelError(f"{what}: cannot be read: {error.strerror}") from None
    encoding = None
    if isinstance(source, str):
        source, encoding = source.lstrip("\ufeff \t\r\n").encode(), "utf-8"
    # huge_tree stays off: libxml2 then refuses absurd depth and text. External DTDs and the network are never touched.
    parser = etree.XMLParser(
        encoding=encoding, resolve_entities=False, no_network=True, load_dtd=False,
        remove_comments=True, remove_pis=True, collect_ids=False,
    )  # fmt: skip
    try:
        root = etree.fromstring(source.lstrip() if encoding is None else source, parser)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise ModelError(f"{what}: not well-formed XML at line {line}, column {column}: {error.msg}") from None
    dtd = root.getroottree().docinfo.internalDTD
    if dtd is not None and next(dtd.iterentities(), None) is not None:
        raise ModelError(f"{what}: declares XML entities, which are not accepted; write their values out")
    return root

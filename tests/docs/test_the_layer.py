"""The examples of docs/the-layer.md print the shown results."""

import doctest

from tests.programs import ROOT, run_program


def test_the_examples_of_the_layer_page_run():
    page = ROOT / "docs" / "the-layer.md"
    assert doctest.DocTestParser().get_examples(page.read_text())
    run_program(f"import doctest, sys; sys.exit(doctest.testfile({str(page)!r}, module_relative=False).failed)")

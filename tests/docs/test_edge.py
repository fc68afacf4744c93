"""docs/edge.md: its blocks in C and C++ compile. What they do is tested by tests/examples/test_edge.py."""

import re
import shutil
import subprocess

import pytest

from s7.native import include_folder
from tests.programs import ROOT

COMPILER = shutil.which("g++") or shutil.which("clang++")
BLOCKS = dict(re.findall(r"```(c|cpp)\n(.*?)```", (ROOT / "docs" / "edge.md").read_text(), re.DOTALL))
AROUND = {
    "c": """#include <stdio.h>
#include <stdlib.h>
#include "s7.h"
void example(const uint16_t* x, const uint16_t* y, const int8_t* p, const int64_t* t, int64_t count,
             const int32_t* tokens, const float* gaps, const float* inputs, float* scores, double* state) {
%s}
""",
    "cpp": """#include <iostream>
#include <vector>
#include "s7.hpp"
void example(std::vector<uint16_t> x, std::vector<uint16_t> y, std::vector<int8_t> p, std::vector<int64_t> t) {
%s}
""",
}


@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")
@pytest.mark.parametrize("language", ["c", "cpp"])
def test_a_block_compiles(language, tmp_path):
    source = tmp_path / f"example.{language}"
    source.write_text(AROUND[language] % BLOCKS[language])
    standard = {"c": ["-x", "c", "-std=c11"], "cpp": ["-std=c++17"]}[language]
    command = [COMPILER, *standard, "-fsyntax-only", "-Wall", "-Werror", "-I", str(include_folder()), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

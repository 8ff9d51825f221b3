"""Sphinx extension of this site: equations as MathML, and the help of the command."""

import os
import subprocess
import sys

from docutils import nodes
from docutils.parsers.rst import Directive
from latex2mathml.converter import convert


class CommandHelp(Directive):
    """Directive that shows the help of ``slce-xp`` or of one of its subcommands."""

    optional_arguments = 1

    def run(self):
        """Run the command for its help, so that the page is never out of date."""
        command = [sys.executable, "-m", "slce_xp", *self.arguments, "--help"]
        plain = {**os.environ, "COLUMNS": "88", "NO_COLOR": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=plain)
        if done.returncode:
            raise self.error(f"{' '.join(command[1:])} failed: {done.stderr}")
        return [nodes.literal_block(done.stdout, done.stdout, language="text")]


def visit_inline(writer, node):
    """Write an inline equation as MathML, which current browsers render natively."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_block(writer, node):
    """Write a display equation, which scrolls if the screen is too narrow."""
    equation = convert(node.astext(), display="block")
    writer.body.append(f'<div class="equation">{equation}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer and the directive."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

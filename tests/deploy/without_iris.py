"""Run a module as a program, with the given arguments, in which jsonschema can't check whether a text is an IRI.

jsonschema does without its parser of IRIs, which takes longer to load than our files to check.
"""

import runpy
import sys

if __name__ == "__main__":
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

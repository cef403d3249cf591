"""Lint and render the Helm chart in the folder that is the only argument, with its example values; print JSON.

A separate process runs this file, so that only it needs Helm as a library: `{"problems": [text], "documents": [object]}`.
"""

import json
import pathlib
import sys

import helm_python  # pyright: ignore[reportMissingImports]
import yaml

chart = pathlib.Path(sys.argv[1])
values = yaml.safe_load((chart / "example-values.yaml").read_text())
found = helm_python.lint(chart, values, strict=True)
problems = [*found["errors"], *(f"{message['path']}: {message['error']}" for message in found["messages"])]
documents = []
try:
    rendered = helm_python.Chart.load(chart).render(values, name="sesi", namespace="sesi")
    for text in rendered.values():
        documents += [document for document in yaml.safe_load_all(text) if document]
except (helm_python.HelmError, yaml.YAMLError) as error:
    problems.append(str(error))
print(json.dumps({"problems": problems, "documents": documents}))

"""Each behaviour of the client library is needed by a vector: without it, one fails."""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
from typing import Any

FOLDER = pathlib.Path(__file__).parent
LIBRARY = FOLDER.parents[1] / "api/web/client"
MUTATIONS: list[dict[str, str]] = json.loads((FOLDER / "mutations.json").read_text(encoding="utf-8"))
PLAY_S = 20  # a mutant that runs longer repeats something without an end


def play(node: str, folder: pathlib.Path) -> str | None:
    """Play the vectors with a copy of the library; return what failed, or None."""
    try:
        done: Any = subprocess.run(
            [node, str(FOLDER / "mutant.mjs"), str(folder)], check=False, capture_output=True, text=True, timeout=PLAY_S
        )
    except subprocess.TimeoutExpired:
        return "no end"
    return None if done.returncode == 0 else done.stdout or done.stderr


def mutant(folder: pathlib.Path, number: int, mutation: dict[str, str]) -> pathlib.Path:
    """Copy the library with one change."""
    made = folder / str(number)
    shutil.copytree(LIBRARY, made)
    path = made / mutation["file"]
    text = path.read_text(encoding="utf-8")
    assert text.count(mutation["find"]) == 1, f"{mutation['name']}: the library has changed, change the mutation"
    path.write_text(text.replace(mutation["find"], mutation["replace"]), encoding="utf-8")
    return made


def test_unchanged_library_passes_all_vectors(node: str) -> None:
    assert play(node, LIBRARY) is None


def test_library_without_a_behaviour_fails_a_vector(node: str, tmp_path: pathlib.Path) -> None:
    folders = [mutant(tmp_path, number, mutation) for number, mutation in enumerate(MUTATIONS)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda folder: play(node, folder), folders))
    survived = [mutation["name"] for mutation, result in zip(MUTATIONS, results, strict=True) if result is None]
    broken = [
        mutation["name"] for mutation, result in zip(MUTATIONS, results, strict=True) if "SyntaxError" in str(result)
    ]
    assert (survived, broken) == ([], [])

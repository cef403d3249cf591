"""Each behaviour of the client library is needed by a vector: without it, one fails.

The vectors that tests/vectors/mutations.json names for a mutation find it without the others.
"""

import concurrent.futures
import json
import pathlib
import shutil
import subprocess
from typing import Any

import pytest

FOLDER = pathlib.Path(__file__).parent
LIBRARY = FOLDER.parents[1] / "api/web/client"
MUTATIONS: list[dict[str, str]] = json.loads((FOLDER / "mutations.json").read_text(encoding="utf-8"))
IN_WORDS: dict[str, list[str]] = {
    one["id"]: one["caught_by"]
    for one in json.loads((FOLDER.parent / "vectors/mutations.json").read_text(encoding="utf-8"))
}
PLAY_S = 20  # a mutant that runs longer repeats something without an end


def play(node: str, folder: pathlib.Path, vectors: list[str]) -> str | None:
    """Play vectors (none: all) with a copy of the library; return what failed, or None."""
    command = [node, str(FOLDER / "mutant.mjs"), str(folder), *vectors]
    try:
        done: Any = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PLAY_S)
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
    assert play(node, LIBRARY, []) is None


def test_each_mutation_in_words_is_made_once_in_the_library() -> None:
    assert sorted(one["mutation"] for one in MUTATIONS if "mutation" in one) == sorted(IN_WORDS)
    assert len(IN_WORDS) == 25


@pytest.mark.timeout(400)  # one process for each of 80 mutants
def test_library_without_a_behaviour_fails_a_vector(node: str, tmp_path: pathlib.Path) -> None:
    folders = [mutant(tmp_path, number, mutation) for number, mutation in enumerate(MUTATIONS)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        named = [IN_WORDS.get(mutation.get("mutation", ""), []) for mutation in MUTATIONS]
        results = list(pool.map(lambda folder, vectors: play(node, folder, vectors), folders, named))
    survived = [mutation["name"] for mutation, result in zip(MUTATIONS, results, strict=True) if result is None]
    broken = [
        mutation["name"] for mutation, result in zip(MUTATIONS, results, strict=True) if "SyntaxError" in str(result)
    ]
    assert (survived, broken) == ([], [])

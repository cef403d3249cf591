"""Property tests here are seeded by their own text: the same examples each run, no file of earlier ones."""

import hypothesis

hypothesis.settings.register_profile("sesi", max_examples=150, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("sesi")

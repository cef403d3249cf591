"""Property tests are seeded by their own text: each run has the same examples, and earlier ones are not stored."""

import hypothesis

hypothesis.settings.register_profile("sesi", max_examples=150, deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("sesi")

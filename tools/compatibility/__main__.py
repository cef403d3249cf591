"""`python -m tools.compatibility`: what `make check` asks of the interfaces (docs/api/README.md)."""

import sys

from tools.compatibility.compare import main

sys.exit(main())

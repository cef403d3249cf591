"""Start Patroni without its lower bounds of timeouts, so that a failover takes 8 s in a test instead of 20 s.

Patroni's own Python runs this file.
"""

import patroni.config
from patroni.__main__ import main

patroni.config.Config._validate_and_adjust_timeouts = lambda _, __: None

if __name__ == "__main__":  # Patroni starts PostgreSQL through multiprocessing, which imports this file again
    main()

"""Settings of every test run: internal errors raise, and a crash of native code prints where Python was."""

import faulthandler
import os

os.environ["FRAMEJIT_STRICT"] = "1"  # before framejit is imported
faulthandler.enable()

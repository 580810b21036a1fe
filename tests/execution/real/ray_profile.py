"""A profile of trials on a Ray cluster made in this machine: ``ray_profile.py FOLDER``.

``test_ray_profile.py`` starts it in a network of its own, and reads what it leaves in the folder.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from optplan.profiling.search_profile import ProfileSettings, profile_here

QUADRATIC = f"{Path(__file__).parents[1] / 'trainables' / 'quadratic.py'}:Quadratic"


def main(folder: Path) -> None:
    """Time two trials on 1 and 2 CPUs, whose iterations wait 50 ms."""
    settings = ProfileSettings((1, 2), iterations=3, warm_up=1, repetitions=2)
    space = [{"rate": 0.1, "wait_s": 0.05}, {"rate": 0.2, "wait_s": 0.05}]
    profiled = profile_here(settings, executor="ray", space=space, scratch=folder, train=QUADRATIC)
    (folder / "profile.json").write_text(json.dumps(asdict(profiled)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

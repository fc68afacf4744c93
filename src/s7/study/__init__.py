"""Studies: several variants of a model on one task, with the same data, budget and seeds.

study = Study(StudyConfig("walker2d", minutes=3), (Variant("s7"), Variant("lstm")), seeds=3, out=Path("runs/study"))
study.open()
failures = Runner(study).run()
print(Summary.of(study, failures).table())
"""

from s7.study.runner import Runner
from s7.study.study import Study, StudyConfig, Trial, Variant
from s7.study.summary import Summary

__all__ = ["Runner", "Study", "StudyConfig", "Summary", "Trial", "Variant"]

# What editors and type checkers complete; the module loads each name on first use.
from fairaudit.api import check_gates as check_gates
from fairaudit.api import load_report as load_report
from fairaudit.api import plan_audit as plan_audit
from fairaudit.api import run_audit as run_audit
from fairaudit.api import score_predictions as score_predictions
from fairaudit.choosing.choice import Choice as Choice
from fairaudit.choosing.python import choose_epsilon as choose_epsilon
from fairaudit.config.options import AuditConfig as AuditConfig
from fairaudit.errors import FairauditError as FairauditError
from fairaudit.execution.progress import show_progress as show_progress
from fairaudit.release.loaded import load_model as load_model
from fairaudit.report.frames import AuditReport as AuditReport
from fairaudit.report.model import Report as Report
from fairaudit.trainers.contract import Predictor as Predictor
from fairaudit.trainers.contract import Privacy as Privacy
from fairaudit.trainers.contract import Range as Range
from fairaudit.trainers.contract import TrainingData as TrainingData

__version__: str

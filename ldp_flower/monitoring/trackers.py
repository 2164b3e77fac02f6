"""Export of runs to experiment trackers: MLflow, Weights & Biases, TensorBoard.

Each export is called with the :class:`~ldp_flower.strategies.runtime.progress.Progress` of a run.
"""

from typing import Any

from .gauges import library


class MlflowExport:
    """Export to MLflow: a callback that logs to the active run, or begins one.

    Each step's metrics are logged as it ends. The result follows at the end: the privacy cost as
    parameters, ``result.json`` and ``result.html`` as artifacts.

    Raises
    ------
    ImportError
        If mlflow is not installed. The package ``mlflow-skinny`` is enough.
    """

    def __init__(self) -> None:
        self._mlflow = library("mlflow", "mlflow-skinny")

    def __call__(self, progress: Any) -> None:
        """Log the last step, and the result at the end."""
        self._mlflow.log_metrics(progress.metrics(), step=progress.number)
        if progress.finished:
            plain = progress.result.to_dict()
            self._mlflow.log_params(plain["privacy"])
            self._mlflow.log_dict(plain, "result.json")
            self._mlflow.log_text(progress.result.to_html(), "result.html")


class WandbExport:
    """Export to Weights & Biases: a callback that logs to a run of ``wandb.init``.

    Each step's metrics are logged as it ends. The result follows at the end: the privacy cost as
    configuration, the result in the summary, its table and its page.

    Parameters
    ----------
    run : wandb.Run
        The run, which the caller finishes.

    Raises
    ------
    ImportError
        If wandb is not installed.
    """

    def __init__(self, run: Any) -> None:
        self._wandb, self._run = library("wandb", "wandb"), run

    def __call__(self, progress: Any) -> None:
        """Log the last step, and the result at the end."""
        self._run.log(progress.metrics(), step=progress.number)
        if progress.finished:
            result, plain = progress.result, progress.result.to_dict()
            self._run.config.update(plain["privacy"])
            self._run.summary["result"] = plain
            self._run.log({"table": self._wandb.Table(dataframe=result.table())})
            self._run.log({"page": self._wandb.Html(result.to_html())})


class TensorBoardExport:
    """Export to TensorBoard: a callback that writes scalars, and the result as a text at the end.

    Parameters
    ----------
    writer : SummaryWriter
        Writer of ``torch.utils.tensorboard`` or of ``tensorboardX``, which the caller closes.
    """

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, progress: Any) -> None:
        """Write the last step, and the result at the end."""
        for name, value in progress.metrics().items():
            self._writer.add_scalar(name, value, progress.number)
        if progress.finished:
            self._writer.add_text("result", f"```\n{progress.result!r}\n```", progress.number)
            self._writer.flush()

"""scikit-learn's estimator protocol; scikit-learn is imported only when it needs its own types."""

import inspect
import sys
from typing import Any, Self

from frn.errors import FrnError


def not_fitted(message: str) -> FrnError:
    """Return an error that is also scikit-learn's NotFittedError if the program uses scikit-learn."""
    if "sklearn" not in sys.modules:
        return FrnError(message)
    from sklearn.exceptions import NotFittedError

    both: type[FrnError] = type("NotFittedError", (FrnError, NotFittedError), {"__doc__": NotFittedError.__doc__})
    return both(message)


class Estimator:
    """A classifier whose parameters are its constructor arguments, stored unchanged.

    `clone`, `cross_val_score`, `GridSearchCV` and `Pipeline` need such a class.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in list(inspect.signature(type(self)).parameters)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; fitted classes stay until the next `fit`. Raises FrnError for an unknown parameter."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise FrnError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, string=True),
        )

"""What `--json` prints, command by command, as JSON Schema. `frn help json COMMAND` shows one."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
MAYBE: Schema = {"type": ["number", "null"]}


def record(optional: Schema | None = None, **required: Schema) -> Schema:
    """An object with these keys and no others."""
    properties = {**required, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def each(value: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": value}


def named(value: Schema) -> Schema:
    """An object whose keys are names: of classes, models or presets."""
    return {"type": "object", "additionalProperties": value}


FILE = record(path=TEXT, reason=TEXT)
EVALUATED = record(
    {
        "unknown": record(
            auroc=NUMBER,
            auroc_ci95=NUMBER,
            auroc_softmax=NUMBER,
            auroc_softmax_ci95=NUMBER,
            missed=NUMBER,
            caught=NUMBER,
        ),
        "head": named(NUMBER),
    },
    **dict.fromkeys(("way", "shot", "queries", "episodes"), COUNT),
    **dict.fromkeys(("accuracy", "ci95", "seconds"), NUMBER),
)
ANSWER = record(
    image=TEXT,
    label=TEXT,
    probability=SHARE,
    probabilities=named(SHARE),
    errors=named(NUMBER),
    explained=NUMBER,
    threshold=SHARE,
    unknown=FLAG,
)
MODEL: Schema = {
    "type": "object",
    "properties": {"path": TEXT, "backbone": TEXT, "method": TEXT, "size": COUNT, "bytes": COUNT},
    "required": ["path", "backbone", "method", "size", "bytes"],
}
"""And whatever its file or its maker says besides: data, licence, validation, milliseconds."""

SCHEMAS: dict[str, Schema] = {
    "classify": {"oneOf": [ANSWER, record(image=TEXT, error=TEXT)]},
    "enroll": record(
        project=TEXT, threshold=SHARE, left_out=COUNT, classes=named(record(images=COUNT, explained=each(NUMBER)))
    ),
    "explain": record(
        image=TEXT,
        label=TEXT,
        unknown=FLAG,
        threshold=SHARE,
        out=TEXT,
        classes=named(record(probability=SHARE, explained=NUMBER, error=NUMBER, error_map=each(each(NUMBER)))),
    ),
    "score": record(
        classes=TEXT,
        labelled=TEXT,
        photos=COUNT,
        accuracy=MAYBE,
        interval=each(MAYBE),
        per_class=named(record(photos=COUNT, right=COUNT, recall=MAYBE, precision=MAYBE)),
        confusion=each(each(COUNT)),
        calibration_error=MAYBE,
        reliability=each(record(photos=COUNT, said=MAYBE, right=MAYBE)),
        missed=MAYBE,
        strangers=COUNT,
        caught=MAYBE,
        auroc=MAYBE,
        errors=each(record(image=TEXT, truth=TEXT, label=TEXT, probability=MAYBE, unknown=FLAG)),
        examples_left_out=COUNT,
        broken=each(TEXT),
    ),
    "models": named(MODEL),
    "eval": record({"method": TEXT}, model=TEXT, data=TEXT, split=TEXT, seed=COUNT, results=each(EVALUATED)),
    "train": record({"test": each(EVALUATED)}, model=TEXT, validation=NUMBER, seconds=NUMBER),
    "finetune": record(model=TEXT, start=NUMBER, validation=NUMBER, seconds=NUMBER),
    "data": each(
        record(
            folder=TEXT,
            classes=named(COUNT),
            smallest=each(COUNT),
            largest=each(COUNT),
            broken=each(FILE),
            too_small=named(COUNT),
            skipped=each(FILE),
        )
    ),
    "cache": record(
        folder=TEXT,
        limit=COUNT,
        images=each(record(of=TEXT, images=COUNT, bytes=COUNT, used=COUNT)),
        features=record(bytes=COUNT),
    ),
}
"""`classify` prints an object a line, `data` is `frn data check`, `train` is `frn pretrain` too."""

"""What `--json` prints, command by command, as JSON Schema. `frn help json COMMAND` shows one."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
NUMBERS: Schema = {"type": "object", "additionalProperties": NUMBER}
"""By names."""
FLAG: Schema = {"type": "boolean"}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
MAYBE: Schema = {"type": ["number", "null"]}
TEXT_OR_NONE: Schema = {"type": ["string", "null"]}
PART: Schema = {"type": "object"}


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
        "tuned": record(accuracy=NUMBER, ci95=NUMBER),
        "transductive": named(record(accuracy=NUMBER, ci95=NUMBER)),
        "unknown": record(
            auroc=NUMBER,
            auroc_ci95=NUMBER,
            auroc_softmax=NUMBER,
            auroc_softmax_ci95=NUMBER,
            false_rejections=NUMBER,
            true_positive_rate=NUMBER,
        ),
        "head": named(NUMBER),
    },
    **dict.fromkeys(("way", "shot", "queries", "episodes"), COUNT),
    **dict.fromkeys(("accuracy", "ci95", "seconds"), NUMBER),
)
EXPECTED = {"expected": record(false_rejections=NUMBER, caught=MAYBE, auroc=MAYBE), "head": named(NUMBER)}
ANSWER = record(
    {"example_of": TEXT, "transductive": FLAG},
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

ACCURACY = record(mean=NUMBER, ci95=NUMBER, episodes=COUNT)
PRESET = record(
    **dict.fromkeys(("about", "method", "backbone", "aux", "objective"), TEXT),
    **dict.fromkeys(("last_pool", "freeze_batchnorm"), FLAG),
    **dict.fromkeys(("data", "episode", "schedule", "augmentation", "transform", "pretraining", "validation"), PART),
    **dict.fromkeys(("aux_heads", "fixed"), each(TEXT)),
    classifier_weight=NUMBER,
    progressive_resizing={"type": ["array", "null"], "items": COUNT},
    test_shots=each(COUNT),
    published={"type": ["object", "null"]},
)
"""Its parts by the names that `config.toml` of a run has."""
QUOTED = record(label=TEXT, network=TEXT, one_shot=TEXT, five_shot=TEXT)
ELSEWHERE = record(label=TEXT, published=TEXT, command=TEXT, here=TEXT)
LISTED = record(
    table=TEXT,
    source=TEXT,
    title=TEXT,
    rows=each(record(row=TEXT, label=TEXT, published=named(MAYBE), commands=each(TEXT))),
    elsewhere=each(ELSEWHERE),
    quoted=each(QUOTED),
)
REPRODUCED = record(
    **dict.fromkeys(("table", "source", "title", "note", "version", "machine"), TEXT),
    rows=each(
        record(
            {"missing": TEXT},
            row=TEXT,
            label=TEXT,
            figures=named(
                record(measurement=TEXT, **dict.fromkeys(("published", "published_ci95", "accuracy", "ci95"), MAYBE))
            ),
        )
    ),
    runs=named(record(command=TEXT, seconds=NUMBER, precision=TEXT, machine=TEXT_OR_NONE)),
    measurements=named(record(command=TEXT, run=TEXT, **dict.fromkeys(("way", "queries", "episodes", "seed"), COUNT))),
    elsewhere=each(ELSEWHERE),
    quoted=each(QUOTED),
)
EXPORTED: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("features", "preprocess", "head", "classifier", "classifier-batch", "weights", "card"), TEXT),
        **dict.fromkeys(("difference", "preprocess_difference", "head_difference"), NUMBER),
        **dict.fromkeys(("classifier_difference", "batch_difference"), NUMBER),
        **dict.fromkeys(("accuracy_fp32", "accuracy", "drop", "changed"), NUMBER),
        "precision": TEXT,
    },
    "required": ["features", "preprocess", "card", "precision", "difference", "preprocess_difference"],
    "additionalProperties": {"type": ["string", "number"]},
}
"""Paths, and differences from torch as a share of what is compared; accuracy in percent before and after int8.
Files of other formats stand under their names."""

SCHEMAS: dict[str, Schema] = {
    "classify": {"oneOf": [ANSWER, record(image=TEXT, error=TEXT)]},
    "enroll": record(
        project=TEXT,
        threshold=SHARE,
        skipped=COUNT,
        classes=named(record(images=COUNT, explained=each(NUMBER))),
        **EXPECTED,
    ),
    "explain": record(
        {"example_of": TEXT},
        image=TEXT,
        label=TEXT,
        unknown=FLAG,
        threshold=SHARE,
        out=TEXT,
        classes=named(record(probability=SHARE, explained=NUMBER, error=NUMBER, error_map=each(each(NUMBER)))),
    ),
    "score": record(
        **EXPECTED,
        classes=TEXT,
        labelled=TEXT,
        photos=COUNT,
        accuracy=MAYBE,
        interval=each(MAYBE),
        per_class=named(record(photos=COUNT, right=COUNT, recall=MAYBE, precision=MAYBE)),
        confusion=each(each(COUNT)),
        calibration_error=MAYBE,
        reliability=each(record(photos=COUNT, said=MAYBE, right=MAYBE)),
        false_rejections=MAYBE,
        unknown=COUNT,
        true_positive_rate=MAYBE,
        auroc=MAYBE,
        errors=each(record(image=TEXT, truth=TEXT, label=TEXT, probability=MAYBE, unknown=FLAG)),
        examples_skipped=COUNT,
        transductive=FLAG,
        broken=each(TEXT),
    ),
    "group": record(out=TEXT, groups=named(each(TEXT)), near_copies=named(TEXT), skipped=each(TEXT)),
    "models": named(MODEL),
    "models add": named(MODEL),
    "models known": named(record(backbone=TEXT, about=TEXT, licence=TEXT)),
    "eval": record({"method": TEXT}, model=TEXT, data=TEXT, split=TEXT, seed=COUNT, results=each(EVALUATED)),
    "plot": each(record(run=TEXT, total_steps=COUNT, val_accuracy=NUMBER)),
    "presets": {"oneOf": [PRESET, named(PRESET)]},
    "train": record({"test": each(EVALUATED)}, model=TEXT, validation=NUMBER, seconds=NUMBER),
    "teach": record(model=TEXT, seconds=NUMBER),
    "average": record(model=TEXT, mean_of=each(TEXT)),
    "finetune": record(model=TEXT, start=NUMBER, validation=NUMBER, seconds=NUMBER),
    "reproduce": {"oneOf": [REPRODUCED, each(LISTED), each(record(command=TEXT))]},
    "visualize train": record(decoder=TEXT, steps=COUNT, seconds=NUMBER),
    "visualize render": record(
        **dict.fromkeys(("model", "decoder", "data", "split", "picture"), TEXT),
        **dict.fromkeys(("seed", "way", "shot", "trials"), COUNT),
        l2=named(record(mean=NUMBER, ci95=NUMBER)),
    ),
    "export": {"oneOf": [EXPORTED, record(web=TEXT, runtime=TEXT, page_difference=NUMBER)]},
    "data check": each(
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
"""By command. `classify` prints an object a line, `reproduce --list` and `presets` without a name print the second."""

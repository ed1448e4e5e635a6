"""Texts of `frn help TOPIC`; `docs/reference/command-line.md` has the same text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of help."""

    title: str
    text: str


TOPICS = {
    "exit-codes": Topic(
        "Exit codes",
        """\
| status | meaning |
|---|---|
| 0 | success |
| 1 | an error that you can fix; one `error:` line on stderr explains it |
| 2 | wrong usage: an unknown option, argument or value |
| 130 | stopped by Ctrl-C; a training run saves first and says how to continue |

If some photos cannot be read, `frn classify` and `frn score` process the others and exit with 1. `frn data check` exits
with 1 if it finds a problem. Results go to stdout; errors, warnings and progress go to stderr. Progress bars appear
only in a terminal; in a log, training writes one line per epoch. A traceback is a bug: please report it.""",
    ),
    "json": Topic(
        "JSON and CSV",
        """\
Every command with a result accepts `--format table`, `csv` or `json`. `--json` is short for `--format json`; `--csv`
without a file name is short for `--format csv`. The table is for people and may change between versions. JSON is one
value on one line; `frn classify` prints one object per photo. CSV has a header and one row per photo, class, model,
preset or measurement.
`frn help json COMMAND` prints the JSON Schema of these commands:
classify, enroll, explain, score, models, models add, models known, eval, plot, presets, train, teach, average,
finetune, reproduce, visualize train, visualize render, export, data check, cache.

```sh
frn classify birds photos --json | jq -r 'select(.unknown) | .image'
find photos -name '*.jpg' -newer last-time | frn classify birds - --csv
frn models --format csv
```

To classify many photos, write the results to a file: `frn classify birds photos --out results.jsonl`. It appends one
line of JSON per photo, with the `--top` best classes, and its memory use does not grow. After a stop or a kill, repeat
the command with `--resume`. Photos with a complete line are skipped. `--resume` refuses a file that was written with
other classes, another model or another threshold. The exit status is 1 if a line reports an unreadable photo; delete
that line to try the photo again.

`frn classify birds -` reads the names of photos and folders from stdin, one per line or separated by NUL
(`find -print0`). It does not expand globs. Results show each name as you gave it.""",
    ),
    "environment": Topic(
        "Environment variables",
        """\
| variable | |
|---|---|
| `FRN_CACHE` | folder of the caches; a folder with other files gets a subfolder `frn-cache` |
| `FRN_CACHE_LIMIT` | limit of the cache of decoded images in GiB (default: 10) |
| `FRN_MODELS` | folder of added models |
| `NO_COLOR` | any value disables colours |
| `ORT_DISABLE_TELEMETRY` | `frn` sets it to 1 by default, so onnxruntime sends no data |""",
    ),
    "defaults": Topic(
        "Defaults by environment variables",
        """\
Each option takes its default from an environment variable: `FRN_CLASSIFY_TOP=5` acts like `frn classify --top 5`, and
`FRN_DATA_CHECK_SHOT=1` like `frn data check --shot 1`. The command line takes precedence. Flags take 1 or 0. Repeatable
options take values separated by spaces: `FRN_EVAL_SHOT="1 5"`.

Variables cannot set the files to write (`--out`, `--web`, `--report`, `--csv FILE`, `--runs`), `--replace` or
`--download`.""",
    ),
    "completion": Topic(
        "Completion",
        """\
`frn --install-completion` installs completion for the current shell (bash, zsh, fish or PowerShell). It completes
commands, options, and the names of models and presets. `frn --show-completion` prints the script instead.""",
    ),
}

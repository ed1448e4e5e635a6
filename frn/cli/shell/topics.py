"""What `frn help TOPIC` says; the same text is in `docs/shell.md`."""

from collections.abc import Iterable
from dataclasses import dataclass
from textwrap import fill

from frn.cli.shell.schemas import SCHEMAS


@dataclass(frozen=True, slots=True)
class Topic:
    """A page of help."""

    title: str
    text: str


def _wrapped(names: Iterable[str]) -> str:
    return fill(", ".join(names), 120, break_on_hyphens=False)


TOPICS = {
    "exit-codes": Topic(
        "Exit codes",
        """\
| status | what it means |
|---|---|
| 0 | all is done |
| 1 | something that you can mend: one `error:` line on stderr says what |
| 2 | wrong usage: an option, argument or value that there is none of |
| 130 | stopped by Ctrl-C; a training run has saved and says how to go on |

Where only some photos can be read, `frn classify` and `frn score` answer for the others first and end with 1, as does
`frn data check` where it finds something. Results are on stdout; errors, warnings and progress on stderr. Bars are
drawn on a terminal only; in a log, training writes a line an epoch. A traceback is a bug.""",
    ),
    "json": Topic(
        "JSON and CSV",
        f"""\
Every command with a result takes `--format json`, `csv` or `table`; `--json` is short for the first, and `--csv`, where
it stands alone, for the second. `table`, the
default, is for people and may look different in the next version. JSON is one value on one line, with `frn classify`
one object per photo. CSV is rows under a head: a photo, class, model, preset or measurement each, or the one result.
`frn help json COMMAND` prints a command's JSON Schema, for:
{_wrapped(SCHEMAS)}.

```sh
frn classify birds photos --json | jq -r 'select(.unknown) | .image'
find photos -name '*.jpg' -newer last-time | frn classify birds - --csv
frn models --format csv
```

A hundred thousand photos: `frn classify birds photos --out results.jsonl` adds a line of JSON per photo to the file as
it comes, with the `--top` best classes, and takes no more memory for more photos. The same command with `--resume` goes
on after a stop or a kill: photos that have a line are not opened again, half a line is dropped, and a file of other
classes, another model or threshold is refused (each line's `run` tells them apart). The status is 1 as long as
there is a line that says why a photo could not be read; take it out, and the photo is tried anew.

`-` among the photos of `frn classify` stands for those that stdin lists, one to a line, or each ended by NUL
(`find -print0`): names of photos and folders, no globs. One that is none is reported in its turn. In the answers photos
are called as they were given.""",
    ),
    "environment": Topic(
        "Environment variables",
        """\
| variable | |
|---|---|
| `FRN_CACHE` | the folder of the caches, instead of the user's; one with other things in it gets a folder `frn-cache` |
| `FRN_CACHE_LIMIT` | GiB of decoded images that are kept, 10 by default |
| `FRN_MODELS` | the folder of added models, instead of the user's data folder |
| `NO_COLOR` | any value: no colours |
| `ORT_DISABLE_TELEMETRY` | set to 1 unless you set it: onnxruntime tells nobody anything |""",
    ),
    "defaults": Topic(
        "Defaults by environment variables",
        """\
Every option takes its default from a variable of its name: `FRN_CLASSIFY_TOP=5` is `frn classify --top 5`, and
`FRN_DATA_CHECK_SHOT=1` is `frn data check --shot 1`. What is typed comes first. Options without a value take 1 or 0;
repeatable ones take values with spaces between them: `FRN_EVAL_SHOT="1 5"`.

No variable sets what is written (`--out`, `--web`, `--report`, `--csv FILE`, `--runs`), `--replace` or
`--download`.""",
    ),
    "completion": Topic(
        "Completion",
        """\
`frn --install-completion` adds completion to the shell that it is called from (bash, zsh, fish, PowerShell): commands,
options, and the names of models and presets. `frn --show-completion` prints what it would add.""",
    ),
}
